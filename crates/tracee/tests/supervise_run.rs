//! Runs below a supervisor with known results.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says when it skips"
)]

mod helper;

use helper::{agent, install};
use pagewise_model::plan::{ArmSettings, EnvMerge, ThpRestriction, WatchAction};
use pagewise_model::units::{Bytes, Nanos};
use pagewise_model::usage::ProgramEnd;
use pagewise_tracee::checkpoint::RunCheckpoint;
use pagewise_tracee::launch::{LaunchError, OutputSink, ProgramLaunch, StdinSource};
use pagewise_tracee::run::FinishedRun;
use pagewise_tracee::supervise::{RunSupervisor, SuperviseError};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

fn supervisor() -> RunSupervisor {
    RunSupervisor::start(&agent(), &["supervise"]).unwrap()
}

fn words(argv: &[&str]) -> ProgramLaunch {
    ProgramLaunch::experiment(argv.iter().map(OsString::from).collect())
}

fn sh(script: &str) -> ProgramLaunch {
    words(&["/bin/sh", "-c", script])
}

fn run(launch: &ProgramLaunch) -> Result<FinishedRun, SuperviseError> {
    supervisor().run(launch, &|| false)
}

fn output_of(mut launch: ProgramLaunch) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("out");
    launch.stdout = OutputSink::File(file.clone());
    let finished = run(&launch).unwrap();
    assert_eq!(finished.usage.ended, ProgramEnd::Exited(0));
    std::fs::read(file).unwrap()
}

fn refused(launch: &ProgramLaunch) -> LaunchError {
    match run(launch) {
        Err(SuperviseError::Launch(error)) => error,
        other => panic!("was not refused: {other:?}"),
    }
}

fn executable(dir: &Path, name: &str, text: &str) -> PathBuf {
    let (file, written) = (dir.join(name), dir.join("text"));
    std::fs::write(&written, text).unwrap();
    install(&written, &file);
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
    file
}

#[test]
fn exit_statuses_and_signals_come_through() {
    let mut supervisor = supervisor();
    for status in [0, 1, 2, 41, 125, 126, 127, 128, 137, 254, 255] {
        let finished = supervisor.run(&sh(&format!("exit {status}")), &|| false).unwrap();
        assert_eq!(finished.usage.ended, ProgramEnd::Exited(status));
    }
    for signal in [libc::SIGTERM, libc::SIGKILL, libc::SIGSEGV, libc::SIGINT] {
        let finished = supervisor.run(&sh(&format!("kill -{signal} $$")), &|| false).unwrap();
        assert_eq!(finished.usage.ended, ProgramEnd::Signaled(signal));
    }
}

#[test]
fn what_cannot_be_started_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let path = |p: PathBuf| words(&[p.to_str().unwrap()]);
    assert_eq!(refused(&words(&["no-such-command-here"])).exit_code(), 127);
    assert_eq!(refused(&words(&[])), LaunchError::Empty);
    assert_eq!(refused(&words(&["/"])).exit_code(), 126);
    let plain = dir.join("plain");
    std::fs::write(&plain, "x").unwrap();
    assert_eq!(refused(&path(plain)).exit_code(), 126);
    let orphan = refused(&path(executable(dir, "orphan", "#!/no/such/interpreter\n")));
    assert!(orphan.to_string().contains("/no/such/interpreter"), "{orphan}");
    assert_eq!(orphan.exit_code(), 127);
    let garbage = refused(&path(executable(dir, "garbage", "\x7fELF\0\0\0\0")));
    assert_eq!(garbage.exit_code(), 126);
    let marked = executable(dir, "marked", "#!/bin/sh\n");
    std::fs::set_permissions(&marked, PermissionsExt::from_mode(0o4755)).unwrap();
    assert!(matches!(refused(&path(marked)), LaunchError::SetuidRefused { .. }));
    let mut lost = sh("true");
    lost.cwd = Some("/no/such/directory".into());
    assert!(refused(&lost).to_string().contains("/no/such/directory"));
    let mut mute = sh("true");
    mute.stdin = StdinSource::File("/no/such/input".into());
    assert!(refused(&mute).to_string().contains("/no/such/input"));
}

