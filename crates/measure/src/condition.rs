//! Touching and freeing memory, so that a virtual machine's host backs it before a run.
//!
//! A guest's free memory may be with the host; the first touch then costs several times its price.
//! Touching as much as the next run will need and freeing it leaves backed pages on top of the free
//! lists. Memory is taken in chunks that are held until the end (a freed chunk would be given out
//! again), and no more than an experiment may take; each chunk asks anew, so it stops when others
//! take memory. At the end the peak of this process' resident set is reset (`clear_refs`, proc(5)),
//! because children started by vfork report the peak of their parent as their own.
//! Overhead: the touching, 0.2-2 us per base page. Not seen: a host that takes memory back at once.

use crate::error::PriceError;
use crate::kernels::usage::read_thread_usage;
use crate::sample::time;
use pagewise_kernel::limits;
use pagewise_kernel::page_size;
use pagewise_kernel::region::{Pages, Region};
use pagewise_model::{Bytes, Nanos};

/// Memory of one chunk.
const CHUNK: Bytes = Bytes::mib(64);

/// On which pages memory is touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touch {
    /// Base pages, one fault each.
    Base,
    /// Huge pages where the kernel gives them: fewer faults, the same memory.
    Huge,
}

/// What a conditioning did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Conditioned {
    /// Memory touched; less than asked for when there was no room.
    pub touched_bytes: Bytes,
    /// Wall time of the touching.
    pub wall_ns: Nanos,
    /// Kernel time of the touching.
    pub sys_ns: Nanos,
    /// Faults that it took.
    pub faults: u64,
}

impl Conditioned {
    /// Kernel time per fault.
    #[must_use]
    pub fn sys_ns_per_fault(&self) -> f64 {
        self.sys_ns.0 as f64 / self.faults.max(1) as f64
    }
}

/// Touches and frees `bytes` of memory.
///
/// # Errors
/// When the kernel refuses the memory, or its accounts cannot be read.
pub fn condition(bytes: Bytes, touch: Touch) -> Result<Conditioned, PriceError> {
    let pages = match touch {
        Touch::Base => Pages::Base,
        Touch::Huge => Pages::Huge,
    };
    let step = Bytes(page_size::base().bytes());
    let mut held = Vec::new();
    let mut done =
        Conditioned { touched_bytes: Bytes(0), wall_ns: Nanos(0), sys_ns: Nanos(0), faults: 0 };
    let before = read_thread_usage()?;
    while done.touched_bytes < bytes {
        let size = Bytes(CHUNK.0.min(bytes.0 - done.touched_bytes.0));
        if limits::experiment_memory()?.bytes < size {
            break;
        }
        let mut region = Region::new(size, pages)?;
        let (ns, _) = time(|| region.touch(step));
        done.wall_ns += Nanos::from_f64(ns);
        done.touched_bytes += size;
        held.push(region);
    }
    let after = read_thread_usage()?;
    drop(held);
    // Refused only where /proc is read-only, and then nothing depends on it but a reported peak.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    done.sys_ns = Nanos(after.sys_ns.0.saturating_sub(before.sys_ns.0));
    done.faults = after.minor_faults.saturating_sub(before.minor_faults);
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_pages_fault_once_each() {
        let done = condition(Bytes::mib(80), Touch::Base).expect("80 MiB");
        assert_eq!(done.touched_bytes, Bytes::mib(80));
        assert!(done.faults >= Bytes::mib(80).pages(page_size::base()));
        assert!(done.wall_ns > Nanos(0));
    }

    #[test]
    fn nothing_is_touched_for_nothing() {
        assert_eq!(condition(Bytes(0), Touch::Huge).expect("nothing").touched_bytes, Bytes(0));
    }
}
