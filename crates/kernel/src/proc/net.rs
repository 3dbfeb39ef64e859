//! `/proc/PID/net`: the listening sockets in the network namespace of a process, and which process holds
//! them.
//!
//! `tcp` and `tcp6` show addresses as words in the host's byte order (net/ipv4/tcp_ipv4.c). `unix` marks a
//! listener by `__SO_ACCEPTCON` and ends each line with the bound path. The inode of a socket is the one that
//! `/proc/PID/fd` shows, and is unique on the machine across namespaces. Every account may read these files;
//! only root may read the descriptors of another account's process.
//!
//! Not seen: datagram sockets, which never listen. A Unix socket that was bound by a relative path shows that
//! path. Cost: some 10 us, and 1 us for each socket of the namespace.

use super::fd::{self, DescriptorTarget};
use super::{fields, hex, lines, number, pid_path, read_bytes, stat, tree};
use crate::error::SysError;
use std::ffi::OsStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// `TCP_LISTEN` of <net/tcp_states.h>, and `__SO_ACCEPTCON` of <linux/net.h>.
const LISTEN: u64 = 0x0a;
const ACCEPTS: u64 = 1 << 16;

/// Address of a listening socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddress {
    Tcp(SocketAddr),
    /// A path; an abstract name begins with the `@` that the kernel writes.
    Unix(PathBuf),
}

/// A listening socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListeningSocket {
    pub address: ListenAddress,
    pub inode: u64,
}

/// The listeners in the network namespace of process `pid`.
///
/// # Errors
/// When `/proc/PID/net` cannot be read. A protocol that the kernel lacks has no listeners.
pub fn listeners(pid: i32) -> Result<Vec<ListeningSocket>, SysError> {
    let read = |name: &str| match read_bytes(pid_path(pid, &format!("net/{name}"))) {
        Err(error) if error.errno() == Some(libc::ENOENT) && stat::read(pid).is_ok() => {
            Ok(Vec::new())
        }
        read => read,
    };
    let tcp = [parse_tcp(&read("tcp")?), parse_tcp(&read("tcp6")?)].concat();
    Ok([tcp, parse_unix(&read("unix")?)].concat())
}

/// The network namespace of process `pid`, as a number.
///
/// # Errors
/// When this account may not examine the process, or it has ended.
pub fn namespace(pid: i32) -> Result<u64, SysError> {
    let path = pid_path(pid, "ns/net");
    let found = std::fs::metadata(&path).map_err(|e| SysError::new("stat", path, e))?;
    Ok(std::os::unix::fs::MetadataExt::ino(&found))
}

/// The inodes of all sockets of process `pid`.
///
/// # Errors
/// When this account may not read its descriptors, or it has ended.
pub fn sockets(pid: i32) -> Result<Vec<u64>, SysError> {
    let inode = |one: fd::OpenDescriptor| match one.target {
        DescriptorTarget::Socket(inode) => Some(inode),
        _ => None,
    };
    Ok(fd::list(pid)?.into_iter().filter_map(inode).collect())
}

/// A process that holds this socket; `None` if this account sees none.
#[must_use]
pub fn holder(inode: u64) -> Option<i32> {
    let holds = |pid: &i32| sockets(*pid).is_ok_and(|all| all.contains(&inode));
    tree::all().ok()?.into_iter().find(holds)
}

/// Parses the listeners in the text of `tcp` or `tcp6`.
#[must_use]
pub fn parse_tcp(text: &[u8]) -> Vec<ListeningSocket> {
    let listener = |line: &[u8]| {
        let words: Vec<&[u8]> = fields(line).collect();
        let listens = hex(words.get(3)?)? == LISTEN;
        let address = ListenAddress::Tcp(address(words.get(1)?)?);
        listens.then_some(ListeningSocket { address, inode: number(words.get(9)?)? })
    };
    lines(text).filter_map(listener).collect()
}

