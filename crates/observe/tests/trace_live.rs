//! The traced look against programs of known behaviour.
//!
//! The test runs itself as some of the programs; the first argument then names the role. Otherwise the first
//! argument that is not an option selects tests by part of their names.
#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used, reason = "a test program")]

#[path = "trace_live/checkpoint.rs"]
mod checkpoint;
#[path = "trace_live/effects.rs"]
mod effects;
#[path = "trace_live/input.rs"]
mod input;
#[path = "trace_live/memory.rs"]
mod memory;
#[path = "trace_live/outside.rs"]
mod outside;

use pagewise_kernel::page_size;
use pagewise_model::code_tlb::{CodeBurst, STEPS_TO_FILL};
use pagewise_model::look::{AccessPattern, Allocator, TracedLook};
use pagewise_model::plan::{FileKind, WatchAction};
use pagewise_model::usage::ProgramEnd;
use pagewise_model::{Bytes, Nanos};
use pagewise_observe::trace::{TraceError, TraceOptions, traced_run};
use pagewise_tracee::launch::{LaunchError, OutputSink, ProgramLaunch, StdinSource};
use pagewise_tracee::supervise::{
    self, LookOptions, RunSupervisor, SuperviseError, TakeAccount, TraceFunctions,
};
use pagewise_tracee::watcher::{RunWatcher, WatchContext};
use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    match args.get(1).map(String::as_str) {
        Some("maps") => role_maps(),
        Some("walk") => role_walk(&args[2]),
        Some("threads") => role_threads(),
        Some("urgent") => role_urgent(),
        Some("spawns") => role_spawns(),
        Some("binds") => role_binds(&args[2]),
        Some("supervise") => role_supervise(&args[2]),
        _ => run_all(filter(&args[1..])),
    }
}

/// The first argument that is not an option of the usual harness: part of the names to run.
fn filter(args: &[String]) -> Option<&str> {
    args.iter().map(String::as_str).find(|arg| !arg.starts_with('-'))
}

fn run_all(filter: Option<&str>) {
    let tests: [(&str, fn()); 33] = [
        ("options_are_no_filter", options_are_no_filter),
        ("setuid_programs_are_refused", setuid_programs_are_refused),
        ("scripts_of_setuid_interpreters_are_refused", scripts_of_setuid_interpreters_are_refused),
        ("mapping_calls_are_counted_exactly", memory::mapping_calls_are_counted_exactly),
        (
            "blocks_of_malloc_are_told_by_their_caller",
            memory::blocks_of_malloc_are_told_by_their_caller,
        ),
        ("huge_pages_switched_off_are_seen", memory::huge_pages_switched_off_are_seen),
        ("effects_are_found", effects::effects_are_found),
        ("harmless_commands_have_no_effects", effects::harmless_commands_have_no_effects),
        ("rarer_effects_are_found", effects::rarer_effects_are_found),
        ("objects_of_others_are_seen_to_go", effects::objects_of_others_are_seen_to_go),
        ("calls_beyond_the_tree_are_effects", outside::calls_beyond_the_tree_are_effects),
        ("the_same_on_things_of_ones_own_is_none", outside::the_same_on_things_of_ones_own_is_none),
        ("device_nodes_are_effects", outside::device_nodes_are_effects),
        ("settings_of_the_kernel_are_effects", outside::settings_of_the_kernel_are_effects),
        (
            "each_use_of_the_input_ends_the_look_before",
            input::each_use_of_the_input_ends_the_look_before,
        ),
        (
            "programs_are_ended_at_the_first_use_whoever_makes_it",
            input::programs_are_ended_at_the_first_use_whoever_makes_it,
        ),
        ("questions_about_the_input_are_no_uses", input::questions_about_the_input_are_no_uses),
        ("own_mounts_are_looked_into", effects::own_mounts_are_looked_into),
        ("calls_of_other_tables_are_reported", effects::calls_of_other_tables_are_reported),
        ("a_pipe_has_its_ends", a_pipe_has_its_ends),
        ("endings_are_passed_on", endings_are_passed_on),
        ("processes_are_described", processes_are_described),
        ("large_files_that_are_read_are_reported", large_files_that_are_read_are_reported),
        (
            "files_that_are_written_and_stay_are_reported",
            files_that_are_written_and_stay_are_reported,
        ),
        ("bytes_through_calls_are_each_images_own", bytes_through_calls_are_each_images_own),
        ("threads_and_signals_work", threads_and_signals_work),
        (
            "a_thread_that_waits_for_its_child_is_left_alone",
            a_thread_that_waits_for_its_child_is_left_alone,
        ),
        ("output_is_the_same", output_is_the_same),
        ("access_patterns_differ", access_patterns_differ),
        ("code_is_stepped_in_long_bursts", code_is_stepped_in_long_bursts),
        ("failures_are_named", failures_are_named),
        ("it_works_below_a_supervisor", it_works_below_a_supervisor),
        ("long_programs_end_at_a_checkpoint", checkpoint::long_programs_end_at_a_checkpoint),
    ];
    let mut count = 0;
    for (name, test) in tests.into_iter().filter(|(name, _)| name.contains(filter.unwrap_or(""))) {
        test();
        println!("test {name} ... ok");
        count += 1;
    }
    assert!(count > 0 || filter.is_some(), "no test was run");
    println!("{count} tests run");
}

