//! The instructions that faulted, each looked at once.

use super::access::{self, Instruction};
use super::address_space::Code;
use pagewise_model::Bytes;
use pagewise_model::fault::event::{Begin, FrameRegisters};
use pagewise_model::fault::{Site, SourceLine, StackEnd};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Stands for the file of the kernel's own instructions, whose offsets are their addresses.
pub const KERNEL: &str = "[kernel]";

/// Stands for the file of the code that the kernel gives every program (vdso(7)); so the kernel
/// names its mapping.
pub(super) const VDSO: &str = "[vdso]";

/// Where an instruction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodePlace<'a> {
    /// File it was mapped from; empty where there is none.
    pub path: &'a str,
    /// Offset in the file; the address where there is none.
    pub offset: u64,
    /// Process that executed it.
    pub pid: i32,
    /// Its address there.
    pub address: u64,
}

/// Tells which file and offset the code at an address was mapped from, `None` for what is no code.
pub type FindCode<'a> = &'a dyn Fn(u64) -> Option<(&'a str, u64)>;

/// Where a stack led.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Walk {
    /// The instruction and the return addresses, innermost first.
    pub addresses: Vec<u64>,
    /// Why there is no further one.
    pub end: StackEnd,
}

/// Gives the code of programs and its names.
pub trait Image {
    /// The bytes from there on, as many as there are up to the longest instruction; empty where
    /// they cannot be had or are not those of an x86-64.
    fn bytes(&mut self, place: &CodePlace<'_>) -> Vec<u8>;
    /// The function that `offset` of file `path` belongs to; of the kernel where that is
    /// [`KERNEL`].
    fn function(&mut self, path: &str, offset: u64) -> Option<String>;
    /// For each of these offsets of file `path` the line of source that its instruction came from,
    /// where there is debug information.
    fn lines(&mut self, path: &str, offsets: &[u64]) -> Vec<Option<SourceLine>>;
    /// Walks a stack whose innermost `bytes` were copied.
    fn walk(&mut self, registers: &FrameRegisters, bytes: &[u8], code: FindCode<'_>) -> Walk;
}

/// Kernel addresses are those with the highest bit set.
const fn is_kernel(code: &Code) -> bool {
    code.path == 0 && code.offset >> 63 == 1
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Sites {
    all: Vec<(Code, Instruction)>,
    numbers: FxHashMap<Code, u32>,
}

impl Sites {
    /// Number and decoded form of the instruction that `begin` is of; `path` is that of `code`.
    pub(super) fn find(
        &mut self,
        code: Code,
        path: &str,
        begin: &Begin,
        images: &mut dyn Image,
    ) -> (u32, &Instruction) {
        let number = *self.numbers.entry(code).or_insert_with(|| {
            let place =
                CodePlace { path, offset: code.offset, pid: begin.pid, address: begin.ip_address };
            let bytes = if begin.in_kernel { Vec::new() } else { images.bytes(&place) };
            self.all.push((code, access::decode(&bytes, begin.ip_address)));
            u32::try_from(self.all.len() - 1).unwrap_or(u32::MAX)
        });
        static NOTHING: Instruction = Instruction::UNKNOWN;
        let instruction = self.all.get(number as usize).map_or(&NOTHING, |(_, found)| found);
        (number, instruction)
    }

    /// Where one of them is.
    pub(super) fn code(&self, number: u32) -> Option<Code> {
        self.all.get(number as usize).map(|(code, _)| *code)
    }

    /// Where each of them is.
    pub(super) fn codes(&self) -> impl Iterator<Item = Code> {
        self.all.iter().map(|(code, _)| *code)
    }
}

/// Code without a name yet; `path` gives the name of a file.
pub(super) fn unnamed(code: Code, path: &dyn Fn(u32) -> String) -> Site {
    let path = if is_kernel(&code) { KERNEL.to_owned() } else { path(code.path) };
    Site { function: None, path, offset_bytes: Bytes(code.offset), source: None }
}

/// Gives `sites` their functions.
pub(super) fn add_functions<'a>(
    sites: impl IntoIterator<Item = &'a mut Site>,
    images: &mut dyn Image,
) {
    for site in sites.into_iter().filter(|site| !site.path.is_empty()) {
        site.function = images.function(&site.path, site.offset_bytes.0);
    }
}

/// Gives `sites` their lines of source, file by file: what has to be read of one for them is much.
pub(super) fn add_lines<'a>(sites: impl IntoIterator<Item = &'a mut Site>, images: &mut dyn Image) {
    let mut files: BTreeMap<String, Vec<&mut Site>> = BTreeMap::new();
    for site in sites.into_iter().filter(|site| !site.path.is_empty() && site.path != KERNEL) {
        files.entry(site.path.clone()).or_default().push(site);
    }
    for (path, sites) in files {
        let offsets: Vec<u64> = sites.iter().map(|site| site.offset_bytes.0).collect();
        for (site, source) in sites.into_iter().zip(images.lines(&path, &offsets)) {
            site.source = source;
        }
    }
}
