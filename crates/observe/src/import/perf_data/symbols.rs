//! The functions of a recording of any machine, from local files with the same build identifier.
//!
//! A program's file is searched where it was mapped from, then in perf's own store (`~/.debug`), which `perf
//! record` fills and `perf archive` carries to another machine. The kernel's functions are those of the
//! running kernel if it is the same build, otherwise those in the store. A kernel may be loaded elsewhere
//! after each boot: the recorded address of one function (`[kernel.kallsyms]_text`) gives the distance. Its
//! modules move independently. They get the names of the running kernel only if nothing moved.

use super::head::{BuildIds, digits};
use crate::faults::CodeImages;
use crate::import::stacks::ENTRY_BYTES;
use pagewise_kernel::file_view::open_regular;
use pagewise_kernel::kallsyms::KernelSymbols;
use pagewise_model::fault::event::MapEvent;
use pagewise_model::look::UNKNOWN_SYMBOL;
use pagewise_tracee::perf::words::{halves, word};
use pagewise_tracee::read_ahead;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Prefix of the name of the kernel's mapping, before the name of the function whose address it records.
const KERNEL: &str = "[kernel.kallsyms]";
/// Notes of the running kernel, its build identifier among them.
const NOTES: &str = "/sys/kernel/notes";
/// Type of the note that holds it.
const BUILD_ID_NOTE: i32 = 3;

/// Looks functions up.
#[derive(Debug)]
pub(super) struct PerfDataSymbols {
    build_ids: BuildIds,
    images: CodeImages,
    /// By path: whether there is a file that is the same.
    files: HashMap<String, bool>,
    kernel: RecordedKernel,
    /// Recorded names, and their total length.
    names: u64,
    length: u64,
}

impl PerfDataSymbols {
    pub(super) fn new(build_ids: BuildIds) -> Self {
        let kernel = RecordedKernel::default();
        Self {
            build_ids,
            images: CodeImages::default(),
            files: HashMap::new(),
            kernel,
            names: 0,
            length: 0,
        }
    }

    /// A mapping says which file it is of.
    pub(super) fn identify(&mut self, path: &str, id: &[u8]) {
        self.build_ids.tell(path, id);
    }

    /// The function of a program at `offset` of the file at `path`.
    pub(super) fn of_program(&mut self, path: &str, offset: u64) -> Option<String> {
        if !self.files.contains_key(path) {
            let file = self.build_ids.get(path).and_then(|id| same_file(path, id));
            self.files.insert(path.to_owned(), file.is_some());
            if let Some(file) = file {
                self.images.files().put(path, file);
            }
            self.length += path.len() as u64;
        }
        self.images.function(path, offset)
    }

    /// Upper bound of the memory for recorded content, without the symbols of local files.
    pub(super) fn kept_bytes(&self) -> u64 {
        (self.names + self.files.len() as u64) * ENTRY_BYTES + self.length
    }

    fn count(&mut self, name: &str) {
        self.names += 1;
        self.length += name.len() as u64;
    }

    /// The kernel or a module of it is mapped.
    pub(super) fn map_kernel(&mut self, map: &MapEvent) {
        self.count(&map.path);
        self.kernel.map(map);
    }

    /// The kernel has made code: a program of BPF, a trampoline.
    pub(super) fn made(&mut self, address: u64, length: u64, name: String) {
        self.count(&name);
        self.kernel.made.insert(address, (address.saturating_add(length), name));
    }

    /// The function of the kernel at `address`, or the name of its module in brackets.
    pub(super) fn of_kernel(&mut self, address: u64) -> &str {
        let id = self.build_ids.get(KERNEL);
        self.kernel.resolve(address, id)
    }

    /// What is missing, as text for the user. Empty if nothing is missing or nothing was requested.
    pub(super) fn missing(&self) -> Vec<String> {
        let kernel = self.kernel.missing.clone();
        let absent = self.files.values().filter(|is_here| !**is_here).count();
        let files = (absent > 0).then(|| {
            format!(
                "{absent} of {} files are not here with the same build identifier: their functions are \
                 shown as file and offset (perf archive carries files from the other machine)",
                self.files.len()
            )
        });
        kernel.into_iter().chain(files).collect()
    }
}