fn options_are_no_filter() {
    let picked = |args: &[&str]| {
        let args: Vec<String> = args.iter().map(ToString::to_string).collect();
        filter(&args).map(str::to_owned)
    };
    assert_eq!(picked(&["--show-output"]), None);
    assert_eq!(picked(&["--show-output", "pipe", "x"]), Some("pipe".to_owned()));
}

fn role_supervise(fd: &str) {
    let make = |_: &WatchAction, _: &WatchContext| -> Box<dyn RunWatcher> {
        panic!("no watcher was asked for")
    };
    let account: TakeAccount<'_> = &|_| panic!("no account was asked for");
    let looks = TraceFunctions { trace: &pagewise_observe::trace::look, account };
    supervise::serve(fd.parse().unwrap(), &make, looks).unwrap();
}

/// Larger than glibc's largest threshold: such a block is always a separate mapping.
const BLOCK: Bytes = Bytes::mib(40);

fn role_maps() {
    for _ in 0..100 {
        drop(std::hint::black_box(Vec::<u8>::with_capacity(BLOCK.0 as usize)));
    }
}

/// Changes words of 64 MiB, at random in all or in one of them, or in order. The operations are no calls in any
/// build.
fn role_walk(kind: &str) {
    let mask = if kind == "narrow" { 0x1_ffff } else { 0x7f_ffff };
    let random = kind != "sequential";
    let mut owned = vec![0_u64; 8 << 20];
    let words: &mut [u64] = &mut owned;
    words.fill(1);
    let mut at = 1_u64;
    let begin = pagewise_kernel::clock::thread_cpu();
    while pagewise_kernel::clock::thread_cpu() < begin + Nanos::millis(700) {
        let mut left = 20_000;
        while left > 0 {
            left -= 1;
            if random {
                at ^= at << 13;
                at ^= at >> 7;
                at ^= at << 17;
            } else {
                at += 1;
            }
            words[at as usize & mask] ^= 1;
        }
    }
    std::hint::black_box(&words);
}

fn role_threads() {
    let sum: u64 = (0..6_u64)
        .map(|n| std::thread::spawn(move || (0..200_000).fold(n, |a, b| a ^ (b * 3))))
        .collect::<Vec<_>>()
        .into_iter()
        .map(|t| t.join().unwrap())
        .sum();
    println!("{sum}");
}

/// Signals itself as the Go runtime does, and counts the signals that arrive.
fn role_urgent() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let arrived = std::sync::Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(libc::SIGURG, arrived.clone()).unwrap();
    let seen = (0..500).filter(|_| {
        signal_hook::low_level::raise(libc::SIGURG).unwrap();
        arrived.swap(false, Ordering::SeqCst)
    });
    println!("{}", seen.count());
}

