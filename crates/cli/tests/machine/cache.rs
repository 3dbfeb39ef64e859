//! `pagewise cache` and `pagewise text` on files with a known state. Written page by page, they lie in small
//! folios. This test reads from `smaps` how they are mapped.
mod aged;
mod code;
mod keep;
mod mounts;
mod refused;
mod saved;
mod starts;
mod system;

use crate::helper::{PROGRAM, Place, as_nobody, install, is_root, said};
use pagewise_kernel::file_view::{FileView, open_regular};
use pagewise_kernel::page_size;
use pagewise_model::body::RunBody;
use pagewise_model::cache::{CacheOutcome, CacheSlot, FileCacheReport};
use pagewise_model::run::SavedRun;
use pagewise_model::{Bytes, Fact};
use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const SIZE: Bytes = Bytes::mib(8);

/// A file in small folios: written page by page and synced to disk. `dd` writes it because it may be a program
/// (`crate::helper::install` says why).
fn small(path: &Path, content: &[u8]) {
    let mut words = [OsString::from("of="), "iflag=fullblock".into(), "conv=fsync".into()];
    words[0].push(path);
    let mut dd = Command::new("dd");
    dd.args(words).arg(format!("bs={}", page_size::base().bytes()));
    let mut child = dd.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(content).unwrap();
    assert!(child.wait().unwrap().success());
}

/// Waits until a file is old enough for accounts that cannot see which of its pages are not yet on disk.
fn grown_old(path: &Path) {
    let setting = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/vm/{name}")).unwrap();
        text.trim().parse::<u64>().unwrap()
    };
    let longest = setting("dirty_expire_centisecs") + 2 * setting("dirty_writeback_centisecs");
    let changed = std::fs::metadata(path).unwrap().ctime();
    let end = UNIX_EPOCH
        + Duration::from_secs(u64::try_from(changed).unwrap())
        + Duration::from_millis(10 * longest + 1000);
    std::thread::sleep(end.duration_since(SystemTime::now()).unwrap_or_default());
}

fn content() -> Vec<u8> {
    (0..SIZE.0).map(|at| ((at * 7) >> 9) as u8).collect()
}

/// A place that every account may enter, with a file in small folios.
fn with_file() -> (Place, PathBuf) {
    let place = Place::new();
    std::fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
    let path = place.path().join("file");
    small(&path, &content());
    (place, path)
}

/// How much of a file a plain mapping has on huge pages.
fn mapped_huge(path: &Path) -> Bytes {
    let (file, len) = open_regular(path).unwrap();
    let view = FileView::map(&file, len).unwrap();
    view.enter(0, len).unwrap();
    view.huge_bytes().unwrap()
}

/// The report of `pagewise cache VERB --json` on one file, and its exit code.
fn reported(done: &Output) -> (FileCacheReport, Option<i32>) {
    let run = SavedRun::from_json(&done.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}{}", said(&done.stdout), said(&done.stderr)));
    let Some(RunBody::Cache(mut report)) = run.body else { panic!("no report") };
    (report.files.remove(0), done.status.code())
}

fn cache(place: &Place, verb: &str, path: &Path) -> (FileCacheReport, Option<i32>) {
    let words = ["cache", verb, "--json", path.to_str().unwrap()];
    reported(&place.pagewise(&words).output().unwrap())
}

/// The reason for an outcome other than success; empty after success.
fn why(file: &FileCacheReport) -> String {
    match file.outcome.clone() {
        Some(CacheOutcome::Refused { why, help }) => format!("{why}; {help}"),
        Some(CacheOutcome::Short { why } | CacheOutcome::Worse { why }) => why,
        _ => String::new(),
    }
}

/// True, after a `SKIP` line, if no huge folio is available here.
fn is_skipped(test: &str, file: &FileCacheReport) -> bool {
    let skipped = why(file).contains("gave no huge folio")
        || why(file).contains("base pages")
        || why(file).contains("only in memory");
    if skipped {
        println!("SKIP {test}: {}", why(file));
    }
    skipped
}

#[test]
fn a_file_in_small_folios_is_all_on_huge_pages_afterwards_and_gone_when_evicted() {
    let (place, path) = with_file();
    let (shown, code) = cache(&place, "show", &path);
    assert_eq!((code, shown.outcome.clone()), (Some(0), None));
    assert_eq!(
        (mapped_huge(&path), shown.before.huge_bytes.clone()),
        (Bytes(0), Fact::Known(Bytes(0)))
    );
    assert_eq!(shown.before.cached_bytes, Fact::Known(SIZE));
    assert!(shown.before.slots.0.iter().all(|slot| *slot == CacheSlot::Whole), "{shown:?}");
    let (made, code) = cache(&place, "huge", &path);
    if is_skipped("a_file_in_small_folios", &made) {
        return;
    }
    assert_eq!((code, made.outcome.clone()), (Some(0), Some(CacheOutcome::Done)), "{made:?}");
    let after = made.after.unwrap();
    assert_eq!((mapped_huge(&path), after.huge_bytes), (SIZE, Fact::Known(SIZE)));
    assert!(after.slots.0.iter().all(|slot| *slot == CacheSlot::Huge));
    assert_eq!(std::fs::read(&path).unwrap(), content(), "not a byte has changed");
    // The kernel may reclaim a page of the cache at any time. Then the file is brought there again.
    let again = (0..5).map(|_| cache(&place, "huge", &path)).find(|(again, code)| {
        let is_whole = again.before.huge_bytes == Fact::Known(SIZE);
        let outcome = if is_whole { CacheOutcome::Already } else { CacheOutcome::Done };
        assert_eq!((*code, again.outcome.clone()), (Some(0), Some(outcome)), "{again:?}");
        is_whole
    });
    assert!(again.is_some(), "nothing was left where it was");
    let (evicted, code) = cache(&place, "evict", &path);
    assert_eq!((code, evicted.outcome), (Some(0), Some(CacheOutcome::Done)));
    assert_eq!(evicted.after.unwrap().cached_bytes, Fact::Known(Bytes(0)));
    let (again, code) = cache(&place, "evict", &path);
    assert_eq!((code, again.outcome), (Some(0), Some(CacheOutcome::Already)));
}

