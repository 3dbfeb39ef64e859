//! Input from a pipe that must be read twice: it is first copied to a file without a name.
//!
//! The file lies in a directory for temporary files, on a disk if possible (`TMPDIR`, `/var/tmp`, `/tmp`),
//! and disappears when it is closed (`O_TMPFILE`). It takes at most half of the free space there, and at most
//! 8 GiB. Cost: one copy.

use rustix::fs::{MemfdFlags, Mode, OFlags, fstatvfs, memfd_create, open};
use std::fs::File;
use std::io::{Read, Write};
use std::path::PathBuf;

/// The most that is kept, in a file and in memory.
const MOST: u64 = 8 << 30;
const MOST_IN_MEMORY: u64 = 256 << 20;
/// Bytes copied at a time.
const PIECE: usize = 1 << 18;

/// The whole input, as a file that can be read again.
///
/// # Errors
/// A sentence: it is too large, or cannot be read or written.
pub(super) fn spool(from: impl Read) -> Result<File, String> {
    let (file, room) = place().map_err(|error| format!("no temporary file for it: {error}"))?;
    copy(from, file, room)
}

/// An empty file, and how much it may take.
fn place() -> rustix::io::Result<(File, u64)> {
    let given = std::env::var_os("TMPDIR").map(PathBuf::from);
    let places = given.into_iter().chain(["/var/tmp", "/tmp"].map(PathBuf::from));
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    for place in places {
        if let Ok(file) = open(place, flags, Mode::RUSR | Mode::WUSR) {
            let free = fstatvfs(&file).map_or(0, |system| system.f_bavail * system.f_frsize / 2);
            return Ok((File::from(file), free.min(MOST)));
        }
    }
    Ok((File::from(memfd_create("profile", MemfdFlags::CLOEXEC)?), MOST_IN_MEMORY))
}

fn copy(mut from: impl Read, mut to: File, room: u64) -> Result<File, String> {
    let mut left = room;
    let mut piece = vec![0; PIECE];
    loop {
        let length = match from.read(&mut piece) {
            Ok(0) => return Ok(to),
            Ok(length) => length,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.to_string()),
        };
        let rest = left.checked_sub(length as u64);
        left = rest.ok_or_else(|| {
            format!("from a pipe it may have {room} bytes, half of what is free for temporary files: write it to a file first")
        })?;
        to.write_all(&piece[..length])
            .map_err(|e| format!("cannot copy it to a temporary file: {e}"))?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn all_of_it_is_kept_up_to_the_limit() {
        let (file, room) = place().unwrap();
        assert!(room > 0 && room <= MOST);
        let kept = copy(&[7; 3 * PIECE][..], file, 3 * PIECE as u64).unwrap();
        let mut last = [0];
        kept.read_exact_at(&mut last, 3 * PIECE as u64 - 1).unwrap();
        assert_eq!((last, kept.metadata().unwrap().len()), ([7], 3 * PIECE as u64));
        let why = copy(std::io::repeat(7), kept, 5).unwrap_err();
        assert!(why.contains("may have 5 bytes"), "{why}");
    }
}
