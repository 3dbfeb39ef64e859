//! Programs on an overlay, as containers have them, and on read-only file systems. The mounts are made in a
//! namespace of the command alone, which needs root.

use super::code::built;
use super::{grown_old, is_skipped, mapped_huge, reported, why};
use crate::helper::{Place, is_root, said};
use pagewise_model::Bytes;
use pagewise_model::body::RunBody;
use pagewise_model::cache::CacheOutcome;
use pagewise_model::run::SavedRun;
use pagewise_model::text::TextFile;
use pagewise_model::text_report::TextReport;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const OVERLAY: &str =
    "mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work merged";

/// The exit status if the mount is refused.
const NO_MOUNT: i32 = 99;

/// Runs the program under test after `mount`. `None`, after a `SKIP` line, if the mount is refused.
fn within(place: &Place, mount: &str, words: &[&str], test: &str) -> Option<Output> {
    let plain = place.pagewise(words);
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c"]);
    command.arg(format!("{{ {mount}; }} || exit {NO_MOUNT}; exec \"$@\"")).arg("sh");
    command.arg(plain.get_program()).args(plain.get_args());
    command.current_dir(place.path());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let done = command.output().unwrap();
    if done.status.code() == Some(NO_MOUNT) {
        println!("SKIP {test}: {}", said(&done.stderr));
        return None;
    }
    Some(done)
}

/// A place with a program in `lower`, and the directories to mount. `None`, after a `SKIP` line, without root.
fn with_program(test: &str) -> Option<(Place, PathBuf)> {
    if !is_root() {
        println!("SKIP {test}: only root can mount");
        return None;
    }
    let probe = Command::new("unshare").args(["--mount", "true"]).output();
    if !probe.is_ok_and(|done| done.status.success()) {
        println!("SKIP {test}: no mount namespace is to be had");
        return None;
    }
    let place = Place::new();
    let program = built(&place, test)?;
    for name in ["lower", "upper", "work", "merged", "fixed"] {
        std::fs::create_dir(place.path().join(name)).unwrap();
    }
    let lower = place.path().join("lower/wide");
    std::fs::rename(&program, &lower).unwrap();
    Some((place, lower))
}

fn file(done: &Output) -> TextFile {
    let run = SavedRun::from_json(&done.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}{}", said(&done.stdout), said(&done.stderr)));
    match run.body.unwrap() {
        RunBody::Text(TextReport::Warm { mut files, .. }) => files.remove(0),
        RunBody::Text(TextReport::ExplainFile { file, .. }) => *file,
        other => panic!("{other:?}"),
    }
}

/// Warms the program under this name after `mount`, explains it there, and returns how much of its text is
/// huge.
fn warmed(place: &Place, mount: &str, name: &str, test: &str) -> Option<Bytes> {
    let done = within(place, mount, &["text", "warm", "--json", name], test)?;
    let warm = file(&done);
    if is_skipped(test, &warm.cache) {
        return None;
    }
    let found = (done.status.code(), warm.cache.outcome.clone());
    assert_eq!(found, (Some(0), Some(CacheOutcome::Done)), "{warm:?}");
    let seen = file(&within(place, mount, &["text", "explain", "--json", name], test)?);
    assert_eq!(seen.huge(), warm.warmed(), "{seen:?}");
    Some(seen.huge().text_bytes)
}

pub(super) fn a_program_on_an_overlay_is_warmed_for_all_who_see_it() {
    const TEST: &str = "a_program_on_an_overlay_is_warmed_for_all_who_see_it";
    let Some((place, lower)) = with_program(TEST) else { return };
    // There is no way to see which of its pages are on disk, so it must be old.
    grown_old(&lower);
    let Some(text) = warmed(&place, OVERLAY, "merged/wide", TEST) else { return };
    assert!(text > Bytes(0));
    assert!(mapped_huge(&lower) >= text, "the pages are those of the lower file");
    let upper: Vec<_> = std::fs::read_dir(place.path().join("upper")).unwrap().collect();
    assert!(upper.is_empty(), "nothing was copied up: {upper:?}");
}

#[test]
fn what_was_just_written_on_an_overlay_is_not_dropped() {
    const TEST: &str = "what_was_just_written_on_an_overlay_is_not_dropped";
    let Some((place, lower)) = with_program(TEST) else { return };
    let mount = format!("{OVERLAY} && cp lower/wide merged/new");
    let Some(done) = within(&place, &mount, &["cache", "evict", "--json", "merged/new"], TEST)
    else {
        return;
    };
    let (refused, code) = reported(&done);
    assert_eq!((code, refused.after.is_some()), (Some(3), false), "{refused:?}");
    assert!(why(&refused).contains("written less than"), "{refused:?}");
    assert!(lower.exists());
}

#[test]
fn where_nothing_may_be_written_programs_are_warmed_and_no_copy_is_made() {
    const TEST: &str = "where_nothing_may_be_written_programs_are_warmed";
    let Some((place, lower)) = with_program(TEST) else { return };
    let mount = "mount --bind lower fixed && mount -o remount,bind,ro fixed";
    let Some(text) = warmed(&place, mount, "fixed/wide", TEST) else { return };
    assert!(mapped_huge(&lower) >= text && text > Bytes(0));
    let words = ["text", "fold", "fixed/wide", "-o", "fixed/copy"];
    let Some(done) = within(&place, mount, &words, TEST) else { return };
    let error = said(&done.stderr);
    let lines: Vec<&str> = error.lines().filter(|line| !line.starts_with("help:")).collect();
    assert_eq!((done.status.code(), lines.len()), (Some(2), 1), "{error}");
    assert!(error.contains("Read-only file system"), "{error}");
    assert!(!Path::new(&place.path().join("lower/copy")).exists());
}
