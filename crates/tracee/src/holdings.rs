//! Memory that a tree holds without mapping it: memfds, tmpfs files, and the content of pipes.
//!
//! Memory of unrelated processes must never count. So a file counts only if all of this holds: it exists in
//! memory only; it was made after the program started; its owner is the user of the process that holds it;
//! that process may write to it. Before it decides a run, no visible process outside the tree may have it
//! open or mapped. A tmpfs file that was once seen like this keeps counting after it is closed, as long as it
//! has its name. For a pipe, the bytes in it count.
//!
//! A pipe is queried through a copy of one of its ends, which is closed at once (`pidfd_getfd(2)`). This is
//! done only if pipes could decide: each pipe of an ordinary user holds at most `pipe-max-size`.
//!
//! Not seen: a file that was opened, filled and closed between two looks; a file in a tmpfs that the program
//! mounted itself; tmpfs files before Linux 5.19; descriptors in transit through a socket, and other data in
//! sockets; System V segments that are not attached; what processes hold that this account may not trace.
//!
//! Cost: 3 us per descriptor of the tree. After a look, the next one waits for at least twenty times its
//! duration.

use pagewise_kernel::proc::held::{self, DescriptorMemory, Device, FileId, MemoryFile};
use pagewise_kernel::proc::{maps, own_pid, smaps, status, tree};
use pagewise_kernel::{pidfd, pipe};
use pagewise_model::units::{Bytes, Nanos};
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Minimum pause after a look, as a multiple of its duration.
const REST: u32 = 20;

/// A file's birth time may be this much older than the clock: the kernel takes it from its last tick.
const TICK: Duration = Duration::from_millis(20);

/// What a tree holds without mapping it.
#[derive(Debug)]
pub(crate) struct UnmappedHoldings {
    since: Nanos,
    devices: Option<HashSet<Device>>,
    /// Files in memory that count: size, and path if it has one.
    files: HashMap<FileId, (Bytes, Option<PathBuf>)>,
    pipes: HashMap<u64, (i32, i32)>,
    next: Option<Instant>,
}

impl UnmappedHoldings {
    /// For a tree that starts now.
    pub(crate) fn from_now() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let since = Nanos::from(now.saturating_sub(TICK));
        Self { since, devices: None, files: HashMap::new(), pipes: HashMap::new(), next: None }
    }

    /// Looks at the processes `pids`, unless the last look is too recent. Returns the bytes in files.
    pub(crate) fn look(&mut self, pids: &[i32]) -> u64 {
        let begin = Instant::now();
        if self.next.is_none_or(|next| next <= begin) {
            self.find(pids);
            self.next = Some(begin + begin.elapsed() * REST);
        }
        self.files.values().map(|(bytes, _)| bytes.0).sum()
    }

    fn find(&mut self, pids: &[i32]) {
        let own = || held::memory_devices(own_pid()).unwrap_or_default();
        let devices = self.devices.get_or_insert_with(own);
        let mut now = DescriptorMemory::default();
        let mut files = HashMap::new();
        for pid in pids {
            let mut held = DescriptorMemory::default();
            held.add(*pid, devices);
            let user = status::read(*pid).ok().and_then(|status| status.euid);
            let counts = |file: &MemoryFile| {
                let is_new = file.born.is_some_and(|born| born >= self.since);
                is_new && file.writable && Some(file.uid) == user
            };
            held.files.retain(|_, file| counts(file));
            files.extend(held.files.into_iter().map(|(id, f)| (id, (f.allocated, f.path))));
            now.pipes.extend(held.pipes);
        }
        for (id, (_, path)) in std::mem::take(&mut self.files) {
            let Some(path) = path.filter(|_| !files.contains_key(&id)) else { continue };
            if let Some(bytes) = held::allocated(&path, id) {
                files.insert(id, (bytes, Some(path)));
            }
        }
        self.files = files;
        self.pipes = now.pipes;
    }

    /// The bytes in pipes; 0 without a look if they cannot exceed `room`.
    pub(crate) fn in_pipes(&self, room: u64) -> u64 {
        let is_bounded = !rustix::process::geteuid().is_root();
        let most = pipe::max_size().map_or(u64::MAX, |size| size.0);
        if is_bounded && most.saturating_mul(self.pipes.len() as u64) <= room {
            return 0;
        }
        self.pipes.iter().filter_map(|(inode, (pid, fd))| content(*inode, *pid, *fd)).sum()
    }

    /// The bytes in files that `pids` do not map and that no process outside the tree holds.
    pub(crate) fn unmapped(&self, pids: &[i32]) -> u64 {
        let mut own: HashMap<FileId, u64> =
            self.files.iter().map(|(id, (bytes, _))| (*id, bytes.0)).collect();
        if own.is_empty() {
            return 0;
        }
        for entry in pids.iter().flat_map(|pid| smaps::read(*pid).unwrap_or_default()) {
            let id = (entry.mapping.device, entry.mapping.inode);
            if let Some(left) = own.get_mut(&id) {
                *left = left.saturating_sub(entry.residency.pss.0);
            }
        }
        let tree: HashSet<i32> = pids.iter().copied().collect();
        for pid in tree::all().unwrap_or_default().into_iter().filter(|pid| !tree.contains(pid)) {
            let mut stranger = DescriptorMemory::default();
            stranger.add(pid, self.devices.as_ref().unwrap_or(&HashSet::new()));
            own.retain(|id, _| !stranger.files.contains_key(id));
            for mapping in maps::read(pid).unwrap_or_default() {
                own.remove(&(mapping.device, mapping.inode));
            }
        }
        own.values().sum()
    }
}

/// The bytes in the pipe with this inode, which descriptor `fd` of process `pid` referred to.
fn content(inode: u64, pid: i32, fd: i32) -> Option<u64> {
    let process = pidfd::open(pid).ok()?;
    let end = pidfd::get_fd(&process, fd).ok()?;
    let is_it = rustix::fs::fstat(&end).is_ok_and(|stat| stat.st_ino == inode);
    if is_it { rustix::io::ioctl_fionread(&end).ok() } else { None }
}
