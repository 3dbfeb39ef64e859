//! `pagewise cache save` and `restore` on files with a known set of cached pages. This test checks them with
//! `mincore`.

use super::with_file;
use crate::helper::{NOBODY, PROGRAM, Place, as_nobody, first_line, install, is_root, said};
use pagewise_kernel::cached_file::PageCacheFile;
use pagewise_kernel::page_size;
use pagewise_model::body::RunBody;
use pagewise_model::cache_list::{CacheList, CacheRestore, PageRanges};
use pagewise_model::run::SavedRun;
use pagewise_model::{Bytes, Fact};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::io::Write;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Ranges cached at first, in pages.
const CACHED: [Range<u64>; 3] = [16..32, 100..101, 300..364];

fn cached(path: &Path) -> PageRanges {
    PageCacheFile::open(path).unwrap().cached_pages().unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Drops a file from the cache and reads only [`CACHED`] of it. False, after a `SKIP` line, if it cannot be
/// dropped.
fn prepared(path: &Path, test: &str) -> bool {
    let file = PageCacheFile::open(path).unwrap();
    file.drop_cached().unwrap();
    if cached(path).count() > 0 {
        println!("SKIP {test}: this file system keeps its pages");
        return false;
    }
    file.read_nothing_ahead().unwrap();
    let page = page_size::base().bytes();
    for range in CACHED {
        let mut bytes = vec![0; ((range.end - range.start) * page) as usize];
        file.file().read_exact_at(&mut bytes, range.start * page).unwrap();
    }
    assert_eq!(cached(path).ranges().collect::<Vec<_>>(), CACHED);
    true
}

fn drop_all(path: &Path) {
    PageCacheFile::open(path).unwrap().drop_cached().unwrap();
    assert_eq!(cached(path), PageRanges::default());
}

fn list_of(path: &Path) -> CacheList {
    CacheList::from_json(&std::fs::read(path).unwrap(), page_size::base()).unwrap()
}

fn restored(done: &Output) -> (CacheRestore, Option<i32>) {
    let run = SavedRun::from_json(&done.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}{}", said(&done.stdout), said(&done.stderr)));
    let Some(RunBody::CacheRestore(restore)) = run.body else { panic!("no list") };
    (restore, done.status.code())
}

/// A place with the file, and the list of its cached pages. `None` if nothing can be dropped.
fn saved(test: &str) -> Option<(Place, PathBuf, PathBuf)> {
    let (place, path) = with_file();
    if !prepared(&path, test) {
        return None;
    }
    let list = place.path().join("list");
    let words = ["cache", "save", "--output", text(&list), text(&path)];
    let done = place.pagewise(&words).output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{}", said(&done.stderr));
    assert!(said(&done.stderr).contains(" in 3 ranges of 1 file; 1 examined"), "{done:?}");
    Some((place, path, list))
}

fn restore(place: &Place, list: &Path, options: &[&str]) -> (CacheRestore, Option<i32>) {
    let words = [&["cache", "restore", "--json"], options, &[text(list)]].concat();
    restored(&place.pagewise(&words).output().unwrap())
}

#[test]
fn exactly_the_saved_pages_come_back() {
    let Some((place, path, list)) = saved("exactly_the_saved_pages_come_back") else { return };
    assert_eq!(list_of(&list).files[0].pages.ranges().collect::<Vec<_>>(), CACHED);
    drop_all(&path);
    let page = page_size::base().bytes();
    let (done, code) = restore(&place, &list, &[]);
    assert_eq!((code, done.is_whole()), (Some(0), true), "{done:?}");
    assert_eq!(cached(&path).ranges().collect::<Vec<_>>(), CACHED);
    assert_eq!((done.read_bytes, done.listed()), (Bytes(81 * page), Bytes(81 * page)));
    let (again, code) = restore(&place, &list, &["--limit", "0"]);
    assert_eq!((code, again.read_bytes), (Some(0), Bytes(0)), "{again:?}");
    drop_all(&path);
    let limit = (16 * page).to_string();
    let (done, code) = restore(&place, &list, &["--limit", &limit]);
    assert_eq!(code, Some(1));
    assert!(done.ended_early.unwrap().contains("the limit of"));
    assert_eq!(cached(&path).ranges().collect::<Vec<_>>(), std::slice::from_ref(&(16..32)));
    let shown = place.pagewise(&["cache", "restore", text(&list)]).output().unwrap();
    assert!(said(&shown.stdout).contains("100% of the saved pages"), "{}", said(&shown.stdout));
}

#[test]
fn a_changed_file_is_left_out_and_named() {
    let Some((place, path, list)) = saved("a_changed_file_is_left_out") else { return };
    let mut file = File::options().append(true).open(&path).unwrap();
    file.write_all(b"more").unwrap();
    file.sync_all().unwrap();
    drop_all(&path);
    let (done, code) = restore(&place, &list, &[]);
    assert_eq!((code, done.read_bytes), (Some(1), Bytes(0)));
    assert!(done.files[0].left_out.as_ref().unwrap().contains("length has changed"), "{done:?}");
    assert_eq!(cached(&path), PageRanges::default());
    std::fs::remove_file(&path).unwrap();
    let shown = place.pagewise(&["cache", "restore", text(&list)]).output().unwrap();
    let shown = said(&shown.stdout);
    assert!(shown.contains("0% of the saved pages") && shown.contains("No such file"), "{shown}");
}

#[test]
fn a_list_that_is_none_is_refused_in_one_line() {
    let (place, path) = with_file();
    let list = place.path().join("list");
    let form = |schema: u32, pages: &str| {
        format!(
            "{{\"cache_list_schema\":{schema},\"page_bytes\":{},\"roots\":[],\"files\":[{{\"path\":\
             \"{}\",\"size_bytes\":8388608,\"modified_unix_ns\":1,\"inode\":1,\"pages\":{pages}}}]}}",
            page_size::base().bytes(),
            text(&path)
        )
    };
    let good = form(1, "[0,1]");
    for (content, why) in [
        ("", "the file is empty"),
        ("\0\u{1b}[31m", "not a list of `pagewise cache save`"),
        ("{\"schema\":4}", "not a list of `pagewise cache save`"),
        (&good[..good.len() / 2], "not a list of `pagewise cache save`"),
        (&form(9, "[0,1]"), "saved by a newer pagewise"),
        (&form(1, "[0,4000000]"), "pages beyond the end"),
        (&form(1, "[3,18446744073709551615]"), "page counts beyond any file"),
        (&form(1, "[1,1,1]"), "an odd number of page counts"),
    ] {
        std::fs::write(&list, content).unwrap();
        let done = place.pagewise(&["cache", "restore", text(&list)]).output().unwrap();
        let error = said(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{content}: {error}");
        assert!(error.contains(why) && !error.contains('\u{1b}'), "{content}: {error}");
        assert!(error.starts_with("pagewise: ") && error.contains("\nhelp: "), "{error}");
        assert_eq!(error.lines().count(), 2, "{error}");
    }
    for file in ["/dev/zero", "/nonexistent/list"] {
        let done = place.pagewise(&["cache", "restore", file]).output().unwrap();
        assert_eq!(done.status.code(), Some(2), "{}", said(&done.stderr));
    }
}

#[test]
fn directories_and_processes_are_saved_with_all_their_files() {
    const TEST: &str = "directories_and_processes_are_saved";
    let Some((place, path, list)) = saved(TEST) else { return };
    let dir = place.path().join("dir");
    std::fs::create_dir_all(dir.join("inner")).unwrap();
    let inner = dir.join("inner/file");
    std::fs::write(&inner, vec![1; 3 * page_size::base().bytes() as usize]).unwrap();
    std::fs::hard_link(&inner, dir.join("same")).unwrap();
    std::os::unix::fs::symlink("/", dir.join("link")).unwrap();
    std::fs::write(dir.join("empty"), []).unwrap();
    let words = ["cache", "save", "-o", text(&list), text(&dir)];
    let done = place.pagewise(&words).output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{}", said(&done.stderr));
    let found = list_of(&list);
    assert_eq!(found.roots, std::slice::from_ref(&dir));
    let names: Vec<&Path> = found.files.iter().map(|file| file.path.as_path()).collect();
    assert_eq!(names.len(), 1, "{names:?}");
    assert_eq!(found.files[0].pages.ranges().collect::<Vec<_>>(), std::slice::from_ref(&(0..3)));
    let mut tail = Command::new("tail");
    tail.args(["-n", "+1", "-f", text(&inner)]).stdout(Stdio::piped()).stderr(Stdio::null());
    std::fs::write(&inner, "open\n").unwrap();
    let mut child = tail.spawn().unwrap();
    // The child has the file open now.
    assert_eq!(first_line(&mut child), "open\n");
    let pid = child.id().to_string();
    let done = place.pagewise(&["cache", "save", "-o", text(&list), "-p", &pid]).output().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(done.status.code().is_some_and(|code| code < 2), "{}", said(&done.stderr));
    let found = list_of(&list);
    let has = |end: &str| found.files.iter().any(|file| file.path.to_string_lossy().ends_with(end));
    assert!(has(text(&inner)) && (has("tail") || has("coreutils")), "{found:?}");
    // The child has exited: it is now a process without files.
    let done = place.pagewise(&["cache", "save", "-p", &pid]).output().unwrap();
    assert_eq!(done.status.code(), Some(2), "{}", said(&done.stderr));
    assert_eq!((done.stdout.len(), path.exists()), (0, true));
}

#[test]
fn whoever_may_only_read_a_file_saves_and_restores_it() {
    const TEST: &str = "whoever_may_only_read_a_file_saves_and_restores_it";
    if !is_root() {
        return println!("SKIP {TEST}: only root can become another account");
    }
    let (place, path) = with_file();
    if !prepared(&path, TEST) {
        return;
    }
    let closed = place.path().join("closed");
    std::fs::write(&closed, "closed").unwrap();
    std::fs::set_permissions(&closed, Permissions::from_mode(0o600)).unwrap();
    let program = place.path().join("pagewise");
    install(Path::new(PROGRAM), &program);
    let list = place.path().join("list");
    // The kernel may take pages away meanwhile (DAMON): then try again.
    let done = (0..5).find_map(|_| {
        assert!(prepared(&path, TEST));
        let mut saving = as_nobody(&program);
        let done = saving.args(["cache", "save"]).args([&path, &closed]).output().unwrap();
        let left = cached(&path);
        let is_left = |page| left.ranges().any(|range| range.contains(&page));
        CACHED.into_iter().flatten().all(is_left).then_some(done)
    });
    let done = done.expect("the pages stay in the cache in one of five attempts");
    let error = said(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "uid {NOBODY}: {error}");
    assert!(error.contains("closed: ") && error.contains("Permission denied"), "{error}");
    std::fs::write(&list, &done.stdout).unwrap();
    // The single page is not the first of its group of 16. The other ranges begin with one, or do not begin
    // before page 304.
    assert_eq!(list_of(&list).files[0].pages.ranges().collect::<Vec<_>>(), [16..32, 304..364]);
    std::fs::set_permissions(&list, Permissions::from_mode(0o644)).unwrap();
    assert_eq!(cached(&path).ranges().collect::<Vec<_>>(), CACHED, "looking changes nothing");
    drop_all(&path);
    let done = as_nobody(&program).args(["cache", "restore", "--json"]).arg(&list).output();
    let (done, code) = restored(&done.unwrap());
    assert_eq!((code, done.is_whole()), (Some(0), true), "{done:?}");
    assert!(matches!(done.files[0].before_bytes, Fact::Missing(_)), "{done:?}");
    assert_eq!(cached(&path).ranges().collect::<Vec<_>>(), [16..32, 304..364]);
}

#[test]
fn a_signal_ends_a_restore_with_what_was_done() {
    let Some((place, path, list)) = saved("a_signal_ends_a_restore") else { return };
    drop_all(&path);
    // Some seconds for each page, so that the command is still running when the signal comes.
    let words = ["cache", "restore", "--json", "--rate", "1K", text(&list)];
    let child = place.pagewise(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.unwrap();
    while cached(&path).count() == 0 {
        std::thread::sleep(Duration::from_millis(10));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let (done, code) = restored(&child.wait_with_output().unwrap());
    assert_eq!((code, done.interrupted), (Some(130), true), "{done:?}");
    assert!(done.resident() > Bytes(0) && !done.is_whole(), "{done:?}");
    assert_eq!(done.resident().0, cached(&path).count() * page_size::base().bytes());
}

#[test]
fn a_service_saves_and_restores_by_lines_that_systemd_accepts() {
    let Some((place, path, list)) = saved("a_service_saves_and_restores") else { return };
    let unit = place.pagewise(&["cache", "restore", "--unit", text(&list)]).output().unwrap();
    assert_eq!(unit.status.code(), Some(0), "{}", said(&unit.stderr));
    let unit = said(&unit.stdout);
    assert!(unit.contains("\nExecStartPre=-/") && unit.contains("\nExecStopPost=-/"), "{unit}");
    // What the second line does.
    PageCacheFile::open(&path).unwrap().drop_cached().unwrap();
    std::fs::read(&path).unwrap();
    let done = place.pagewise(&["cache", "save", "--again", text(&list)]).output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{}", said(&done.stderr));
    let whole = PageCacheFile::open(&path).unwrap().size().pages(page_size::base());
    assert_eq!(
        list_of(&list).files[0].pages.ranges().collect::<Vec<_>>(),
        std::slice::from_ref(&(0..whole))
    );
    let service = place.path().join("pagewise-test.service");
    std::fs::write(&service, format!("{unit}ExecStart=/bin/true\n")).unwrap();
    match Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&service).output() {
        Ok(done) => assert!(done.status.success(), "{}{unit}", said(&done.stderr)),
        Err(error) => println!("SKIP systemd-analyze verify: {error}"),
    }
}

#[test]
fn a_name_that_is_not_utf_8_is_saved_and_comes_back() {
    let Some((place, path, _list)) = saved("a_name_that_is_not_utf_8_is_saved_and_comes_back")
    else {
        return;
    };
    let odd = path.with_file_name(OsStr::from_bytes(b"odd\xff"));
    std::fs::rename(&path, &odd).unwrap();
    let list = place.path().join("odd-list");
    let mut save = place.pagewise(&["cache", "save", "--output", text(&list)]);
    let done = save.arg(&odd).output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{}", said(&done.stderr));
    drop_all(&odd);
    let (_restored, code) = restore(&place, &list, &[]);
    assert_eq!(code, Some(0));
    assert_eq!(cached(&odd).ranges().collect::<Vec<_>>(), CACHED);
    let again = place.pagewise(&["cache", "save", "--again", text(&list)]).output().unwrap();
    assert_eq!(again.status.code(), Some(0), "{}", said(&again.stderr));
    assert_eq!(list_of(&list).files.len(), 1);
}

#[test]
fn a_page_of_a_very_large_file_comes_back_at_once() {
    let Some((place, path, _list)) = saved("a_page_of_a_very_large_file_comes_back_at_once") else {
        return;
    };
    File::options().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
    let list = place.path().join("large-list");
    let words = ["cache", "save", "--output", text(&list), text(&path)];
    assert_eq!(place.pagewise(&words).output().unwrap().status.code(), Some(0));
    drop_all(&path);
    let (_restored, code) = restore(&place, &list, &[]);
    assert_eq!(code, Some(0));
    assert_eq!(cached(&path), list_of(&list).files[0].pages);
}
