//! `tune --serve` against a small service of known cost: pairs, guards, and every failure.

use crate::helper::{Place, await_gone, compile, experiment, is_root, only_turn, said};
use pagewise_model::Nanos;
use pagewise_model::run::{SavedRun, SessionOutcome};
use pagewise_model::service::ServiceMode;
use pagewise_model::trial::VerdictWord;
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The metric that reads the output of `shoot`.
const METRIC: &str = r"regex:requests (?<requests>\d+) errors (?<errors>\d+)";

/// A place with the service and its load. `None`, after a `SKIP` line, without a C compiler.
fn place() -> Option<Place> {
    let place = Place::new();
    let at = |name: &str| place.path().join(name);
    let threads = ["-O2", "-pthread"];
    let built =
        compile("served.c", &threads, &at("served")) && compile("shoot.c", &threads, &at("shoot"));
    if !built {
        println!("SKIP tune --serve: no C compiler");
        return None;
    }
    Some(place)
}

/// A session with a server of these options.
fn session(place: &Place, server: &str, load: &str, more: &[&str]) -> Command {
    session_of(place, &place.path().join("served"), server, load, more)
}

/// A session with another program as its server.
fn session_of(place: &Place, program: &Path, server: &str, load: &str, more: &[&str]) -> Command {
    let serve = format!("{} {server}", program.display());
    let load = format!("{} {load}", place.path().join("shoot").display());
    let common = ["--serve", &serve, "--load", &load, "--metric", METRIC, "--json", "--quiet"];
    let mut command = place.pagewise(&["tune"]);
    command.args(common).args(more);
    if !more.contains(&"--ready") {
        command.args(["--ready", "tcp:{port}"]);
    }
    command
}

fn nothing_left(place: &Place) {
    assert!(await_gone(place), "left: {:?}", place.alive());
    assert!(place.scratches().is_empty(), "{:?}", place.scratches());
}

#[test]
fn a_cheaper_server_is_proven_by_pairs() {
    let _turn = only_turn();
    let Some(place) = place() else { return };
    let half =
        format!("half={} {{port}} --heap 16 --cost 1000", place.path().join("served").display());
    let arm = ["--arm", &half, "--only", "", "--budget", "60s", "--seed", "3"];
    let server = "{port} --heap 16 --cost 2000";
    let Some(done) = experiment(|| session(&place, server, "{port} 800", &arm)) else { return };
    let run =
        SavedRun::from_json(&done.stdout).unwrap_or_else(|e| panic!("{e}: {}", said(&done.stderr)));
    let service = run.service.unwrap();
    assert!(!service.pairs.is_empty());
    for pair in &service.pairs {
        assert_eq!(pair.plain.windows.len(), pair.other.windows.len());
        assert!(pair.plain.windows.iter().all(|window| window.load.requests == 800.0));
    }
    let [verdict] = &run.experiment.as_ref().unwrap().verdicts[..] else { panic!() };
    // A busy machine may leave it open, but never reverse it.
    assert!(
        matches!(verdict.word, VerdictWord::Keep | VerdictWord::Likely | VerdictWord::CannotTell),
        "{verdict:?}"
    );
    assert!(verdict.effect.as_ref().unwrap().ratio < 0.95, "{verdict:?}");
    nothing_left(&place);
}

/// The result of a session that runs to its end.
fn ran(make: impl Fn() -> Command) -> Option<SavedRun> {
    let done = experiment(make)?;
    Some(
        SavedRun::from_json(&done.stdout).unwrap_or_else(|e| panic!("{e}: {}", said(&done.stderr))),
    )
}

