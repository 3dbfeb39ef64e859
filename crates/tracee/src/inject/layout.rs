//! Mappings of the target as injection needs them, from `/proc/PID/maps` (proc(5)). Also finds the two places
//! in its code that a call runs through: a `syscall; ret` and a signal restorer. The `syscall; ret` is in the
//! vDSO if possible, otherwise in the C library, the program or another file.
//!
//! A restorer is the two instructions `mov $15, %eax; syscall` (`rt_sigreturn`): `__restore_rt` in glibc and
//! musl, `sigreturn` in the Go runtime. Any place with these bytes serves. The search reads executable
//! mappings while the target runs. Its result is cached per file, and the bytes are compared again before
//! use. If they differ (another file of the same name and inode), the search runs again. Cost: about 1 ms per
//! 10 MiB of code, once per file.

use crate::ptrace::read_memory;
use pagewise_kernel::error::SysError;
use pagewise_kernel::proc::maps::Mapping;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

/// True for memory that is readable and writable.
pub(super) const fn is_writable(mapping: &Mapping) -> bool {
    mapping.perms.read && mapping.perms.write
}

/// True for a range without any access rights: a guard.
pub(super) const fn is_guard(mapping: &Mapping) -> bool {
    let perms = mapping.perms;
    !perms.read && !perms.write && !perms.exec
}

/// True for the library of a leak checker, under its GCC or Clang name.
pub(super) fn checks_leaks(mapping: &Mapping) -> bool {
    let name = name(mapping);
    let file = name.rsplit('/').next().unwrap_or_default();
    ["liblsan.", "libasan.", "libhwasan.", "libclang_rt.asan", "libclang_rt.hwasan"]
        .iter()
        .any(|start| file.starts_with(start))
}

const fn is_code(mapping: &Mapping) -> bool {
    mapping.perms.read && mapping.perms.exec
}

/// The path or the bracketed name; may be empty.
pub(super) fn name(mapping: &Mapping) -> Cow<'_, str> {
    mapping.path.to_string_lossy()
}

/// Where a call can be made and returned from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CallSites {
    /// A `syscall` instruction followed by `ret`.
    pub(super) call: u64,
    /// A signal restorer, if one was found.
    pub(super) restorer: Option<u64>,
}

const CALL: &[u8] = &[0x0f, 0x05, 0xc3];
const RESTORERS: [&[u8]; 2] =
    [&[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05], &[0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05]];

/// The places in process `pid`; `None` if it has no `syscall; ret` anywhere.
#[must_use]
pub(super) fn sites(pid: i32, maps: &[Mapping]) -> Option<CallSites> {
    let call = candidates(maps).into_iter().find_map(|m| find(pid, m, CallSiteKind::Call))?;
    let restorer = candidates(maps)
        .into_iter()
        .filter(|m| name(m) != "[vdso]")
        .find_map(|m| find(pid, m, CallSiteKind::Restorer));
    Some(CallSites { call, restorer })
}

/// True if both places still hold the bytes that were found there.
#[must_use]
pub(super) fn still_there(pid: i32, sites: CallSites) -> bool {
    let holds = |at: u64, wanted: CallSiteKind| wanted.bytes().iter().any(|b| begins(pid, at, b));
    holds(sites.call, CallSiteKind::Call)
        && sites.restorer.is_none_or(|at| holds(at, CallSiteKind::Restorer))
}

fn begins(pid: i32, address: u64, want: &[u8]) -> bool {
    let mut bytes = vec![0; want.len()];
    read_memory(pid, address, &mut bytes).is_ok_and(|n| n == want.len()) && bytes == want
}

/// Executable mappings in search order: vDSO, C library, program, others.
fn candidates(maps: &[Mapping]) -> Vec<&Mapping> {
    let program = maps.first().map(name);
    let rank = |m: &Mapping| match name(m) {
        name if name == "[vdso]" => 0,
        name if name.contains("/libc.") || name.contains("/ld-musl") => 1,
        name if Some(&name) == program.as_ref() => 2,
        _ => 3,
    };
    let usable = |m: &&Mapping| is_code(m) && (name(m).starts_with('/') || name(m) == "[vdso]");
    let mut found: Vec<&Mapping> = maps.iter().filter(usable).collect();
    found.sort_by_key(|m| rank(m));
    found
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum CallSiteKind {
    Call,
    Restorer,
}

impl CallSiteKind {
    const fn bytes(self) -> &'static [&'static [u8]] {
        match self {
            Self::Call => &[CALL],
            Self::Restorer => &RESTORERS,
        }
    }
}

