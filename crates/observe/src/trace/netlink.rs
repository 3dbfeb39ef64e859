//! Messages to the kernel by netlink(7): which of them change something.
//!
//! Every message counts as a change unless it is a query: of routes, addresses and links (`RTM_GET*`), of
//! sockets (`SOCK_DIAG_BY_FAMILY`), of the existing families, or a dump of a generic family. For other
//! protocols (packet filters, IPsec, audit) every message counts, because their queries differ from table to
//! table. A socket in a separate network namespace of the program counts as well.

use pagewise_tracee::ptrace::{read_memory, read_u64};

/// More than this of one call is not looked at, and counts.
const MOST: usize = 64 << 10;
/// Most pieces of one message.
const MOST_PIECES: u64 = 1024;
const SENDING: [i64; 5] =
    [libc::SYS_write, libc::SYS_writev, libc::SYS_sendto, libc::SYS_sendmsg, libc::SYS_sendmmsg];
/// Size of `struct mmsghdr`.
const BATCH_ENTRY: u64 = 64;
/// Length of `struct nlmsghdr`.
const HEADER: usize = 16;

const ROUTE: i32 = libc::NETLINK_ROUTE;
const SOCK_DIAG: i32 = libc::NETLINK_SOCK_DIAG;
const GENERIC: i32 = libc::NETLINK_GENERIC;
/// Of `SOCK_DIAG`: the message that ends a connection, possibly another program's.
const SOCK_DESTROY: u16 = 21;
/// Of `GENERIC`: the family that lists the families.
const CONTROLLER: u16 = 16;
/// `NLM_F_DUMP`.
const DUMP: u16 = 0x300;
/// Types below this are control messages, such as acknowledgements.
const FIRST_TYPE: u16 = 16;

/// What netlink of this protocol is called.
pub(super) fn name(protocol: i32) -> String {
    match protocol {
        ROUTE => "route".to_owned(),
        SOCK_DIAG => "socket monitoring".to_owned(),
        libc::NETLINK_XFRM => "IPsec".to_owned(),
        libc::NETLINK_AUDIT => "audit".to_owned(),
        libc::NETLINK_NETFILTER => "packet filter".to_owned(),
        GENERIC => "generic".to_owned(),
        other => format!("protocol {other}"),
    }
}

/// True for a call that can send a message.
pub(super) fn sends(number: i64) -> bool {
    SENDING.contains(&number)
}

/// True if a call sends a message of this protocol that changes something, or more than is looked at.
pub(super) fn sends_change(tid: i32, number: i64, args: &[u64; 6], protocol: i32) -> bool {
    let sent = match number {
        libc::SYS_write | libc::SYS_sendto => plain(tid, args[1], args[2]),
        libc::SYS_writev => gathered(tid, args[1], args[2]),
        libc::SYS_sendmsg => message(tid, args[1]),
        libc::SYS_sendmmsg => (0..args[2].min(MOST_PIECES))
            .map(|n| message(tid, args[1].wrapping_add(n * BATCH_ENTRY)))
            .try_fold(Vec::new(), |mut all, bytes| {
                all.extend(bytes?);
                Some(all)
            }),
        _ => return false,
    };
    sent.is_none_or(|bytes| changes(protocol, &bytes))
}

/// True if one of the messages in `bytes` changes something.
fn changes(protocol: i32, bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while let Some(header) = rest.first_chunk::<HEADER>() {
        let [l0, l1, l2, l3, t0, t1, f0, f1, ..] = *header;
        let length = u32::from_ne_bytes([l0, l1, l2, l3]) as usize;
        let (kind, flags) = (u16::from_ne_bytes([t0, t1]), u16::from_ne_bytes([f0, f1]));
        if is_change(protocol, kind, flags) {
            return true;
        }
        // Each message begins at a multiple of four.
        let next = length.max(HEADER).next_multiple_of(4);
        rest = rest.get(next..).unwrap_or_default();
    }
    false
}

