//! The program against the kernel: what it passes on, what it leaves behind, and who has to wait.
//!
//! Experiments take the machine's one lock, so these tests take turns. An experiment waits while another
//! process holds the lock, and skips if that takes too long.

use crate::helper::{PROGRAM, Place, await_gone, experiment, once_free, only_turn, said};
use pagewise_kernel::lock::ExperimentLock;
use pagewise_model::body::{BenchReport, RunBody};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Ways to start a program through `run`: by exec alone, with the tools of pagewise in it, and supervised.
const WAYS: [&str; 3] = ["", "pipe-tools", "pipe-grow"];

fn through(with: &str, words: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(["run", "--with", with, "--"]).args(words);
    command.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
    command
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_child(child)
}

#[test]
fn run_passes_streams_status_and_signal_on() {
    for with in WAYS {
        let mut child = through(with, &["sh", "-c", "cat; echo err >&2; exit 7"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(b"through\n").unwrap();
        let done = child.wait_with_output().unwrap();
        assert_eq!(done.status.code(), Some(7), "{with}");
        assert_eq!(done.stdout, b"through\n", "{with}");
        assert_eq!(done.stderr, b"err\n", "{with}");
        let killed = through(with, &["sh", "-c", "kill -SEGV $$"]).output().unwrap();
        assert_eq!(killed.status.signal(), Some(Signal::SEGV.as_raw()), "{with}");
        assert!(killed.stderr.is_empty(), "{with}");
    }
}

#[test]
fn run_hands_a_signal_to_the_program() {
    for with in WAYS {
        let script = "trap 'echo caught; exit 5' TERM; echo ready; while :; do sleep 0.02; done";
        let mut child =
            through(with, &["sh", "-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        let mut ready = [0; 6];
        out.read_exact(&mut ready).unwrap();
        kill_process(pid_of(&child), Signal::TERM).unwrap();
        let mut rest = String::new();
        out.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "caught\n", "{with}");
        assert_eq!(child.wait().unwrap().code(), Some(5), "{with}");
    }
}

#[test]
fn run_ends_by_a_closed_pipe_like_the_program() {
    for with in WAYS {
        let mut child = through(with, &["yes"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = [0; 2];
        child.stdout.take().unwrap().read_exact(&mut line).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(Signal::PIPE.as_raw()), "{with}");
    }
}

#[test]
fn run_grows_the_pipe_of_a_pipeline_and_tells_when_asked() {
    let script = "head -c 1000000 /dev/zero | { sleep 0.5; wc -c; }";
    let quiet = through("pipe-grow", &["sh", "-c", script]).output().unwrap();
    assert_eq!((quiet.stdout.as_slice(), said(&quiet.stderr)), (&b"1000000\n"[..], String::new()));
    let reported = Command::new(PROGRAM)
        .args(["run", "-v", "--with", "pipe-grow", "--", "sh", "-c", script])
        .output()
        .unwrap();
    let text = said(&reported.stderr);
    assert!(text.contains("pagewise: grow-pipes: took effect 1 time"), "{text}");
}

#[test]
fn a_command_in_one_word_is_named_with_a_shell() {
    let line = "cat < /etc/passwd";
    for words in [
        &["ab", "--", "true", "---", line][..],
        &["ab", "--", line, "---", "true"],
        &["run", "--with", "", "--", line],
        &["tune", "--", line],
    ] {
        let done = Command::new(PROGRAM).args(words).output().unwrap();
        let text = said(&done.stderr);
        assert_eq!(done.status.code(), Some(127), "{words:?}: {text}");
        assert!(
            text.contains("help: to have a shell read it: sh -c 'cat < /etc/passwd'"),
            "{text}"
        );
    }
    let plain =
        Command::new(PROGRAM).args(["run", "--with", "", "--", "nothing-x"]).output().unwrap();
    assert!(!said(&plain.stderr).contains("sh -c"), "{plain:?}");
}

#[test]
fn ab_stops_a_run_that_takes_more_than_the_budget() {
    let _turn = only_turn();
    let place = Place::new();
    let words = ["ab", "--budget", "2s", "--", "true", "---", "sleep", "1000"];
    let done = place.pagewise(&words).output().unwrap();
    let text = said(&done.stderr);
    assert_eq!(done.status.code(), Some(2), "{text}");
    assert!(text.contains("more than the budget of 2.00 s") && text.contains("--budget"), "{text}");
}

#[test]
fn run_says_which_remedy_a_static_program_cannot_use() {
    let place = Place::new();
    let program = place.path().join("static");
    if !crate::helper::compile("mallocs.c", &["-static", "-pthread"], &program) {
        return println!("SKIP a static program: no C compiler, or no static C library");
    }
    let file = program.display().to_string();
    // Any library will do: what is preloaded is not read.
    let with = |list: &str, words: &[&str]| {
        let done = through(list, words).output().unwrap();
        (said(&done.stderr), done.status.code())
    };
    let (said_of_tunable, _) = with("malloc-keep", &[&file]);
    assert!(!said_of_tunable.contains("has no effect"), "{said_of_tunable}");
    let (text, status) = with("allocator", &["true"]);
    if status != Some(0) {
        return println!("SKIP a static program: {text}");
    }
    assert!(!text.contains("has no effect"), "{text}");
    let (text, status) = with("allocator", &[&file]);
    let plain = Command::new(&file).status().unwrap().code();
    assert_eq!(status, plain, "it runs all the same: {text}");
    let named = format!("has no effect: {file} is static, so no library can be preloaded into it");
    assert_eq!(text.lines().filter(|line| line.contains(&named)).count(), 1, "{text}");
}

#[test]
fn a_full_disk_is_reported() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let done = Command::new(PROGRAM).arg("doctor").stdout(full).output().unwrap();
    assert_eq!(done.status.code(), Some(2));
    assert!(said(&done.stderr).starts_with("pagewise: cannot write standard output"));
}

#[test]
fn doctor_prints_one_document() {
    let done = Command::new(PROGRAM).args(["doctor", "--json"]).output().unwrap();
    let document: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert!(!document["checkup"]["capabilities"].as_array().unwrap().is_empty());
    assert!(done.status.success() && done.stderr.is_empty());
}

#[test]
fn every_command_is_in_manual_and_completions() {
    const COMMANDS: [&str; 10] = [
        "tune",
        "ab",
        "run",
        "profile",
        "doctor",
        "show",
        "compare",
        "history",
        "completions",
        "man",
    ];
    for made in
        [&["man"][..], &["completions", "bash"], &["completions", "zsh"], &["completions", "fish"]]
    {
        let text = said(&Command::new(PROGRAM).args(made).output().unwrap().stdout);
        for command in COMMANDS {
            assert!(text.contains(command), "{made:?} lacks {command}");
        }
        assert!(!text.contains("__helper"), "{made:?}");
    }
    for command in COMMANDS {
        for help in ["-h", "--help"] {
            let text = said(&Command::new(PROGRAM).args([command, help]).output().unwrap().stdout);
            assert!(text.contains("Usage:") && text.contains("Examples:"), "{command}: {text}");
            let long: Vec<&str> = text.lines().filter(|l| l.chars().count() > 80).collect();
            assert!(long.is_empty(), "{command} {help}: {long:?}");
        }
        let page = said(&Command::new(PROGRAM).args(["man", command]).output().unwrap().stdout);
        assert!(page.contains(&format!("pagewise\\-{command}")), "{command}");
    }
}

#[test]
fn profile_keeps_program_and_report_apart() {
    let _turn = only_turn();
    let place = Place::new();
    let kept = place.path().join("kept.json");
    let program = ["--", "sh", "-c", "echo out; exit 3"];
    let plain = place
        .pagewise(&["profile", "--save", kept.to_str().unwrap()])
        .args(program)
        .output()
        .unwrap();
    assert_eq!((plain.status.code(), plain.stdout.as_slice()), (Some(3), &b"out\n"[..]));
    assert!(said(&plain.stderr).contains(" of CPU time"));
    let saved: serde_json::Value = serde_json::from_slice(&std::fs::read(&kept).unwrap()).unwrap();
    assert_eq!(saved["kind"], "profile");
    let json = place.pagewise(&["profile", "--json"]).args(program).output().unwrap();
    assert_eq!(json.status.code(), Some(3));
    let document: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(document["kind"], "profile");
    assert_eq!(said(&json.stderr), "out\n");
}

#[test]
fn a_saved_file_keeps_links_and_spares_what_is_no_file() {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let _turn = only_turn();
    let place = Place::new();
    let kept = place.path().join("kept.json");
    let link = place.path().join("link");
    std::fs::write(place.path().join("target"), "old").unwrap();
    std::os::unix::fs::symlink("target", &link).unwrap();
    for save in [kept.as_path(), link.as_path()] {
        let done = place
            .pagewise(&["profile", "--save", save.to_str().unwrap(), "--", "true"])
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", said(&done.stderr));
    }
    assert_eq!(std::fs::metadata(&kept).unwrap().mode() & 0o777, 0o600);
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(std::fs::read(place.path().join("target")).unwrap().starts_with(b"{"));
    let fifo = place.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let reader = Command::new("cat").arg(&fifo).stdout(Stdio::piped()).spawn().unwrap();
    let done = place
        .pagewise(&["profile", "--save", fifo.to_str().unwrap(), "--", "true"])
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", said(&done.stderr));
    assert!(reader.wait_with_output().unwrap().stdout.starts_with(b"{"));
    assert!(std::fs::metadata(&fifo).unwrap().file_type().is_fifo());
    let parts = std::fs::read_dir(place.path()).unwrap().flatten();
    assert!(parts.map(|e| e.file_name()).all(|n| !n.to_string_lossy().contains(".part")));
}

#[test]
fn a_result_that_cannot_be_kept_is_printed() {
    let _turn = only_turn();
    let place = Place::new();
    let Some(done) = experiment(|| {
        let mut command = place.pagewise(&["tune", "--advise", "--", "true"]);
        command.env("XDG_STATE_HOME", "/dev/null/none");
        command
    }) else {
        return;
    };
    assert_eq!(done.status.code(), Some(0), "{}", said(&done.stderr));
    assert!(said(&done.stdout).contains("  noise  "));
    assert!(said(&done.stderr).contains("XDG_STATE_HOME"), "{}", said(&done.stderr));
}

#[test]
fn a_second_experiment_is_refused() {
    let _turn = only_turn();
    let place = Place::new();
    let Ok(_lock) = ExperimentLock::acquire() else {
        println!("SKIP a_second_experiment_is_refused: another experiment runs");
        return;
    };
    let pid = format!("pid {}", std::process::id());
    let done = place.pagewise(&["tune", "--no-wait", "--", "true"]).output().unwrap();
    let text = said(&done.stderr);
    assert_eq!((done.status.code(), text.lines().count()), (Some(3), 2), "{text}");
    assert!(text.contains(&pid), "{text}");
    let done = place.pagewise(&["tune", "--wait", "1s", "--", "true"]).output().unwrap();
    let text = said(&done.stderr);
    assert_eq!((done.status.code(), text.lines().count()), (Some(3), 3), "{text}");
    assert!(text.contains("waiting up to ") && text.contains(&pid), "{text}");
}

#[test]
fn advice_names_the_pipe() {
    let _turn = only_turn();
    let place = Place::new();
    let file = place.path().join("zeroes");
    std::fs::write(&file, vec![0; 200 << 20]).unwrap();
    // With -E: newer tools pass plain bytes on by reference, and no kernel counter shows that.
    let script = format!("cat -E {} | wc -c", file.display());
    let made = || place.pagewise(&["tune", "--advise", "--json", "--", "sh", "-c", &script]);
    let Some(done) = experiment(made) else { return };
    let document: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    let all = document["candidates"].as_array().unwrap();
    for (remedy, dose) in [("pipe-grow", "256K"), ("pipe-tools", "cat")] {
        let one = all.iter().find(|c| c["remedy"] == remedy).unwrap();
        assert_eq!(one["doses"][0]["parameter"], dose, "{one}");
    }
    assert_eq!(document["outcome"]["outcome"], "advice_only");
}

/// Starts a session whose program carries a mark and waits until that program runs.
fn started(place: &Place) -> Option<Child> {
    let script = format!("i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; : {}", place.mark());
    once_free(|| {
        let mut child = place
            .pagewise(&["tune", "--budget", "60s", "--json", "--", "sh", "-c", &script])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        while child.try_wait().unwrap().is_none() {
            if !place.alive().is_empty() {
                return Some(child);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        None
    })
}

#[test]
fn a_killed_session_leaves_no_child_and_its_scratch_goes_with_the_next() {
    let _turn = only_turn();
    let place = Place::new();
    let Some(mut child) = started(&place) else { return };
    kill_process(pid_of(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    assert!(await_gone(&place), "left alive: {:?}", place.alive());
    assert_eq!(place.scratches().len(), 1);
    let made = || place.pagewise(&["tune", "--advise", "--", "true"]);
    let Some(next) = experiment(made) else { return };
    assert_eq!(next.status.code(), Some(0), "{}", said(&next.stderr));
    assert!(place.scratches().is_empty(), "{:?}", place.scratches());
}

#[test]
fn a_session_interrupted_in_its_first_run_leaves_nothing() {
    let _turn = only_turn();
    let place = Place::new();
    let Some(child) = started(&place) else { return };
    kill_process_group(pid_of(&child), Signal::INT).unwrap();
    let done = child.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(130));
    assert!(done.stdout.is_empty(), "nothing was known: {}", said(&done.stdout));
    assert!(place.alive().is_empty() && place.scratches().is_empty());
    let saved = place.pagewise(&["history"]).output().unwrap();
    assert!(
        !said(&saved.stdout).contains("-sh"),
        "an empty run was saved: {}",
        said(&saved.stdout)
    );
}

#[test]
fn a_budget_without_room_for_a_run_still_tells_what_is_known() {
    let _turn = only_turn();
    let place = Place::new();
    let made = || {
        let words = ["tune", "--json", "--budget", "1ms", "--arm", "mine=true", "--", "true"];
        place.pagewise(&words)
    };
    let Some(done) = experiment(made) else { return };
    assert_eq!(done.status.code(), Some(3), "{}", said(&done.stderr));
    let document: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert!(document["diagnosis"].is_object());
    assert_eq!(document["outcome"]["outcome"], "cannot_tell");
    assert_eq!(document["experiment"]["verdicts"][0]["word"], "not_tried");
}

fn bench<'a>(place: &Place, words: &[&'a str]) -> Command {
    let always: [&'a str; 5] = ["bench", "pipe", "--quiet", "--no-prices", "--repeats=1"];
    place.pagewise(&[&always, words].concat())
}

#[test]
fn a_ladder_is_measured_kept_and_drawn() {
    let _turn = only_turn();
    let place = Place::new();
    let file = |name: &str| place.path().join(name).display().to_string();
    let (csv, svg, html) = (file("a.csv"), file("a.svg"), file("a.html"));
    let words = [
        "--only=P1,P2",
        "--bytes=4M",
        "--placement=free",
        "--json",
        "--csv",
        &csv,
        "--chart",
        &svg,
    ];
    let Some(done) = experiment(|| bench(&place, &words)) else { return };
    assert_eq!(done.status.code(), Some(0), "{}", said(&done.stderr));
    let run = pagewise_model::run::SavedRun::from_json(&done.stdout).unwrap();
    let Some(RunBody::Bench(BenchReport::Pipe(ladder))) = run.body else { panic!("no ladder") };
    assert_eq!(ladder.points.len(), 6);
    for point in &ladder.points {
        assert_eq!(point.samples.len(), 1, "{:?}", point.refused);
        assert_ne!(point.verified.known(), Some(&false), "{point:?}");
    }
    assert_eq!(std::fs::read_to_string(&csv).unwrap().lines().count(), 7);
    assert!(std::fs::read_to_string(&svg).unwrap().contains("</svg>"));
    let shown = place.pagewise(&["show", &run.id]).output().unwrap();
    assert!(said(&shown.stdout).contains("vmsplice/read"), "{}", said(&shown.stdout));
    let listed = place.pagewise(&["history"]).output().unwrap();
    assert!(said(&listed.stdout).contains("bench pipe"), "{}", said(&listed.stdout));
    let words = ["--only=P9", "--chart", &html];
    assert_eq!(bench(&place, &words).output().unwrap().status.code(), Some(2));
}

#[test]
fn an_interrupted_ladder_leaves_nothing_and_says_what_it_knows() {
    let _turn = only_turn();
    let place = Place::new();
    let interrupted = || {
        let mut front = bench(&place, &["--only=P1", "--bytes=1024G", "--consume=touched"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let children = format!("/proc/{0}/task/{0}/children", front.id());
        let ends: Vec<String> = (0..500)
            .map(|_| {
                std::thread::sleep(Duration::from_millis(10));
                let text = std::fs::read_to_string(&children).unwrap_or_default();
                text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
            })
            .find(|ends| ends.len() == 2 || front.try_wait().is_ok_and(|s| s.is_some()))?;
        if front.try_wait().unwrap().is_some() {
            return None;
        }
        kill_process(pid_of(&front), Signal::INT).unwrap();
        Some((front.wait_with_output().unwrap(), ends))
    };
    let Some((done, ends)) = once_free(interrupted) else { return };
    assert_eq!(done.status.code(), Some(130));
    assert!(said(&done.stdout).contains("interrupted"), "{}", said(&done.stdout));
    for end in ends {
        assert!(!std::path::Path::new("/proc").join(&end).exists(), "process {end} is left");
    }
}
