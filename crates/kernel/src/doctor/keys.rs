//! Which segments of System V shared memory have a key that `ftok(3)` makes of a file.
//!
//! A key has 8 bits of the project number, 8 of the device (the low ones of `st_dev`) and 16 of the inode. So
//! two files give the same keys by chance, often in file systems with many files, and a program attaches to
//! the segment of another. Seen are the segments of our own namespace (`/proc/sysvipc/shm`).
//!
//! Not seen: which file a segment was made for, and who will make one later.

use crate::error::SysError;
use crate::proc::{read_text, stat};
use pagewise_model::Bytes;
use pagewise_model::capability::{FtokKeys, KeyedSegment};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The keys of these files, and their segments.
///
/// # Errors
/// When a file cannot be examined or the segments not be listed.
pub fn ftok_keys(paths: &[PathBuf]) -> Result<Vec<FtokKeys>, SysError> {
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    let table = read_text("/proc/sysvipc/shm")?;
    let files: Vec<KeyFile> =
        paths.iter().map(|path| KeyFile::look(path)).collect::<Result<_, _>>()?;
    Ok(files.iter().map(|file| keys(file, &files, &table)).collect())
}

#[derive(Debug, PartialEq, Eq)]
struct KeyFile {
    path: String,
    uid: u32,
    /// Device and inode.
    id: (u64, u64),
}

impl KeyFile {
    fn look(path: &Path) -> Result<Self, SysError> {
        let name = path.display().to_string();
        let found = std::fs::metadata(path).map_err(|e| SysError::new("stat", name.clone(), e))?;
        Ok(Self { path: name, uid: found.uid(), id: (found.dev(), found.ino()) })
    }

    const fn low_bits(&self) -> u32 {
        ((self.id.0 & 0xff) << 16 | (self.id.1 & 0xffff)) as u32
    }
}

fn keys(file: &KeyFile, files: &[KeyFile], table: &str) -> FtokKeys {
    let low_bits = file.low_bits();
    let is_same = |other: &&KeyFile| other.id != file.id && other.low_bits() == low_bits;
    let segments = table.lines().skip(1).filter_map(|line| segment(line, file)).collect();
    let same_as = files.iter().filter(is_same).map(|other| other.path.clone()).collect();
    FtokKeys { path: file.path.clone(), low_bits, same_as, segments }
}

/// A row of the table, if its key is one of the file's (ipc/shm.c, `sysvipc_shm_proc_show`).
fn segment(line: &str, file: &KeyFile) -> Option<KeyedSegment> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |nth: usize| words.get(nth)?.parse::<i64>().ok();
    // A key is printed as a signed number of 32 bits. 0 is IPC_PRIVATE.
    let key = number(0).filter(|key| *key != 0)? as u32;
    let (creator_pid, uid) = (i32::try_from(number(4)?).ok()?, u32::try_from(number(7)?).ok()?);
    (key & 0xff_ffff == file.low_bits()).then(|| KeyedSegment {
        key,
        id: number(1).unwrap_or_default(),
        size_bytes: Bytes(number(3).and_then(|size| u64::try_from(size).ok()).unwrap_or_default()),
        uid,
        creator_pid,
        creator: stat::read(creator_pid).ok().map(|stat| stat.comm),
        is_of_other: uid != file.uid,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(path: &str, device: u64, inode: u64) -> KeyFile {
        KeyFile { path: path.into(), uid: 7, id: (device, inode) }
    }

    #[test]
    fn files_with_the_same_low_bits_share_segments() {
        let key = 0xc112_0005_u32;
        let table = format!(
            "       key      shmid perms size cpid lpid nattch uid gid\n\
             {} 3 600 4096 1 2 0 7 7\n{} 4 600 8192 1 2 0 8 8\n0 5 600 1 1 1 1 7 7\n1 6\n",
            key.cast_signed(),
            key & 0x41ff_ffff
        );
        let files =
            [named("a", 0x812, 0x1_0005), named("b", 0x12, 5), named("a2", 0x812, 0x1_0005)];
        let found = keys(&files[0], &files, &table);
        assert_eq!((found.low_bits, found.same_as), (0x12_0005, vec!["b".to_owned()]));
        let of = |s: &KeyedSegment| (s.key >> 24, s.id, s.size_bytes.0, s.uid, s.is_of_other);
        let segments: Vec<_> = found.segments.iter().map(of).collect();
        assert_eq!(segments, [(0xc1, 3, 4096, 7, false), (0x41, 4, 8192, 8, true)]);
        assert!(keys(&named("c", 0, 9), &files, &table).segments.is_empty());
    }

    #[test]
    fn a_segment_with_a_key_of_the_c_library_is_found() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = std::ffi::CString::new(file.path().as_os_str().as_encoded_bytes()).unwrap();
        // SAFETY: the path is a string that lives through the call.
        let key = unsafe { libc::ftok(path.as_ptr(), 0xc1) };
        let flags = libc::IPC_CREAT | libc::IPC_EXCL | 0o600;
        // SAFETY: a new segment, which nothing attaches to.
        let id = unsafe { libc::shmget(key, 4096, flags) };
        let found = ftok_keys(&[file.path().to_owned()]);
        // SAFETY: removes the segment that was just made.
        let removed = unsafe { libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()) };
        assert!(id >= 0 && removed == 0, "{id} {removed}");
        let [segment] = &found.unwrap()[0].segments[..] else { panic!("one segment") };
        assert_eq!((segment.id, segment.key), (i64::from(id), key.cast_unsigned()));
        assert_eq!((segment.creator_pid, segment.is_of_other), (crate::proc::own_pid(), false));
        assert!(ftok_keys(&[PathBuf::from("/nonexistent")]).is_err());
    }
}
