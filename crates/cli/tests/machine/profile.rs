//! Profiles of programs whose work is known, and of processes that are already running. The tests assert orders
//! with large margins, never times.

use crate::helper::{NOBODY, PROGRAM, Place, install, is_root, only_turn, said};
use pagewise_model::body::RunBody;
use pagewise_model::profile::{
    ProfileActivity, ProfileReason, ProfileReport, SamplingClock, SortedSamples,
};
use pagewise_model::run::SavedRun;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};

fn profile(place: &Place, words: &[&str]) -> (ProfileReport, SavedRun) {
    let mut command = place.pagewise(&["profile", "--json"]);
    let output = command.args(words).output().unwrap();
    assert!(output.status.success(), "{}", said(&output.stderr));
    let run = SavedRun::from_json(&output.stdout).unwrap();
    let Some(RunBody::Profile(profile)) = &run.body else { panic!("no profile") };
    (profile.clone(), run)
}

/// The buckets of `command`. `None`, after a `SKIP` line, if samples are refused.
fn sorted(test: &str, command: &[&str]) -> Option<SortedSamples> {
    let words: Vec<&str> = ["--"].iter().chain(command).copied().collect();
    match profile(&Place::new(), &words).0.sorted {
        pagewise_model::Fact::Known(sorted) => Some(sorted),
        pagewise_model::Fact::Missing(why) => {
            println!("SKIP {test}: {why}");
            None
        }
    }
}

fn of(sorted: &SortedSamples, holds: impl Fn(ProfileActivity, &ProfileReason) -> bool) -> u64 {
    let held = sorted.buckets.iter().filter(|bucket| holds(bucket.what, &bucket.why));
    held.map(|bucket| bucket.samples).sum()
}

fn by_why(sorted: &SortedSamples, why: &ProfileReason) -> u64 {
    of(sorted, |_, own| own == why)
}

/// Every sample is explained, and the sums agree.
fn assert_whole(sorted: &SortedSamples) {
    assert_eq!(of(sorted, |_, _| true), sorted.samples);
    assert!(sorted.unclassified_share() <= 0.05, "{:#?}", sorted.unclassified);
}

#[test]
fn a_pipeline_is_for_its_pipe_in_both_programs() {
    let _turn = only_turn();
    let script = "head -c 600M /dev/zero | wc -c";
    let Some(sorted) = sorted("a_pipeline_is_for_its_pipe", &["sh", "-c", script]) else { return };
    assert_whole(&sorted);
    let pipe = by_why(&sorted, &ProfileReason::Pipe);
    assert!(pipe * 2 > sorted.kernel_samples, "{sorted:#?}");
    assert!(
        of(&sorted, |what, why| what == ProfileActivity::Copy && *why == ProfileReason::Pipe) > 0
    );
    let of_pipe = || sorted.buckets.iter().filter(|bucket| bucket.why == ProfileReason::Pipe);
    let has = |process: &&str| {
        of_pipe().flat_map(|b| &b.graph).any(|line| line.depth == 0 && line.name == **process)
    };
    assert!(["head", "wc"].iter().all(has), "{sorted:#?}");
}

#[test]
fn reading_zeroes_is_a_copy_of_a_call_and_no_fresh_page() {
    let _turn = only_turn();
    let command = ["dd", "if=/dev/zero", "of=/dev/null", "bs=1M", "count=8000"];
    let Some(sorted) = sorted("reading_zeroes_is_a_copy_of_a_call", &command) else { return };
    assert_whole(&sorted);
    let cleared = of(&sorted, |what, why| {
        what == ProfileActivity::Copy && *why == ProfileReason::Call("read".into())
    });
    assert!(cleared * 2 > sorted.kernel_samples, "{sorted:#?}");
    assert!(of(&sorted, |what, _| what == ProfileActivity::Zeroing) * 10 < cleared, "{sorted:#?}");
}

