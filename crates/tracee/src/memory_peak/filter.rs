//! The seccomp filter that stops a tree where it maps anonymous memory, and before it releases much memory.
//! Pure.

use crate::seccomp::{argument, begin, give, jump};
use libc::{BPF_JEQ, BPF_JGE, BPF_JSET, SECCOMP_RET_ALLOW, SECCOMP_RET_TRACE, sock_filter};
use pagewise_model::Bytes;

/// Index of the length argument of munmap(2) and madvise(2); below, of the flags of mmap(2).
const LENGTH: u32 = 1;
const FLAGS: u32 = 3;
/// Smaller releases do not cause a stop.
pub(super) const LEAST: Bytes = Bytes::kib(64);

/// Stops at mmap(2) of anonymous memory, at mremap(2) and brk(2), and at large munmap(2) and madvise(2).
pub(crate) fn filter() -> Vec<sock_filter> {
    let (allow, stop) = (give(SECCOMP_RET_ALLOW), give(SECCOMP_RET_TRACE));
    let upper_half = {
        let lower = argument(LENGTH);
        sock_filter { k: lower.k + 4, ..lower }
    };
    let mut filter = begin();
    filter.extend([
        jump(BPF_JEQ, libc::SYS_mremap as u32, 1, 0),
        jump(BPF_JEQ, libc::SYS_brk as u32, 0, 1),
        stop,
        jump(BPF_JEQ, libc::SYS_munmap as u32, 6, 0),
        jump(BPF_JEQ, libc::SYS_madvise as u32, 5, 0),
        jump(BPF_JEQ, libc::SYS_mmap as u32, 1, 0),
        allow,
        argument(FLAGS),
        jump(BPF_JSET, libc::MAP_ANONYMOUS as u32, 5, 0),
        allow,
        upper_half,
        jump(BPF_JEQ, 0, 0, 2),
        argument(LENGTH),
        jump(BPF_JGE, LEAST.0 as u32, 0, 1),
        stop,
        allow,
    ]);
    filter
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seccomp::ARCHITECTURE;

    /// Runs the filter for a call as the kernel would. Returns its verdict.
    fn verdict(number: i64, arguments: [u64; 6]) -> u32 {
        let mut data = vec![0; 16];
        data[..4].copy_from_slice(&(number as u32).to_ne_bytes());
        data[4..8].copy_from_slice(&ARCHITECTURE.to_ne_bytes());
        data.extend(arguments.iter().flat_map(|argument| argument.to_ne_bytes()));
        let (filter, mut at, mut loaded) = (filter(), 0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = filter[at];
            let test = u32::from(code) & 0xf0;
            match u32::from(code) & 0x07 {
                libc::BPF_LD => {
                    let word = &data[k as usize..k as usize + 4];
                    loaded = u32::from_ne_bytes(word.try_into().unwrap());
                }
                libc::BPF_RET => return k,
                _ => {
                    let holds = match test {
                        BPF_JEQ => loaded == k,
                        BPF_JGE => loaded >= k,
                        _ => loaded & k != 0,
                    };
                    at += usize::from(if holds { jt } else { jf });
                }
            }
            at += 1;
        }
    }

    #[test]
    fn it_stops_where_memory_comes_and_before_much_of_it_goes() {
        let stops = |number, arguments| verdict(number, arguments) == SECCOMP_RET_TRACE;
        let flags = |flags: i32| [0, 1, 0, flags as u64, 0, 0];
        assert!(stops(libc::SYS_mmap, flags(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS)));
        assert!(!stops(libc::SYS_mmap, flags(libc::MAP_PRIVATE)));
        assert!(stops(libc::SYS_brk, [0; 6]) && stops(libc::SYS_mremap, [0; 6]));
        let of = |bytes: u64| [0, bytes, 0, 0, 0, 0];
        for call in [libc::SYS_munmap, libc::SYS_madvise] {
            assert!(stops(call, of(LEAST.0)) && stops(call, of(1 << 32)));
            assert!(!stops(call, of(LEAST.0 - 1)));
        }
        assert!(!stops(libc::SYS_read, of(1 << 32)));
        assert!(stops(libc::SYS_clone3, [0; 6]) && !stops(libc::SYS_clone, [0x11; 6]));
        assert!(stops(libc::SYS_clone, [libc::CLONE_UNTRACED as u64 | 0x11, 0, 0, 0, 0, 0]));
    }
}
