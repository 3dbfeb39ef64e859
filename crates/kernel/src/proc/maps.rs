//! `/proc/PID/maps`: the mappings of a process, one line each.
//!
//! Addresses are bytes. The kernel writes a line feed in a path as `\012` (fs/proc/task_mmu.c,
//! `show_map_vma`). Each line is consistent in itself; between lines the process may have mapped
//! or unmapped, unless it is stopped.

use super::{fields, hex, lines, number, pid_path, read_bytes};
use crate::error::SysError;
use pagewise_model::Bytes;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// What a mapping permits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct MappingPermissions {
    pub read: bool,
    pub write: bool,
    /// Executing.
    pub exec: bool,
    /// Shared with other processes (`s`), not private (`p`).
    pub shared: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
    /// Permissions.
    pub perms: MappingPermissions,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Device of the file, major and minor number.
    pub device: (u32, u32),
    /// Inode of the file; 0 without a file.
    pub inode: u64,
    /// Path, `[heap]`, `[anon:name]`, ... or empty.
    pub path: OsString,
}

impl Mapping {
    #[must_use]
    pub const fn size(&self) -> Bytes {
        Bytes(self.end - self.start)
    }

    /// Private anonymous memory: heap, stack, named or nameless; not `[vdso]` and the like.
    #[must_use]
    pub fn is_anonymous(&self) -> bool {
        let path = self.path.as_bytes();
        self.inode == 0
            && !self.perms.shared
            && (path.is_empty()
                || path == b"[heap]"
                || path.starts_with(b"[stack")
                || path.starts_with(b"[anon:"))
    }

    /// Backed by a file that has, or once had, a name in the file system.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.inode != 0
    }

    /// True when `address` lies in it.
    #[must_use]
    pub const fn contains(&self, address: u64) -> bool {
        self.start <= address && address < self.end
    }
}

/// Parses the mappings in `text`; skips malformed lines.
#[must_use]
pub fn parse(text: &[u8]) -> Vec<Mapping> {
    lines(text).filter_map(parse_line).collect()
}

/// One line of `maps`, or the first line of an entry of `smaps`.
#[must_use]
pub fn parse_line(line: &[u8]) -> Option<Mapping> {
    let mut parts = line.splitn(6, |&b| b == b' ');
    let range = parts.next()?;
    let dash = range.iter().position(|&b| b == b'-')?;
    let (start, end) = (hex(&range[..dash])?, hex(&range[dash + 1..])?);
    let perms = parse_perms(parts.next()?)?;
    let offset = hex(parts.next()?)?;
    let device = parse_device(parts.next()?)?;
    let inode = number(parts.next()?)?;
    let path = parts.next().map_or_else(OsString::new, parse_path);
    (start <= end).then_some(Mapping { start, end, perms, offset, device, inode, path })
}

fn parse_perms(field: &[u8]) -> Option<MappingPermissions> {
    let &[r, w, x, s] = field else { return None };
    Some(MappingPermissions {
        read: r == b'r',
        write: w == b'w',
        exec: x == b'x',
        shared: s == b's',
    })
}

fn parse_device(field: &[u8]) -> Option<(u32, u32)> {
    let colon = field.iter().position(|&b| b == b':')?;
    let major = u32::try_from(hex(&field[..colon])?).ok()?;
    let minor = u32::try_from(hex(&field[colon + 1..])?).ok()?;
    Some((major, minor))
}

fn parse_path(rest: &[u8]) -> OsString {
    let mut rest = rest.trim_ascii_start();
    let mut path = Vec::with_capacity(rest.len());
    while let Some((&first, tail)) = rest.split_first() {
        if let Some(after) = rest.strip_prefix(b"\\012") {
            path.push(b'\n');
            rest = after;
        } else {
            path.push(first);
            rest = tail;
        }
    }
    OsString::from_vec(path)
}

/// The mappings of process `pid`.
pub fn read(pid: i32) -> Result<Vec<Mapping>, SysError> {
    read_bytes(pid_path(pid, "maps")).map(|text| parse(&text))
}

/// True if the line begins an entry (an address range), not a `Name: value` line of `smaps`.
pub(super) fn is_head(line: &[u8]) -> bool {
    fields(line).next().is_some_and(|f| f.contains(&b'-') && !f.ends_with(b":"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const X86: &[u8] = include_bytes!("../../../../fixtures/proc/x86_64-maps");
    const ARM: &[u8] = include_bytes!("../../../../fixtures/proc/aarch64-64k-maps");

    #[test]
    fn reads_recorded_maps() {
        let maps = parse(X86);
        assert_eq!(maps.len(), X86.iter().filter(|&&b| b == b'\n').count());
        let heap = maps.iter().find(|m| m.path == "[heap]").unwrap();
        assert!(heap.is_anonymous() && !heap.is_file() && heap.perms.write);
        let text = maps.iter().find(|m| m.perms.exec && m.is_file()).unwrap();
        assert!(text.contains(text.start) && !text.contains(text.end));
        assert!(!maps.iter().find(|m| m.path == "[vdso]").unwrap().is_anonymous());
    }

    #[test]
    fn ranges_of_64k_pages() {
        let maps = parse(ARM);
        assert_eq!(maps[0].size(), Bytes::kib(128));
        assert!(maps.iter().all(|m| m.start % Bytes::kib(64).0 == 0));
    }

    #[test]
    fn paths_with_blanks_and_escapes() {
        let line = b"1000-2000 r--s 00001000 fe:0a 42                  /tmp/a b\\012c (deleted)";
        let map = parse_line(line).unwrap();
        assert_eq!(map.path, "/tmp/a b\nc (deleted)");
        assert_eq!((map.device, map.inode, map.offset), ((0xfe, 0x0a), 42, 0x1000));
        assert!(map.perms.shared && !map.is_anonymous());
        assert!(parse_line(b"2000-1000 r--s 0 0:0 0").is_none());
    }

    proptest! {
        #[test]
        fn any_bytes_are_accepted(text: Vec<u8>) {
            let _ = parse(&text);
        }
        #[test]
        fn any_near_miss_is_accepted(text in "[0-9a-f -]{0,20} [rwxps-]{0,5} [0-9a-f: ]{0,12} .{0,9}") {
            let _ = parse(text.as_bytes());
        }
    }
}
