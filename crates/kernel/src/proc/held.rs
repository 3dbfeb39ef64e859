//! Memory that processes hold through descriptors, mapped or not: tmpfs files, memfds, and pipes.
//!
//! `statx(2)` through `/proc/PID/fd/N` returns device, inode and allocated blocks. It requests only locally
//! known data (`AT_STATX_DONT_SYNC`), so a network file system that hangs cannot block this process.
//! `/proc/PID/mountinfo` shows which devices are in memory. A memfd of this process shows the device of
//! memfds, whose mount is in no list.
//!
//! Needs the right to trace the process. Cost: about 3 us per descriptor.

use super::{fields, lines, number, pid_path, read_bytes};
use crate::error::SysError;
use pagewise_model::{Bytes, Nanos};
use rustix::fs::{AtFlags, CWD, FileType, MemfdFlags, Mode, Statx, StatxFlags};
use std::collections::{HashMap, HashSet};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Major and minor number of a device.
pub type Device = (u32, u32);

/// Identity of a file: device and inode.
pub type FileId = (Device, u64);

/// Unit of `st_blocks` in bytes.
const BLOCK: u64 = 512;

/// A file whose content exists only in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryFile {
    /// Bytes allocated for it, mapped or not.
    pub allocated: Bytes,
    /// Its owner.
    pub uid: u32,
    /// Creation time by the wall clock; `None` before Linux 5.19.
    pub born: Option<Nanos>,
    /// Some descriptor may write to it.
    pub writable: bool,
    /// The name that it was opened by, if it still has that name.
    pub path: Option<PathBuf>,
}

/// What one or more processes hold.
#[derive(Debug, Default)]
pub struct DescriptorMemory {
    pub files: HashMap<FileId, MemoryFile>,
    /// Pipes by inode, each with one holder: process and descriptor.
    pub pipes: HashMap<u64, (i32, i32)>,
}

impl DescriptorMemory {
    /// Adds what process `pid` holds on these devices. A process that has ended holds nothing.
    pub fn add(&mut self, pid: i32, devices: &HashSet<Device>) {
        let Ok(entries) = std::fs::read_dir(pid_path(pid, "fd")) else { return };
        for link in entries.flatten().map(|entry| entry.path()) {
            let Some(stat) = stat(&link) else { continue };
            let id = id(&stat);
            match FileType::from_raw_mode(stat.stx_mode.into()) {
                FileType::Fifo => {
                    if let Some(fd) = link.file_name().and_then(|name| number(name.as_bytes())) {
                        self.pipes.entry(id.1).or_insert((pid, fd));
                    }
                }
                FileType::RegularFile if devices.contains(&id.0) => {
                    let file = memory_file(&stat, &link);
                    let known = self.files.entry(id).or_insert_with(|| file.clone());
                    known.writable |= file.writable;
                }
                _ => {}
            }
        }
    }
}

/// Bytes allocated for the file at `path`, if it is still the file `meant`.
#[must_use]
pub fn allocated(path: &Path, meant: FileId) -> Option<Bytes> {
    let stat = stat(path).filter(|stat| id(stat) == meant)?;
    Some(Bytes(stat.stx_blocks.saturating_mul(BLOCK)))
}

/// The devices whose files exist only in memory, according to the mounts that process `pid` sees.
pub fn memory_devices(pid: i32) -> Result<HashSet<Device>, SysError> {
    let mut devices = tmpfs_devices(&read_bytes(pid_path(pid, "mountinfo"))?);
    let fail = |call| move |e| SysError::new(call, "a memfd", e);
    let own =
        rustix::fs::memfd_create(c"pagewise", MemfdFlags::CLOEXEC).map_err(fail("memfd_create"))?;
    let own = rustix::fs::fstat(&own).map_err(fail("fstat"))?;
    devices.insert((rustix::fs::major(own.st_dev), rustix::fs::minor(own.st_dev)));
    Ok(devices)
}

fn tmpfs_devices(mountinfo: &[u8]) -> HashSet<Device> {
    let device = |line: &[u8]| {
        let text = String::from_utf8_lossy(line);
        let (left, right) = text.split_once(" - ")?;
        let (major, minor) = left.split(' ').nth(2)?.split_once(':')?;
        let is_tmpfs = fields(right.as_bytes()).next()? == b"tmpfs";
        is_tmpfs.then_some((major.parse().ok()?, minor.parse().ok()?))
    };
    lines(mountinfo).filter_map(device).collect()
}

fn stat(path: &Path) -> Option<Statx> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    rustix::fs::statx(CWD, path, AtFlags::STATX_DONT_SYNC, wanted).ok()
}

const fn id(stat: &Statx) -> FileId {
    ((stat.stx_dev_major, stat.stx_dev_minor), stat.stx_ino)
}

fn memory_file(stat: &Statx, link: &Path) -> MemoryFile {
    let may_write = Mode::WUSR.bits();
    let mode = link.symlink_metadata().map_or(0, |m| m.permissions().mode());
    let has_btime = stat.stx_mask & StatxFlags::BTIME.bits() != 0;
    let born = u64::try_from(stat.stx_btime.tv_sec).unwrap_or(0).saturating_mul(1_000_000_000);
    let path = std::fs::read_link(link).ok().filter(|path| allocated(path, id(stat)).is_some());
    MemoryFile {
        allocated: Bytes(stat.stx_blocks.saturating_mul(BLOCK)),
        uid: stat.stx_uid,
        born: has_btime.then(|| Nanos(born + u64::from(stat.stx_btime.tv_nsec))),
        writable: mode & may_write != 0,
        path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::own_pid;
    use std::io::Write;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_memfd_and_a_pipe_of_our_own_are_found() {
        let devices = memory_devices(own_pid()).unwrap();
        let memfd = rustix::fs::memfd_create(c"x", MemfdFlags::CLOEXEC).unwrap();
        let mut file = std::fs::File::from(memfd);
        file.write_all(&vec![1; 300_000]).unwrap();
        let (reader, writer) = crate::pipe::pipe().unwrap();
        let mut held = DescriptorMemory::default();
        held.add(own_pid(), &devices);
        let stat = stat(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd()))).unwrap();
        let found = &held.files[&id(&stat)];
        assert!(found.allocated >= Bytes(300_000) && found.writable && found.path.is_none());
        let pipe = rustix::fs::fstat(&reader).unwrap().st_ino;
        let (pid, fd) = held.pipes[&pipe];
        assert!(pid == own_pid() && [reader.as_raw_fd(), writer.as_raw_fd()].contains(&fd));
        assert!(allocated(Path::new("/proc/self/maps"), id(&stat)).is_none());
    }

    #[test]
    fn mounts_of_tmpfs_are_distinguished_from_others() {
        let text = b"25 30 0:23 / /dev/shm rw,nosuid shared:4 - tmpfs tmpfs rw,size=1k\n\
                     26 30 8:1 / / rw - ext4 /dev/sda1 rw\n27 30 0:6 / /dev rw - devtmpfs x rw\nx\n";
        assert_eq!(tmpfs_devices(text), HashSet::from([(0, 23)]));
        assert!(tmpfs_devices(b"\xff - tmpfs").is_empty());
    }
}