fn address(text: &[u8]) -> Option<SocketAddr> {
    let (host, port) = text.split_at_checked(text.len().checked_sub(5)?)?;
    let port = u16::try_from(hex(port.strip_prefix(b":")?)?).ok()?;
    let word = |text: &[u8]| Some(u32::try_from(hex(text)?).ok()?.to_ne_bytes());
    let words = host.chunks(8).map(word).collect::<Option<Vec<_>>>()?;
    let host = match words.as_slice() {
        [four] => IpAddr::V4(Ipv4Addr::from(*four)),
        [_, _, _, _] => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(words.concat()).ok()?)),
        _ => return None,
    };
    Some(SocketAddr::new(host, port))
}

/// Parses the listeners with a name in the text of `unix`.
#[must_use]
pub fn parse_unix(text: &[u8]) -> Vec<ListeningSocket> {
    let listener = |line: &[u8]| {
        let words: Vec<&[u8]> = fields(line).take(7).collect();
        let [_, _, _, flags, _, _, inode] = words[..] else { return None };
        // The path follows the inode after one blank, and may contain blanks.
        let start = inode.as_ptr() as usize - line.as_ptr() as usize + inode.len() + 1;
        let path = line.get(start..).filter(|path| !path.is_empty())?;
        let address = ListenAddress::Unix(PathBuf::from(OsStr::from_bytes(path)));
        (hex(flags)? & ACCEPTS != 0).then_some(ListeningSocket { address, inode: number(inode)? })
    };
    lines(text).filter_map(listener).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::own_pid;
    use proptest::prelude::*;
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;

    #[test]
    fn our_own_listeners_are_found_with_their_holder() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a name with  blanks");
        let _unix = UnixListener::bind(&path).unwrap();
        let mut wanted = vec![ListenAddress::Unix(path)];
        let mut open = Vec::new();
        for any in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"] {
            // A machine without IPv6 shows none.
            let Ok(listener) = TcpListener::bind(any) else { continue };
            wanted.push(ListenAddress::Tcp(listener.local_addr().unwrap()));
            open.push(listener);
        }
        let connected = std::net::TcpStream::connect(open[0].local_addr().unwrap()).unwrap();
        let found = listeners(own_pid()).unwrap();
        let own = sockets(own_pid()).unwrap();
        for address in wanted {
            let at = |one: &&ListeningSocket| one.address == address;
            let listener = found.iter().find(at).unwrap_or_else(|| panic!("{address:?}"));
            assert!(own.contains(&listener.inode), "{listener:?}");
            assert!(holder(listener.inode).is_some());
        }
        let end = ListenAddress::Tcp(connected.local_addr().unwrap());
        assert!(
            found.iter().all(|one| one.address != end),
            "it is connected and listens to nobody"
        );
        assert_eq!(namespace(own_pid()).unwrap(), namespace(own_pid()).unwrap());
    }

    #[test]
    fn lines_of_both_forms_are_read() {
        let word = |bytes: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(bytes));
        let local = word([127, 0, 0, 1]);
        let six = format!("{0}{0}{0}{1}", word([0; 4]), word([0, 0, 0, 1]));
        let line = |address: &str, state: &str| {
            format!("   0: {address}:1F90 {local}:0000 {state} 0:0 00:0 0 1000 0 77 1 0 100 0\n")
        };
        let text = ["  sl  local_address\n", &line(&local, "0A"), &line(&local, "01")].concat();
        let at = |address: &str, inode| ListeningSocket {
            address: ListenAddress::Tcp(address.parse().unwrap()),
            inode,
        };
        assert_eq!(parse_tcp(text.as_bytes()), [at("127.0.0.1:8080", 77)]);
        assert_eq!(parse_tcp(line(&six, "0A").as_bytes()), [at("[::1]:8080", 77)]);
        let unix = b"Num RefCount\n0: 00000002 00000000 00010000 0001 01 9 /a b\n\
                     1: 00000003 00000000 00000000 0001 03 8 /a b\n2: 2 0 00010000 1 1 7\n";
        let address = ListenAddress::Unix("/a b".into());
        assert_eq!(parse_unix(unix), [ListeningSocket { address, inode: 9 }]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_accepted(text: Vec<u8>) {
            let _ = (parse_tcp(&text), parse_unix(&text));
        }
        #[test]
        fn any_near_miss_is_accepted(text in "( {0,2}[0-9A-F:]{0,40}){0,11}") {
            let _ = (parse_tcp(text.as_bytes()), parse_unix(text.as_bytes()));
        }
    }
}
