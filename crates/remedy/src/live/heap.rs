//! Puts the heap of a process on huge pages, and takes it off again.
//!
//! Selected are slots of one huge page in private anonymous mappings. At least [`FILLED`] of a slot must be
//! in memory, all of it belonging to this process only, nothing swapped out, nothing on a huge page yet. So
//! memory and content change only by the rest of those slots, which the kernel fills with zeros.
//!
//! The slots belong to the address space that they were found in. Its page table is kept open, and ends with
//! it. If the process has ended or executed another program meanwhile, the slots are void even if the number
//! is the same.
//!
//! Left out: stacks; mappings that are locked (`MADV_COLD` refuses them), that the program itself gave advice
//! on, or that a userfaultfd watches.

use super::LiveResult;
use pagewise_kernel::pagemap::Pagemap;
use pagewise_kernel::proc::image::ImageIdentity;
use pagewise_kernel::proc::smaps::{self, SmapsEntry};
use pagewise_kernel::{SysError, page_size};
use pagewise_model::Bytes;
use pagewise_tracee::collapse::{CollapseRefusal, CollapseTarget};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Minimum share of a slot that must be in memory.
const FILLED: f64 = 15.0 / 16.0;
/// Flags of mappings (`VmFlags`, proc(5)) that are left out: locked, with advice for or against huge pages,
/// of a device, of a pool, watched by a userfaultfd.
const UNFIT: [&str; 9] = ["lo", "hg", "nh", "io", "pf", "ht", "um", "uw", "ui"];

/// Slots of one process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct HeapSlots {
    image: ImageIdentity,
    slots: Vec<u64>,
    /// Bytes of these slots that are not in memory.
    missing: Bytes,
    /// Set in the process that makes or undoes the change.
    #[serde(skip)]
    held: Option<Arc<HeldProcess>>,
}

/// A process and its address space; never a later process with the same number.
#[derive(Debug)]
pub(super) struct HeldProcess {
    subject: CollapseTarget,
    map: Pagemap,
}

/// The size of a slot.
pub(super) fn slot() -> Bytes {
    Bytes(page_size::huge().bytes())
}