/// The file at `path`, or its copy in the store, if it has this identifier.
fn same_file(path: &str, id: &str) -> Option<File> {
    let stored = stored(id).map(|place| place.join("elf").to_string_lossy().into_owned());
    [Some(path.to_owned()), stored].into_iter().flatten().find_map(|candidate| {
        let (file, _) = open_regular(Path::new(&candidate)).ok()?;
        (read_ahead::build_id(&file).as_deref() == Some(id)).then_some(file)
    })
}

/// The path in the store for this identifier.
fn stored(id: &str) -> Option<PathBuf> {
    let (first, rest) = id.split_at_checked(2).filter(|(_, rest)| !rest.is_empty())?;
    let home = std::env::var_os("HOME")?;
    Some(Path::new(&home).join(".debug/.build-id").join(first).join(rest))
}

/// The kernel that ran.
#[derive(Debug, Default)]
struct RecordedKernel {
    text: Range<u64>,
    /// A function and its recorded address.
    reference: Option<(String, u64)>,
    /// End and name of each module, by its beginning.
    modules: BTreeMap<u64, (u64, String)>,
    /// End and name of code made at run time.
    made: BTreeMap<u64, (u64, String)>,
    /// Absent until the first function is looked for.
    symbols: Option<Option<MovedKernel>>,
    missing: Option<String>,
}

/// Functions, and the distance of their kernel from its place in the recording.
#[derive(Debug)]
struct MovedKernel {
    symbols: KernelSymbols,
    by: u64,
}

impl RecordedKernel {
    fn map(&mut self, map: &MapEvent) {
        let end = map.start_address.saturating_add(map.size_bytes.0);
        match map.path.strip_prefix(KERNEL) {
            Some(function) => {
                self.text = map.start_address..end;
                self.reference = Some((function.to_owned(), map.offset_bytes.0));
            }
            None => {
                let name = map.path.rsplit('/').next().unwrap_or_default();
                let name = name.trim_start_matches('[').trim_end_matches(']');
                let name = format!("[{}]", name.strip_suffix(".ko").unwrap_or(name));
                self.modules.insert(map.start_address, (end, name));
            }
        }
    }

    fn resolve(&mut self, address: u64, id: Option<&str>) -> &str {
        if self.symbols.is_none() {
            let found = self.find(id);
            self.missing = found.as_ref().err().cloned();
            self.symbols = Some(found.ok());
        }
        let within = |all: &'_ BTreeMap<u64, (u64, String)>| {
            let (start, (end, _)) = all.range(..=address).next_back()?;
            (address < *end).then_some(*start)
        };
        if let Some((_, name)) = within(&self.made).and_then(|start| self.made.get(&start)) {
            return name;
        }
        let symbols = self.symbols.as_ref().and_then(Option::as_ref);
        let is_text = self.text.contains(&address);
        let usable = symbols.filter(|moved| is_text || moved.by == 0);
        let function =
            usable.and_then(|moved| moved.symbols.resolve(address.wrapping_sub(moved.by)));
        let module = within(&self.modules).and_then(|start| self.modules.get(&start));
        function.or_else(|| Some(module?.1.as_str())).unwrap_or(UNKNOWN_SYMBOL)
    }

    /// The functions of the kernel with this identifier.
    fn find(&self, id: Option<&str>) -> Result<MovedKernel, String> {
        let id = id.ok_or(
            "the recording does not say which kernel it is of: its functions have no names",
        )?;
        let running =
            (running_id().as_deref() == Some(id)).then(|| PathBuf::from("/proc/kallsyms"));
        let stored = stored(id).map(|place| place.join("kallsyms"));
        let texts =
            running.into_iter().chain(stored).filter_map(|path| std::fs::read_to_string(path).ok());
        let found = texts.into_iter().find_map(|text| self.moved(&text));
        found.ok_or_else(|| {
            format!(
                "the functions of kernel {id} are not here, so most of its work is unclassified; on its \
                 machine, as root: perf script | pagewise profile --import -"
            )
        })
    }

    fn moved(&self, text: &str) -> Option<MovedKernel> {
        let symbols = KernelSymbols::parse(text).ok()?;
        let (name, place) = self.reference.as_ref()?;
        let listed = text.lines().find_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            (words.nth(1)? == name).then_some(address)
        })?;
        Some(MovedKernel { symbols, by: place.wrapping_sub(listed) })
    }
}