const fn is_change(protocol: i32, kind: u16, flags: u16) -> bool {
    match protocol {
        _ if kind < FIRST_TYPE => false,
        ROUTE => kind & 3 != 2,
        SOCK_DIAG => kind == SOCK_DESTROY,
        GENERIC => kind != CONTROLLER && flags & DUMP != DUMP,
        _ => true,
    }
}

/// The bytes that thread `tid` sends from `pointer`. `None` if they are too many or cannot be read.
fn plain(tid: i32, pointer: u64, length: u64) -> Option<Vec<u8>> {
    let length = usize::try_from(length).ok().filter(|length| *length <= MOST)?;
    let mut bytes = vec![0; length];
    (read_memory(tid, pointer, &mut bytes).ok()? == length).then_some(bytes)
}

/// The same from `count` pieces, which the array at `pointer` lists.
fn gathered(tid: i32, pointer: u64, count: u64) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    for piece in 0..count.min(MOST_PIECES) {
        let at = pointer.wrapping_add(16 * piece);
        let length = read_u64(tid, at.wrapping_add(8)).ok()?;
        all.extend(plain(tid, read_u64(tid, at).ok()?, length)?);
        if all.len() > MOST {
            return None;
        }
    }
    Some(all)
}

/// The same from a `struct msghdr`.
fn message(tid: i32, header: u64) -> Option<Vec<u8>> {
    let pieces = read_u64(tid, header.wrapping_add(16)).ok()?;
    gathered(tid, pieces, read_u64(tid, header.wrapping_add(24)).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(messages: &[(u16, u16, usize)]) -> Vec<u8> {
        let mut all = Vec::new();
        for &(kind, flags, more) in messages {
            all.extend(((HEADER + more) as u32).to_ne_bytes());
            all.extend(kind.to_ne_bytes());
            all.extend(flags.to_ne_bytes());
            all.resize(all.len() + 8 + more.next_multiple_of(4), 0);
        }
        all
    }

    #[test]
    fn questions_change_nothing() {
        let asks = |protocol, kind, flags| !changes(protocol, &bytes(&[(kind, flags, 3)]));
        // RTM_NEWLINK, DELLINK, GETLINK, SETLINK.
        assert_eq!([16, 17, 18, 19].map(|kind| asks(ROUTE, kind, 0)), [false, false, true, false]);
        assert!(asks(SOCK_DIAG, 20, 0) && !asks(SOCK_DIAG, SOCK_DESTROY, 0));
        assert!(asks(GENERIC, CONTROLLER, 0) && asks(GENERIC, 30, DUMP) && !asks(GENERIC, 30, 1));
        assert!(!asks(libc::NETLINK_NETFILTER, 0x100, DUMP));
        assert!(asks(libc::NETLINK_NETFILTER, 3, 0));
    }

    #[test]
    fn every_message_of_a_call_counts() {
        assert!(changes(ROUTE, &bytes(&[(18, DUMP, 1), (22, DUMP, 5), (17, 0, 0)])));
        assert!(!changes(ROUTE, &bytes(&[(18, DUMP, 1), (22, DUMP, 5)])));
        assert!(!changes(ROUTE, &[]) && !changes(ROUTE, &[1; 15]));
        // A false length does no harm.
        assert!(changes(ROUTE, &[0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]));
    }

    #[test]
    fn pieces_are_put_together() {
        let (own, one, two) = (std::process::id() as i32, [1_u8, 2], [3_u8]);
        let pieces = [one.as_ptr() as u64, 2, two.as_ptr() as u64, 1];
        let header = [0, 0, pieces.as_ptr() as u64, 2, 0, 0, 0];
        assert_eq!(message(own, header.as_ptr() as u64), Some(vec![1, 2, 3]));
        assert_eq!(plain(own, one.as_ptr() as u64, u64::MAX), None);
    }
}
