//! The code that page faults came from: its bytes, its functions, its source lines, its callers.
//!
//! A file is opened when its first mapping is reported, as the process has it, and kept open
//! (`pagewise_tracee::mapped_file`). So a file that is replaced or removed later, or lies in a container, is
//! still the one that ran. The vDSO is read from this process: it is the same in all. Bytes of other code
//! without a file (a compiler at run time) are read from the process while it lives. Names come from the
//! symbol table, or from the dynamic one if the file is stripped. They are not demangled. Code is returned
//! for x86-64 only, because only its instructions are decoded.
//!
//! Not seen: code of a process that has ended or that this account may not read. Cost: one small read per
//! faulting instruction, without a file one per fault (1 us). The symbols of a file are read once, when they
//! are first needed (1-100 ms, depending on their number).

mod lines;
mod symbols;
mod tables;
mod unwind;
pub mod working_set;

use crate::made_code::MadeCode;
use object::{Architecture, Object, ReadCache};
use pagewise_kernel::kallsyms::KernelSymbols;
use pagewise_model::fault::event::FrameRegisters;
use pagewise_model::fault::{InstructionOrigin, StackEnd, UnnamedFile};
use pagewise_tracee::mapped_file::MappedFiles;
use pagewise_tracee::perf::{FindCode, WalkStack};
use pagewise_tracee::ptrace::read_memory;
use pagewise_tracee::vdso;
use rustix::fs::{MemfdFlags, memfd_create};
use std::cell::OnceCell;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use symbols::ImageSymbols;
use tables::UnwindTables;

/// Longest instruction of x86-64.
const LONGEST_INSTRUCTION: usize = 15;

/// A file that code was mapped from.
#[derive(Debug)]
struct CodeImage {
    file: Arc<File>,
    is_x86_64: bool,
    symbols: Option<ImageSymbols>,
    /// Empty until first requested. `None` if the file has no tables.
    tables: OnceCell<Option<Arc<UnwindTables>>>,
}

/// The files that code was mapped from.
#[derive(Debug, Default)]
pub struct CodeImages {
    files: MappedFiles,
    /// By name; `None` for those that cannot be read.
    images: HashMap<String, Option<CodeImage>>,
    kernel: OnceCell<Option<KernelSymbols>>,
    debug_files: bool,
    made: MadeCode,
    /// For each address in generated code, how far above the stack pointer its return address is.
    returns: HashMap<(i32, u64), Option<u64>>,
}

impl CodeImages {
    /// Of these files. Takes lines of source from separate debug files too, where `debug_files` says so.
    #[must_use]
    pub fn new(files: MappedFiles, debug_files: bool) -> Self {
        Self { files, debug_files, ..Self::default() }
    }

    /// The files that are known.
    #[must_use]
    pub const fn files(&self) -> &MappedFiles {
        &self.files
    }

    /// Files whose functions were wanted but that could not be opened.
    #[must_use]
    pub fn unnamed(&self) -> Vec<UnnamedFile> {
        let names = self.images.iter().filter(|(_, image)| image.is_none());
        let mut all: Vec<UnnamedFile> =
            names.filter_map(|(name, _)| self.files.missing(name)).collect();
        all.sort_by(|a, b| a.path.cmp(&b.path));
        all
    }

    /// The bytes of the instruction at `offset` of file `path`, which process `pid` has at `address`. Without
    /// a file (an empty path), they are read from its memory. Empty if they cannot be read or are not x86-64
    /// code.
    pub fn bytes(&mut self, path: &str, offset: u64, pid: i32, address: u64) -> Vec<u8> {
        let mut bytes = vec![0; LONGEST_INSTRUCTION];
        let read = match self.image(path) {
            Some(image) if image.is_x86_64 => image.file.read_at(&mut bytes, offset).unwrap_or(0),
            Some(_) => 0,
            None if cfg!(target_arch = "x86_64") => {
                if path.is_empty() {
                    self.made.meet(pid);
                }
                read_memory(pid, address, &mut bytes).unwrap_or(0)
            }
            None => 0,
        };
        bytes.truncate(read);
        bytes
    }