/// The build identifier of the running kernel.
fn running_id() -> Option<String> {
    let notes = std::fs::read(NOTES).ok()?;
    let mut left = &notes[..];
    let whole = |length: i32| Some(usize::try_from(length).ok()?.next_multiple_of(4));
    loop {
        let (name, value) = halves(word(left, 0)?);
        let kind = i32::from_ne_bytes(*left.get(8..)?.first_chunk()?);
        let (begin, length) = (12 + whole(name)?, usize::try_from(value).ok()?);
        if kind == BUILD_ID_NOTE && left.get(12..15) == Some(b"GNU") {
            return left.get(begin..begin + length).map(digits);
        }
        left = left.get(begin + whole(value)?..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::Bytes;

    const LISTED: &str = "ffffffff81000000 T _text\nffffffff81000200 T clear_page_erms\n\
                          ffffffffc0000000 t ext4_read\t[ext4]\n";

    fn map(start_address: u64, path: &str) -> MapEvent {
        MapEvent {
            pid: -1,
            start_address,
            size_bytes: Bytes(0x1000),
            offset_bytes: Bytes(start_address),
            is_executable: true,
            is_shared: false,
            path: path.to_owned(),
            file: None,
        }
    }

    fn kernel(text: u64) -> RecordedKernel {
        let mut kernel = RecordedKernel::default();
        kernel.map(&map(text, "[kernel.kallsyms]_text"));
        kernel.map(&map(0xffff_ffff_c000_0000, "/lib/modules/6.1/ext4.ko"));
        kernel.symbols = Some(kernel.moved(LISTED));
        kernel
    }

    #[test]
    fn a_kernel_that_lay_elsewhere_has_its_names() {
        let mut same = kernel(0xffff_ffff_8100_0000);
        assert_eq!(same.resolve(0xffff_ffff_8100_0210, None), "clear_page_erms");
        assert_eq!(same.resolve(0xffff_ffff_c000_0010, None), "ext4_read");
        let mut moved = kernel(0xffff_ffff_9100_0000);
        assert_eq!(moved.resolve(0xffff_ffff_9100_0210, None), "clear_page_erms");
        assert_eq!(
            moved.resolve(0xffff_ffff_c000_0010, None),
            "[ext4]",
            "modules moved by themselves"
        );
        assert_eq!(moved.resolve(0xffff_ffff_f000_0000, None), UNKNOWN_SYMBOL);
        moved.made.insert(0x100, (0x200, "bpf_prog_1".to_owned()));
        assert_eq!(moved.resolve(0x1ff, None), "bpf_prog_1");
        assert_eq!(moved.resolve(0x200, None), UNKNOWN_SYMBOL);
    }

    #[test]
    fn a_kernel_that_is_not_here_is_said_to_be_missing() {
        let mut kernel = RecordedKernel::default();
        assert_eq!(kernel.resolve(0xffff_ffff_8100_0000, Some("00112233")), UNKNOWN_SYMBOL);
        assert!(kernel.missing.unwrap().contains("00112233"));
    }

    #[test]
    fn the_running_kernel_says_which_it_is() {
        // In a container without the file, the identifier is unknown.
        if let Some(id) = running_id() {
            assert!(id.len() >= 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
        }
    }

    #[test]
    fn a_file_is_taken_by_its_identifier_alone() {
        let own = std::env::current_exe().unwrap();
        let path = own.to_str().unwrap();
        assert!(same_file(path, "0123456789").is_none());
        if let Some(id) = read_ahead::build_id(&File::open(path).unwrap()) {
            assert!(same_file(path, &id).is_some());
        }
    }
}
