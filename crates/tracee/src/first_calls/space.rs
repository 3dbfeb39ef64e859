//! The address space of one process, or of several that share it: which file's code is mapped where.

use super::object::ObjectFunctions;
use crate::ptrace::read_memory;
use pagewise_kernel::error::SysError;
use pagewise_kernel::page_size;
use std::fs::{File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Maximum number of bytes per write.
const MOST_BYTES: u64 = 1 << 20;

/// A part of a file that is mapped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CodeMapping {
    pub(super) memory: Range<u64>,
    /// File offset of its start.
    pub(super) offset: u64,
    /// Index of the file.
    pub(super) object: usize,
}

impl CodeMapping {
    fn offset_of(&self, address: u64) -> u64 {
        self.offset + (address - self.memory.start)
    }

    fn address_of(&self, offset: u64) -> u64 {
        self.memory.start + (offset - self.offset)
    }
}

#[derive(Debug)]
pub(super) struct BreakpointSpace {
    pid: i32,
    /// `/proc/PID/mem`; it keeps referring to this address space.
    memory: File,
    regions: Vec<CodeMapping>,
    /// Belongs to the first process, or to a fork of it that runs the same program.
    pub(super) is_first: bool,
}

impl BreakpointSpace {
    /// Opens the memory of process `pid`.
    pub(super) fn open(pid: i32, is_first: bool) -> Result<Self, SysError> {
        let path = format!("/proc/{pid}/mem");
        let memory = OpenOptions::new().read(true).write(true).open(&path);
        let memory = memory.map_err(|source| SysError { call: "open", subject: path, source })?;
        Ok(Self { pid, memory, regions: Vec::new(), is_first })
    }

    /// The copy of this memory that a fork made for process `pid`.
    pub(super) fn copy(&self, pid: i32) -> Result<Self, SysError> {
        Ok(Self { regions: self.regions.clone(), ..Self::open(pid, self.is_first)? })
    }

    /// Adds a region that may already contain breakpoints.
    pub(super) fn adopt(&mut self, region: CodeMapping) {
        self.regions.push(region);
    }

    /// The file mapped at `address`, and the offset in it.
    pub(super) fn find(&self, address: u64) -> Option<(usize, u64)> {
        let region = self.regions.iter().find(|region| region.memory.contains(&address))?;
        Some((region.object, region.offset_of(address)))
    }

    /// Whether this region is known already.
    pub(super) fn covers(&self, wanted: &CodeMapping) -> bool {
        let Range { start, end } = wanted.memory;
        let inside =
            |region: &&CodeMapping| region.memory.start <= start && end <= region.memory.end;
        let same = |region: &CodeMapping| {
            region.object == wanted.object && region.offset_of(start) == wanted.offset
        };
        self.regions.iter().find(inside).is_some_and(same)
    }

    /// Drops regions within `memory`: another mapping is there now.
    pub(super) fn forget(&mut self, memory: &Range<u64>) {
        if memory.is_empty() {
            return;
        }
        let rest = |region: CodeMapping| {
            let (start, end) = (region.memory.start, region.memory.end);
            let before = start..end.min(memory.start);
            let after = start.max(memory.end)..end;
            [before, after].into_iter().filter(|part| !part.is_empty()).map(move |part| {
                CodeMapping {
                    offset: region.offset_of(part.start),
                    memory: part,
                    object: region.object,
                }
            })
        };
        self.regions = std::mem::take(&mut self.regions).into_iter().flat_map(rest).collect();
    }

    /// Sets breakpoints in a region that has just been mapped from `object`.
    pub(super) fn arm(
        &mut self,
        region: CodeMapping,
        object: &mut ObjectFunctions,
    ) -> Result<(), SysError> {
        self.forget(&region.memory);
        let file = region.offset..region.offset + (region.memory.end - region.memory.start);
        let places = object.within(file);
        let mut from = places.start;
        while from < places.end {
            let to = self.run_end(object, from..places.end);
            self.arm_run(&region, object, from..to)?;
            from = to;
        }
        self.regions.push(region);
        Ok(())
    }

    /// End of the run of functions from `places.start` on whose pages are contiguous, each page with at least
    /// one.
    fn run_end(&self, object: &ObjectFunctions, places: Range<usize>) -> usize {
        let page = page_size::base().bytes();
        let first = object.start(places.start) / page;
        let mut last = first;
        for place in places.clone() {
            let at = object.start(place) / page;
            if at > last + 1 || (at - first + 1) * page > MOST_BYTES {
                return place;
            }
            last = at;
        }
        places.end
    }

    fn arm_run(
        &self,
        region: &CodeMapping,
        object: &mut ObjectFunctions,
        places: Range<usize>,
    ) -> Result<(), SysError> {
        let page = page_size::base().bytes();
        let start = object.start(places.start) / page * page;
        let end = (object.start(places.end - 1) / page + 1) * page;
        let end = end.min(region.offset + (region.memory.end - region.memory.start));
        let address = region.address_of(start.max(region.offset));
        let mut code = vec![0; (end - start.max(region.offset)) as usize];
        // Addresses beyond the end of the file cannot be read and have no functions.
        let read = read_memory(self.pid, address, &mut code)?;
        code.truncate(read);
        match object.arm(places, start.max(region.offset), &mut code) {
            true => self.write(address, &code),
            false => Ok(()),
        }
    }

    /// Writes code, regardless of its protection.
    pub(super) fn write(&self, address: u64, code: &[u8]) -> Result<(), SysError> {
        self.memory.write_all_at(code, address).map_err(|source| SysError {
            call: "pwrite",
            subject: format!("/proc/{}/mem at {address:#x}", self.pid),
            source,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mapped_over_is_forgotten() {
        let mut space = BreakpointSpace::open(std::process::id() as i32, true).unwrap();
        let region = |memory: Range<u64>, offset| CodeMapping { memory, offset, object: 0 };
        space.regions = vec![region(0x1000..0x9000, 0x100), region(0xa000..0xb000, 0)];
        assert!(space.covers(&region(0x2000..0x9000, 0x1100)));
        assert!(!space.covers(&region(0x2000..0x9000, 0x1200)));
        assert!(!space.covers(&region(0x8000..0xa000, 0x7100)));
        space.forget(&(0x3000..0x5000));
        assert_eq!(
            space.regions,
            [
                region(0x1000..0x3000, 0x100),
                region(0x5000..0x9000, 0x4100),
                region(0xa000..0xb000, 0)
            ]
        );
        assert_eq!(space.find(0x5010), Some((0, 0x4110)));
        assert_eq!(space.find(0x4010), None);
    }
}