#[test]
fn less_memory_is_found_and_a_session_goes_on_is_shown_and_compared() {
    let _turn = only_turn();
    let Some(place) = place() else { return };
    let served = place.path().join("served").display().to_string();
    // The heap is a power of two.
    let lean = format!("lean={served} {{port}} --heap 16 --cost 100");
    let more = ["--arm", &lean, "--only", "", "--budget", "15s", "--goal", "memory"];
    let (server, load) = ("{port} --heap 32 --cost 100", "{port} 1000");
    let Some(first) = ran(|| session(&place, server, load, &more)) else { return };
    let service = first.service.as_ref().unwrap();
    assert!(!service.pairs.is_empty());
    let [verdict] = &first.experiment.as_ref().unwrap().verdicts[..] else { panic!() };
    // Half of its heap, in addition to what every program needs.
    assert!(
        matches!(verdict.word, VerdictWord::Keep | VerdictWord::Likely | VerdictWord::CannotTell),
        "{verdict:?}"
    );
    let ratio = verdict.effect.as_ref().unwrap().ratio;
    assert!((0.45..0.6).contains(&ratio), "{verdict:?}");

    let again = ["tune", "--json", "--quiet", "--continue", &first.id, "--budget", "5s"];
    let Some(second) = ran(|| place.pagewise(&again)) else { return };
    assert!(second.id != first.id && second.command == first.command);
    let pairs = &second.service.as_ref().unwrap().pairs;
    assert!(pairs.len() > service.pairs.len(), "{} pairs", pairs.len());
    assert_eq!(pairs[..service.pairs.len()], service.pairs[..]);

    let output = |words: &[&str]| {
        let done = place.pagewise(words).output().unwrap();
        assert_eq!(done.status.code(), Some(0), "{}", said(&done.stderr));
        said(&done.stdout)
    };
    let shown = output(&["show", &second.id]);
    assert!(shown.contains("50% less memory") && shown.contains("lean"), "{shown}");
    let page = place.path().join("page.html");
    output(&["show", &second.id, "--html", page.to_str().unwrap()]);
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("what was tried (memory") && page.contains("lean"), "{page}");
    let compared = output(&["compare", &first.id, &second.id]);
    assert!(compared.contains("plain servers") && compared.contains("same machine"), "{compared}");
    nothing_left(&place);
}

#[test]
fn without_a_port_servers_take_turns() {
    let _turn = only_turn();
    let Some(place) = place() else { return };
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    // An arm that fails ends the race at its first pair.
    let served = place.path().join("served").display().to_string();
    let arm = format!("arm={served} {free} --heap 4 --fail-every 100");
    let tcp = format!("tcp:{free}");
    let more = ["--arm", &arm, "--only", "", "--budget", "45s", "--ready", &tcp];
    let (server, load) = (format!("{free} --heap 4"), format!("{free} 1000"));
    let Some(done) = experiment(|| session(&place, &server, &load, &more)) else { return };
    let run =
        SavedRun::from_json(&done.stdout).unwrap_or_else(|e| panic!("{e}: {}", said(&done.stderr)));
    let service = run.service.unwrap();
    assert_eq!(service.mode, ServiceMode::Restart);
    let modes: Vec<ServiceMode> = service.pairs.iter().map(|pair| pair.mode).collect();
    let all = !modes.is_empty() && modes.iter().all(|mode| *mode == ServiceMode::Restart);
    assert!(all, "{modes:?} {:?} {}", run.warnings, said(&done.stderr));
    nothing_left(&place);
}

#[test]
fn failed_requests_reject_an_arm_and_stop_a_session() {
    let _turn = only_turn();
    let Some(place) = place() else { return };
    let failing = format!(
        "failing={} {{port}} --heap 4 --fail-every 100",
        place.path().join("served").display()
    );
    let more = ["--arm", &failing, "--only", "", "--budget", "20s"];
    let Some(done) = experiment(|| session(&place, "{port} --heap 4", "{port} 1000", &more)) else {
        return;
    };
    let run =
        SavedRun::from_json(&done.stdout).unwrap_or_else(|e| panic!("{e}: {}", said(&done.stderr)));
    let [verdict] = &run.experiment.unwrap().verdicts[..] else { panic!() };
    assert_eq!(verdict.word, VerdictWord::Reject, "{verdict:?}");
    assert!(verdict.why.contains("requests failed"), "{verdict:?}");
    let own = session(&place, "{port} --heap 4 --fail-every 100", "{port} 1000", &[]);
    refused(own, &["20 of 2000 requests failed against the plain server"]);
    nothing_left(&place);
}

/// The session ends with status 2 and one line that contains these words. False, after a `SKIP` line, if
/// another session runs.
fn refused(mut command: Command, expected: &[&str]) -> bool {
    let done = command.output().unwrap();
    let text = said(&done.stderr);
    if text.contains("another experiment runs") {
        println!("SKIP a refusal: another experiment runs");
        return false;
    }
    assert_eq!(done.status.code(), Some(2), "{text}");
    assert_eq!(text.lines().filter(|line| !line.starts_with("help: ")).count(), 1, "{text}");
    expected.iter().for_each(|part| assert!(text.contains(part), "{part}: {text}"));
    true
}