    /// The function that `offset` of file `path` belongs to.
    pub fn function(&mut self, path: &str, offset: u64) -> Option<String> {
        let image = self.image(path)?;
        let file = &image.file;
        let symbols = image.symbols.get_or_insert_with(|| ImageSymbols::read(file));
        symbols.find(offset).map(str::to_owned)
    }

    /// The source of the instruction at each of these offsets of file `path`, if there is debug information.
    pub fn origins(&mut self, path: &str, offsets: &[u64]) -> Vec<InstructionOrigin> {
        let separate = self.debug_files;
        let found = self.image(path).and_then(|image| lines::find(&image.file, separate, offsets));
        found.unwrap_or_else(|| vec![InstructionOrigin::default(); offsets.len()])
    }

    /// The kernel function at `address`, if this account may read kernel symbols.
    pub fn kernel_function(&self, address: u64) -> Option<String> {
        let symbols = self.kernel.get_or_init(|| KernelSymbols::read().ok());
        symbols.as_ref()?.resolve(address).map(str::to_owned)
    }

    /// The callers of a thread of process `pid` with these registers, whose innermost `bytes` of stack were
    /// copied. Returns the thread's own address and the return addresses, innermost first, and why the walk
    /// ended. `code` says what is mapped where.
    pub fn walk(
        &mut self,
        pid: i32,
        registers: &FrameRegisters,
        bytes: &[u8],
        code: FindCode<'_>,
    ) -> (Vec<u64>, StackEnd) {
        unwind::walk(registers, bytes, code, &mut ProcessUnwind { images: self, pid })
    }

    /// The names of code of no file.
    pub const fn made(&mut self) -> &mut MadeCode {
        &mut self.made
    }

    fn tables(&mut self, path: &str) -> Option<Arc<UnwindTables>> {
        let image = self.image(path).filter(|image| image.is_x86_64)?;
        image.tables.get_or_init(|| UnwindTables::read(&image.file).map(Arc::new)).clone()
    }

    fn image(&mut self, path: &str) -> Option<&mut CodeImage> {
        if !self.images.contains_key(path) {
            let image = match path {
                vdso::NAME => own_vdso().map(Arc::new).and_then(image_of),
                name => self.files.file(name).and_then(image_of),
            };
            self.images.insert(path.to_owned(), image);
        }
        self.images.get_mut(path)?.as_mut()
    }
}

impl WalkStack for CodeImages {
    fn walk(
        &mut self,
        pid: i32,
        registers: &FrameRegisters,
        bytes: &[u8],
        code: FindCode<'_>,
    ) -> Vec<u64> {
        Self::walk(self, pid, registers, bytes, code).0
    }
}

/// The ways on from the code of a process.
struct ProcessUnwind<'a> {
    images: &'a mut CodeImages,
    pid: i32,
}

impl unwind::UnwindSource for ProcessUnwind<'_> {
    fn tables(&mut self, path: &str) -> Option<Arc<UnwindTables>> {
        self.images.tables(path)
    }

    fn made_return(&mut self, address: u64) -> Option<u64> {
        let pid = self.pid;
        let CodeImages { made, returns, .. } = &mut *self.images;
        *returns.entry((pid, address)).or_insert_with(|| {
            made.meet(pid);
            let mut bytes = [0; unwind::LONGEST_EPILOGUE];
            let read = read_memory(pid, address, &mut bytes).unwrap_or(0);
            unwind::distance_to_return(bytes.get(..read)?)
        })
    }
}

/// The image in `file`, when it is an ELF file.
fn image_of(file: Arc<File>) -> Option<CodeImage> {
    let is_x86_64 = {
        let cache = ReadCache::new(&*file);
        let architecture = object::File::parse(&cache).ok()?.architecture();
        architecture == Architecture::X86_64
    };
    Some(CodeImage { file, is_x86_64, symbols: None, tables: OnceCell::new() })
}