#[test]
fn first_touches_are_for_anonymous_faults() {
    let _turn = only_turn();
    let Some(sorted) =
        sorted("first_touches_are_for_anonymous_faults", &[PROGRAM, "__helper", "touch"])
    else {
        return;
    };
    assert_whole(&sorted);
    let touched = by_why(&sorted, &ProfileReason::AnonFault);
    let others = sorted.buckets.iter().filter(|bucket| bucket.what != ProfileActivity::User);
    let most = others.map(|bucket| by_why(&sorted, &bucket.why)).max();
    assert_eq!(most, Some(touched), "{sorted:#?}");
    assert!(
        of(&sorted, |what, why| what == ProfileActivity::Zeroing
            && *why == ProfileReason::AnonFault)
            > 0
    );
}

#[test]
fn a_process_that_executes_again_and_again_is_for_exec() {
    let _turn = only_turn();
    let script = "[ $1 -lt 300 ] && exec sh -c \"$0\" \"$0\" $(($1+1)); :";
    let command = ["sh", "-c", script, script, "0"];
    let Some(sorted) = sorted("a_process_that_executes_again", &command) else { return };
    assert_whole(&sorted);
    assert_eq!(sorted.begun_tasks, 0);
    assert!(by_why(&sorted, &ProfileReason::Exec) * 20 > sorted.kernel_samples, "{sorted:#?}");
}

#[test]
fn a_process_that_forks_a_large_heap_is_for_fork() {
    const TEST: &str = "a_process_that_forks_a_large_heap";
    let _turn = only_turn();
    let script =
        "$x = 'a' x (256 << 20); for (1 .. 20) { my $p = fork; $p or exit; waitpid $p, 0 }";
    if Command::new("perl").args(["-e", ""]).status().is_err() {
        return println!("SKIP {TEST}: no perl");
    }
    let Some(sorted) = sorted(TEST, &["perl", "-e", script]) else { return };
    assert_whole(&sorted);
    // A process's own clock does not see its first period, and the report says so.
    assert_eq!(sorted.begun_tasks, 20);
    assert!(by_why(&sorted, &ProfileReason::Fork) * 20 > sorted.kernel_samples, "{sorted:#?}");
    assert!(by_why(&sorted, &ProfileReason::Pipe) * 10 < sorted.kernel_samples, "{sorted:#?}");
}

/// Whether whole CPUs were sampled. If not, prints a line.
fn is_of_cpus(test: &str, sorted: &SortedSamples) -> bool {
    if let SamplingClock::Tasks { why } = &sorted.clock {
        println!("SKIP {test}: {why}");
    }
    sorted.clock == SamplingClock::Cpus
}

#[test]
fn exec_and_exit_of_short_processes_count_where_whole_cpus_are_sampled() {
    const TEST: &str = "exec_and_exit_of_short_processes_count";
    let _turn = only_turn();
    let script = "i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i + 1)); done";
    let Some(sorted) = sorted(TEST, &["sh", "-c", script]) else { return };
    assert_whole(&sorted);
    assert_eq!(sorted.begun_tasks, 300);
    if is_of_cpus(TEST, &sorted) {
        assert!(by_why(&sorted, &ProfileReason::Exec) * 10 > sorted.kernel_samples, "{sorted:#?}");
        assert!(by_why(&sorted, &ProfileReason::Exit) * 50 > sorted.kernel_samples, "{sorted:#?}");
        assert_eq!(sorted.blind_ns().0, 0);
    }
}

#[test]
fn memory_released_at_exit_counts_where_whole_cpus_are_sampled() {
    const TEST: &str = "memory_released_at_exit_counts";
    let _turn = only_turn();
    let script = "for (1 .. 10) { my $p = fork; $p or do { $x = 'a' x (128 << 20); exit }; \
                  waitpid $p, 0 }";
    if Command::new("perl").args(["-e", ""]).status().is_err() {
        return println!("SKIP {TEST}: no perl");
    }
    let Some(sorted) = sorted(TEST, &["perl", "-e", script]) else { return };
    assert_whole(&sorted);
    if is_of_cpus(TEST, &sorted) {
        let released = of(&sorted, |what, why| {
            what == ProfileActivity::Unmapping && *why == ProfileReason::Exit
        });
        assert!(released * 50 > sorted.kernel_samples, "{sorted:#?}");
    }
}