fn whoever_may_only_read_a_file_makes_it_huge() {
    const TEST: &str = "whoever_may_only_read_a_file_makes_it_huge";
    if !is_root() {
        return println!("SKIP {TEST}: only root can become another account");
    }
    let (place, path) = with_file();
    // A copy, because the directory of the original may be closed to other accounts.
    let program = place.path().join("pagewise");
    install(Path::new(PROGRAM), &program);
    let as_nobody = |verb: &str| {
        let mut command = as_nobody(&program);
        let done = command.args(["cache", verb, "--json"]).arg(&path).output();
        reported(&done.unwrap())
    };
    let (shown, code) = as_nobody("show");
    assert_eq!(code, Some(0));
    assert!(shown.before.cached_bytes.reason().is_some(), "{shown:?}");
    assert!(shown.before.slots.0.iter().all(|slot| *slot == CacheSlot::Asked), "{shown:?}");
    // The file was just written, so it may not be on disk, and this account cannot check. An old time stamp is
    // no proof: copied and unpacked files have one too.
    let file = File::options().write(true).open(&path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(3600)).unwrap();
    let (young, code) = as_nobody("huge");
    assert_eq!(code, Some(3));
    assert!(why(&young).contains("written less than"), "{young:?}");
    grown_old(&path);
    let (made, code) = as_nobody("huge");
    if is_skipped(TEST, &made) {
        return;
    }
    assert_eq!((code, made.outcome), (Some(0), Some(CacheOutcome::Done)));
    assert_eq!(mapped_huge(&path), SIZE);
    let (evicted, code) = as_nobody("evict");
    assert_eq!((code, evicted.outcome), (Some(0), Some(CacheOutcome::Done)));
}

#[test]
fn what_is_not_on_disk_is_not_dropped() {
    let (place, path) = with_file();
    let mut file = File::options().append(true).open(&path).unwrap();
    file.write_all(b"not on disk yet").unwrap();
    let (refused, code) = cache(&place, "evict", &path);
    let Fact::Known(counts) = refused.before.counts else {
        return println!("SKIP what_is_not_on_disk_is_not_dropped: {:?}", refused.before.counts);
    };
    if counts.dirty_bytes == Bytes(0) {
        return println!("SKIP what_is_not_on_disk_is_not_dropped: written to disk at once");
    }
    assert_eq!((code, refused.after.is_some()), (Some(3), false));
    assert!(why(&refused).contains("not on disk yet") && why(&refused).contains("sync FILE"));
}

#[test]
fn files_too_small_or_in_memory_are_refused_with_the_reason() {
    let place = Place::new();
    let path = place.path().join("small");
    small(&path, &[1; 5000]);
    let (refused, code) = cache(&place, "huge", &path);
    assert_eq!(code, Some(3));
    assert!(why(&refused).contains("less than one huge page"), "{refused:?}");
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else {
        return println!("SKIP files in memory: no /dev/shm");
    };
    let path = dir.path().join("file");
    small(&path, &content());
    let (refused, code) = cache(&place, "huge", &path);
    assert_eq!(code, Some(3));
    assert!(why(&refused).contains("only in memory (tmpfs)"), "{refused:?}");
}

#[test]
fn a_locked_file_stays_until_the_time_is_over() {
    let (place, path) = with_file();
    let words = ["cache", "lock", "--for", "1ms", "--json", path.to_str().unwrap()];
    let done = place.pagewise(&words).output().unwrap();
    if done.status.code() == Some(3) {
        return println!("SKIP a_locked_file_stays: {}", said(&done.stderr));
    }
    let (locked, code) = reported(&done);
    assert_eq!((code, locked.outcome), (Some(0), Some(CacheOutcome::Done)));
    assert_eq!(locked.before.cached_bytes, Fact::Known(SIZE));
    assert!(said(&done.stderr).contains("locked for 1.0 ms"), "{}", said(&done.stderr));
}

#[test]
fn a_report_is_for_80_columns_and_comes_back_from_its_saved_form() {
    let (place, path) = with_file();
    let words = ["cache", "show", path.to_str().unwrap()];
    let text = said(&place.pagewise(&words).output().unwrap().stdout);
    assert!(text.contains("on huge pages when mapped"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let (saved, empty) = (place.path().join("saved.json"), place.path().join("empty"));
    std::fs::write(&empty, "").unwrap();
    let words = ["cache", "show", "--json", empty.to_str().unwrap(), path.to_str().unwrap()];
    std::fs::write(&saved, place.pagewise(&words).output().unwrap().stdout).unwrap();
    let shown = place.pagewise(&["show", saved.to_str().unwrap()]).output().unwrap();
    assert!(said(&shown.stdout).contains("on huge pages when mapped"), "{}", said(&shown.stderr));
    assert!(said(&shown.stdout).contains("nothing of it cached"), "{}", said(&shown.stdout));
    let run = SavedRun::from_json(&std::fs::read(&saved).unwrap()).unwrap();
    let Some(RunBody::Cache(report)) = run.body else { panic!("no report") };
    let sizes: Vec<Bytes> = report.files.iter().map(|file| file.size_bytes).collect();
    assert_eq!(sizes, [Bytes(0), SIZE]);
}
