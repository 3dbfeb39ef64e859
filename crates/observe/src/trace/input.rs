//! Uses of a standard input that is a stand-in for input that can be read only once (`launch::StdinSource::Ended`):
//! calls that read it or ask whether it has input. The engine stops the program at the first of them
//! (`engine/call_stops.rs`).
//!
//! `fstat`, `isatty`, `lseek`, `fcntl` and the names of a socket return the same for the stand-in as for the
//! real input, so they are not uses: most interpreters call them at their start. A poll that asks for no
//! event is not a use either: the Rust runtime checks in this way whether the descriptor is open. Nor is a
//! copy of the descriptor, but its process is watched closely from then on (`descriptors`), because the
//! filter knows only numbers.
//!
//! The filter stops at these calls only if the descriptor is 0, and at each `poll` and `select`. It does so
//! only if standard input is such a stand-in.

use super::calls::{self, SyscallKind};
use super::place::{self, Identity, identity};
use libc::{BPF_JEQ, c_long};
use pagewise_tracee::ptrace::read_memory;
use pagewise_tracee::seccomp::{NUMBER_AT, argument, give, jump, load};

/// Where a call says which descriptors it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DescriptorArgument {
    Argument(usize),
    /// In the third argument of epoll_ctl(2), unless the descriptor is removed.
    Interest,
    /// In an array of `struct pollfd`.
    Poll,
    /// In sets of bits.
    Select,
    /// In the first argument of ioctl(2), for requests that ask what there is to read.
    Request,
    /// In the first argument of a call that copies it.
    Copy,
}

/// What a call does with descriptors.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DescriptorUse {
    /// Reads them or asks whether they can be read: its name.
    Reads(&'static str, Vec<i32>),
    /// Opens a file by its name.
    Opens(Identity),
    Copies(i32),
}

#[rustfmt::skip]
const CALLS: &[(c_long, &str, DescriptorArgument)] = &[
    (libc::SYS_read, "read", DescriptorArgument::Argument(0)), (libc::SYS_readv, "readv", DescriptorArgument::Argument(0)),
    (libc::SYS_preadv2, "preadv2", DescriptorArgument::Argument(0)),
    (libc::SYS_write, "write", DescriptorArgument::Argument(0)), (libc::SYS_writev, "writev", DescriptorArgument::Argument(0)),
    (libc::SYS_recvfrom, "recvfrom", DescriptorArgument::Argument(0)), (libc::SYS_recvmsg, "recvmsg", DescriptorArgument::Argument(0)),
    (libc::SYS_recvmmsg, "recvmmsg", DescriptorArgument::Argument(0)),
    (libc::SYS_sendto, "sendto", DescriptorArgument::Argument(0)), (libc::SYS_sendmsg, "sendmsg", DescriptorArgument::Argument(0)),
    (libc::SYS_sendmmsg, "sendmmsg", DescriptorArgument::Argument(0)),
    (libc::SYS_shutdown, "shutdown", DescriptorArgument::Argument(0)), (libc::SYS_accept, "accept", DescriptorArgument::Argument(0)),
    (libc::SYS_accept4, "accept4", DescriptorArgument::Argument(0)),
    (libc::SYS_splice, "splice", DescriptorArgument::Argument(0)), (libc::SYS_tee, "tee", DescriptorArgument::Argument(0)),
    (libc::SYS_vmsplice, "vmsplice", DescriptorArgument::Argument(0)),
    (libc::SYS_sendfile, "sendfile", DescriptorArgument::Argument(1)),
    (libc::SYS_copy_file_range, "copy_file_range", DescriptorArgument::Argument(0)),
    (libc::SYS_ioctl, "ioctl", DescriptorArgument::Request), (libc::SYS_epoll_ctl, "epoll_ctl", DescriptorArgument::Interest),
    (libc::SYS_ppoll, "poll", DescriptorArgument::Poll), (libc::SYS_pselect6, "select", DescriptorArgument::Select),
    (libc::SYS_dup, "dup", DescriptorArgument::Copy), (libc::SYS_dup3, "dup3", DescriptorArgument::Copy),
    (libc::SYS_fcntl, "fcntl", DescriptorArgument::Copy),
];

/// Calls that exist on x86-64 but not on every architecture.
#[cfg(target_arch = "x86_64")]
const OLD_CALLS: &[(c_long, &str, DescriptorArgument)] = &[
    (libc::SYS_poll, "poll", DescriptorArgument::Poll),
    (libc::SYS_select, "select", DescriptorArgument::Select),
    (libc::SYS_dup2, "dup2", DescriptorArgument::Copy),
];

/// Requests that ask what there is to read: `FIONREAD` and `SIOCATMARK`.
const ASKING: [u64; 2] = [0x541b, 0x8905];
/// Most entries of an array that is looked at.
const MOST: usize = 1024;

fn all() -> impl Iterator<Item = &'static (c_long, &'static str, DescriptorArgument)> {
    CALLS.iter().chain(OLD_CALLS)
}