/// Memory in the heaps of these processes that could be on huge pages and is not.
///
/// # Errors
/// Why there is no such memory.
pub(super) fn find_all(pids: &[i32]) -> Result<Vec<HeapSlots>, String> {
    let mut found = Vec::new();
    for &pid in pids {
        match HeapSlots::find(pid) {
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

impl HeapSlots {
    fn find(pid: i32) -> Result<Self, SysError> {
        let image = ImageIdentity::of(pid)?;
        let mut heap = Self { image, slots: Vec::new(), missing: Bytes(0), held: None };
        let held = heap.hold()?;
        for entry in smaps::read(pid)?.iter().filter(|entry| is_fit(entry)) {
            heap.find_in(entry.mapping.start, entry.mapping.end, &held.map)?;
        }
        Ok(heap)
    }

    /// Opens the process and its address space.
    ///
    /// # Errors
    /// ESRCH if it has ended, or executed another program.
    pub(super) fn hold(&mut self) -> Result<Arc<HeldProcess>, SysError> {
        let pid = self.image.pid();
        let held =
            Arc::new(HeldProcess { subject: CollapseTarget::open(pid)?, map: Pagemap::open(pid)? });
        if !self.image.is_there() {
            let subject = format!("process {pid}");
            return Err(SysError::new("pidfd_open", subject, rustix::io::Errno::SRCH));
        }
        self.held = Some(Arc::clone(&held));
        Ok(held)
    }

    fn find_in(&mut self, start: u64, end: u64, map: &Pagemap) -> Result<(), SysError> {
        let huge = slot().0;
        let (first, last) = (start.next_multiple_of(huge), end / huge * huge);
        if first >= last {
            return Ok(());
        }
        // Bytes on small pages in each slot; `None` for a slot with a huge page.
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

    /// Bytes by which the process grows.
    pub(super) const fn grows(&self) -> Bytes {
        self.missing
    }

    pub(super) fn size(&self) -> Bytes {
        Bytes(self.slots.len() as u64 * slot().0)
    }

    /// The process, if its address space is still that of these slots.
    fn held(&self) -> Option<&HeldProcess> {
        let held = self.held.as_deref()?;
        held.map.is_there(*self.slots.first()?).then_some(held)
    }

    pub(super) fn collapse(&self, applied: &mut LiveResult, enough: &dyn Fn() -> bool) {
        for at in &self.slots {
            let Some(held) = self.held().filter(|_| !enough()) else { break };
            match held.subject.collapse(&(*at..*at + slot().0)) {
                Ok(None) => applied.changed += 1,
                Ok(Some(refusal)) => {
                    applied.refused += 1;
                    applied.why = Some(why(refusal).to_owned());
                }
                Err(error) => {
                    applied.why = Some(error.to_string());
                    break;
                }
            }
        }
    }

    /// Splits the huge pages of its slots. Returns how many bytes are still huge.
    pub(super) fn split(&self) -> Bytes {
        let is_huge = |held: &HeldProcess, at: u64| {
            let found = held.map.scan(at, at + slot().0).unwrap_or_default();
            found.iter().any(|range| range.is_huge)
        };
        let mut left = 0;
        for &at in &self.slots {
            // If it has ended, its memory is gone too.
            let Some(held) = self.held() else { return Bytes(0) };
            // The kernel refuses memory that is locked or no longer mapped. The look afterwards decides.
            if is_huge(held, at) && (held.subject.split(at).is_err() || is_huge(held, at)) {
                left += slot().0;
            }
        }
        Bytes(left)
    }
}

fn is_fit(entry: &SmapsEntry) -> bool {
    let mapping = &entry.mapping;
    let is_stack = mapping.path.to_string_lossy().starts_with("[stack");
    let is_unfit = entry.flags.split_ascii_whitespace().any(|flag| UNFIT.contains(&flag));
    mapping.is_anonymous() && mapping.perms.write && !is_stack && !is_unfit
}

const fn why(refusal: CollapseRefusal) -> &'static str {
    match refusal {
        CollapseRefusal::Unfit => "the kernel does not collapse it (MADV_COLLAPSE: EINVAL)",
        CollapseRefusal::Busy => "it was in use",
        CollapseRefusal::NoMemory => "no huge page was free",
        CollapseRefusal::GroupFull => "its cgroup may not have more memory",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    #[test]
    fn the_next_program_of_a_process_is_another() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo; read go; exec sh -c 'echo; read go'"]);
        let mut child = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let pid = child.id().cast_signed();
        let mut out = child.stdout.take().unwrap();
        let mut step = || out.read_exact(&mut [0]).unwrap();
        step();
        let mut heap = HeapSlots {
            image: ImageIdentity::of(pid).unwrap(),
            slots: vec![smaps::read(pid).unwrap()[0].mapping.start / slot().0 * slot().0],
            missing: Bytes(0),
            held: None,
        };
        assert!(heap.held().is_none(), "nothing is done before it is held");
        heap.hold().unwrap();
        // Data from the helper does not hold the process; the front must open it itself.
        let sent = serde_json::to_string(&heap).unwrap();
        let received = || serde_json::from_str::<HeapSlots>(&sent).unwrap();
        assert!(heap.held().is_some() && received().held().is_none());
        assert!(received().hold().is_ok());
        child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        step();
        assert!(heap.held().is_none(), "the same process, another program");
        assert!(received().hold().unwrap_err().is_gone());
        assert_eq!(heap.split(), Bytes(0));
        let mut applied = LiveResult::default();
        heap.collapse(&mut applied, &|| false);
        assert_eq!(applied, LiveResult::default());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
