//! Descriptors whose every use must be seen, whatever their number: sockets for netlink, and copies of a
//! standard input that has ended (`input`).
//!
//! The filter knows a descriptor only by its number. So a process that holds one of these (other than
//! standard input as descriptor 0) is watched closely: it stops at every call, until it holds none. Each is
//! identified by device and inode. Cost: two stops for each call of such a process.
//!
//! Not seen: a use by another thread in a call that began before the process got the descriptor.

use super::effects::CallIntent;
use super::input::{self, DescriptorUse};
use super::netlink;
use super::place::{Identity, identity};
use std::collections::{HashMap, HashSet};
use std::fs;

/// Such descriptors that the tree has.
#[derive(Debug, Default)]
pub(super) struct TreeDescriptors {
    /// The standard input that stands in for another.
    input: Option<Identity>,
    /// Sockets for netlink and their protocols.
    netlink: HashMap<Identity, i32>,
    /// Processes that hold one.
    closely: HashSet<i32>,
}

impl TreeDescriptors {
    /// Creates the state for the tree of `root`, whose standard input is a stand-in if it `has_ended`.
    pub(super) fn new(root: i32, has_ended: bool) -> Self {
        let input = if has_ended { identity_of(root, 0) } else { None };
        Self { input, ..Self::default() }
    }

    /// Whether process `pid` is to stop at every call.
    pub(super) fn closely(&self, pid: i32) -> bool {
        self.closely.contains(&pid)
    }

    /// Looks what process `pid` holds: it is new, has become another program, or has closed something.
    pub(super) fn look(&mut self, pid: i32) {
        if self.closely.is_empty() {
            return;
        }
        let listed = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let mut numbers = listed.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let holds = |fd: i32| {
            let found = identity_of(pid, fd);
            found.is_some_and(|found| self.netlink.contains_key(&found))
                || (fd != 0 && found.is_some() && found == self.input)
        };
        if numbers.any(holds) {
            self.closely.insert(pid);
        } else {
            self.closely.remove(&pid);
        }
    }

    /// Process `pid` has a new socket `fd` for netlink of this protocol.
    pub(super) fn add_netlink(&mut self, pid: i32, fd: i32, protocol: i32) {
        if let Some(socket) = identity_of(pid, fd) {
            self.netlink.insert(socket, protocol);
            self.closely.insert(pid);
        }
    }

    /// The call with which thread `tid` of process `pid` will use standard input, if that is a stand-in for
    /// input that can be read only once.
    pub(super) fn uses_input(
        &mut self,
        tid: i32,
        pid: i32,
        number: i64,
        args: &[u64; 6],
    ) -> Option<&'static str> {
        let input = self.input?;
        match input::used(tid, number, args)? {
            DescriptorUse::Copies(fd) => {
                if identity_of(tid, fd) == Some(input) {
                    self.closely.insert(pid);
                }
                None
            }
            DescriptorUse::Opens(found) => (found == input).then_some("open"),
            DescriptorUse::Reads(name, fds) => {
                let may_be = |fd: &i32| *fd == 0 || self.closely(pid);
                fds.into_iter()
                    .filter(may_be)
                    .any(|fd| identity_of(tid, fd) == Some(input))
                    .then_some(name)
            }
        }
    }

    /// The effect of what a call sends by netlink. `None` if it changes nothing.
    pub(super) fn sends(&self, tid: i32, number: i64, args: &[u64; 6]) -> Option<CallIntent> {
        if self.netlink.is_empty() || !netlink::sends(number) {
            return None;
        }
        let protocol = *self.netlink.get(&identity_of(tid, args[0] as i32)?)?;
        let changes = netlink::sends_change(tid, number, args, protocol);
        let intent = || CallIntent::on("changed the network by netlink", netlink::name(protocol));
        changes.then(intent)
    }
}

/// What descriptor `fd` of thread `tid` leads to.
fn identity_of(tid: i32, fd: i32) -> Option<Identity> {
    fs::metadata(format!("/proc/{tid}/fd/{fd}")).ok().map(|meta| identity(&meta))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_kernel::pipe::pipe;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_copy_of_standard_input_is_looked_at_closely() {
        let pid = std::process::id() as i32;
        let ends = pipe().unwrap();
        let fd = ends.0.as_raw_fd();
        let mut all = TreeDescriptors { input: identity_of(pid, fd), ..TreeDescriptors::default() };
        let mut reads = |number, fd: i32| {
            let used = all.uses_input(pid, pid, number, &[fd as u64, 0, 0, 0, 0, 0]);
            (used, all.closely(pid))
        };
        // The filter alone sees only number 0.
        assert_eq!(reads(libc::SYS_read, fd), (None, false));
        assert_eq!(reads(libc::SYS_dup, fd), (None, true));
        assert_eq!(reads(libc::SYS_read, fd), (Some("read"), true));
        assert_eq!(reads(libc::SYS_read, 99_999), (None, true));
        all.look(pid);
        assert!(all.closely(pid));
        drop(ends);
        all.look(pid);
        assert!(!all.closely(pid));
    }
}
