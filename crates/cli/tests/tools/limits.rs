//! The tools at the limits: small pipes, descriptors that do not block, closed ones, full disks, empty inputs.
//! What arrives is exact or the error is reported, and nothing hangs.

use super::{Draw, PAGEWISE, end, ours, run, shell};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::fs::{self, File, Permissions};
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Each tool as a filter, in each of its ways to move bytes.
pub(super) const FILTERS: [&[&str]; 6] = [
    &["cat"],
    &["cat", "-v"],
    &["tee"],
    &["meter", "-q"],
    &["meter", "-q", "-C"],
    &["meter", "-q", "-l"],
];

pub(super) fn filter(words: &[&str]) -> Command {
    let mut command = ours(words[0]);
    command.args(&words[1..]);
    command
}

fn is_non_blocking(fd: impl AsFd) -> bool {
    fcntl_getfl(fd).unwrap().contains(OFlags::NONBLOCK)
}

/// Writes in small pieces. The other end reads with pauses.
fn feed(mut to: PipeWriter, bytes: &[u8]) {
    for piece in bytes.chunks(70_000) {
        to.write_all(piece).unwrap();
        std::thread::yield_now();
    }
}

fn drain(mut from: PipeReader) -> Vec<u8> {
    let (mut all, mut piece) = (Vec::new(), vec![0; 30_000]);
    loop {
        match from.read(&mut piece).unwrap() {
            0 => return all,
            n => all.extend_from_slice(&piece[..n]),
        }
        std::thread::yield_now();
    }
}

#[test]
fn descriptors_that_do_not_block_are_waited_for_and_left_so() {
    let content = Draw(5).bytes(b"abc\n", 2_000_003);
    for words in FILTERS {
        let (from, feeder) = std::io::pipe().unwrap();
        let (drainer, to) = std::io::pipe().unwrap();
        for fd in [from.as_fd(), to.as_fd()] {
            fcntl_setfl(fd, fcntl_getfl(fd).unwrap() | OFlags::NONBLOCK).unwrap();
        }
        let (from_here, to_here) = (from.try_clone().unwrap(), to.try_clone().unwrap());
        let child = filter(words).stdin(from).stdout(to).spawn().unwrap();
        let got = std::thread::scope(|scope| {
            scope.spawn(|| feed(feeder, &content));
            let got = scope.spawn(|| drain(drainer));
            assert!(end(child).success(), "{words:?}");
            assert!(is_non_blocking(&from_here) && is_non_blocking(&to_here), "{words:?}");
            drop(to_here);
            got.join().unwrap()
        });
        assert!(got == content, "{words:?}: {} of {} bytes", got.len(), content.len());
    }
}

#[test]
fn pipes_of_one_slot_are_enough() {
    let content = Draw(6).bytes(b"abc\n", 600_001);
    for words in FILTERS {
        let (from, feeder) = std::io::pipe().unwrap();
        let (drainer, to) = std::io::pipe().unwrap();
        for pipe in [from.as_fd(), to.as_fd()] {
            rustix::pipe::fcntl_setpipe_size(pipe, 1).unwrap();
        }
        let child = filter(words).stdin(from).stdout(to).spawn().unwrap();
        let got = std::thread::scope(|scope| {
            scope.spawn(|| feed(feeder, &content));
            drain(drainer)
        });
        assert!(end(child).success() && got == content, "{words:?}");
    }
}

/// A user's soft limit on pipe memory, in pages. `None` without a limit.
fn soft_limit() -> Option<u64> {
    fs::read_to_string("/proc/sys/fs/pipe-user-pages-soft").ok()?.trim().parse().ok()
}

#[test]
fn a_pipeline_beyond_the_users_pipe_memory_is_exact() {
    // 16384 pages are 64 pipes of 1 MiB. Each stage has one pipe to the next, grown as far as possible, and a
    // meter or tee has up to two more. Beyond the limit pipes have two slots.
    const STAGES: usize = 90;
    if !soft_limit().is_some_and(|pages| (1..=16_384).contains(&pages)) {
        eprintln!(
            "SKIP a_pipeline_beyond_the_users_pipe_memory: fs.pipe-user-pages-soft is raised"
        );
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let program = place.path().join("pagewise");
    // A separate process copies it: a child that another thread starts would hold it open for writing.
    assert!(Command::new("cp").arg(PAGEWISE).arg(&program).status().unwrap().success());
    fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
    let tools = ["cat", "meter -q", "tee"];
    let stages: Vec<String> =
        (0..STAGES).map(|at| format!("./pagewise {}", tools[at % 3])).collect();
    let line = format!("seq 3000000 | {} | cksum; seq 3000000 | cksum", stages.join(" | "));
    let mut command = Command::new("bash");
    if rustix::process::geteuid().is_root() {
        // The limit does not apply to root.
        command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--", "bash"]);
    }
    command.args(["-c", &line]);
    let output = run(command, place.path(), b"");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let sums: Vec<&str> = text.lines().collect();
    if sums.is_empty() && !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        eprintln!("SKIP a_pipeline_beyond_the_users_pipe_memory: {why}");
        return;
    }
    assert!(sums.len() == 2 && sums[0] == sums[1], "{output:?}");
}