#[test]
fn servers_that_misbehave_are_one_line_and_leave_nothing() {
    let _turn = only_turn();
    let Some(place) = place() else { return };
    let cases: [(&str, &str, &[&str]); 5] = [
        ("{port} --deaf", "{port} 10", &["not ready within 1.00 s"]),
        ("{port} --die-after 50", "{port} 1000", &["the server ended under load", "status 9"]),
        ("{port} --background", "{port} 10", &["into the background"]),
        ("{port} --heap 4", "{port} 10 --nonsense", &["the load failed"]),
        ("{port} --heap 4", "{port} 10 >/dev/null", &["printed nothing"]),
    ];
    for (server, load, expected) in cases {
        refused(session(&place, server, load, &["--ready-time", "1s"]), expected);
        nothing_left(&place);
    }
    let cleaned = place.path().join("cleaned");
    let cleanup = format!("test -d {{dir}} && touch {}", cleaned.display());
    let more = ["--prepare", "exit 3", "--cleanup", &cleanup];
    if refused(session(&place, "{port} --heap 4", "{port} 10", &more), &["--prepare failed"]) {
        assert!(cleaned.exists(), "what --prepare did is cleaned up all the same");
    }
    nothing_left(&place);
}

/// Answers every connection in a thread of this process until the test ends. Returns the number of connections
/// that sent a request.
fn stranger(port: u16) -> Option<(u16, Arc<AtomicU32>)> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", port)).ok()?;
    let port = listener.local_addr().unwrap().port();
    let met = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&met);
    std::thread::spawn(move || {
        for mut connection in listener.incoming().flatten() {
            let asked = std::io::Read::read(&mut connection, &mut [0; 100]).unwrap_or(0);
            count.fetch_add(u32::from(asked > 0), Ordering::Relaxed);
            let _answered = std::io::Write::write_all(&mut connection, b"HTTP/1.0 200 OK\r\n\r\n");
        }
    });
    Some((port, met))
}

#[test]
fn a_port_that_is_in_use_is_refused_before_the_start() {
    let _turn = only_turn();
    let Some(place) = place() else { return };
    let (port, met) = stranger(0).unwrap();
    let own = format!("process {} (", std::process::id());
    let expected = ["is in use before the server starts", own.as_str()];
    let (server, load) = (format!("{port} --heap 4"), format!("{port} 500"));
    for ready in [format!("tcp:{port}"), format!("http://127.0.0.1:{port}/")] {
        refused(session(&place, &server, &load, &["--ready", &ready]), &expected);
    }
    // The readiness check names no port, the load does.
    let load = format!("{port} 500; true -p {port}");
    refused(session(&place, &server, &load, &["--ready", "exec:true"]), &expected);
    assert_eq!(met.load(Ordering::Relaxed), 0, "nothing was sent to the stranger");
    nothing_left(&place);
}

#[test]
fn no_load_reaches_a_stranger_that_was_faster_than_the_server() {
    let _turn = only_turn();
    let Some(place) = place() else { return };
    let forms = ["tcp:{port}", "http://127.0.0.1:{port}/", "exec:test -e FILE.bound"];
    for (number, ready) in forms.into_iter().enumerate() {
        let file = place.path().join(format!("port-{number}"));
        let name = file.display().to_string();
        let loser = place.path().join(format!("loser-{number}"));
        let script = format!("#!/bin/sh\necho $1 > {name}.new; mv {name}.new {name}; sleep 60\n");
        std::fs::write(&loser, script).unwrap();
        std::fs::set_permissions(&loser, std::fs::Permissions::from_mode(0o755)).unwrap();
        let faster = std::thread::spawn(move || {
            for _ in 0..2000 {
                std::thread::sleep(Duration::from_millis(5));
                let Ok(text) = std::fs::read_to_string(&file) else { continue };
                let met = stranger(text.trim().parse().unwrap()).map(|(_, met)| met);
                std::fs::write(file.with_extension("bound"), "").unwrap();
                return met;
            }
            None
        });
        let ready = ready.replace("FILE", &name);
        let command = session_of(&place, &loser, "{port}", "{port} 500", &["--ready", &ready]);
        if refused(command, &["the load would reach another program at port", "serve"]) {
            let met = faster.join().unwrap().expect("the stranger had its port");
            assert_eq!(met.load(Ordering::Relaxed), 0, "nothing was sent to the stranger");
        }
        nothing_left(&place);
    }
}

