//! Calls that a container's filter refuses or an older kernel lacks, one at a time. A command that needs the
//! call says so before it drops anything. A command that can do without it works. No byte changes.

use super::code::built;
use super::{SIZE, cache, content, grown_old, is_skipped, mapped_huge, reported, with_file};
use crate::helper::{Place, compile, said};
use pagewise_model::cache::CacheOutcome;
use pagewise_model::{Bytes, Fact};
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const ERRNOS: [Errno; 3] = [Errno::PERM, Errno::INVAL, Errno::NOSYS];

/// Calls of `tests/programs/refuse.c` that are optional, and those that are required, with their names in the
/// message.
const WITHOUT: [&str; 2] = ["cachestat", "pagemap-scan"];
const NEEDED: [(&str, &str); 3] = [
    ("dontneed", "POSIX_FADV_DONTNEED"),
    ("hugepage", "MADV_HUGEPAGE"),
    ("populate-read", "MADV_POPULATE_READ"),
];

/// The program that refuses calls. `None`, after a `SKIP` line, if it cannot do so here.
struct Refuser(PathBuf);

impl Refuser {
    fn at(place: &Place, test: &str) -> Option<Self> {
        let refuser = Self(place.path().join("refuse"));
        if !compile("refuse.c", &[], &refuser.0) {
            println!("SKIP {test}: no C compiler");
            return None;
        }
        let tried = Command::new(&refuser.0).args(["cachestat", "1", "/bin/true"]).status();
        if !tried.is_ok_and(|status| status.success()) {
            println!("SKIP {test}: no seccomp filter can be installed");
            return None;
        }
        Some(refuser)
    }

    /// A run of the program in which `call` fails.
    fn run(&self, call: &str, errno: Errno, place: &Place, words: &[&str]) -> Output {
        let inner = place.pagewise(words);
        let mut outer = Command::new(&self.0);
        outer.args([call, &errno.raw_os_error().to_string()]).arg(inner.get_program());
        outer.args(inner.get_args()).stdin(Stdio::null());
        for (name, value) in inner.get_envs() {
            match value {
                Some(value) => outer.env(name, value),
                None => outer.env_remove(name),
            };
        }
        outer.output().unwrap()
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

pub(super) fn what_can_be_done_without_a_call_is_done() {
    const TEST: &str = "what_can_be_done_without_a_call_is_done";
    let (place, path) = with_file();
    let Some(refuser) = Refuser::at(&place, TEST) else { return };
    // Without cachestat there is no way to see which pages are on disk.
    grown_old(&path);
    for (call, errno) in WITHOUT.iter().flat_map(|call| ERRNOS.map(|errno| (*call, errno))) {
        let run = |verb| refuser.run(call, errno, &place, &["cache", verb, "--json", text(&path)]);
        let (made, code) = reported(&run("huge"));
        if is_skipped(TEST, &made) {
            return;
        }
        assert_eq!((code, made.outcome.clone()), (Some(0), Some(CacheOutcome::Done)), "{call}");
        assert_eq!(mapped_huge(&path), SIZE);
        assert!(call != "cachestat" || made.before.counts.reason().is_some(), "{made:?}");
        assert!(std::fs::read(&path).unwrap() == content(), "{call}: a byte has changed");
        let (dropped, code) = reported(&run("evict"));
        assert_eq!((code, dropped.outcome), (Some(0), Some(CacheOutcome::Done)), "{call}");
    }
}

#[test]
fn what_cannot_be_done_without_a_call_changes_nothing() {
    let (place, path) = with_file();
    let Some(refuser) = Refuser::at(&place, "what_cannot_be_done_without_a_call") else { return };
    for ((call, name), errno) in NEEDED.iter().flat_map(|call| ERRNOS.map(|errno| (*call, errno))) {
        let done = refuser.run(call, errno, &place, &["cache", "huge", text(&path)]);
        let error = said(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{call}: {error}");
        assert!(error.contains(name) && error.contains("help: "), "{call}: {error}");
        let (left, _) = cache(&place, "show", &path);
        assert_eq!(left.before.huge_bytes, Fact::Known(Bytes(0)), "{call}");
        // The kernel may reclaim a page meanwhile, but not most of them.
        let cached = left.before.cached_bytes.known().copied();
        assert!(cached.is_some_and(|bytes| bytes.0 > SIZE.0 / 2), "{call}: {cached:?}");
        assert!(std::fs::read(&path).unwrap() == content(), "{call}: a byte has changed");
    }
}

#[test]
fn a_keeper_that_cannot_hold_says_so_and_ends() {
    let place = Place::new();
    let Some(program) = built(&place, "a_keeper_that_cannot_hold") else { return };
    let Some(refuser) = Refuser::at(&place, "a_keeper_that_cannot_hold") else { return };
    let before = std::fs::read(&program).unwrap();
    for (call, name) in NEEDED {
        let words = ["text", "keep", "--for", "1ms", text(&program)];
        let done = refuser.run(call, Errno::PERM, &place, &words);
        let error = said(&done.stderr);
        assert_eq!(done.status.code(), Some(3), "{call}: {error}");
        assert!(error.contains(name), "{call}: {error}");
        assert!(std::fs::read(&program).unwrap() == before, "{call}: a byte has changed");
    }
}
