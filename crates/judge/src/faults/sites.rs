//! The instructions that faulted.
//!
//! An instruction of a file is read once. An instruction that a program generated as it ran is read at each
//! of its faults: a compiler moves code and puts other code in its place. If the code has changed, it is
//! unknown which version faulted, and so is what the fault was about.

use super::access::{self, FaultInstruction};
use pagewise_model::Bytes;
use pagewise_model::fault::event::{FaultBegin, FrameRegisters};
use pagewise_model::fault::{FaultSite, InstructionOrigin, MadeFunction, StackEnd};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::collections::hash_map::Entry;

/// The name used for the file of the kernel's own instructions. Their offsets are their addresses.
pub const KERNEL: &str = "[kernel]";

/// The name used for the file of the code that the kernel gives every program (vdso(7)). It is also the
/// kernel's name for its mapping.
pub(super) const VDSO: &str = "[vdso]";

/// Where an instruction comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct CodeKey {
    pub(super) path: u32,
    /// Offset in the file. For code of no file, the address.
    pub(super) offset: u64,
    /// Process that made it as it ran; 0 for the code of a file and of the kernel.
    pub(super) maker: i32,
}

/// Where an instruction is, with its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodePlace<'a> {
    /// File it was mapped from. Empty for code of no file.
    pub path: &'a str,
    /// Offset in the file. For code of no file, the address.
    pub offset: u64,
    /// Process that executed it.
    pub pid: i32,
    pub address: u64,
}

/// Returns the file and offset that the code at an address was mapped from. `None` if the address is not
/// code.
pub type FindCode<'a> = &'a dyn Fn(u64) -> Option<(&'a str, u64)>;

/// The result of walking a stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackWalk {
    /// The instruction and the return addresses, innermost first.
    pub addresses: Vec<u64>,
    /// Why there is no further one.
    pub end: StackEnd,
}

/// Gives the code of programs and its names.
pub trait CodeSource {
    /// The bytes from there on, up to the length of the longest instruction. Empty if they cannot be read or
    /// are not x86-64 code.
    fn bytes(&mut self, place: &CodePlace<'_>) -> Vec<u8>;
    /// The function at `offset` of file `path`. A kernel function if the path is [`KERNEL`].
    fn function(&mut self, path: &str, offset: u64) -> Option<String>;
    /// The source of the instruction at each of these offsets of file `path`, if there is debug information.
    fn origins(&mut self, path: &str, offsets: &[u64]) -> Vec<InstructionOrigin>;
    /// The function at `address` that process `pid` made as it ran.
    fn made_function(&mut self, pid: i32, address: u64) -> Option<MadeFunction>;
    /// Walks a stack of process `pid` whose innermost `bytes` were copied.
    fn walk(
        &mut self,
        pid: i32,
        registers: &FrameRegisters,
        bytes: &[u8],
        code: FindCode<'_>,
    ) -> StackWalk;
}

/// Kernel addresses are those with the highest bit set.
const fn is_kernel(code: &CodeKey) -> bool {
    code.path == 0 && code.offset >> 63 == 1
}

#[derive(Debug, Default)]
pub(super) struct FaultSites {
    all: Vec<(CodeKey, FaultInstruction)>,
    numbers: FxHashMap<CodeKey, u32>,
    /// Those of no file, by process and address.
    made: FxHashMap<(i32, u64), GeneratedInstruction>,
}

/// An instruction of no file, as it was last seen.
#[derive(Debug)]
struct GeneratedInstruction {
    bytes: Vec<u8>,
    instruction: FaultInstruction,
}

static NOTHING: FaultInstruction = FaultInstruction::UNKNOWN;

impl FaultSites {
    /// Number and decoded form of the instruction that `begin` is of; `path` is that of `code`.
    pub(super) fn find(
        &mut self,
        code: CodeKey,
        path: &str,
        begin: &FaultBegin,
        images: &mut dyn CodeSource,
    ) -> (u32, &FaultInstruction) {
        let place =
            CodePlace { path, offset: code.offset, pid: begin.pid, address: begin.ip_address };
        let is_made = code.path == 0 && !begin.in_kernel;
        let number = *self.numbers.entry(code).or_insert_with(|| {
            let is_of_file = !is_made && !begin.in_kernel;
            let bytes = if is_of_file { images.bytes(&place) } else { Vec::new() };
            self.all.push((code, access::decode(&bytes, begin.ip_address)));
            u32::try_from(self.all.len() - 1).unwrap_or(u32::MAX)
        });
        if is_made {
            return (number, self.made(&place, images));
        }
        let instruction = self.all.get(number as usize).map_or(&NOTHING, |(_, found)| found);
        (number, instruction)
    }

    /// The instruction of no file at `place`, if it is known which one faulted.
    fn made(&mut self, place: &CodePlace<'_>, images: &mut dyn CodeSource) -> &FaultInstruction {
        let bytes = images.bytes(place);
        match self.made.entry((place.pid, place.address)) {
            Entry::Vacant(free) => {
                let instruction = access::decode(&bytes, place.address);
                &free.insert(GeneratedInstruction { bytes, instruction }).instruction
            }
            Entry::Occupied(known) => {
                let known = known.into_mut();
                // If nothing can be read any more, the bytes seen before are the best known.
                if bytes.is_empty() || bytes == known.bytes {
                    return &known.instruction;
                }
                let instruction = access::decode(&bytes, place.address);
                let is_same = known.bytes.is_empty() || instruction == known.instruction;
                *known = GeneratedInstruction { bytes, instruction };
                if is_same { &known.instruction } else { &NOTHING }
            }
        }
    }

