//! CPU affinity of a thread or process (`sched_setaffinity(2)`), inherited over fork and exec.
//!
//! The mask grows until the kernel accepts it, so machines with more than 1024 CPUs work. Setting
//! the affinity of a pid changes its main thread only; threads that exist already keep theirs.

use crate::error::SysError;

const WORD_BITS: usize = u64::BITS as usize;
const MOST_WORDS: usize = 1024;

/// CPUs that thread `pid` may run on, ascending; 0 is the caller.
pub fn get(pid: i32) -> Result<Vec<u32>, SysError> {
    let mut words = 16;
    loop {
        let mut mask = vec![0u64; words];
        // SAFETY: the kernel writes at most the given number of bytes, which is the size of
        // `mask`, alive and not otherwise referenced during the call.
        let got = unsafe {
            libc::syscall(libc::SYS_sched_getaffinity, pid, size_of_val(&*mask), mask.as_mut_ptr())
        };
        if got >= 0 {
            return Ok(from_mask(&mask));
        }
        let error = SysError::last("sched_getaffinity", format!("process {pid}"));
        if error.errno() != Some(libc::EINVAL) || words >= MOST_WORDS {
            return Err(error);
        }
        words *= 4;
    }
}

/// Lets thread `pid` (0: the caller) run on `cpus` only.
pub fn set(pid: i32, cpus: &[u32]) -> Result<(), SysError> {
    let subject = || format!("process {pid}, CPUs {cpus:?}");
    let Some(mask) = to_mask(cpus) else {
        return Err(SysError::new("sched_setaffinity", subject(), rustix::io::Errno::INVAL));
    };
    // SAFETY: the kernel only reads the given number of bytes, which is the size of `mask`, alive
    // during the call.
    let done = unsafe {
        libc::syscall(libc::SYS_sched_setaffinity, pid, size_of_val(&*mask), mask.as_ptr())
    };
    if done == 0 { Ok(()) } else { Err(SysError::last("sched_setaffinity", subject())) }
}

/// The CPU on which this thread runs now.
#[must_use]
pub fn current() -> Option<u32> {
    // SAFETY: sched_getcpu has no preconditions.
    u32::try_from(unsafe { libc::sched_getcpu() }).ok()
}

fn from_mask(mask: &[u64]) -> Vec<u32> {
    let bits = 0..mask.len() * WORD_BITS;
    bits.filter(|b| mask[b / WORD_BITS] >> (b % WORD_BITS) & 1 == 1).map(|b| b as u32).collect()
}

/// The kernel's mask for `cpus`; `None` if a CPU number is too large for any machine.
#[must_use]
pub fn to_mask(cpus: &[u32]) -> Option<Vec<u64>> {
    let highest = cpus.iter().copied().max().unwrap_or(0) as usize;
    let words = highest / WORD_BITS + 1;
    if words > MOST_WORDS {
        return None;
    }
    let mut mask = vec![0u64; words];
    for &cpu in cpus {
        mask[cpu as usize / WORD_BITS] |= 1 << (cpu as usize % WORD_BITS);
    }
    Some(mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_there_and_back() {
        for cpus in [vec![0], vec![0, 63, 64, 200], vec![65_535]] {
            assert_eq!(from_mask(&to_mask(&cpus).unwrap()), cpus);
        }
        assert_eq!(to_mask(&[u32::MAX]), None);
    }

    #[test]
    fn own_affinity_is_set_and_read() {
        let before = get(0).unwrap();
        let thread = std::thread::spawn(move || {
            let one = [before[0]];
            set(0, &one).unwrap();
            assert_eq!(get(0).unwrap(), one);
        });
        thread.join().unwrap();
        assert_eq!(set(0, &[]).unwrap_err().errno(), Some(libc::EINVAL));
        assert_eq!(set(0, &[u32::MAX]).unwrap_err().errno(), Some(libc::EINVAL));
    }
}
