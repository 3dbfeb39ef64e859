//! Memory of another process, put on huge pages from outside and at once: `MADV_COLLAPSE` (Linux 6.1).
//!
//! The kernel takes a free huge page, copies what the slot has, fills what it has not (with zeros, or from
//! the file), and maps the slot by one entry (mm/khugepaged.c, `madvise_collapse`). Content, addresses and
//! rights stay; a thread that touches the slot meanwhile waits. No setting of the machine decides
//! (`transparent_hugepage/enabled`), only `MADV_NOHUGEPAGE` and `PR_SET_THP_DISABLE` do. The process does not
//! stop, and nothing runs in it. It takes the right to read the process and CAP_SYS_NICE; a process that has
//! ended, or whose number another has by now, is ESRCH.
//!
//! The way back: `MADV_COLD` on one base page of a huge page splits it (`madvise_cold_or_pageout_pte_range`, which
//! leaves a page whole where all of it is advised). It fails as long as another process shares the page, as after
//! fork. The small pages of a split stay next to each other, and pages that the collapse filled with zeros stay.
//! By itself the kernel splits a huge page of which a part gets other rights, is given back or is taken for others.
//!
//! Files are collapsed only by a kernel with READ_ONLY_THP_FOR_FS; any other says EINVAL. Cost: 0.1 to 0.5 ms
//! for each slot of 2 MiB, 5 ms where a hypervisor has to find the memory first.

use pagewise_kernel::pidfd::{Advice, advise};
use pagewise_kernel::{SysError, page_size, pidfd};
use std::ops::Range;
use std::os::fd::OwnedFd;

/// How often a slot is tried that is in use at that moment.
const ATTEMPTS: usize = 3;

/// A process whose memory may be collapsed.
#[derive(Debug)]
pub struct Subject {
    pidfd: OwnedFd,
}

/// Why the kernel left a slot as it was; the process and the other slots are not affected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// EINVAL: this memory never.
    Unfit,
    /// EAGAIN: in use at that moment.
    Busy,
    /// ENOMEM: no huge page was free, or nothing is mapped there any more.
    NoMemory,
    /// EBUSY: its group may not have more memory.
    GroupFull,
}

impl Refusal {
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

impl Subject {
    /// Process `pid`, whoever has the number later.
    ///
    /// # Errors
    /// ESRCH for no process, EINVAL for what is no number of one.
    pub fn open(pid: i32) -> Result<Self, SysError> {
        Ok(Self { pidfd: pidfd::open(pid)? })
    }

    /// Puts one slot, of a huge page at a multiple of its size, on a huge page.
    ///
    /// # Errors
    /// What ends all attempts: EPERM, ESRCH, ENOSYS.
    pub fn collapse(&self, slot: &Range<u64>) -> Result<Option<Refusal>, SysError> {
        let mut refused = None;
        for _ in 0..ATTEMPTS {
            refused = match advise(&self.pidfd, slot, Advice::Collapse) {
                Ok(()) => return Ok(None),
                Err(error) => Some(Refusal::of(&error).ok_or(error)?),
            };
            if refused != Some(Refusal::Busy) {
                break;
            }
        }
        Ok(refused)
    }

    /// Splits the huge page of one slot, if there is one. Read the page table to know whether it did.
    ///
    /// # Errors
    /// EINVAL and ENOMEM for memory that is locked or no longer mapped; else what ends all attempts.
    pub fn split(&self, slot: u64) -> Result<(), SysError> {
        advise(&self.pidfd, &(slot..slot + page_size::base().bytes()), Advice::Cold)
    }

    /// Whether this account may do both: asked of an address that no process has, so nothing changes.
    ///
    /// # Errors
    /// EPERM without CAP_SYS_NICE or the right to read the process, ESRCH when it has ended, ENOSYS before
    /// Linux 5.10, EINVAL before 6.1.
    pub fn permits(&self) -> Result<(), SysError> {
        match advise(&self.pidfd, &(0..page_size::huge().bytes()), Advice::Collapse) {
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
    use pagewise_kernel::region::{Pages, Region};
    use pagewise_model::Bytes;

    #[test]
    fn a_slot_of_our_own_is_huge_afterwards_and_one_without_pages_is_refused() {
        let huge = page_size::huge().bytes();
        let mut region = Region::new(Bytes(2 * huge), Pages::Huge).unwrap();
        region.advise(rustix::mm::Advice::LinuxNoHugepage).unwrap();
        region.as_mut_slice()[..huge as usize].fill(7);
        region.advise(rustix::mm::Advice::LinuxHugepage).unwrap();
        if region.huge_bytes().unwrap() != Bytes(0) {
            // The advice lets the kernel's own thread (khugepaged) do it at any time.
            return println!("SKIP a_slot_of_our_own_is_huge_afterwards: the kernel was first");
        }
        let (own, start) = (Subject::open(own_pid()).unwrap(), region.as_ptr() as u64);
        match own.collapse(&(start..start + huge)) {
            Ok(None) => {}
            other => return println!("SKIP a_slot_of_our_own_is_huge_afterwards: {other:?}"),
        }
        assert_eq!(region.huge_bytes().unwrap(), Bytes(huge));
        assert!(region.as_slice()[..huge as usize].iter().all(|byte| *byte == 7));
        let untouched = own.collapse(&(start + huge..start + 2 * huge)).unwrap();
        assert_eq!(untouched, Some(Refusal::Unfit));
        let unmapped = own.collapse(&(0..huge)).unwrap();
        assert_eq!(unmapped, Some(Refusal::NoMemory));
        own.permits().unwrap();
        // While a CPU still has the page in its batch for the LRU lists, the kernel leaves it whole.
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
        let subject = Subject::open(child.id() as i32).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let error = subject.collapse(&(0..page_size::huge().bytes())).unwrap_err();
        assert!(error.is_gone() || error.errno() == Some(libc::ENOSYS), "{error}");
    }

    #[test]
    fn what_is_no_process_cannot_be_opened() {
        assert!(Subject::open(i32::MAX).unwrap_err().is_gone());
        assert!(Subject::open(0).is_err());
    }
}