/// File, offset of the mapping, length, and what was searched for.
type Key = (String, u64, u64, CallSiteKind);

/// Offsets from the start of a mapping, by file and purpose; `None` if nothing was found.
static FOUND: LazyLock<Mutex<HashMap<Key, Option<u64>>>> = LazyLock::new(Mutex::default);

fn key(mapping: &Mapping, wanted: CallSiteKind) -> Key {
    let file = format!("{:?} {} {}", mapping.device, mapping.inode, name(mapping));
    (file, mapping.offset, mapping.end - mapping.start, wanted)
}

fn find(pid: i32, mapping: &Mapping, wanted: CallSiteKind) -> Option<u64> {
    let key = key(mapping, wanted);
    let known = FOUND.lock().unwrap_or_else(PoisonError::into_inner).get(&key).copied();
    let holds = |offset: &Option<u64>| {
        offset.is_none_or(|offset| {
            wanted.bytes().iter().any(|b| begins(pid, mapping.start + offset, b))
        })
    };
    let offset = match known.filter(holds) {
        Some(offset) => offset,
        None => {
            // A failed read says nothing about the file, so it is not cached.
            let offset = search(pid, mapping, wanted).ok()?;
            FOUND.lock().unwrap_or_else(PoisonError::into_inner).insert(key, offset);
            offset
        }
    };
    offset.map(|offset| mapping.start + offset)
}

/// Bytes read at a time; consecutive reads overlap so that no match is cut.
const STEP: usize = 1 << 20;
const OVERLAP: usize = 16;

fn search(pid: i32, mapping: &Mapping, wanted: CallSiteKind) -> Result<Option<u64>, SysError> {
    let mut buffer = vec![0; STEP];
    let mut at = mapping.start;
    while at < mapping.end {
        let want = usize::try_from(mapping.end - at).map_or(STEP, |left| left.min(STEP));
        let read = read_memory(pid, at, &mut buffer[..want])?;
        let hit = wanted.bytes().iter().find_map(|b| position(&buffer[..read], b));
        if let Some(offset) = hit {
            return Ok(Some(at - mapping.start + offset as u64));
        }
        if read < want || read <= OVERLAP {
            return Ok(None);
        }
        at += (read - if want == STEP { OVERLAP } else { 0 }) as u64;
    }
    Ok(None)
}

fn position(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    let first = needle.first()?;
    let mut from = 0;
    while let Some(skip) = haystack.get(from..)?.iter().position(|byte| byte == first) {
        from += skip;
        if haystack[from..].starts_with(needle) {
            return Some(from);
        }
        from += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needles_are_found_anywhere() {
        assert_eq!(position(b"xx\x0f\x0f\x05\xc3", CALL), Some(3));
        assert_eq!(position(b"\x0f\x05", CALL), None);
        assert_eq!(position(b"", CALL), None);
    }

    #[test]
    fn own_process_has_both_places() {
        let pid = std::process::id() as i32;
        let maps = pagewise_kernel::proc::maps::read(pid).unwrap();
        let sites = sites(pid, &maps).unwrap();
        assert!(sites.restorer.is_some() && still_there(pid, sites));
        assert!(!still_there(pid, CallSites { call: sites.call + 1, ..sites }));
    }

    #[test]
    fn a_place_that_no_longer_holds_is_searched_again() {
        let pid = std::process::id() as i32;
        let maps = pagewise_kernel::proc::maps::read(pid).unwrap();
        let before = sites(pid, &maps).unwrap();
        let code = maps.iter().find(|m| m.contains(before.call)).unwrap();
        let (key, stale) = (key(code, CallSiteKind::Call), Some(before.call - code.start + 1));
        FOUND.lock().unwrap().insert(key, stale);
        assert_eq!(sites(pid, &maps).unwrap().call, before.call);
    }
}