#[test]
fn the_work_of_others_is_left_out_where_whole_cpus_are_sampled() {
    const TEST: &str = "the_work_of_others_is_left_out";
    let _turn = only_turn();
    let _busy = Runs::start("while :; do :; done");
    let Some(sorted) = sorted(TEST, &["sleep", "0.5"]) else { return };
    if is_of_cpus(TEST, &sorted) {
        // Half a second of another program would be a thousand samples.
        assert!(sorted.samples < 100, "{sorted:#?}");
        let names = sorted.buckets.iter().flat_map(|bucket| &bucket.graph);
        let roots: Vec<&str> = names.filter(|l| l.depth == 0).map(|l| l.name.as_str()).collect();
        assert!(roots.iter().all(|name| *name == "sleep"), "{roots:?}");
    }
}

/// A program that runs until it is killed; killed when dropped.
struct Runs(Child);

impl Runs {
    fn start(script: &str) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

#[test]
fn a_running_process_is_profiled_and_runs_on() {
    let _turn = only_turn();
    let mut busy = Runs::start("while :; do :; done");
    let pid = busy.0.id().to_string();
    let (profile, run) = profile(&Place::new(), &["-p", &pid, "--for", "1s"]);
    assert!(busy.0.try_wait().unwrap().is_none(), "it has ended");
    let course = profile.course.as_ref().unwrap();
    assert_eq!((course.pid.to_string(), course.has_ended), (pid, false));
    assert!(course.threads >= 1 && course.user_ns.is_some());
    assert!(run.diagnosis.is_some() && run.command[0].ends_with("sh"));
    // A shell that counts has no memory that a remedy could serve.
    assert!(run.predictions.iter().all(|one| one.gain_share < 0.05), "{:?}", run.predictions);
    let Some(sorted) = profile.sorted.known() else {
        println!("SKIP a_running_process_is_profiled: {:?}", profile.sorted.reason());
        return;
    };
    assert!(
        of(sorted, |what, _| what == ProfileActivity::User) * 2 > sorted.samples,
        "{sorted:#?}"
    );
    assert!(sorted.buckets[0].graph[0].name == "sh", "{sorted:#?}");
}

#[test]
fn gains_of_a_running_process_are_predicted() {
    let test = "gains_of_a_running_process_are_predicted";
    if std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled")
        .map_or(true, |text| !text.contains("[madvise]"))
    {
        println!("SKIP {test}: this kernel gives huge pages to all or none");
        return;
    }
    if Command::new("python3").arg("--version").output().is_err() {
        println!("SKIP {test}: no python3");
        return;
    }
    let _turn = only_turn();
    // malloc maps a block of 80 MiB, fills it and gives it back, again and again.
    let script = "exec python3 -c 'while True: x = bytearray(80 << 20); del x'";
    let filling = Runs::start(script);
    let place = Place::new();
    let words = ["-p", &filling.0.id().to_string(), "--for", "2s"];
    let (_, run) = profile(&place, &words);
    let best = run.predictions.first().unwrap_or_else(|| panic!("{:?}", run.candidates));
    assert!(best.gain_share > 0.2 && best.is_guess(), "{:?}", run.predictions);
    let shown = place.pagewise(&["show", &run.id]).output().unwrap();
    let text = said(&shown.stdout);
    assert!(text.contains("less time (") && text.contains("tune --serve"), "{text}");
}

#[test]
fn children_of_a_running_process_are_followed_and_its_end_is_the_end() {
    let _turn = only_turn();
    let script = "(while :; do :; done) & inner=$!; sleep 1.5; kill $inner; wait";
    let busy = Runs::start(script);
    // The shell has started its child once that is listed below it.
    let children = format!("/proc/{0}/task/{0}/children", busy.0.id());
    while std::fs::read_to_string(&children).is_ok_and(|listed| listed.trim().is_empty()) {
        std::thread::yield_now();
    }
    let (profile, _) = profile(&Place::new(), &["-p", &busy.0.id().to_string()]);
    let course = profile.course.as_ref().unwrap();
    assert!(course.has_ended, "{course:?}");
    let Some(sorted) = profile.sorted.known() else {
        println!("SKIP children_of_a_running_process: {:?}", profile.sorted.reason());
        return;
    };
    assert!(course.children >= 1 && sorted.samples > 0, "{profile:#?}");
}

#[test]
fn a_process_that_is_not_there_is_refused() {
    let output = Place::new().pagewise(&["profile", "-p", "2147483647"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output.stderr).contains("no process"), "{}", said(&output.stderr));
}

#[test]
fn without_rights_buckets_without_a_figure_are_named() {
    use std::os::unix::process::CommandExt;
    let _turn = only_turn();
    if !is_root() {
        println!("SKIP without_rights: only root can give up its rights");
        return;
    }
    let place = Place::new();
    let copy = place.path().join("pagewise");
    install(Path::new(PROGRAM), &copy);
    for path in [place.path(), copy.as_path()] {
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    crate::helper::give_prices(&place.path().join(".cache"));
    let mut command = Command::new(&copy);
    command.args(["profile", "--json", "--", "true"]).uid(NOBODY).gid(NOBODY);
    command.env("HOME", place.path()).env_remove("XDG_STATE_HOME").env_remove("XDG_CACHE_HOME");
    let output = command.current_dir("/").stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", said(&output.stderr));
    let run = SavedRun::from_json(&output.stdout).unwrap();
    let Some(RunBody::Profile(profile)) = run.body else { panic!("no profile") };
    match profile.sorted {
        pagewise_model::Fact::Known(_) => println!("SKIP without_rights: anybody may sample here"),
        pagewise_model::Fact::Missing(why) => {
            assert!(why.contains("perf_event_paranoid") || why.contains("kptr_restrict"), "{why}");
            assert!(profile.unseen.contains(&ProfileActivity::Lock));
            assert!(run.diagnosis.is_some_and(|diagnosis| !diagnosis.costs.is_empty()));
        }
    }
}

#[test]
fn samples_go_out_as_folded_stacks_and_come_in_again() {
    let place = Place::new();
    let spin = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; cat /dev/zero | head -c 50000000 > /dev/null";
    let mut command = place.pagewise(&["profile", "--format", "folded", "--", "sh", "-c", spin]);
    let out = command.output().unwrap();
    if out.status.code() == Some(3) {
        return println!("SKIP samples_go_out: {}", said(&out.stderr));
    }
    let folded = said(&out.stdout);
    let count = |line: &str| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap();
    let total: u64 = folded.lines().map(count).sum();
    assert!(total > 0 && folded.lines().any(|line| line.starts_with("sh")), "{folded}");
    let file = place.path().join("app.folded");
    std::fs::write(&file, &folded).unwrap();
    let name = file.to_str().unwrap();
    let again = place.pagewise(&["profile", "--json", "--import", name]).output().unwrap();
    let again: serde_json::Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(again["profile"]["sorted"]["known"]["samples"], total, "{again:#}");
    let script = "app 1/1 [0] 1.0: 250000 cpu-clock:\n\tffffffff81000007 clear_page_erms+0x7 ([kernel.kallsyms])\n\
                  \tffffffff81000009 do_anonymous_page+0x9 ([kernel.kallsyms])\n\
                  \tffffffff82000010 asm_exc_page_fault+0x26 ([kernel.kallsyms])\n\t55d4 main+0x24 (/app)\n\n";
    std::fs::write(&file, script).unwrap();
    let shown = place.pagewise(&["profile", "--import", name]).output().unwrap();
    assert!(said(&shown.stdout).contains("zeroing"), "{shown:?}");
    std::fs::write(&file, "PERFILE2").unwrap();
    let refused = place.pagewise(&["profile", "--import", name]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let text = said(&refused.stderr);
    assert!(text.contains("cut off") && text.contains("perf script"), "{text}");
}

#[test]
fn what_perf_recorded_is_sorted_and_goes_out_to_pprof() {
    let place = Place::new();
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../observe/fixtures/perf.data");
    let import = |words: &[&str]| {
        let all = [&["profile", "--import", recorded.to_str().unwrap()], words].concat();
        let output = place.pagewise(&all).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        output.stdout
    };
    let run: serde_json::Value = serde_json::from_slice(&import(&["--json"])).unwrap();
    assert_eq!(run["profile"]["sorted"]["known"]["samples"], 58, "{run:#}");
    let file = place.path().join("app.pb.gz");
    std::fs::write(&file, import(&["--format", "pprof"])).unwrap();
    let go = crate::helper::go()
        .args(["tool", "pprof", "-raw"])
        .arg(&file)
        .env("HOME", place.path())
        .env("PPROF_TMPDIR", place.path())
        .output();
    let Ok(go) = go else { return println!("SKIP what_perf_recorded: no go tool pprof") };
    let text = said(&go.stdout);
    assert!(go.status.success() && text.contains("samples/count cpu/nanoseconds"), "{go:?}");
    let stacks = text.lines().skip_while(|line| !line.starts_with("Samples:")).skip(2);
    let counts = stacks.map_while(|line| line.split_once(':'));
    let numbers =
        counts.filter_map(|(values, _)| values.split_whitespace().next()?.parse::<u64>().ok());
    assert_eq!(numbers.sum::<u64>(), 58, "{text}");
}

/// Imports the bytes, which are written to standard input slowly.
fn imported_from_pipe(place: &Place, bytes: &[u8]) -> std::process::Output {
    let mut command = place.pagewise(&["profile", "--import", "-", "--format", "folded"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut to = child.stdin.take().unwrap();
    for piece in [&bytes[..5], &bytes[5..]] {
        // The command may refuse the input before its end.
        let _closed = to.write_all(piece);
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    drop(to);
    child.wait_with_output().unwrap()
}

const RECORDED: &[u8] = include_bytes!("../../../observe/fixtures/perf.data");

#[test]
fn what_perf_recorded_may_come_from_a_pipe() {
    let place = Place::new();
    let out = imported_from_pipe(&place, RECORDED);
    let count = |line: &str| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap();
    assert_eq!(said(&out.stdout).lines().map(count).sum::<u64>(), 58, "{}", said(&out.stderr));
    // The temporary copy of the input has no name.
    assert_eq!(
        std::fs::read_dir(place.path())
            .unwrap()
            .flatten()
            .filter(|entry| entry.path().is_file())
            .count(),
        0
    );
}

#[test]
fn a_recording_of_another_byte_order_is_named_as_such() {
    let place = Place::new();
    let file = place.path().join("swapped.data");
    let mut swapped = RECORDED.to_vec();
    swapped[..8].reverse();
    std::fs::write(&file, &swapped).unwrap();
    let of_file =
        place.pagewise(&["profile", "--import", file.to_str().unwrap()]).output().unwrap();
    for out in [of_file, imported_from_pipe(&place, &swapped)] {
        let text = said(&out.stderr);
        assert_eq!(out.status.code(), Some(2));
        assert!(
            text.contains("another byte order")
                && text.contains("help: on its machine: perf script"),
            "{text}"
        );
    }
}

#[test]
fn a_fifo_that_nobody_writes_to_is_empty() {
    let place = Place::new();
    let fifo = place.path().join("run.json");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let out = place.pagewise(&["profile", "--import", fifo.to_str().unwrap()]).output().unwrap();
    let text = said(&out.stderr);
    assert!(out.status.code() == Some(2) && text.contains("it is empty"), "{text}");
}