/// Starts programs as posix_spawn does: the caller sleeps, unstoppable, until its child has executed the
/// program. Between two starts it computes, so that it is chosen for stepping.
fn role_spawns() {
    let begin = std::time::Instant::now();
    while begin.elapsed() < std::time::Duration::from_millis(1500) {
        std::hint::black_box((0..30_000_u64).fold(0, |a, b| a ^ (b * 3)));
        assert!(Command::new("true").status().unwrap().success());
    }
}

fn role_binds(path: &str) {
    drop(std::os::unix::net::UnixListener::bind(path).unwrap());
    std::fs::remove_file(path).unwrap();
}

fn own(role: &[&str]) -> Vec<OsString> {
    let exe = std::env::current_exe().unwrap().into_os_string();
    std::iter::once(exe).chain(role.iter().map(OsString::from)).collect()
}

fn shell(dir: &Path, command: &str) -> ProgramLaunch {
    let argv = ["sh", "-c", command].map(OsString::from).to_vec();
    ProgramLaunch { cwd: Some(dir.to_owned()), ..ProgramLaunch::experiment(argv) }
}

/// One of the small C programs, in a new directory. `None` without a C compiler.
fn built(test: &str, program: &str) -> Option<(tempfile::TempDir, PathBuf)> {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join(program);
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs");
    let source = sources.join(program).with_extension("c");
    let built = Command::new("cc").arg("-o").args([&to, &source]).arg("-lpthread").status();
    if built.is_ok_and(|status| status.success()) {
        return Some((dir, to));
    }
    println!("SKIP {test}: no C compiler");
    None
}

fn look(launch: &ProgramLaunch) -> TracedLook {
    traced_run(launch, &TraceOptions::default()).unwrap()
}

fn a_pipe_has_its_ends() {
    let seen = look(&shell(Path::new("/"), "cat /bin/ls | wc -c"));
    let pid = |name: &str| {
        let of = |p: &&pagewise_model::look::TracedProcess| p.exe.ends_with(name);
        seen.processes.iter().find(of).unwrap_or_else(|| panic!("{:?}", seen.processes)).pid
    };
    let pipes: Vec<_> = seen.pipes.iter().filter(|p| !p.inherited).collect();
    assert_eq!(pipes.len(), 1, "{:?}", seen.pipes);
    assert_eq!(pipes[0].writers, [pid("/cat")]);
    assert_eq!(pipes[0].readers, [pid("/wc")]);
    assert!(pipes[0].capacity_bytes >= Bytes(4096));
}

fn endings_are_passed_on() {
    let root = Path::new("/");
    let table = [
        ("exit 7", ProgramEnd::Exited(7)),
        ("kill -TERM $$", ProgramEnd::Signaled(libc::SIGTERM)),
        ("kill -KILL $$", ProgramEnd::Signaled(libc::SIGKILL)),
        ("sh -c 'kill -SEGV $$' 2>/dev/null; exit $?", ProgramEnd::Exited(128 + libc::SIGSEGV)),
        ("trap 'exit 9' USR1; kill -USR1 $$; sleep 5", ProgramEnd::Exited(9)),
        ("trap '' CHLD; (exit 3); true", ProgramEnd::Exited(0)),
        (
            "sh -c 'kill -STOP $$; exit 4' & sleep 0.1; kill -CONT $!; wait $!",
            ProgramEnd::Exited(4),
        ),
        ("set -m; sleep 0.05 & wait $!; (exit 5)", ProgramEnd::Exited(5)),
        ("exec sh -c 'exit 6'", ProgramEnd::Exited(6)),
        ("sleep 100 & exit 0", ProgramEnd::Exited(0)),
        ("(for i in $(seq 300); do sleep 60 & done) & sleep 0.1", ProgramEnd::Exited(0)),
    ];
    for (command, ended) in table {
        assert_eq!(look(&shell(root, command)).ended, ended, "{command}");
    }
}