/// Rights come from the program that the kernel finally starts: the interpreter of the interpreter.
#[test]
fn a_script_is_refused_when_its_interpreter_has_rights() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let copied = Command::new("cp").arg("/bin/sh").arg(dir.join("shell")).status();
    assert!(copied.unwrap().success());
    let shell = dir.join("shell").display().to_string();
    let first = executable(dir, "first", &format!("#! {shell} -e\ntrue\n"));
    let second = executable(dir, "second", &format!("#!{}\ntrue\n", first.display()));
    let relative = executable(dir, "relative", "#!./shell\ntrue\n");
    let launch = |path: &PathBuf| {
        let mut launch = words(&[path.to_str().unwrap()]);
        launch.cwd = Some(dir.to_owned());
        launch
    };
    for script in [&first, &second, &relative] {
        assert_eq!(run(&launch(script)).unwrap().usage.ended, ProgramEnd::Exited(0));
    }
    let marks = |mode| std::fs::set_permissions(&shell, PermissionsExt::from_mode(mode)).unwrap();
    let all_refused = |why: &str| {
        for script in [&first, &second, &relative] {
            let error = refused(&launch(script));
            assert!(matches!(error, LaunchError::SetuidRefused { .. }), "{error}");
            assert!(error.to_string().contains(why), "{error}");
            assert!(error.to_string().contains("shell"), "{error}");
        }
    };
    marks(0o4755);
    all_refused("is setuid");
    marks(0o2755);
    all_refused("is setgid");
    marks(0o755);
    // CAP_NET_RAW, permitted and effective.
    let capability = [[1, 0, 0, 2], [0, 0x20, 0, 0], [0; 4], [0; 4], [0; 4]].concat();
    let flags = rustix::fs::XattrFlags::empty();
    match rustix::fs::setxattr(&shell, "security.capability", &capability, flags) {
        Ok(()) => all_refused("has file capabilities"),
        Err(e) => println!("SKIP capabilities of an interpreter: setxattr: {e}"),
    }
}

#[test]
fn scripts_run_with_and_without_their_first_line() {
    let dir = tempfile::tempdir().unwrap();
    for text in ["#!/bin/sh\necho \"[$1]\"\n", "echo \"[$1]\"\n"] {
        let script = executable(dir.path(), "script", text);
        let out = output_of(words(&[script.to_str().unwrap(), "a b"]));
        assert_eq!(out, b"[a b]\n");
    }
}

#[test]
fn arguments_arrive_byte_for_byte() {
    let odd = OsString::from_vec(b"\xff\xfe".to_vec());
    let mut launch = words(&[agent().to_str().unwrap(), "args", "a b", "", "'\"$x"]);
    launch.argv.push(odd);
    assert_eq!(output_of(launch), b"a b\n\n'\"$x\n\xff\xfe\n");
}