/// The vDSO as a file, for it has none.
fn own_vdso() -> Option<File> {
    let file = File::from(memfd_create("vdso", MemfdFlags::CLOEXEC).ok()?);
    file.write_all_at(vdso::image()?, 0).ok()?;
    Some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own_path() -> String {
        std::env::current_exe().unwrap().to_string_lossy().into_owned()
    }

    /// With the file of this very program.
    fn own_images() -> CodeImages {
        let images = CodeImages::default();
        images.files().put(&own_path(), File::open(own_path()).unwrap());
        images
    }

    /// A function to be found.
    #[inline(never)]
    fn found_function() -> u64 {
        std::hint::black_box(7)
    }

    /// Path and offset in the file of an address of this very program.
    fn located(address: u64) -> (String, u64) {
        let maps = pagewise_kernel::proc::maps::read(pagewise_kernel::proc::own_pid()).unwrap();
        let mapping = maps.iter().find(|m| m.contains(address)).unwrap();
        let path = mapping.path.to_string_lossy().into_owned();
        (path, mapping.offset + (address - mapping.start))
    }

    #[test]
    fn a_function_of_ours_is_found_with_its_bytes() {
        let address = found_function as fn() -> u64 as *const () as u64;
        let (path, offset) = located(address);
        let mut images = own_images();
        let name = images.function(&path, offset + 1);
        assert!(name.as_ref().is_some_and(|name| name.contains("found_function")), "{name:?}");
        let own = pagewise_kernel::proc::own_pid();
        let from_file = images.bytes(&path, offset, own, address);
        assert_eq!(from_file.len(), LONGEST_INSTRUCTION);
        // The first bytes hold no address that the loader has changed.
        let from_memory = images.bytes("", 0, own, address);
        assert_eq!(from_memory[..4], from_file[..4]);
    }

    #[test]
    fn a_function_of_ours_has_its_way_back() {
        let (path, offset) = located(found_function as fn() -> u64 as *const () as u64);
        let mut images = own_images();
        let tables = images.tables(&path).expect("this very program has unwind tables");
        // Before its first instruction the return address is all there is on the stack.
        let rule = tables.rule(offset).expect("it covers the function");
        assert_eq!((rule.returns, rule.is_signal), (tables::SavedRegister::At(-8), false));
        assert_eq!(rule.cfa, tables::FrameAddress::From(gimli::X86_64::RSP, 8));
        assert_eq!(tables.rule(u64::MAX), None);
        let stack = offset.to_ne_bytes();
        let registers = FrameRegisters { ip_address: 0x1000, stack: 0x8000, ..Default::default() };
        let code = |address: u64| (address == 0x1000).then_some((path.as_str(), offset));
        // Its caller is no code that is known.
        assert_eq!(images.walk(0, &registers, &stack, &code), (vec![0x1000], StackEnd::NoTable));
        assert_eq!(images.walk(0, &registers, &[0; 8], &code).1, StackEnd::Outermost);
        assert_eq!(images.walk(0, &registers, &[], &code), (vec![0x1000], StackEnd::Cut));
    }

    #[test]
    #[allow(clippy::print_stdout, reason = "a skipped test says so")]
    fn the_vdso_has_code_and_names_whoever_it_was_mapped_for() {
        if vdso::image().is_none() {
            println!("SKIP the_vdso_has_code_and_names: this kernel gives no vDSO");
            return;
        }
        let mut images = own_images();
        let bytes = images.bytes(vdso::NAME, 0, -1, 0);
        assert_eq!(bytes.starts_with(b"\x7fELF"), cfg!(target_arch = "x86_64"), "{bytes:x?}");
        let names = (0..vdso::image().unwrap().len() as u64)
            .filter_map(|offset| images.function(vdso::NAME, offset));
        let is_clock = |name: &String| name.contains("clock_gettime");
        assert!(names.into_iter().any(|name| is_clock(&name)));
    }

    #[test]
    fn what_is_no_elf_file_has_neither_code_nor_names() {
        let mut images = own_images();
        for path in ["", "relative", "/nonexistent", "/dev/zero", "/etc/passwd", "/proc/self/mem"] {
            assert_eq!(images.function(path, 0), None, "{path}");
            assert_eq!(images.origins(path, &[0]), [InstructionOrigin::default()], "{path}");
            assert!(images.bytes(path, 0, -1, 0).is_empty(), "{path}");
        }
        assert_eq!(images.function(&own_path(), u64::MAX), None);
    }
}