#[test]
fn a_directory_that_a_shell_would_split_is_refused() {
    let _turn = only_turn();
    let Some(place) = place() else { return };
    let (odd, other) = (place.path().join("a b"), place.path().join("a"));
    for dir in [&odd, &other] {
        std::fs::create_dir(dir).unwrap();
    }
    std::fs::write(other.join("precious"), "x").unwrap();
    let more = ["--advise", "--cleanup", "rm -rf {dir}/*"];
    let mut command = session(&place, "{port} --heap 4", "{port} 500", &more);
    command.env("TMPDIR", &odd);
    refused(command, &["cannot stand for {dir}", "set TMPDIR"]);
    assert!(other.join("precious").exists());
    nothing_left(&place);
}

#[test]
fn a_stubborn_server_is_killed_and_named() {
    let _turn = only_turn();
    let Some(place) = place() else { return };
    let usual = ["--advise", "--stop-time", "300ms", "--ready", "notify"];
    let by_signal = ["did not end within 300.0 ms"];
    let by_command = ["--stop failed: it took more than 300.0 ms and was killed", by_signal[0]];
    let cases: [(&[&str], &[&str]); 2] =
        [(&[], &by_signal), (&["--stop", "sleep 600"], &by_command)];
    for (stop, expected) in cases {
        let more = [&usual[..], stop].concat();
        let make = || session(&place, "{port} --heap 4 --stubborn", "{port} 500", &more);
        let Some(run) = ran(make) else { return };
        assert_eq!(run.outcome, Some(SessionOutcome::AdviceOnly));
        for part in expected {
            assert!(run.warnings.iter().any(|w| w.contains(part)), "{part}: {:?}", run.warnings);
        }
        nothing_left(&place);
    }
}

#[test]
fn cleanup_comes_before_the_directory_goes() {
    let _turn = only_turn();
    let Some(place) = place() else { return };
    let more = ["--advise", "--prepare", "touch {dir}/mine", "--cleanup", "test -e {dir}/mine"];
    let Some(run) = ran(|| session(&place, "{port} --heap 4", "{port} 500", &more)) else { return };
    assert_eq!(run.outcome, Some(SessionOutcome::AdviceOnly));
    assert!(!run.warnings.iter().any(|w| w.contains("--cleanup")), "{:?}", run.warnings);
    nothing_left(&place);
}

#[test]
fn what_is_still_mounted_in_a_directory_stays() {
    let _turn = only_turn();
    let own_mounts = ["-m", "--propagation", "private", "--"];
    let may_mount = Command::new("unshare").args(own_mounts).arg("true").status();
    if !may_mount.is_ok_and(|status| status.success()) {
        return println!("SKIP a mount point in a directory: this account cannot mount");
    }
    let Some(place) = place() else { return };
    let kept = place.path().join("kept");
    std::fs::create_dir(&kept).unwrap();
    std::fs::write(kept.join("mine"), "x").unwrap();
    let prepare = format!("mkdir {{dir}}/data && mount --bind {} {{dir}}/data", kept.display());
    let more = ["--advise", "--prepare", &prepare];
    let make = || {
        let plain = session(&place, "{port} --heap 4", "{port} 500", &more);
        let mut command = Command::new("unshare");
        command.args(own_mounts).arg(plain.get_program()).args(plain.get_args());
        for (name, value) in plain.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.stdin(Stdio::null());
        command
    };
    let Some(run) = ran(make) else { return };
    assert!(kept.join("mine").exists());
    let is_named = |warning: &String| {
        warning.contains("/data` (") && warning.contains("remove it by hand, after umount")
    };
    assert!(run.warnings.iter().any(is_named), "{:?}", run.warnings);
    assert!(await_gone(&place), "left: {:?}", place.alive());
}

#[test]
fn a_prepare_that_fails_ends_the_session_and_rejects_no_arm() {
    let _turn = only_turn();
    let Some(place) = place() else { return };
    let same = format!("same={} {{port}} --heap 4", place.path().join("served").display());
    // The look comes first, then the two starts of a pair: one of them is the arm's.
    for failing in [2, 3] {
        let starts = place.path().join(format!("starts-{failing}")).display().to_string();
        let prepare = format!("echo >> {starts}; test $(wc -l < {starts}) -ne {failing}");
        let more = ["--arm", &same, "--only", "", "--prepare", &prepare, "--budget", "30s"];
        refused(session(&place, "{port} --heap 4", "{port} 500", &more), &["--prepare failed"]);
        nothing_left(&place);
    }
}