#[test]
fn input_and_output_files_are_exact() {
    let dir = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> =
        (0..3_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let input = dir.path().join("in");
    std::fs::write(&input, &bytes).unwrap();
    let mut launch = words(&["cat"]);
    launch.stdin = StdinSource::File(input);
    assert_eq!(output_of(launch), bytes);
    let both = dir.path().join("both");
    let mut launch = sh("echo out; echo err >&2; echo more");
    launch.stdout = OutputSink::File(both.clone());
    launch.stderr = OutputSink::File(both.clone());
    run(&launch).unwrap();
    assert_eq!(std::fs::read(both).unwrap(), b"out\nerr\nmore\n");
}

#[test]
fn a_drained_pipe_takes_everything_and_io_is_counted() {
    let bytes = 100_u64 << 20;
    let mut launch = words(&["head", "-c", &bytes.to_string(), "/dev/zero"]);
    launch.stdout = OutputSink::Pipe;
    let finished = run(&launch).unwrap();
    assert_eq!(finished.usage.ended, ProgramEnd::Exited(0));
    let written = finished.usage.written_bytes.unwrap().0;
    assert!((bytes..bytes + 4096).contains(&written), "{written}");
    assert!(finished.usage.read_bytes.unwrap().0 >= bytes);
    assert!(finished.supervisor_ns.0 > 0, "the drain's time counts");
}

#[test]
fn faults_of_touched_pages_are_counted() {
    let pages = |n: u32| {
        let mut launch = words(&[agent().to_str().unwrap(), "touch", &n.to_string()]);
        launch.settings.thp = Some(ThpRestriction::Off);
        run(&launch).unwrap().usage
    };
    let (few, many) = (pages(1), pages(20_000));
    let faults = many.minor_faults - few.minor_faults;
    // Start-up faults differ by a few from run to run.
    assert!((19_900..20_400).contains(&faults) && many.minor_faults >= 20_000, "{faults}");
    let grown = many.peak_rss_bytes.0.saturating_sub(few.peak_rss_bytes.0);
    assert!(grown > 19_000 * 4096, "{grown}");
    assert!(many.wall_ns.0 > 0 && many.cpu_ns().0 > 0);
}

#[test]
fn limits_kill_the_whole_tree() {
    let mut launch = sh("sleep 600 & sleep 600 | cat; wait");
    launch.timeout_ns = Some(Nanos::millis(200));
    let finished = run(&launch).unwrap();
    assert!(finished.timed_out && !finished.over_memory);
    assert_eq!(finished.usage.ended, ProgramEnd::Signaled(libc::SIGKILL));
    let mut launch =
        words(&["python3", "-c", "x = bytearray(1 << 28)\nimport time\ntime.sleep(600)"]);
    launch.memory_limit_bytes = Some(Bytes::mib(100));
    match run(&launch) {
        Ok(finished) => assert!(finished.over_memory && !finished.timed_out),
        Err(SuperviseError::Launch(LaunchError::NotFound { .. })) => {
            println!("SKIP limits_kill_the_whole_tree: python3 is not installed");
        }
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_run_ends_at_its_checkpoint() {
    let copies = "dd if=/dev/zero of=/dev/null bs=64k";
    for script in [format!("exec {copies}"), format!("{copies}; true")] {
        let at = Bytes::mib(400);
        let launch = ProgramLaunch { checkpoint: Some(RunCheckpoint::At(at)), ..sh(&script) };
        let usage = run(&launch).unwrap().usage;
        assert_eq!(usage.ended, ProgramEnd::Checkpoint, "{script}");
        let moved = usage.read_bytes.unwrap() + usage.written_bytes.unwrap();
        assert!(moved >= at, "{script}: {moved}");
        assert!(usage.sys_ns > Nanos(0), "{script}: its processes count, waited for or not");
    }
    let checkpoint = Some(RunCheckpoint::At(Bytes::gib(1)));
    let usage = run(&ProgramLaunch { checkpoint, ..sh("true") }).unwrap().usage;
    assert_eq!(usage.ended, ProgramEnd::Exited(0), "it did less");
}

#[test]
fn leftovers_are_killed_and_counted_whatever_session_they_flee_to() {
    let dir = tempfile::tempdir().unwrap();
    let list = dir.path().join("pids");
    let script = format!(
        "sleep 600 & echo $! > {0}; setsid sleep 600 & echo $! >> {0}; (sleep 600 & echo $! >> {0})",
        list.display()
    );
    let finished = run(&sh(&script)).unwrap();
    assert_eq!(finished.usage.ended, ProgramEnd::Exited(0));
    assert_eq!(finished.leftovers_killed, 3);
    for pid in std::fs::read_to_string(list).unwrap().lines() {
        assert!(!Path::new("/proc").join(pid).exists(), "{pid} survived");
    }
}

#[test]
fn the_program_gets_no_descriptor_of_ours_and_default_signals() {
    let script = "ls /proc/self/fd; grep -E '^Sig(Ign|Blk)' /proc/self/status";
    let mut launch = sh(script);
    launch.stderr = OutputSink::Pipe;
    let ours = seen(&output_of(launch));
    // The tests may have been started with open descriptors. The program gets those either way.
    let direct = Command::new("sh").args(["-c", script]).output().unwrap();
    assert_eq!(ours, seen(&direct.stdout));
}

/// Lines with each signal mask cut to the 31 standard signals. Higher signals belong to the C library.
fn seen(text: &[u8]) -> Vec<String> {
    let cut = |line: &str| match line.split_once(":\t") {
        Some((name, mask)) => {
            format!("{name} {:x}", u64::from_str_radix(mask, 16).unwrap() & 0x7fff_ffff)
        }
        None => line.to_owned(),
    };
    std::str::from_utf8(text).unwrap().lines().map(cut).collect()
}

#[test]
fn settings_reach_the_program() {
    let merge = EnvMerge {
        name: "GLIBC_TUNABLES".into(),
        separator: Some(':'),
        entries: vec!["glibc.malloc.hugetlb=1".into()],
    };
    let mut launch =
        sh("echo $GLIBC_TUNABLES; grep -E 'THP_enabled|Cpus_allowed_list' /proc/self/status; \
         cat /proc/self/oom_score_adj; ps -o sid= -p $$ | tr -d ' '; echo $$");
    launch.settings = ArmSettings {
        env: vec![merge],
        thp: Some(ThpRestriction::Off),
        cpus: Some(vec![0]),
        ..ArmSettings::default()
    };
    let text = String::from_utf8(output_of(launch)).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].contains("glibc.malloc.hugetlb=1"), "{text}");
    assert!(text.contains("Cpus_allowed_list:\t0\n"), "{text}");
    assert!(text.contains("THP_enabled:\t0\n"), "{text}");
    assert!(text.contains("\n800\n"), "{text}");
    let mut placed = sh("exit 0");
    placed.settings.cpus = Some(vec![0]);
    assert_eq!(run(&placed).unwrap().cpus_at_end, [0]);
    assert_eq!(lines[lines.len() - 2], lines[lines.len() - 1], "own session: {text}");
}

#[test]
fn pipes_grow_while_data_stays_exact() {
    let dir = tempfile::tempdir().unwrap();
    let sum = dir.path().join("sum");
    let script = format!(
        "head -c 100000000 /dev/zero | (sleep 1.5; cat) | (sleep 3; cat) | cksum > {}",
        sum.display()
    );
    let mut launch = sh(&script);
    launch.settings.watches = vec![WatchAction::GrowPipes {
        capacity_bytes: Bytes::mib(1),
        budget_bytes: Bytes::mib(16),
    }];
    launch.stdout = OutputSink::Pipe;
    let mut supervisor = supervisor();
    let finished = supervisor.run(&launch, &|| false).unwrap();
    assert!(finished.watches[0].counter >= 2, "{finished:?}");
    let mut direct = sh(&format!("head -c 100000000 /dev/zero | cksum > {}", sum.display()));
    let through_pipes = std::fs::read(&sum).unwrap();
    direct.settings = ArmSettings::default();
    supervisor.run(&direct, &|| false).unwrap();
    assert_eq!(through_pipes, std::fs::read(&sum).unwrap());
}

#[test]
fn pipes_that_are_not_the_programs_own_are_never_touched() {
    use std::os::fd::AsRawFd;
    // The supervisor and the program inherit it, as a shell's `pagewise ... 9>&1 | reader` would do.
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    let before = rustix::pipe::fcntl_getpipe_size(&reader).unwrap();
    let number = writer.as_raw_fd();
    let mut launch = sh(&format!(
        "head -c 1000000 /dev/zero | (sleep 1; cat >/dev/null); echo from the program >&{number}"
    ));
    launch.stdout = OutputSink::Pipe;
    launch.stderr = OutputSink::Pipe;
    launch.settings.watches = vec![WatchAction::GrowPipes {
        capacity_bytes: Bytes::mib(1),
        budget_bytes: Bytes::mib(16),
    }];
    let mut supervisor = supervisor();
    let finished = supervisor.run(&launch, &|| false).unwrap();
    assert_eq!(finished.watches[0].counter, 1, "only the pipe of head: {finished:?}");
    assert_eq!(rustix::pipe::fcntl_getpipe_size(&reader).unwrap(), before);
    let mut text = [0; 64];
    let len = rustix::io::read(&reader, &mut text).unwrap();
    assert_eq!(&text[..len], b"from the program\n");
}

#[test]
fn a_wrong_socket_is_refused() {
    for number in ["1", "900", "x"] {
        let end = Command::new(agent()).args(["supervise", number]).output().unwrap();
        assert_eq!(end.status.code(), Some(1), "{number}");
    }
}

#[test]
fn memory_is_touched_and_freed() {
    let done = supervisor().condition(Bytes::mib(64), &|| false).unwrap();
    assert!(done.faults >= 32, "at least one fault for each 2 MiB: {done:?}");
    // System time is counted by the ticks that fall in it. A short run may have none, or slightly too much.
    let is_timed = |_| {
        let again = supervisor().condition(Bytes::mib(64), &|| false).unwrap();
        again.wall_ns >= again.sys_ns && again.sys_ns.0 > 0
    };
    assert!((0..20).any(is_timed));
    let nothing = supervisor().condition(Bytes(0), &|| false).unwrap();
    assert!(nothing.faults < done.faults + 32);
}

#[test]
fn an_interrupt_stops_the_run_and_the_supervisor_serves_on() {
    let mut supervisor = supervisor();
    let started = std::time::Instant::now();
    let interrupted = || started.elapsed().as_millis() > 100;
    let stopped = supervisor.run(&sh("sleep 600 | sleep 600"), &interrupted);
    assert!(matches!(stopped, Err(SuperviseError::Interrupted)), "{stopped:?}");
    let again = supervisor.run(&sh("exit 3"), &|| false).unwrap();
    assert_eq!(again.usage.ended, ProgramEnd::Exited(3));
}

#[test]
fn a_traced_run_comes_back_and_can_be_stopped() {
    let mut supervisor = supervisor();
    let scratch = [PathBuf::from("/one"), PathBuf::from("/two")];
    let traced = supervisor.traced(&sh("exit 4"), &scratch, &|| false).unwrap();
    assert_eq!(traced.ended, ProgramEnd::Exited(4));
    let spared: Vec<&str> = traced.effects.iter().map(|e| e.subject.as_str()).collect();
    assert_eq!(spared, ["/one", "/two"]);
    let refused = supervisor.traced(&words(&["untraceable"]), &[], &|| false);
    assert!(matches!(refused, Err(SuperviseError::Trace(why)) if why == "it said so itself"));
    let missing = supervisor.traced(&words(&["no-such-command-here"]), &[], &|| false);
    assert!(matches!(missing, Err(SuperviseError::Launch(LaunchError::NotFound { .. }))));
    let started = std::time::Instant::now();
    let interrupted = || started.elapsed().as_millis() > 100;
    let stopped = supervisor.traced(&sh("sleep 600 | sleep 600"), &[], &interrupted);
    assert!(matches!(stopped, Err(SuperviseError::Interrupted)), "{stopped:?}");
    let again = supervisor.run(&sh("exit 3"), &|| false).unwrap();
    assert_eq!(again.usage.ended, ProgramEnd::Exited(3));
}

#[test]
fn a_traced_run_keeps_its_limits() {
    let mut supervisor = supervisor();
    let mut launch = sh("sleep 600 | sleep 600");
    launch.timeout_ns = Some(Nanos::millis(200));
    let refused = supervisor.traced(&launch, &[], &|| false);
    assert!(matches!(&refused, Err(SuperviseError::Trace(why)) if why.contains("within 0.2 s")));
    let mut launch = touching(20_000);
    launch.memory_limit_bytes = Some(Bytes::mib(40));
    let refused = supervisor.traced(&launch, &[PathBuf::from("/one")], &|| false);
    let Err(SuperviseError::Trace(why)) = &refused else { panic!("{refused:?}") };
    assert!(why.contains("40.0 MiB") && why.ends_with("; it had spared `/one`"), "{why}");
    launch.memory_limit_bytes = Some(Bytes::mib(400));
    launch.timeout_ns = Some(Nanos::secs(1));
    let ended = supervisor.traced(&launch, &[], &|| false);
    assert!(matches!(ended, Err(SuperviseError::Trace(why)) if why.contains("within 1.0 s")));
}

/// Touches pages and waits.
fn touching(pages: u32) -> ProgramLaunch {
    let helper = agent();
    let [helper, pages] = [helper.to_str().unwrap().to_owned(), pages.to_string()];
    words(&[helper.as_str(), "hold", pages.as_str()])
}

#[test]
fn pages_that_a_tree_shares_count_once() {
    // Forked shells share their parent's memory.
    let script = "x=$(head -c 40000000 /dev/zero | tr '\\0' x); \
                  for i in 1 2 3 4 5 6 7 8; do (sleep 0.6; exit 0) & done; wait; : $x";
    let mut launch = sh(script);
    launch.memory_limit_bytes = Some(Bytes::mib(250));
    let finished = run(&launch).unwrap();
    assert!(!finished.over_memory, "{finished:?}");
    assert_eq!(finished.usage.ended, ProgramEnd::Exited(0));
    let mut launch = touching(60_000);
    launch.memory_limit_bytes = Some(Bytes::mib(200));
    assert!(run(&launch).unwrap().over_memory);
}

#[test]
fn a_wait_for_a_cpu_is_no_sleep() {
    let spin = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    let delayed = |script: &str| {
        let mut launch = sh(script);
        launch.observe.run_delay = true;
        launch.settings.cpus = Some(vec![0]);
        let usage = run(&launch).unwrap().usage;
        usage.run_delay_ns.unwrap().0 as f64 / usage.wall_ns.0 as f64
    };
    // Two children alternate on one CPU: each waits while the other runs.
    let both = delayed(&format!("sh -c '{spin}; :' & sh -c '{spin}; :'; wait"));
    assert!(both > 0.5, "{both}");
    let asleep = delayed("sleep 0.5");
    assert!(asleep < 0.5, "{asleep}");
}

#[test]
fn an_answer_too_long_is_told_in_short() {
    let mut supervisor = supervisor();
    let launch = words(&["sh", "-c", "exit 3", "tell-too-much"]);
    let refused = supervisor.traced(&launch, &[], &|| false);
    assert!(matches!(&refused, Err(SuperviseError::Trace(why)) if why.contains("too long")));
    let again = supervisor.run(&sh("exit 3"), &|| false).unwrap();
    assert_eq!(again.usage.ended, ProgramEnd::Exited(3));
}

#[test]
fn as_an_ordinary_user_the_same_holds() {
    helper::run_again_as_an_ordinary_user();
}
