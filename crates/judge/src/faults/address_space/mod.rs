//! The recorded mappings of each process.
//!
//! The kernel reports each mapping that is made or changes its protection. It does not report unmapping: a
//! new mapping replaces what it covers. For the main thread's stack it reports the first 132 KiB. Growth
//! beyond that is recognised by its distance to them or to the stack pointer. Other stacks are recognised
//! only by the stack pointer, if registers are recorded. A forked process has its parent's mappings and has
//! not touched any of its pages.

use crate::faults::around::{FaultAroundPages, FaultAroundTotals, FilePageFault};
use crate::faults::interned::InternedValues;
use crate::faults::mappings::{MappingRange, NEAR_MAIN_STACK, ProcessMappings};
use crate::faults::page_sizes::PageSizeForecasts;
use crate::faults::sites::{CodeKey, VDSO};
use crate::faults::touched::{PageHistory, PageTouchCounts};
use pagewise_model::fault::event::{MapEvent, OperandRegisters};
use pagewise_model::fault::{FaultAround, FaultPlace, MappingKind, PageForecast};
use pagewise_model::{Bytes, PageSize};
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// An address in a mapping this near to the stack pointer is on a stack.
const NEAR_STACK: u64 = 128 << 10;

/// What an address belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AddressTarget {
    pub(super) place: u32,
    pub(super) kind: MappingKind,
    /// Offset of the page in its file.
    pub(super) offset: Option<Bytes>,
    pub(super) is_shared: bool,
}

#[derive(Debug, Default)]
struct ProcessSpace {
    mappings: Rc<ProcessMappings>,
    touched: PageTouchCounts,
    beside: FaultAroundPages,
    threads: u64,
}

/// All processes of a program.
#[derive(Debug)]
pub(super) struct AddressSpaces {
    page: PageSize,
    processes: FxHashMap<i32, ProcessSpace>,
    /// Processes seen, ended ones included.
    seen: u64,
    touched_pages: u64,
    forecasts: PageSizeForecasts,
    around: FaultAroundTotals,
    paths: InternedValues<String>,
    /// Kind and number of the path.
    places: InternedValues<(MappingKind, u32)>,
}

impl AddressSpaces {
    /// `is_exact` if each touch is a separate fault.
    pub(super) fn new(page: PageSize, is_exact: bool) -> Self {
        let mut paths = InternedValues::default();
        // Number 0 is memory of no file.
        paths.number(&String::new());
        Self {
            page,
            processes: FxHashMap::default(),
            seen: 0,
            touched_pages: 0,
            forecasts: PageSizeForecasts::new(page),
            around: FaultAroundTotals::new(page, is_exact),
            paths,
            places: InternedValues::default(),
        }
    }

    fn process(&mut self, pid: i32) -> &mut ProcessSpace {
        let seen = &mut self.seen;
        self.processes.entry(pid).or_insert_with(|| {
            *seen += 1;
            ProcessSpace { threads: 1, ..ProcessSpace::default() }
        })
    }

    pub(super) fn map(&mut self, map: &MapEvent) {
        let (kind, path) = kind_of(map);
        let offset = (!path.is_empty()).then_some(map.offset_bytes.0);
        let path = self.paths.number(&path.to_owned());
        let end = map.start_address.saturating_add(map.size_bytes.0);
        let (is_shared, maker) = (map.is_shared, map.pid);
        let range = MappingRange { end, offset, path, kind, is_shared, maker };
        let page = self.page.bytes();
        let process = self.process(map.pid);
        let (first, last) = (map.start_address / page, end.div_ceil(page));
        process.touched.remap(first, last);
        process.beside.forget(first, last);
        Rc::make_mut(&mut process.mappings).insert(map.start_address, range);
    }

    pub(super) fn exec(&mut self, pid: i32) {
        let process = self.process(pid);
        // All threads except the remaining one have ended, and count as ended.
        let fresh = ProcessSpace { threads: process.threads, ..ProcessSpace::default() };
        let before = std::mem::replace(process, fresh);
        self.forecasts.add(&before.touched, &before.mappings);
    }

    pub(super) fn fork(&mut self, pid: i32, parent_pid: i32) {
        if pid == parent_pid {
            self.process(pid).threads += 1;
            return;
        }
        let mappings = Rc::clone(&self.process(parent_pid).mappings);
        let child = self.process(pid);
        *child = ProcessSpace { mappings, threads: 1, ..ProcessSpace::default() };
    }

    /// A thread has ended; true when it was the last of its process.
    pub(super) fn exit(&mut self, pid: i32) -> bool {
        let process = self.process(pid);
        process.threads = process.threads.saturating_sub(1);
        let was_last = process.threads == 0;
        if was_last && let Some(ended) = self.processes.remove(&pid) {
            self.forecasts.add(&ended.touched, &ended.mappings);
        }
        was_last
    }

    /// Threads of process `pid` that live.
    pub(super) fn threads(&self, pid: i32) -> u64 {
        self.processes.get(&pid).map_or(1, |process| process.threads)
    }

    /// The recording is over: what still lives has been seen to its end.
    pub(super) fn finish(&mut self) {
        for (_, process) in self.processes.drain() {
            self.forecasts.add(&process.touched, &process.mappings);
        }
    }

    pub(super) fn page_forecasts(&self) -> Vec<PageForecast> {
        self.forecasts.forecasts()
    }

    /// First touches of private memory that huge pages would have spared.
    pub(super) fn spared_by_huge_pages(&self) -> u64 {
        self.forecasts.spared_by_huge_pages()
    }