#[test]
fn readiness_counts_from_each_servers_own_start() {
    const LATE: Nanos = Nanos::millis(300);
    let _turn = only_turn();
    let Some(place) = place() else { return };
    let late = place.path().join("late");
    let served = place.path().join("served").display().to_string();
    let script = format!("#!/bin/sh\nsleep 0.3\nexec {served} \"$@\"\n");
    std::fs::write(&late, script).unwrap();
    std::fs::set_permissions(&late, std::fs::Permissions::from_mode(0o755)).unwrap();
    // An arm that fails ends the race at its first pair.
    let arm = format!("arm={} {{port}} --heap 4 --fail-every 100", late.display());
    let more = ["--arm", &arm, "--only", "", "--budget", "30s"];
    let make = || session_of(&place, &late, "{port} --heap 4", "{port} 500", &more);
    let Some(run) = ran(make) else { return };
    let pairs = run.service.unwrap().pairs;
    assert!(!pairs.is_empty());
    for side in pairs.iter().flat_map(|pair| [&pair.plain, &pair.other]) {
        assert!(side.ready_ns >= LATE, "{}", side.ready_ns);
    }
    nothing_left(&place);
}

#[test]
fn signals_end_servers_and_loads() {
    let _turn = only_turn();
    let Some(place) = place() else { return };
    let same = format!("same={} {{port}} --heap 4", place.path().join("served").display());
    for (signal, status) in
        [(Signal::INT, Some(130)), (Signal::TERM, Some(130)), (Signal::KILL, None)]
    {
        for after in [300, 1200, 2500] {
            let more = ["--arm", &same, "--only", ""];
            let mut command = session(&place, "{port} --heap 4", "{port} 3000", &more);
            let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(after));
            if child.try_wait().unwrap().is_some() {
                println!("SKIP {signal:?} after {after} ms: another experiment runs");
                continue;
            }
            kill_process(Pid::from_child(&child), signal).unwrap();
            let done = child.wait_with_output().unwrap();
            assert_eq!(done.status.code(), status, "{}", said(&done.stderr));
            assert!(await_gone(&place), "{signal:?} after {after} ms left {:?}", place.alive());
        }
    }
}

#[test]
fn a_user_without_rights_tunes_a_server() {
    let _turn = only_turn();
    if !is_root() {
        println!("SKIP as another user: only root can become one");
        return;
    }
    let Some(own) = place() else { return };
    let open = crate::helper::open_place("pagewise-serve-");
    for name in ["served", "shoot"] {
        crate::helper::install(&own.path().join(name), &open.path().join(name));
    }
    crate::helper::give_prices(&open.path().join(".cache"));
    let file = |name: &str| open.path().join(name).display().to_string();
    let serve = format!("{} {{port}} --heap 4", file("served"));
    let load = format!("{} {{port}} 1000", file("shoot"));
    let make = || {
        let mut command = crate::helper::as_nobody(&open.path().join("pagewise"));
        command.args(["tune", "--serve", &serve, "--ready", "tcp:{port}", "--load", &load]);
        command.args(["--metric", METRIC, "--advise", "--json", "--quiet"]);
        command.env("HOME", open.path()).env("TMPDIR", open.path()).env_remove("XDG_STATE_HOME");
        command.env_remove("XDG_CACHE_HOME").stdin(Stdio::null());
        command
    };
    let Some(done) = experiment(make) else { return };
    let run =
        SavedRun::from_json(&done.stdout).unwrap_or_else(|e| panic!("{e}: {}", said(&done.stderr)));
    assert_eq!(run.outcome, Some(SessionOutcome::AdviceOnly));
    assert!(run.diagnosis.is_some() && run.service.unwrap().first.is_some());
    assert!(run.warnings.iter().all(|w| !w.contains("was not checked")), "{:?}", run.warnings);
    // A program that may be executed but not read shows its descriptors to root only.
    let closed = std::fs::Permissions::from_mode(0o711);
    std::fs::set_permissions(open.path().join("served"), closed).unwrap();
    let Some(done) = experiment(make) else { return };
    let run =
        SavedRun::from_json(&done.stdout).unwrap_or_else(|e| panic!("{e}: {}", said(&done.stderr)));
    let is_named = |w: &String| w.contains("this account cannot read the descriptors of process");
    assert!(run.warnings.iter().any(is_named), "{:?}", run.warnings);
}
