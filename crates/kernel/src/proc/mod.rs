//! Files under `/proc`: one pure parser on bytes per file, and a small reader beside it.
//!
//! Parsers take the bytes of the file and accept any input: what they do not understand is left out or
//! reported as malformed, and nothing panics. Field meanings: `proc(5)` and
//! `Documentation/filesystems/proc.rst`. Reading one file costs 5-50 us (`smaps` more: it walks the page
//! tables, about 1 us per resident MiB).

pub mod buddyinfo;
pub mod cpuinfo;
pub mod fd;
pub mod held;
pub mod holders;
pub mod image;
pub mod io;
pub mod maps;
pub mod meminfo;
pub mod net;
pub mod pagetypeinfo;
pub mod pressure;
pub mod schedstat;
pub mod smaps;
pub mod stat;
pub mod status;
pub mod system_stat;
pub mod tree;
pub mod vmstat;

use crate::error::SysError;
use pagewise_model::Bytes;
use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The process id of the calling process.
#[must_use]
pub fn own_pid() -> i32 {
    std::process::id().cast_signed()
}

/// The process group of the calling process; 0 if its leader is outside this process namespace.
/// `rustix::process::getpgrp` has no value for that case.
#[must_use]
pub fn own_group() -> i32 {
    // SAFETY: getpgrp has no preconditions.
    unsafe { libc::getpgrp() }
}

/// The content of a file that the kernel generates when it is read. Its size is not known before, so none is
/// asked for: two reads suffice for most.
pub fn read_bytes(path: impl AsRef<Path>) -> Result<Vec<u8>, SysError> {
    const USUAL: usize = 4 << 10;
    let path = path.as_ref();
    let fail = |e| SysError::new("read", path.display().to_string(), e);
    let mut bytes = Vec::with_capacity(USUAL);
    File::open(path).map_err(fail)?.take(u64::MAX).read_to_end(&mut bytes).map_err(fail)?;
    Ok(bytes)
}

/// The trimmed text of a one-line file such as those under `/sys`.
pub fn read_text(path: impl AsRef<Path>) -> Result<String, SysError> {
    read_bytes(path).map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// The number in a one-line file.
pub fn read_number(path: impl AsRef<Path>) -> Result<i64, SysError> {
    let path = path.as_ref();
    let malformed = || SysError::malformed("read", path.display().to_string());
    read_text(path)?.parse().map_err(|_| malformed())
}

/// The arguments of process `pid`, starting with its name; empty if they cannot be read.
#[must_use]
pub fn arguments(pid: i32) -> Vec<String> {
    words(&read_bytes(pid_path(pid, "cmdline")).unwrap_or_default())
}

/// The initial environment of process `pid`; empty if it cannot be read.
#[must_use]
pub fn environment(pid: i32) -> Vec<(OsString, OsString)> {
    let text = read_bytes(pid_path(pid, "environ")).unwrap_or_default();
    let value = |entry: &[u8]| {
        let at = entry.iter().position(|byte| *byte == b'=').filter(|at| *at > 0)?;
        let part = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        Some((part(&entry[..at]), part(&entry[at + 1..])))
    };
    text.split(|byte| *byte == 0).filter_map(value).collect()
}

/// Each word ends with a NUL; text after the last NUL is dropped.
fn words(text: &[u8]) -> Vec<String> {
    if text.is_empty() {
        return Vec::new();
    }
    let words = text.strip_suffix(b"\0").unwrap_or(text).split(|byte| *byte == 0);
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

pub(crate) fn pid_path(pid: i32, file: &str) -> String {
    format!("/proc/{pid}/{file}")
}

/// Words of 8 bytes, from index `first` on, in a file that is an array of them; fewer at its end.
pub(crate) fn read_words(
    file: &File,
    path: &str,
    first: u64,
    count: usize,
) -> Result<Vec<u64>, SysError> {
    const WORD: usize = size_of::<u64>();
    let mut bytes = vec![0; count * WORD];
    let mut filled = 0;
    while filled < bytes.len() {
        let at = first.saturating_mul(WORD as u64).saturating_add(filled as u64);
        match file.read_at(&mut bytes[filled..], at) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(SysError::new("read", path, e)),
        }
    }
    let words = bytes[..filled].as_chunks::<WORD>().0;
    Ok(words.iter().map(|word| u64::from_ne_bytes(*word)).collect())
}

/// Lines without their line feed.
pub(crate) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&b| b == b'\n')
}

/// Fields between blanks.
pub(crate) fn fields(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|b| b.is_ascii_whitespace()).filter(|f| !f.is_empty())
}

/// Splits a line `name: value` into its two trimmed parts.
pub(crate) fn named(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.iter().position(|&b| b == b':')?;
    Some((line[..colon].trim_ascii(), line[colon + 1..].trim_ascii()))
}

pub(crate) fn number<T: std::str::FromStr>(field: &[u8]) -> Option<T> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

pub(crate) fn hex(field: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(field).ok()?, 16).ok()
}

/// Parses a value such as `1740 kB`.
pub(crate) fn kilobytes(value: &[u8]) -> Option<Bytes> {
    let count: u64 = number(fields(value).next()?)?;
    count.checked_mul(1024).map(Bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_all_that_there_are() {
        assert_eq!(words(b"sh\0-c\0\0x\0\0"), ["sh", "-c", "", "x", ""]);
        assert_eq!(words(b"another title"), ["another title"]);
        assert!(words(b"").is_empty() && arguments(i32::MAX).is_empty());
        assert_eq!(arguments(own_pid()), std::env::args().collect::<Vec<_>>());
    }

    #[test]
    fn the_environment_of_a_process_is_that_of_its_start() {
        let own = environment(own_pid());
        let path = |vars: &[(OsString, OsString)]| {
            vars.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone())
        };
        assert_eq!(path(&own), std::env::var_os("PATH"));
        assert!(environment(i32::MAX).is_empty());
    }

    #[test]
    fn fields_and_numbers() {
        assert_eq!(named(b"VmRSS:\t  12 kB"), Some((&b"VmRSS"[..], &b"12 kB"[..])));
        assert_eq!(kilobytes(b"12 kB"), Some(Bytes::kib(12)));
        assert_eq!(kilobytes(b"99999999999999999999 kB"), None);
        assert_eq!(kilobytes(b""), None);
        assert_eq!(hex(b"ff"), Some(255));
        assert_eq!(named(b"no colon"), None);
    }
}