fn processes_are_described() {
    let seen = look(&shell(Path::new("/"), "ls -d / >/dev/null; exec ls -d /"));
    assert_eq!(seen.processes.len(), 3, "{:?}", seen.processes);
    for process in &seen.processes {
        assert_eq!(process.incomplete, None, "{process:?}");
        assert_eq!(process.allocator, Allocator::Glibc);
        assert!(!process.is_static);
        assert!(process.peak_rss_bytes > Bytes(0) && process.minor_faults > 0);
        assert!(process.page_table_bytes > Bytes(0) && process.traced_life_ns > Nanos(0));
    }
    assert_eq!(seen.processes[1].args, ["ls", "-d", "/"]);
    assert!(seen.processes[2].exe.ends_with("/ls"));
    assert_eq!(seen.most_processes, 2);
    assert!(seen.descriptor_kinds["device"] > 0);
}

fn large_files_that_are_read_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().canonicalize().unwrap();
    let huge = usize::try_from(page_size::huge().bytes()).unwrap();
    for name in ["read", "input", "written", "both"] {
        std::fs::write(dir.join(name), vec![b'x'; 2 * huge]).unwrap();
    }
    std::fs::write(dir.join("small"), "x").unwrap();
    let command = "wc -c read small both >counts; wc -c >counts; echo >>written; echo >>both; \
                   cat written read >made; cat made >copy";
    let launch = shell(&dir, command);
    let seen = look(&ProgramLaunch { stdin: StdinSource::File(dir.join("input")), ..launch });
    let inputs = seen.files.iter().filter(|file| file.kind == FileKind::Input);
    let mut paths: Vec<&Path> = inputs.clone().map(|file| Path::new(&file.path)).collect();
    // The system's own programs also read their locale. Those paths are left out.
    paths.retain(|path| path.starts_with(&dir));
    paths.sort();
    assert_eq!(paths, [dir.join("input"), dir.join("read")]);
    assert!(
        inputs
            .filter(|file| Path::new(&file.path).starts_with(&dir))
            .all(|file| { file.slots.0.len() == 2 && file.size_bytes == Bytes(2 * huge as u64) })
    );
}

fn files_that_are_written_and_stay_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("old"), "x").unwrap();
    let script =
        "echo > made; echo > part; mv part whole; echo > gone; rm gone; cat old; echo >> old";
    let seen = look(&ProgramLaunch { stdout: OutputSink::Null, ..shell(dir.path(), script) });
    let root = dir.path().canonicalize().unwrap();
    let paths = ["made", "old", "whole"].map(|name| root.join(name).display().to_string());
    assert_eq!(seen.written, paths);
    let look = LookOptions { scratch: vec![root], ..LookOptions::default() };
    let options = TraceOptions { look, ..TraceOptions::default() };
    let own = traced_run(
        &ProgramLaunch { stdout: OutputSink::Null, ..shell(dir.path(), script) },
        &options,
    );
    assert!(own.unwrap().written.is_empty(), "scratch files are no results");
}

fn bytes_through_calls_are_each_images_own() {
    let copy = "dd if=/dev/zero of=/dev/null bs=1000000 count=";
    let seen = look(&shell(Path::new("/"), &format!("{copy}2 2>&1; exec {copy}5 2>&1")));
    let moved: Vec<u64> = seen.processes.iter().map(|p| p.moved_bytes.unwrap().0).collect();
    // The loader's reads of libraries are added.
    assert!((4_000_000..4_100_000).contains(&moved[1]), "{moved:?}");
    // The program that the shell became includes what the shell waited for.
    assert!((14_000_000..14_200_000).contains(&moved[2]), "{moved:?}");
}

fn threads_and_signals_work() {
    let seen = look(&ProgramLaunch::experiment(own(&["threads"])));
    assert!(seen.processes[0].threads >= 2, "{:?}", seen.processes);
    assert_eq!(seen.ended, ProgramEnd::Exited(0));
    assert_eq!(seen.processes[0].incomplete, None);
}

/// The look must end: waiting for a stop inside such a start would never end.
fn a_thread_that_waits_for_its_child_is_left_alone() {
    let options = TraceOptions { pattern: true, ..TraceOptions::default() };
    for _ in 0..3 {
        let seen = traced_run(&ProgramLaunch::experiment(own(&["spawns"])), &options).unwrap();
        assert_eq!(seen.ended, ProgramEnd::Exited(0));
        assert!(seen.processes.len() > 10, "{}", seen.processes.len());
    }
}