#[test]
fn an_input_without_a_byte_ends_at_once() {
    let place = tempfile::tempdir().unwrap();
    for words in FILTERS {
        let piped = run(filter(words), place.path(), b"");
        assert!(piped.status.success() && piped.stdout.is_empty(), "{words:?}");
        assert!(piped.stderr.is_empty(), "{words:?}");
        let null = filter(words).stdin(Stdio::null()).output().unwrap();
        assert!(null.status.success() && null.stdout.is_empty(), "{words:?}");
    }
}

/// How the shell line ends with each tool in place of TOOL.
fn by_tool(line: &str, place: &Path) -> [Output; 3] {
    ["cat", "tee", "meter -q"].map(|tool| shell(line, &format!("{PAGEWISE} {tool}"), place))
}

#[test]
fn closed_descriptors_are_errors() {
    let place = tempfile::tempdir().unwrap();
    for (line, status) in [("TOOL <&-; exit $?", [1, 1, 2]), ("seq 9 | TOOL >&-", [1, 1, 2])] {
        let ended = by_tool(line, place.path());
        assert_eq!(ended.each_ref().map(|ended| ended.status.code().unwrap()), status, "{line}");
        for ended in ended {
            let text = String::from_utf8_lossy(&ended.stderr).into_owned();
            assert!(text.contains("Bad file descriptor"), "{line}: {text}");
        }
    }
}

#[test]
fn a_full_device_is_reported_by_its_side() {
    let place = tempfile::tempdir().unwrap();
    let ended = by_tool("seq 100000 | TOOL > /dev/full", place.path());
    assert_eq!(ended.each_ref().map(|ended| ended.status.code().unwrap()), [1, 1, 16]);
    for ended in ended {
        let text = String::from_utf8_lossy(&ended.stderr).into_owned();
        let blames_the_sink = text.contains("write error") || text.contains("'standard output'");
        assert!(blames_the_sink && text.contains("No space left on device"), "{text}");
    }
}

#[test]
fn a_disk_that_fills_up_holds_what_went_before() {
    let place = tempfile::tempdir().unwrap();
    let content = Draw(8).bytes(b"abc\n", 3_000_000);
    fs::write(place.path().join("big"), &content).unwrap();
    let small = "mkdir -p disk && mount -t tmpfs -o size=1m none disk";
    let can = Command::new("unshare")
        .args(["-m", "bash", "-c", small])
        .current_dir(place.path())
        .output()
        .is_ok_and(|ended| ended.status.success());
    if !can {
        eprintln!("SKIP a_disk_that_fills_up: no private mounts here (needs root)");
        return;
    }
    // From a pipe and from a file. The part that was written is the input's beginning.
    for source in ["cat big | TOOL > disk/out", "TOOL < big > disk/out"] {
        let line = format!("{small} || exit 99; {source}; end=$?; cmp big disk/out; exit $end");
        for (tool, status) in [("cat", 1), ("tee", 1), ("meter -q", 16)] {
            let line = line.replace("TOOL", &format!("{PAGEWISE} {tool}"));
            let mut command = Command::new("unshare");
            command.args(["-m", "bash", "-c", &line]);
            let ended = run(command, place.path(), b"");
            let text = String::from_utf8_lossy(&ended.stderr).into_owned();
            assert_eq!(ended.status.code(), Some(status), "{tool}, {source}: {text}");
            assert!(text.contains("No space left on device"), "{tool}, {source}: {text}");
            assert!(text.contains("EOF on disk/out"), "{tool}, {source}: {text}");
        }
    }
}

#[test]
fn a_slow_reader_of_tee_loses_nothing_and_sets_the_pace() {
    let place = tempfile::tempdir().unwrap();
    let fifo = place.path().join("slow");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let content = Draw(9).bytes(b"abc\n", 5_000_001);
    let (from, feeder) = std::io::pipe().unwrap();
    let (drainer, to) = std::io::pipe().unwrap();
    let mut command = ours("tee");
    let child = command.arg(&fifo).stdin(from).stdout(to).spawn().unwrap();
    drop(command);
    let (quick, slow) = std::thread::scope(|scope| {
        scope.spawn(|| feed(feeder, &content));
        let mut slow = File::open(&fifo).unwrap();
        let quick = scope.spawn(|| drain(drainer));
        // The slow side has no reader yet, so the quick one cannot get everything, however long it waits.
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(!quick.is_finished());
        let mut got = Vec::new();
        slow.read_to_end(&mut got).unwrap();
        (quick.join().unwrap(), got)
    });
    assert!(end(child).success());
    assert!(quick == content && slow == content);
}

/// valgrind hides the kernel's vDSO from a program. The program must not search for it by other means.
#[test]
fn tools_run_under_valgrind() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("SKIP tools_run_under_valgrind: no valgrind (apt: valgrind)");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    for words in [&["cat"][..], &["tee", "copy"], &["meter", "-f", "-P", "pid"]] {
        let mut command = Command::new("valgrind");
        command.args(["-q", "--error-exitcode=99", "--log-file=errors", PAGEWISE]).args(words);
        let output = run(command, place.path(), b"some text\n");
        let said = fs::read_to_string(place.path().join("errors")).unwrap();
        assert_eq!(output.status.code(), Some(0), "{words:?}: {said}");
        assert_eq!(output.stdout, b"some text\n");
    }
}
