//! Pipes of the tree, by which process holds which end when it starts to run its program and when it ends.
//!
//! A shell holds both ends of a pipe only until it has forked. The programs it starts hold theirs from exec
//! to exit. So descriptors are read at each exec and each exit: a pipe that one process opens and closes in
//! between is not seen. The capacity is read through a descriptor that is borrowed while the holder is
//! stopped, and closed immediately.

use pagewise_kernel::proc::fd::{self, DescriptorTarget};
use pagewise_model::Bytes;
use pagewise_model::look::{PipeCall, PipeSeen};
use rustix::fs::{Mode, OFlags};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// The pipes so far, and operations that depend on their capacity.
#[derive(Debug, Default)]
pub(super) struct TreePipes {
    inherited: HashSet<u64>,
    found: BTreeMap<u64, PipeSeen>,
    calls: BTreeSet<PipeCall>,
}

impl TreePipes {
    /// All pipes that `pid` holds now come from outside.
    pub(super) fn inherit(&mut self, pid: i32) {
        for descriptor in fd::list(pid).unwrap_or_default() {
            if let DescriptorTarget::Pipe(inode) = descriptor.target {
                self.inherited.insert(inode);
            }
        }
    }

    /// Notes the ends that `pid`, which is stopped, holds.
    pub(super) fn note(&mut self, pid: i32) {
        for descriptor in fd::list(pid).unwrap_or_default() {
            let DescriptorTarget::Pipe(inode) = descriptor.target else { continue };
            let pipe = self.found.entry(inode).or_insert_with(|| PipeSeen {
                inode,
                capacity_bytes: Bytes(0),
                writers: Vec::new(),
                readers: Vec::new(),
                inherited: self.inherited.contains(&inode),
            });
            if descriptor.readable && !pipe.readers.contains(&pid) {
                pipe.readers.push(pid);
            }
            if descriptor.writable && !pipe.writers.contains(&pid) {
                pipe.writers.push(pid);
            }
            if !pipe.inherited {
                let capacity = capacity(pid, descriptor.fd, descriptor.writable);
                pipe.capacity_bytes = pipe.capacity_bytes.max(capacity.unwrap_or(Bytes(0)));
            }
        }
    }

    /// Notes that the call `number` begins: vmsplice, or fcntl with this command.
    pub(super) fn note_call(&mut self, number: i64, command: u64) {
        self.calls.extend(match (number, command as i32) {
            (libc::SYS_vmsplice, _) => Some(PipeCall::Lends),
            (libc::SYS_fcntl, libc::F_GETPIPE_SZ) => Some(PipeCall::AsksCapacity),
            (libc::SYS_fcntl, libc::F_SETPIPE_SZ) => Some(PipeCall::SetsCapacity),
            _ => None,
        });
    }

    /// The calls noted.
    pub(super) fn calls(&self) -> BTreeSet<PipeCall> {
        self.calls.clone()
    }

    /// The pipes, in order of their inodes.
    pub(super) fn into_found(self) -> Vec<PipeSeen> {
        self.found.into_values().collect()
    }
}

fn capacity(pid: i32, number: i32, writable: bool) -> Option<Bytes> {
    let access = if writable { OFlags::WRONLY } else { OFlags::RDONLY };
    let flags = access | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let end = rustix::fs::open(format!("/proc/{pid}/fd/{number}"), flags, Mode::empty()).ok()?;
    rustix::pipe::fcntl_getpipe_size(&end).ok().map(|bytes| Bytes(bytes as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_pipe_is_noted_with_its_capacity() {
        let pid = std::process::id() as i32;
        let mut pipes = TreePipes::default();
        pipes.inherit(pid);
        let (reader, _writer) = std::io::pipe().unwrap();
        let inode = rustix::fs::fstat(&reader).unwrap().st_ino;
        pipes.note(pid);
        let found = pipes.into_found();
        let pipe = found.iter().find(|p| p.inode == inode).unwrap();
        assert_eq!((&pipe.readers[..], &pipe.writers[..]), (&[pid][..], &[pid][..]));
        assert!(pipe.capacity_bytes >= Bytes(4096) && !pipe.inherited);
    }
}
