//! What a call reaches beyond the tree: processes by signals, other machines by internet addresses. Also
//! where a socket gets its name.
//!
//! Process ids are interpreted in our namespace: a program in a separate process namespace signals other
//! processes.

use super::calls::{AddressArgument, ProcessArgument, SignalTarget};
use pagewise_kernel::proc::stat;
use pagewise_tracee::ptrace::{read_memory, read_u64};
use std::ffi::OsStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Whether a process belongs to the tree: `(process, thread id or group)`.
pub(super) type InTree<'a> = &'a dyn Fn(i32) -> bool;

/// Whom outside the tree process `pid` signals, if the call is more than a question.
pub(super) fn signalled(
    pid: i32,
    target: SignalTarget,
    signal: u64,
    args: &[u64; 6],
    in_tree: InTree<'_>,
) -> Option<String> {
    let whom = args[0] as i32;
    // Existence is asked for with signal 0; of two ids the first is the process.
    let inside = match target {
        SignalTarget::Process if whom == 0 => in_tree(stat::read(pid).ok()?.group),
        SignalTarget::Process if whom < -1 => in_tree(whom.checked_neg()?),
        SignalTarget::Process | SignalTarget::Thread => whom != -1 && in_tree(whom),
        SignalTarget::Descriptor => in_tree(pid_of_descriptor(pid, whom)?),
    };
    if inside || signal as i32 == 0 {
        return None;
    }
    Some(match target {
        SignalTarget::Descriptor => format!("the process behind descriptor {whom}"),
        _ if whom == -1 => "every process".to_owned(),
        _ if whom <= 0 => format!("process group {}", whom.unsigned_abs()),
        _ => format!("process {whom}"),
    })
}

/// The process outside the tree that a call of process `pid` acts on.
pub(super) fn acted_on(
    pid: i32,
    whom: ProcessArgument,
    args: &[u64; 6],
    in_tree: InTree<'_>,
) -> Option<String> {
    let (kind, who) = match whom {
        ProcessArgument::Process(index) => (0, args[index] as i32),
        ProcessArgument::Kind(first) => (args[0].checked_sub(first)?, args[1] as i32),
    };
    match kind {
        0 => (who != 0 && !in_tree(who)).then(|| format!("process {who}")),
        1 => {
            let group = if who == 0 { stat::read(pid).ok()?.group } else { who };
            (!in_tree(group)).then(|| format!("process group {group}"))
        }
        _ => Some("all processes of a user".to_owned()),
    }
}

fn pid_of_descriptor(pid: i32, fd: i32) -> Option<i32> {
    let info = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).ok()?;
    info.lines().find_map(|line| line.strip_prefix("Pid:")?.trim().parse().ok())
}

/// Most messages that one call sends (`UIO_MAXIOV`).
const MOST_MESSAGES: u64 = 1024;
/// Size of `struct mmsghdr`.
const MESSAGE_BYTES: u64 = 64;

/// The internet address beyond this machine that a call sends to, the first of several.
pub(super) fn far_address(tid: i32, address: AddressArgument, args: &[u64; 6]) -> Option<String> {
    match address {
        AddressArgument::Arguments(pointer, length) => far_at(tid, args[pointer], args[length]),
        AddressArgument::Message => far_of_message(tid, args[1]),
        AddressArgument::Messages => (0..(args[2] & 0xffff_ffff).min(MOST_MESSAGES))
            .find_map(|n| far_of_message(tid, args[1].wrapping_add(n * MESSAGE_BYTES))),
    }
}

fn far_of_message(tid: i32, header: u64) -> Option<String> {
    let length = read_u64(tid, header.wrapping_add(8)).ok()?;
    far_at(tid, read_u64(tid, header).ok()?, length)
}

fn far_at(tid: i32, pointer: u64, length: u64) -> Option<String> {
    let address = parse_address(&socket_address::<28>(tid, pointer, length)?)?;
    let ip = address.ip().to_canonical();
    (!ip.is_loopback() && !ip.is_unspecified()).then(|| address.to_string())
}

/// The path that a `bind` call makes: that of a Unix socket with a name in the file system.
pub(super) fn bound_path(tid: i32, args: &[u64; 6]) -> Option<PathBuf> {
    let bytes = socket_address::<110>(tid, args[1], args[2])?;
    let family = i32::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
    let path = bytes.get(2..)?.split(|&b| b == 0).next()?;
    let named = family == libc::AF_UNIX && !path.is_empty();
    named.then(|| PathBuf::from(OsStr::from_bytes(path)))
}

/// At most `MOST` bytes of the address at `pointer`, of which `length` are valid.
fn socket_address<const MOST: usize>(tid: i32, pointer: u64, length: u64) -> Option<Vec<u8>> {
    let length = usize::try_from(length & 0xffff_ffff).ok()?.min(MOST);
    if pointer == 0 {
        return None;
    }
    let mut bytes = vec![0; length];
    let read = read_memory(tid, pointer, &mut bytes).ok()?;
    bytes.truncate(read);
    Some(bytes)
}