fn output_is_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let commands: [Vec<OsString>; 4] = [
        own(&["threads"]),
        own(&["urgent"]),
        ["sh", "-c", "for i in 1 2 3; do (echo $i; exit $i) | cat; done; ls / | sort -r"]
            .map(OsString::from)
            .to_vec(),
        ["sh", "-c", "trap 'echo got' USR1; for i in 1 2 3 4 5; do kill -USR1 $$; done; seq 1 20000 | tail -1"]
            .map(OsString::from)
            .to_vec(),
    ];
    for argv in commands {
        let plain = Command::new(&argv[0]).args(&argv[1..]).output().unwrap();
        let file = dir.path().join("out");
        let launch = ProgramLaunch {
            stdout: OutputSink::File(file.clone()),
            ..ProgramLaunch::experiment(argv.clone())
        };
        for code in [false, true] {
            let options = TraceOptions { pattern: true, code, ..TraceOptions::default() };
            let seen = traced_run(&launch, &options).unwrap();
            assert_eq!(seen.ended, ProgramEnd::Exited(plain.status.code().unwrap()));
            assert_eq!(std::fs::read(&file).unwrap(), plain.stdout, "{argv:?}");
        }
    }
}

/// A loop over memory needs few pages of code, and no burst of it is cut short.
fn code_is_stepped_in_long_bursts() {
    let options = TraceOptions { pattern: true, code: true, ..TraceOptions::default() };
    let seen = traced_run(&ProgramLaunch::experiment(own(&["walk", "narrow"])), &options).unwrap();
    let stepped = seen.stepped.expect("it was asked for");
    let steps = |burst: &CodeBurst| burst.runs.iter().map(|run| run.1).sum::<u32>();
    assert!(stepped.tlb.base_entries > 0 && stepped.bursts.len() >= 3, "{}", stepped.bursts.len());
    assert!(stepped.bursts.iter().all(|burst| steps(burst) <= 2 * STEPS_TO_FILL));
    let long: Vec<&CodeBurst> =
        stepped.bursts.iter().filter(|burst| steps(burst) == 2 * STEPS_TO_FILL).collect();
    assert!(!long.is_empty() && long.iter().all(|burst| burst.after_ns > Nanos::millis(1)));
    let pages: HashSet<u64> = long[0].runs.iter().map(|run| run.0).collect();
    assert!(pages.len() < 32, "{} pages of code", pages.len());
}

fn access_patterns_differ() {
    let options = TraceOptions { pattern: true, ..TraceOptions::default() };
    let look = |kind| {
        let launch = ProgramLaunch::experiment(own(&["walk", kind]));
        let seen = traced_run(&launch, &options).unwrap();
        println!("  {kind}: {:?}, {:?}", seen.pattern, seen.footprint);
        (seen.pattern.known().unwrap().clone(), seen.footprint.known().cloned())
    };
    let [(random, wide), (_, narrow)] = ["random", "narrow"].map(look);
    assert!(random.bursts >= 3 && random.instructions > 500);
    assert!(random.jumps as f64 > 0.01 * random.accesses as f64);
    assert!(random.jumps > 10 * random.next_pages);
    // There are no jumps within a lap. A burst may meet the jump between two laps, but not in each of three
    // looks.
    let is_in_order = |seen: AccessPattern| (seen.jumps as f64) < 0.0002 * seen.accesses as f64;
    assert!((0..3).any(|_| is_in_order(look("sequential").0)));
    assert!(random.jump_span_bytes >= Bytes::mib(16));
    assert!(random.jump_huge_bytes <= random.jump_span_bytes);
    // 64 MiB are more than a TLB covers, 1 MiB is not.
    match wide.zip(narrow) {
        Some((wide, narrow)) => assert!(wide.new_pages_per_ms > 10.0 * narrow.new_pages_per_ms),
        None => println!("  SKIP footprints: this kernel has no accessed bits to read"),
    }
}

