//! The heap of a process on huge pages, and off them again.
//!
//! What is taken: slots of one huge page each, in private anonymous mappings, of which at least [`FILLED`] is in
//! memory, all of it of this process only, nothing swapped out, nothing on a huge page yet. So neither memory nor
//! content changes by more than the rest of those slots, which the kernel fills with zeros.
//!
//! What is left out: stacks; mappings that are locked (`MADV_COLD` refuses them), that the program advised on
//! itself, or that a userfaultfd watches.

use super::Applied;
use pagewise_kernel::pagemap::Pagemap;
use pagewise_kernel::proc::smaps::{self, Entry};
use pagewise_kernel::proc::stat;
use pagewise_kernel::{SysError, page_size};
use pagewise_model::Bytes;
use pagewise_tracee::collapse::{Refusal, Subject};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Of a slot so much has to be there, as a share.
const FILLED: f64 = 15.0 / 16.0;
/// Flags of a mapping (`VmFlags`, proc(5)) that is left out: locked, advised for or against huge pages, of a
/// device, of a pool, watched by a userfaultfd.
const UNFIT: [&str; 9] = ["lo", "hg", "nh", "io", "pf", "ht", "um", "uw", "ui"];

/// Slots of one process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Heap {
    pid: i32,
    /// Tells it from another with its number.
    start_ticks: u64,
    slots: Vec<u64>,
    /// What is not there of these slots.
    missing: Bytes,
}

/// The size of a slot.
pub(super) fn slot() -> Bytes {
    Bytes(page_size::huge().bytes())
}

/// What of the heaps of these processes could be on huge pages and is not.
///
/// # Errors
/// Why there is none.
pub(super) fn find_all(pids: &[i32]) -> Result<Vec<Heap>, String> {
    let mut found = Vec::new();
    for &pid in pids {
        match Heap::find(pid) {
            Ok(heap) if heap.slots.is_empty() => {}
            Ok(heap) => found.push(heap),
            Err(error) if error.is_gone() => {}
            Err(error) if error.errno() == Some(rustix::io::Errno::NOTTY.raw_os_error()) => {
                return Err(
                    "this kernel does not show which pages are huge (PAGEMAP_SCAN, Linux 6.7)"
                        .into(),
                );
            }
            Err(error) => return Err(error.to_string()),
        }
    }
    if found.is_empty() {
        let size = slot();
        return Err(format!("none of its memory is {size} of heap in one piece on small pages"));
    }
    Ok(found)
}

impl Heap {
    fn find(pid: i32) -> Result<Self, SysError> {
        let start_ticks = stat::read(pid)?.start_ticks;
        let mut heap = Self { pid, start_ticks, slots: Vec::new(), missing: Bytes(0) };
        let map = Pagemap::open(pid)?;
        for entry in smaps::read(pid)?.iter().filter(|entry| is_fit(entry)) {
            heap.find_in(entry.mapping.start, entry.mapping.end, &map)?;
        }
        Ok(heap)
    }

    fn find_in(&mut self, start: u64, end: u64, map: &Pagemap) -> Result<(), SysError> {
        let huge = slot().0;
        let (first, last) = (start.next_multiple_of(huge), end / huge * huge);
        if first >= last {
            return Ok(());
        }
        // Bytes of small pages in each slot; none where one is huge.
        let mut filled: BTreeMap<u64, Option<u64>> = BTreeMap::new();
        for range in map.populated(first, last)? {
            let (from, to) = (range.start.0, range.end.0);
            for at in (from / huge * huge..to).step_by(huge as usize) {
                let bytes = to.min(at + huge) - from.max(at);
                let sum = filled.entry(at).or_insert(Some(0));
                let is_small = !range.is_huge && !range.is_zero;
                *sum = sum.filter(|_| is_small).map(|sum| sum + bytes);
            }
        }
        let page = page_size::base().bytes();
        let least = huge as f64 * FILLED;
        for (at, filled) in filled {
            if filled.is_none_or(|bytes| (bytes as f64) < least) {
                continue;
            }
            let pages = map.read(at, (huge / page) as usize)?;
            let own = pages.iter().filter(|page| page.is_present() && page.is_exclusive()).count();
            let other = pages.iter().any(|page| {
                page.is_swapped() || page.is_guard() || page.is_present() && !page.is_exclusive()
            });
            let own = own as u64 * page;
            if !other && own as f64 >= least {
                self.slots.push(at);
                self.missing += Bytes(huge - own);
            }
        }
        Ok(())
    }

    /// How much larger the process becomes.
    pub(super) const fn grows(&self) -> Bytes {
        self.missing
    }

    pub(super) fn size(&self) -> Bytes {
        Bytes(self.slots.len() as u64 * slot().0)
    }

    /// The process, if it is still the same.
    fn subject(&self) -> Result<Subject, SysError> {
        let subject = Subject::open(self.pid)?;
        if stat::read(self.pid)?.start_ticks == self.start_ticks {
            return Ok(subject);
        }
        Err(SysError::new("pidfd_open", format!("process {}", self.pid), rustix::io::Errno::SRCH))
    }

    pub(super) fn collapse(&self, applied: &mut Applied, enough: &dyn Fn() -> bool) {
        let done = self.subject().and_then(|subject| {
            for at in &self.slots {
                if enough() {
                    break;
                }
                match subject.collapse(&(*at..*at + slot().0))? {
                    None => applied.changed += 1,
                    Some(refusal) => {
                        applied.refused += 1;
                        applied.why = Some(why(refusal).to_owned());
                    }
                }
            }
            Ok(())
        });
        if let Err(error) = done {
            applied.why = Some(error.to_string());
        }
    }

    /// Splits what is huge of its slots; how much still is.
    pub(super) fn split(&self) -> Bytes {
        let (Ok(subject), Ok(map)) = (self.subject(), Pagemap::open(self.pid)) else {
            // It has ended, and its memory with it.
            return Bytes(0);
        };
        let is_huge = |at: u64| {
            let found = map.scan(at, at + slot().0).unwrap_or_default();
            found.iter().any(|range| range.is_huge)
        };
        let mut left = 0;
        for &at in &self.slots {
            // What is locked or no longer mapped by now is refused: the look afterwards decides.
            if is_huge(at) && (subject.split(at).is_err() || is_huge(at)) {
                left += slot().0;
            }
        }
        Bytes(left)
    }
}

fn is_fit(entry: &Entry) -> bool {
    let mapping = &entry.mapping;
    let is_stack = mapping.path.to_string_lossy().starts_with("[stack");
    let is_unfit = entry.flags.split_ascii_whitespace().any(|flag| UNFIT.contains(&flag));
    mapping.is_anonymous() && mapping.perms.write && !is_stack && !is_unfit
}

const fn why(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Unfit => "the kernel does not collapse it (MADV_COLLAPSE: EINVAL)",
        Refusal::Busy => "it was in use",
        Refusal::NoMemory => "no huge page was free",
        Refusal::GroupFull => "its cgroup may not have more memory",
    }
}