    pub(super) fn fault_around(&self) -> FaultAround {
        self.around.sums()
    }

    /// Records a fault on a page. Returns what was known about the page before.
    pub(super) fn touch(&mut self, pid: i32, address: u64) -> PageHistory {
        let page = address / self.page.bytes();
        let before = self.process(pid).touched.add(page);
        self.touched_pages += u64::from(before == PageHistory::New);
        before
    }

    /// Records the pages mapped along with a faulting page of a file, whose previous state was `before`.
    /// `may_map` is true for a read or a fetch that found no page.
    pub(super) fn map_around(
        &mut self,
        pid: i32,
        address: u64,
        before: PageHistory,
        may_map: bool,
    ) {
        let touch = FilePageFault { page: address / self.page.bytes(), before, may_map };
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let extent = process.mappings.extent(address);
        self.around.fault(&mut process.beside, &process.touched, touch, extent);
    }

    /// What `address` of process `pid` belongs to.
    pub(super) fn find(
        &mut self,
        pid: i32,
        address: u64,
        registers: Option<OperandRegisters>,
    ) -> AddressTarget {
        let page = address - address % self.page.bytes();
        let near = |distance| {
            registers.is_some_and(|r| r.stack != 0 && r.stack.abs_diff(address) <= distance)
        };
        let mappings = &self.process(pid).mappings;
        let (kind, path, offset, is_shared) = match mappings.find(address) {
            None if near(NEAR_MAIN_STACK) || mappings.is_below_stack(address) => {
                (MappingKind::Stack, 0, None, false)
            }
            None => (MappingKind::Unknown, 0, None, false),
            Some((start, range)) => {
                let within = page.saturating_sub(start);
                let offset = range.offset.map(|offset| Bytes(offset.saturating_add(within)));
                let is_image = mappings.images.contains(&range.path);
                let kind = match range.kind {
                    MappingKind::File if is_image => MappingKind::Data,
                    MappingKind::Anonymous if near(NEAR_STACK) => MappingKind::Stack,
                    kind => kind,
                };
                match kind {
                    // Its code has a separate name; addresses there need none.
                    MappingKind::Vdso => (kind, 0, None, range.is_shared),
                    kind => (kind, range.path, offset, range.is_shared),
                }
            }
        };
        AddressTarget { place: self.places.number(&(kind, path)), kind, offset, is_shared }
    }

    /// Where the instruction at `address` of process `pid` comes from.
    pub(super) fn code(&mut self, pid: i32, address: u64) -> CodeKey {
        let found = self.process(pid).mappings.find(address);
        let in_file = found.and_then(|(start, range)| {
            let offset = range.offset?.saturating_add(address - start);
            Some(CodeKey { path: range.path, offset, maker: 0 })
        });
        let is_kernel = address >> 63 == 1;
        let maker = if is_kernel { 0 } else { found.map_or(pid, |(_, range)| range.maker) };
        in_file.unwrap_or(CodeKey { path: 0, offset: address, maker })
    }

    /// File and offset from which the code at `address` of process `pid` was mapped. The path is empty for
    /// code of no file. `None` if the address is not executable.
    pub(super) fn code_at(&self, pid: i32, address: u64) -> Option<(&str, u64)> {
        let (start, range) = self.processes.get(&pid)?.mappings.find(address)?;
        let offset = range.offset.unwrap_or(start).saturating_add(address - start);
        let may_run = matches!(range.kind, MappingKind::Code | MappingKind::Vdso);
        may_run.then(|| (self.path(range.path), offset))
    }

    pub(super) fn place_path(&self, place: u32) -> &str {
        self.places.get(place).map_or("", |(_, path)| self.path(*path))
    }

    pub(super) fn path(&self, number: u32) -> &str {
        self.paths.get(number).map_or("", String::as_str)
    }

    pub(super) fn places(&self) -> Vec<FaultPlace> {
        let place = |(kind, path): &(MappingKind, u32)| FaultPlace {
            kind: *kind,
            path: self.path(*path).to_owned(),
        };
        self.places.all().iter().map(place).collect()
    }

    pub(super) const fn touched_pages(&self) -> u64 {
        self.touched_pages
    }

    pub(super) const fn processes_seen(&self) -> u64 {
        self.seen
    }
}

/// Kind and file of a mapping, by the name that the kernel gives it.
fn kind_of(map: &MapEvent) -> (MappingKind, &str) {
    let path = map.path.as_str();
    match path {
        "[heap]" => (MappingKind::Heap, ""),
        "[stack]" => (MappingKind::Stack, ""),
        // That of a 32-bit program is another one.
        VDSO if map.start_address > u64::from(u32::MAX) => (MappingKind::Vdso, path),
        VDSO | "[vvar]" | "[vvar_vclock]" | "[vsyscall]" | "[uprobes]" => (MappingKind::Vdso, ""),
        "" | "//anon" if map.is_executable => (MappingKind::Code, ""),
        "" | "//anon" => (MappingKind::Anonymous, ""),
        _ if path.starts_with("//") => (MappingKind::Unknown, ""),
        _ if path.starts_with("[anon") => (MappingKind::Anonymous, ""),
        _ if path.starts_with("/dev/zero") || path.starts_with("/SYSV") => {
            (MappingKind::Shared, "")
        }
        _ if map.is_executable => (MappingKind::Code, path),
        _ => (MappingKind::File, path),
    }
}

#[cfg(test)]
mod tests;
