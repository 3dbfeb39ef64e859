//! Puts memory of another process on huge pages at once, from outside: `MADV_COLLAPSE` (Linux 6.1).
//!
//! The kernel takes a free huge page, copies the pages that the slot has, and fills the rest with zeros or
//! from the file. Then it maps the slot by one entry (mm/khugepaged.c, `madvise_collapse`). Content,
//! addresses and rights stay. A thread that touches the slot meanwhile waits. The system-wide setting
//! (`transparent_hugepage/enabled`) has no effect; only `MADV_NOHUGEPAGE` and `PR_SET_THP_DISABLE` prevent
//! it. The process does not stop, and no code runs in it. It requires the right to read the process and
//! CAP_SYS_NICE. If the process has ended, or its number belongs to another process by now, the error is
//! ESRCH.
//!
//! To undo it, `MADV_COLD` on one base page of a huge page splits the huge page
//! (`madvise_cold_or_pageout_pte_range`; advice on the whole page leaves it whole). The split fails as long
//! as another process shares the page, as after fork. The small pages of a split stay adjacent, and pages
//! that the collapse filled with zeros stay. The kernel itself splits a huge page when part of it changes
//! rights, is freed or is reclaimed.
//!
//! Only a kernel with READ_ONLY_THP_FOR_FS collapses files; any other returns EINVAL. Cost: 0.1 to 0.5 ms per
//! 2 MiB slot, 5 ms if a hypervisor has to find the memory first.

use pagewise_kernel::pidfd::{MemoryAdvice, advise};
use pagewise_kernel::{SysError, page_size, pidfd};
use std::ops::Range;
use std::os::fd::OwnedFd;

/// Attempts on a slot that is busy.
const ATTEMPTS: usize = 3;

/// A process whose memory may be collapsed.
#[derive(Debug)]
pub struct CollapseTarget {
    pidfd: OwnedFd,
}

/// Why the kernel did not change a slot. The process and the other slots are not affected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CollapseRefusal {
    /// EINVAL: this memory cannot be collapsed at all.
    Unfit,
    /// EAGAIN: in use at the moment.
    Busy,
    /// ENOMEM: no huge page was free, or the slot is no longer mapped.
    NoMemory,
    /// EBUSY: the memory limit of its cgroup is reached.
    GroupFull,
}

impl CollapseRefusal {
    fn of(error: &SysError) -> Option<Self> {
        match error.errno()? {
            libc::EINVAL => Some(Self::Unfit),
            libc::EAGAIN => Some(Self::Busy),
            libc::ENOMEM => Some(Self::NoMemory),
            libc::EBUSY => Some(Self::GroupFull),
            _ => None,
        }
    }
}

impl CollapseTarget {
    /// Opens process `pid`. The result never refers to a later process with the same number.
    ///
    /// # Errors
    /// ESRCH if there is no such process, EINVAL if `pid` is not a process number.
    pub fn open(pid: i32) -> Result<Self, SysError> {
        Ok(Self { pidfd: pidfd::open(pid)? })
    }

    /// Puts one slot on a huge page. The slot is one huge page long and aligned to its size.
    ///
    /// # Errors
    /// Errors that end all attempts: EPERM, ESRCH, ENOSYS.
    pub fn collapse(&self, slot: &Range<u64>) -> Result<Option<CollapseRefusal>, SysError> {
        let mut refused = None;
        for _ in 0..ATTEMPTS {
            refused = match advise(&self.pidfd, slot, MemoryAdvice::Collapse) {
                Ok(()) => return Ok(None),
                Err(error) => Some(CollapseRefusal::of(&error).ok_or(error)?),
            };
            if refused != Some(CollapseRefusal::Busy) {
                break;
            }
        }
        Ok(refused)
    }

    /// Splits the huge page of one slot, if it has one. Read the page table to learn whether it did.
    ///
    /// # Errors
    /// EINVAL and ENOMEM for memory that is locked or no longer mapped; otherwise the errors that end all
    /// attempts.
    pub fn split(&self, slot: u64) -> Result<(), SysError> {
        advise(&self.pidfd, &(slot..slot + page_size::base().bytes()), MemoryAdvice::Cold)
    }

    /// Checks the right to do both, on an address that no process uses, so nothing changes.
    ///
    /// # Errors
    /// EPERM without CAP_SYS_NICE or the right to read the process, ESRCH when it has ended, ENOSYS before
    /// Linux 5.10, EINVAL before 6.1.
    pub fn permits(&self) -> Result<(), SysError> {
        match advise(&self.pidfd, &(0..page_size::huge().bytes()), MemoryAdvice::Collapse) {
            Err(error) if error.errno() != Some(libc::ENOMEM) => Err(error),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test says why it is skipped")]
mod tests {
    use super::*;
    use pagewise_kernel::proc::own_pid;
    use pagewise_kernel::region::{MemoryRegion, RegionPages};
    use pagewise_model::Bytes;

    #[test]
    fn a_slot_of_our_own_is_huge_afterwards_and_one_without_pages_is_refused() {
        let huge = page_size::huge().bytes();
        let with_small_pages = || {
            let mut region = MemoryRegion::new(Bytes(2 * huge), RegionPages::Huge).unwrap();
            region.advise(rustix::mm::Advice::LinuxNoHugepage).unwrap();
            region.as_mut_slice()[..huge as usize].fill(7);
            region.advise(rustix::mm::Advice::LinuxHugepage).unwrap();
            (region.huge_bytes().unwrap() == Bytes(0)).then_some(region)
        };
        // After the advice, the kernel's own thread (khugepaged) may collapse a slot at any time.
        let region = (0..20).find_map(|_| with_small_pages()).unwrap();
        let (own, start) = (CollapseTarget::open(own_pid()).unwrap(), region.as_ptr() as u64);
        match own.collapse(&(start..start + huge)) {
            Ok(None) => {}
            other => return println!("SKIP a_slot_of_our_own_is_huge_afterwards: {other:?}"),
        }
        assert_eq!(region.huge_bytes().unwrap(), Bytes(huge));
        assert!(region.as_slice()[..huge as usize].iter().all(|byte| *byte == 7));
        let untouched = own.collapse(&(start + huge..start + 2 * huge)).unwrap();
        assert_eq!(untouched, Some(CollapseRefusal::Unfit));
        let unmapped = own.collapse(&(0..huge)).unwrap();
        assert_eq!(unmapped, Some(CollapseRefusal::NoMemory));
        own.permits().unwrap();
        // The kernel does not split a page that is still in a CPU's batch for the LRU lists.
        let is_split = || {
            own.split(start).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(10));
            region.huge_bytes().unwrap() == Bytes(0)
        };
        assert!((0..100).any(|_| is_split()));
        assert!(region.as_slice()[..huge as usize].iter().all(|byte| *byte == 7));
    }

    #[test]
    fn a_process_that_has_ended_is_nobody_whoever_has_its_number() {
        let mut child = std::process::Command::new("cat");
        let mut child = child.stdin(std::process::Stdio::piped()).spawn().unwrap();
        let subject = CollapseTarget::open(child.id() as i32).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let error = subject.collapse(&(0..page_size::huge().bytes())).unwrap_err();
        assert!(error.is_gone() || error.errno() == Some(libc::ENOSYS), "{error}");
    }

    #[test]
    fn what_is_no_process_cannot_be_opened() {
        assert!(CollapseTarget::open(i32::MAX).unwrap_err().is_gone());
        assert!(CollapseTarget::open(0).is_err());
    }
}