fn setuid_programs_are_refused() {
    use std::os::unix::fs::MetadataExt;
    let foreign = |path: &&str| {
        std::fs::metadata(path).is_ok_and(|meta| {
            meta.mode() & libc::S_ISUID != 0
                && meta.uid() != rustix::process::geteuid().as_raw()
                && meta.mode() & libc::S_IXOTH != 0
        })
    };
    let Some(path) = ["/bin/su", "/usr/bin/passwd", "/bin/mount"].into_iter().find(foreign) else {
        println!("SKIP setuid_programs_are_refused: no program here is setuid to another user");
        return;
    };
    let nested = shell(Path::new("/"), &format!("{path} --help; true"));
    let error = traced_run(&nested, &TraceOptions::default()).unwrap_err();
    assert!(matches!(error, TraceError::Setuid { .. }), "{error}");
}

/// A script gets its rights from its interpreter, and the tree may start one at any time.
fn scripts_of_setuid_interpreters_are_refused() {
    use std::os::unix::fs::{PermissionsExt, chown};
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let copied = Command::new("cp").args([Path::new("/bin/sh"), &at("shell")]).status();
    assert!(copied.unwrap().success());
    let marked = |name: &str, mode| {
        std::fs::set_permissions(at(name), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    std::fs::write(at("script"), format!("#!{}\ntrue\n", at("shell").display())).unwrap();
    marked("script", 0o755);
    let launch = shell(dir.path(), "./script; true");
    assert_eq!(look(&launch).ended, ProgramEnd::Exited(0));
    // A set-uid shell of the same account would gain nothing.
    if !rustix::process::geteuid().is_root() || chown(at("shell"), Some(65534), None).is_err() {
        println!("SKIP scripts_of_setuid_interpreters_are_refused: only root can give files away");
        return;
    }
    marked("shell", 0o4755);
    let error = traced_run(&launch, &TraceOptions::default()).unwrap_err();
    assert!(matches!(&error, TraceError::Setuid { path } if path.ends_with("shell")), "{error}");
}

fn failures_are_named() {
    let missing = ProgramLaunch::experiment(vec!["no-such-command-here".into()]);
    let error = traced_run(&missing, &TraceOptions::default()).unwrap_err();
    assert!(matches!(error, TraceError::Launch(_)), "{error}");
    let nested = traced_run(&shell(Path::new("/"), "/no/such/file"), &TraceOptions::default());
    assert_eq!(nested.unwrap().ended, ProgramEnd::Exited(127));
}

fn it_works_below_a_supervisor() {
    let exe = std::env::current_exe().unwrap();
    let mut supervisor = RunSupervisor::start(&exe, &["supervise"]).unwrap();
    let traced =
        supervisor.traced(&shell(Path::new("/"), "echo x | cat; exit 4"), &[], &|| false).unwrap();
    assert_eq!(traced.ended, ProgramEnd::Exited(4));
    assert_eq!(traced.pipes.iter().filter(|p| !p.inherited).count(), 1, "{:?}", traced.pipes);
    let missing = ProgramLaunch::experiment(vec!["no-such-command-here".into()]);
    let missing = supervisor.traced(&missing, &[], &|| false);
    assert!(matches!(missing, Err(SuperviseError::Launch(LaunchError::NotFound { .. }))));
    let dir = effects::prepared_dir();
    let slow = ProgramLaunch {
        timeout_ns: Some(Nanos::secs(1)),
        ..shell(dir.path(), "rm a; sleep 60 & while :; do :>/dev/null; done")
    };
    let late = supervisor.traced(&slow, &[], &|| false);
    let Err(SuperviseError::Trace(why)) = &late else { panic!("{late:?}") };
    assert!(why.contains("within 1.0 s") && why.contains("; it had removed `"), "{why}");
    let started = std::time::Instant::now();
    let interrupted = || started.elapsed().as_millis() > 100;
    let endless = shell(Path::new("/"), "sleep 600 | sleep 600");
    let stopped = supervisor.traced(&endless, &[], &interrupted);
    assert!(matches!(stopped, Err(SuperviseError::Interrupted)), "{stopped:?}");
    let again = supervisor.run(&shell(Path::new("/"), "exit 3"), &|| false).unwrap();
    assert_eq!(again.usage.ended, ProgramEnd::Exited(3));
}