fn parse_address(bytes: &[u8]) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
    let port = u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?);
    let ip: IpAddr = match family {
        libc::AF_INET => Ipv4Addr::from(<[u8; 4]>::try_from(bytes.get(4..8)?).ok()?).into(),
        libc::AF_INET6 => Ipv6Addr::from(<[u8; 16]>::try_from(bytes.get(8..24)?).ok()?).into(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inet(ip: [u8; 4]) -> Vec<u8> {
        let mut bytes = (libc::AF_INET as u16).to_ne_bytes().to_vec();
        bytes.extend([0, 80]);
        bytes.extend(ip);
        bytes.extend([0; 8]);
        bytes
    }

    #[test]
    fn addresses_beyond_the_machine_count() {
        let pid = std::process::id() as i32;
        let far = |bytes: &[u8]| {
            let args = [3, bytes.as_ptr() as u64, bytes.len() as u64, 0, 0, 0];
            far_address(pid, AddressArgument::Arguments(1, 2), &args)
        };
        assert_eq!(far(&inet([192, 0, 2, 1])), Some("192.0.2.1:80".to_owned()));
        assert_eq!(far(&inet([127, 3, 0, 1])), None);
        assert_eq!(far(&[1, 0, b'/', b'x']), None);
        assert_eq!(far(&[2, 0]), None);
        let mut six = (libc::AF_INET6 as u16).to_ne_bytes().to_vec();
        six.extend([0; 26]);
        six[23] = 1;
        assert_eq!(far(&six), None);
        six[8] = 0x20;
        assert!(far(&six).is_some());
    }

    #[test]
    fn every_message_of_a_batch_counts() {
        let pid = std::process::id() as i32;
        let names = [inet([127, 0, 0, 1]), inet([192, 0, 2, 7])];
        let mut headers = [0_u64; 16];
        for (n, name) in names.iter().enumerate() {
            headers[8 * n] = name.as_ptr() as u64;
            headers[8 * n + 1] = name.len() as u64;
        }
        let batch = |count| {
            let args = [3, headers.as_ptr() as u64, count, 0, 0, 0];
            far_address(pid, AddressArgument::Messages, &args)
        };
        assert_eq!(batch(1), None);
        assert_eq!(batch(2), Some("192.0.2.7:80".to_owned()));
    }

    #[test]
    fn paths_of_unix_sockets_are_read() {
        let pid = std::process::id() as i32;
        let bound = |bytes: &[u8]| {
            bound_path(pid, &[3, bytes.as_ptr() as u64, bytes.len() as u64, 0, 0, 0])
        };
        assert_eq!(bound(b"\x01\0/run/x\0..."), Some("/run/x".into()));
        assert_eq!(bound(b"\x01\0sock"), Some("sock".into()));
        assert_eq!(bound(b"\x01\0\0abstract"), None);
        assert_eq!(bound(&inet([127, 0, 0, 1])), None);
        assert_eq!(bound(b"\x01\0"), None);
    }

    #[test]
    fn acts_on_others_count() {
        let on = |whom, first: u64, second: u64| {
            acted_on(7, whom, &[first, second, 0, 0, 0, 0], &|pid| pid == 7)
        };
        assert_eq!(on(ProcessArgument::Process(0), 7, 0), None);
        assert_eq!(on(ProcessArgument::Process(0), 0, 0), None);
        assert_eq!(on(ProcessArgument::Process(1), 7, 8), Some("process 8".to_owned()));
        assert_eq!(
            (on(ProcessArgument::Kind(0), 0, 7), on(ProcessArgument::Kind(1), 2, 7)),
            (None, None)
        );
        assert_eq!(on(ProcessArgument::Kind(0), 1, 8), Some("process group 8".to_owned()));
        assert!(
            on(ProcessArgument::Kind(0), 2, 0).is_some()
                && on(ProcessArgument::Kind(1), 3, 0).is_some()
        );
        // There is no such kind, so the call fails.
        assert_eq!(on(ProcessArgument::Kind(1), 0, 8), None);
    }

    #[test]
    fn signals_beyond_the_tree_count() {
        let tree = |pid: i32| pid == 7;
        let judge =
            |args: [u64; 6]| signalled(7, SignalTarget::Process, args[1], &args, &tree).is_some();
        assert!(!judge([7, 15, 0, 0, 0, 0]) && !judge([8, 0, 0, 0, 0, 0]));
        assert!(!judge([-7_i64 as u64, 15, 0, 0, 0, 0]));
        let own = std::process::id();
        assert!(signalled(7, SignalTarget::Process, 15, &[own.into(); 6], &tree).is_some());
        // A thread and its group come before the signal: 0 there is a question too.
        assert!(signalled(7, SignalTarget::Process, 0, &[own.into(); 6], &tree).is_none());
        assert!(judge([8, 15, 0, 0, 0, 0]) && judge([-1_i64 as u64, 15, 0, 0, 0, 0]));
    }
}