    /// Process `pid` has other memory from now on, or none.
    pub(super) fn forget(&mut self, pid: i32) {
        self.made.retain(|(of, _), _| *of != pid);
    }

    /// Where one of them is.
    pub(super) fn code(&self, number: u32) -> Option<CodeKey> {
        self.all.get(number as usize).map(|(code, _)| *code)
    }

    /// Where each of them is.
    pub(super) fn codes(&self) -> impl Iterator<Item = CodeKey> {
        self.all.iter().map(|(code, _)| *code)
    }
}

/// Code without a name yet; `path` gives the name of a file.
pub(super) fn unnamed(code: CodeKey, path: &dyn Fn(u32) -> String) -> FaultSite {
    let path = if is_kernel(&code) { KERNEL.to_owned() } else { path(code.path) };
    FaultSite { path, offset_bytes: Bytes(code.offset), ..FaultSite::default() }
}

/// Gives `sites` their functions; those of scripts have their lines as well. `codes` are theirs.
pub(super) fn add_functions(
    sites: &mut [FaultSite],
    codes: &[CodeKey],
    images: &mut dyn CodeSource,
) {
    for (site, code) in sites.iter_mut().zip(codes) {
        if !site.path.is_empty() {
            site.function = images.function(&site.path, site.offset_bytes.0);
        } else if let Some(made) = images.made_function(code.maker, code.offset) {
            let MadeFunction { function, source, is_script } = made;
            *site = FaultSite { function: Some(function), source, is_script, ..site.clone() };
        }
    }
}

/// Gives `sites` their source lines and inlined functions. Works file by file, because debug information is
/// large.
pub(super) fn add_origins<'a>(
    sites: impl IntoIterator<Item = &'a mut FaultSite>,
    images: &mut dyn CodeSource,
) {
    let mut files: BTreeMap<String, Vec<&mut FaultSite>> = BTreeMap::new();
    for site in sites.into_iter().filter(|site| !site.path.is_empty() && site.path != KERNEL) {
        files.entry(site.path.clone()).or_default().push(site);
    }
    for (path, sites) in files {
        let offsets: Vec<u64> = sites.iter().map(|site| site.offset_bytes.0).collect();
        for (site, origin) in sites.into_iter().zip(images.origins(&path, &offsets)) {
            (site.source, site.inlined) = (origin.source, origin.inlined);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Blind;
    use super::*;
    use pagewise_model::PageSize;
    use pagewise_model::fault::AccessKind;

    /// A program that makes its code: what stands there now.
    struct Maker(Vec<u8>);

    impl CodeSource for Maker {
        fn bytes(&mut self, _place: &CodePlace<'_>) -> Vec<u8> {
            self.0.clone()
        }
        fn function(&mut self, path: &str, offset: u64) -> Option<String> {
            Blind.function(path, offset)
        }
        fn origins(&mut self, path: &str, offsets: &[u64]) -> Vec<InstructionOrigin> {
            Blind.origins(path, offsets)
        }
        fn made_function(&mut self, pid: i32, at: u64) -> Option<MadeFunction> {
            Blind.made_function(pid, at)
        }
        fn walk(
            &mut self,
            pid: i32,
            registers: &FrameRegisters,
            bytes: &[u8],
            code: FindCode<'_>,
        ) -> StackWalk {
            Blind.walk(pid, registers, bytes, code)
        }
    }

    /// What is reported of a fault of process `pid` in code of no file.
    fn said(sites: &mut FaultSites, pid: i32, code: &[u8]) -> AccessKind {
        let begin = FaultBegin {
            pid,
            tid: pid,
            address: 0x7000_0000,
            ip_address: 0x5000_0000,
            in_kernel: false,
            page_bytes: Some(Bytes(0)),
            registers: None,
        };
        let at = CodeKey { path: 0, offset: begin.ip_address, maker: pid };
        let (_, instruction) = sites.find(at, "", &begin, &mut Maker(code.to_vec()));
        access::classify(&begin, instruction, PageSize::BASE_4K)
    }

    /// `mov [rax], rdx`, `mov rdx, [rax]`, and the latter with something else behind it.
    const WRITE: &[u8] = &[0x48, 0x89, 0x10];
    const READ: &[u8] = &[0x48, 0x8b, 0x10];
    const READ_ON: &[u8] = &[0x48, 0x8b, 0x10, 0xc3];

    #[test]
    fn made_code_is_looked_at_with_each_fault() {
        let mut sites = FaultSites::default();
        let all = [WRITE, WRITE, READ, READ, READ_ON, &[], WRITE, WRITE];
        let said = all.map(|code| said(&mut sites, 7, code));
        use AccessKind::{Read, Unknown, Write};
        // If the code changed, it could have been either instruction.
        assert_eq!(said, [Write, Write, Unknown, Read, Read, Read, Unknown, Write]);
    }

    #[test]
    fn made_code_is_that_of_its_process() {
        let mut sites = FaultSites::default();
        assert_eq!(said(&mut sites, 7, &[]), AccessKind::Unknown);
        assert_eq!(said(&mut sites, 7, WRITE), AccessKind::Write, "it could not be read before");
        assert_eq!(said(&mut sites, 8, READ), AccessKind::Read);
        sites.forget(7);
        assert_eq!(said(&mut sites, 7, READ), AccessKind::Read, "after an exec it is other code");
        assert_eq!(sites.codes().count(), 2, "one of each process");
    }
}
