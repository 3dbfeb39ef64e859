//! `run --fold`: programs started from a folded copy that is mounted over their file, as root and as a user
//! without rights. Their state is read from outside, in `/proc`.

use crate::helper::{as_nobody, compile, open_place, said, users};
use pagewise_kernel::page_size;
use pagewise_kernel::proc::smaps;
use pagewise_model::Bytes;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A place with pagewise and a position-independent program of 7 MiB of code. `None`, after a `SKIP` line, if
/// it cannot be built.
fn with_program(test: &str) -> Option<(tempfile::TempDir, PathBuf)> {
    let place = open_place("pagewise-cover-");
    let program = place.path().join("wide");
    if compile("wide_text.c", &["-fPIE", "-pie"], &program) {
        return Some((place, program));
    }
    println!("SKIP {test}: no C compiler");
    None
}

/// `pagewise run --fold --with LIST -- ` as one of the users.
fn fold(place: &Path, user: Option<u32>, list: &str) -> Command {
    let pagewise = place.join("pagewise");
    let mut command = match user {
        None => Command::new(&pagewise),
        Some(_) => as_nobody(&pagewise),
    };
    command.args(["run", "--fold", "--with", list, "--"]);
    command.env("HOME", place).env("TMPDIR", place).env("LC_ALL", "C").stdin(Stdio::null());
    command
}

/// Starts it up to where it waits. `None`, after a `SKIP` line, if this account gets no namespaces.
fn waiting(mut command: Command, test: &str) -> Option<Child> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    if line == "ready\n" {
        return Some(child);
    }
    let reported = ended(child).0;
    assert!(is_refused(&reported), "{reported}");
    println!("SKIP {test}: {reported}");
    None
}

/// Whether this account gets no namespaces, or none with memory on huge pages.
fn is_refused(reported: &str) -> bool {
    ["unshare", "mount", "write"]
        .iter()
        .any(|call| reported.contains(&format!("--fold: `{call}` on")))
}

/// What pagewise reported, and whether the program found its code as it was built.
fn ended(mut child: Child) -> (String, bool) {
    drop(child.stdin.take());
    let mut reported = String::new();
    child.stderr.take().unwrap().read_to_string(&mut reported).unwrap();
    (reported, child.wait().unwrap().success())
}

/// How much of the program's text is on huge pages of files in memory.
fn huge(pid: u32, program: &Path) -> Bytes {
    let entries = smaps::read(pid as i32).unwrap();
    let text =
        entries.iter().filter(|e| e.mapping.perms.exec && Path::new(&e.mapping.path) == program);
    text.fold(Bytes(0), |sum, entry| sum + entry.residency.shmem_pmd)
}

fn namespace(pid: &str, kind: &str) -> PathBuf {
    std::fs::read_link(format!("/proc/{pid}/ns/{kind}")).unwrap()
}

fn names(place: &Path) -> Vec<String> {
    let entries = place.read_dir().unwrap().flatten();
    let mut names: Vec<String> = entries.map(|e| said(e.file_name().as_encoded_bytes())).collect();
    names.sort();
    names
}

#[test]
fn a_program_runs_from_a_copy_under_its_own_name() {
    const TEST: &str = "a_program_runs_from_a_copy_under_its_own_name";
    for user in users() {
        let Some((place, program)) = with_program(TEST) else { return };
        let (before, there) = (std::fs::read(&program).unwrap(), names(place.path()));
        let mut command = fold(place.path(), user, "text-huge");
        command.arg(&program);
        let Some(child) = waiting(command, TEST) else { continue };
        let pid = child.id().to_string();
        let of = |what: &str| std::fs::read(format!("/proc/{pid}/{what}")).unwrap();
        assert_eq!(std::fs::read_link(format!("/proc/{pid}/exe")).unwrap(), program);
        assert_eq!(said(&of("cmdline")), format!("{}\0", program.display()));
        assert_ne!(namespace(&pid, "mnt"), namespace("self", "mnt"));
        match user {
            None => {
                let is_same = namespace(&pid, "user") == namespace("self", "user");
                assert_eq!(is_same, rustix::process::geteuid().is_root());
            }
            Some(user) => {
                let map: Vec<u32> =
                    said(&of("uid_map")).split_whitespace().map(|n| n.parse().unwrap()).collect();
                assert_eq!(map, [user, user, 1]);
                assert!(said(&of("status")).contains("CapEff:\t0000000000000000"));
            }
        }
        let on_huge_pages = huge(child.id(), &program);
        assert_eq!(std::fs::read(&program).unwrap(), before, "outside it is the file itself");
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.contains(place.path().to_str().unwrap()), "{mounts}");
        let (reported, is_as_built) = ended(child);
        assert!(is_as_built, "{reported}");
        assert_eq!(names(place.path()), there, "nothing is left");
        if reported.contains("has no huge page") {
            println!("SKIP {TEST}: {reported}");
            continue;
        }
        let least = 3 * page_size::huge().bytes();
        assert!(reported.is_empty() && on_huge_pages.0 >= least, "{on_huge_pages}: {reported}");
    }
}