/// The first part of a filter: stops at uses of descriptor 0. The rest continues with the number loaded.
pub(super) fn filter() -> Vec<libc::sock_filter> {
    let stop = give(libc::SECCOMP_RET_TRACE);
    let mut code = Vec::new();
    for &(number, _, at) in all() {
        let index = match at {
            DescriptorArgument::Argument(index) => Some(index as u32),
            DescriptorArgument::Interest => Some(2),
            DescriptorArgument::Request | DescriptorArgument::Copy => Some(0),
            DescriptorArgument::Poll | DescriptorArgument::Select => None,
        };
        let body = match index {
            Some(index) => {
                vec![argument(index), jump(BPF_JEQ, 0, 0, 1), stop, load(NUMBER_AT)]
            }
            None => vec![stop],
        };
        code.push(jump(BPF_JEQ, number as u32, 0, body.len() as u8));
        code.extend(body);
    }
    code
}

/// What a call that begins does, as far as its arguments show.
pub(super) fn used(tid: i32, number: i64, args: &[u64; 6]) -> Option<DescriptorUse> {
    if let Some(SyscallKind::Open(named, _)) = calls::kind(number) {
        // For example /dev/stdin.
        return Some(DescriptorUse::Opens(identity(&place::named(tid, named, args)?.target?)));
    }
    let &(_, name, at) = all().find(|(n, _, _)| *n == number)?;
    let fds = match at {
        DescriptorArgument::Argument(index) => vec![args[index] as i32],
        DescriptorArgument::Interest if args[1] as i32 == libc::EPOLL_CTL_DEL => return None,
        DescriptorArgument::Interest => vec![args[2] as i32],
        DescriptorArgument::Request if ASKING.contains(&(args[1] & 0xffff_ffff)) => {
            vec![args[0] as i32]
        }
        DescriptorArgument::Request => return None,
        DescriptorArgument::Poll => polled(tid, args[0], args[1])?,
        DescriptorArgument::Select => selected(tid, args[0], &args[1..4]),
        DescriptorArgument::Copy if number == libc::SYS_fcntl && !copies(args[1]) => return None,
        DescriptorArgument::Copy => return Some(DescriptorUse::Copies(args[0] as i32)),
    };
    Some(DescriptorUse::Reads(name, fds))
}

fn copies(command: u64) -> bool {
    [libc::F_DUPFD, libc::F_DUPFD_CLOEXEC].contains(&(command as i32))
}

/// Descriptors of an array of `struct pollfd` that ask for an event.
fn polled(tid: i32, pointer: u64, count: u64) -> Option<Vec<i32>> {
    const ENTRY: usize = 8;
    let mut bytes = vec![0; ENTRY * usize::try_from(count).ok()?.min(MOST)];
    let read = read_memory(tid, pointer, &mut bytes).ok()?;
    let entries = bytes[..read].chunks_exact(ENTRY);
    let asked = entries.filter(|entry| entry[4..6] != [0, 0]);
    Some(asked.filter_map(|entry| Some(i32::from_ne_bytes(*entry.first_chunk()?))).collect())
}

/// Descriptors that are in one of the sets at `pointers`.
fn selected(tid: i32, count: u64, pointers: &[u64]) -> Vec<i32> {
    let count = usize::try_from(count & 0xffff_ffff).unwrap_or(0).min(MOST);
    let mut fds = Vec::new();
    for &pointer in pointers.iter().filter(|pointer| **pointer != 0) {
        let mut bytes = vec![0; count.div_ceil(8)];
        let read = read_memory(tid, pointer, &mut bytes).unwrap_or(0);
        let is_in = |fd: &usize| bytes[..read].get(fd / 8).is_some_and(|b| b >> (fd % 8) & 1 != 0);
        fds.extend((0..count).filter(is_in).filter_map(|fd| i32::try_from(fd).ok()));
    }
    fds
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used_here(number: i64, args: [u64; 6]) -> Option<DescriptorUse> {
        used(std::process::id() as i32, number, &args)
    }

    #[test]
    fn polls_that_ask_for_nothing_are_no_uses() {
        // Descriptor 0 asks for nothing, descriptor 3 for reading.
        let entries: [u64; 2] = [0, 3 | 1 << 32];
        let asked = used_here(libc::SYS_poll, [entries.as_ptr() as u64, 2, 0, 0, 0, 0]);
        assert_eq!(asked, Some(DescriptorUse::Reads("poll", vec![3])));
        let set = [0b1001_u64];
        let asked = used_here(libc::SYS_pselect6, [4, set.as_ptr() as u64, 0, 0, 0, 0]);
        assert_eq!(asked, Some(DescriptorUse::Reads("select", vec![0, 3])));
        let asked = used_here(libc::SYS_pselect6, [3, set.as_ptr() as u64, 0, 0, 0, 0]);
        assert_eq!(asked, Some(DescriptorUse::Reads("select", vec![0])));
    }

    #[test]
    fn questions_about_the_kind_are_no_uses() {
        assert_eq!(used_here(libc::SYS_ioctl, [0, 0x5401, 0, 0, 0, 0]), None);
        assert!(used_here(libc::SYS_ioctl, [0, 0x541b, 0, 0, 0, 0]).is_some());
        assert_eq!(used_here(libc::SYS_fcntl, [0, libc::F_GETFL as u64, 0, 0, 0, 0]), None);
        let copied = used_here(libc::SYS_fcntl, [5, libc::F_DUPFD as u64, 10, 0, 0, 0]);
        assert_eq!(copied, Some(DescriptorUse::Copies(5)));
        assert_eq!(used_here(libc::SYS_fstat, [0; 6]), None);
        let taken_out = [9, libc::EPOLL_CTL_DEL as u64, 0, 0, 0, 0];
        assert_eq!(used_here(libc::SYS_epoll_ctl, taken_out), None);
    }
}