#[test]
fn children_find_the_copy_and_the_status_is_the_programs() {
    const TEST: &str = "children_find_the_copy";
    for user in users() {
        let Some((place, program)) = with_program(TEST) else { return };
        let list = format!("text-huge={}", program.display());
        let script = format!("grep -c ' {} ' /proc/self/mountinfo; exit 7", program.display());
        let done = fold(place.path(), user, &list).args(["sh", "-c", &script]).output().unwrap();
        let reported = said(&done.stderr);
        if is_refused(&reported) {
            println!("SKIP {TEST}: {reported}");
            continue;
        }
        assert_eq!(
            (said(&done.stdout).as_str(), done.status.code()),
            ("1\n", Some(7)),
            "{reported}"
        );
    }
}

#[test]
fn a_start_that_is_killed_leaves_nothing() {
    let Some((place, program)) = with_program("a_start_that_is_killed_leaves_nothing") else {
        return;
    };
    let there = names(place.path());
    for (user, moment) in users().into_iter().flat_map(|user| (0..8).map(move |n| (user, n))) {
        let mut command = fold(place.path(), user, "text-huge");
        let mut child = command.arg(&program).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(8 * moment));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(names(place.path()), there);
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.contains(place.path().to_str().unwrap()), "{mounts}");
    }
}

#[test]
fn what_needs_no_copy_starts_as_it_is() {
    let place = open_place("pagewise-cover-");
    let done = fold(place.path(), None, "text-huge").args(["sh", "-c", "exit 7"]).output().unwrap();
    let reported = said(&done.stderr);
    assert_eq!((done.status.code(), reported.lines().count()), (Some(7), 1), "{reported}");
    assert!(reported.contains("smaller than a huge page"), "{reported}");
    let done = fold(place.path(), None, "malloc-keep").arg("true").output().unwrap();
    assert_eq!(done.status.code(), Some(2));
    assert!(said(&done.stderr).contains("needs the remedy text-huge"), "{}", said(&done.stderr));
}

#[test]
fn a_program_that_gains_rights_is_refused() {
    let Some((place, program)) = with_program("a_program_that_gains_rights_is_refused") else {
        return;
    };
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).unwrap();
    let named = format!("text-huge={}", program.display());
    for user in users() {
        for (list, started) in [("text-huge", program.as_path()), (&named, Path::new("true"))] {
            let done = fold(place.path(), user, list).arg(started).output().unwrap();
            let reported = said(&done.stderr);
            assert_eq!(done.status.code(), Some(125), "{reported}");
            assert!(reported.contains("is setuid"), "{reported}");
        }
    }
}

/// Tested in a user namespace whose limit of mount namespaces is 0.
#[test]
fn a_refused_namespace_is_an_error_with_the_next_step() {
    const TEST: &str = "a_refused_namespace_is_an_error";
    let Some((place, program)) = with_program(TEST) else { return };
    let none = "echo 0 >/proc/sys/user/max_mnt_namespaces || exit 77; exec \"$0\" \"$@\"";
    let mut command = Command::new("unshare");
    command
        .args(["--user", "--map-root-user", "sh", "-c", none])
        .arg(place.path().join("pagewise"));
    command.args(["run", "--fold", "--with", "text-huge", "--"]).arg(&program);
    let Ok(done) = command.stdin(Stdio::null()).output() else {
        return println!("SKIP {TEST}: no unshare");
    };
    let reported = said(&done.stderr);
    if !reported.contains("--fold") {
        return println!("SKIP {TEST}: {reported}");
    }
    assert_eq!((done.status.code(), done.stdout.is_empty()), (Some(125), true), "{reported}");
    assert!(
        reported.contains("`unshare` on a mount namespace") && reported.contains("help: "),
        "{reported}"
    );
}

#[test]
fn a_copy_cannot_be_written_by_what_sees_it() {
    const TEST: &str = "a_copy_cannot_be_written_by_what_sees_it";
    for user in users() {
        let Some((place, program)) = with_program(TEST) else { return };
        let list = format!("text-huge={}", program.display());
        // Not even one that nothing runs from: ETXTBSY would say nothing.
        let script = "import os,sys\n\
                      for call in [lambda p: os.open(p, os.O_WRONLY), lambda p: os.chmod(p, 0o777), \
                      lambda p: os.truncate(p, 0), lambda p: os.utime(p)]:\n\
                      \ttry: call(sys.argv[1]); print('done')\n\
                      \texcept OSError as e: print(os.strerror(e.errno))";
        let mut command = fold(place.path(), user, &list);
        command.args(["python3", "-c", script]).arg(&program);
        let done = command.output().unwrap();
        let reported = said(&done.stderr);
        if is_refused(&reported) {
            println!("SKIP {TEST}: {reported}");
            continue;
        }
        assert_eq!(said(&done.stdout), "Read-only file system\n".repeat(4), "{reported}");
        let mut command = fold(place.path(), user, "text-huge");
        command.arg(&program);
        let Some(child) = waiting(command, TEST) else { continue };
        let (reported, is_as_built) = ended(child);
        assert!(is_as_built, "{reported}");
    }
}
