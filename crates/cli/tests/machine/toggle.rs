//! `tune -p PID --live` on a small service that is already running: what it switches, and that every way out
//! undoes all of it.

use crate::helper::{Place, compile, experiment, is_root, once_free, only_turn, said};
use pagewise_model::Bytes;
use pagewise_model::run::{SavedRun, SessionOutcome};
use pagewise_model::service::{ServerPair, ServiceMode};
use pagewise_model::spec::ServerSpec;
use pagewise_model::trial::VerdictWord;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The metric that reads the output of `shoot`.
const METRIC: &str = r"regex:requests (?<requests>\d+) errors (?<errors>\d+)";

/// Anonymous memory on huge pages in KiB, and the CPUs of each thread.
type Settings = (u64, BTreeMap<String, String>);

/// The service, as started by hand.
struct Service {
    child: Child,
    port: u16,
}

impl Service {
    fn start(mut command: Command, options: &str) -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        command.arg(port.to_string()).args(options.split_whitespace());
        let mut child = command.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("ready"), "{line}");
        Self { child, port }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn settings(&self) -> Settings {
        let proc = Path::new("/proc").join(self.pid().to_string());
        let line = |text: &str, name: &str| -> String {
            let found = text.lines().find_map(|line| line.strip_prefix(name));
            found.unwrap_or_default().trim().to_owned()
        };
        let rollup = std::fs::read_to_string(proc.join("smaps_rollup")).unwrap_or_default();
        let huge = line(&rollup, "AnonHugePages:");
        let mut cpus = BTreeMap::new();
        for task in std::fs::read_dir(proc.join("task")).into_iter().flatten().flatten() {
            // A thread of the service may end meanwhile.
            let Ok(status) = std::fs::read_to_string(task.path().join("status")) else { continue };
            let tid = task.file_name().to_string_lossy().into_owned();
            cpus.insert(tid, line(&status, "Cpus_allowed_list:"));
        }
        (huge.trim_end_matches(" kB").parse().unwrap_or(0), cpus)
    }

    /// True if some setting differs from `before`.
    fn is_changed(&self, before: &Settings) -> bool {
        let (huge, cpus) = self.settings();
        let usual = before.1.values().next().unwrap();
        huge != before.0 || cpus.values().any(|own| own != usual)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _gone = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// Waits for at most a minute until `what` is true.
fn comes(what: impl Fn() -> bool) -> bool {
    (0..12_000).any(|_| {
        std::thread::sleep(Duration::from_millis(5));
        what()
    })
}

/// A place with the service and its load. `None`, after a `SKIP` line, without a C compiler.
fn place() -> Option<Place> {
    let place = Place::new();
    let at = |name: &str| place.path().join(name);
    let threads = ["-O2", "-pthread"];
    let built =
        compile("served.c", &threads, &at("served")) && compile("shoot.c", &threads, &at("shoot"));
    if !built {
        println!("SKIP tune --live: no C compiler");
        return None;
    }
    Some(place)
}

fn service(place: &Place, options: &str) -> Service {
    Service::start(Command::new(place.path().join("served")), options)
}

/// The load of a session as its user types it, at a rate that one CPU can serve.
fn load(dir: &Path, port: u16, requests: u32) -> String {
    format!("{} {port} {requests} --rate 8000", dir.join("shoot").display())
}

fn session(place: &Place, service: &Service, requests: u32, more: &[&str]) -> Command {
    let mut command = place.pagewise(&["tune", "-p", &service.pid().to_string()]);
    let load = load(place.path(), service.port, requests);
    command.args(["--load", &load, "--metric", METRIC, "--warmup", "2s", "--json", "--quiet"]);
    command.args(more);
    command
}

/// One more run of the load: all its requests are answered.
fn still_serves(place: &Place, service: &Service) {
    let load = load(place.path(), service.port, 500);
    let done = Command::new("sh").args(["-c", &load]).output().unwrap();
    assert!(said(&done.stdout).contains("requests 500 errors 0"), "{done:?}");
}

/// Helpers of sessions in this place that are still running.
fn helpers(place: &Place) -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok());
    let is_ours = |pid: &i32| {
        let read = |file: &str| std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        said(&read("comm")).trim() == "live-undo" && said(&read("environ")).contains(&place.mark())
    };
    pids.filter(is_ours).collect()
}

fn parsed(done: &std::process::Output) -> SavedRun {
    SavedRun::from_json(&done.stdout).unwrap_or_else(|e| panic!("{e}: {}", said(&done.stderr)))
}

/// Whether this account may switch the pages of other processes.
fn may_switch_pages() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    let capabilities = u64::from_str_radix(line.trim(), 16).unwrap();
    const SYS_NICE: u32 = 23;
    capabilities >> SYS_NICE & 1 == 1
}

fn cpus() -> usize {
    std::thread::available_parallelism().unwrap().get()
}

#[test]
fn remedies_are_switched_block_by_block_and_off_at_the_end() {
    let _turn = only_turn();
    let Some(place) = place() else { return };
    let service = service(&place, "--heap 64 --cost 300");
    let before = service.settings();
    let more = ["--live", "--budget", "45s", "--seed", "5", "--guard", "errors=0"];
    let Some(done) = experiment(|| session(&place, &service, 1000, &more)) else { return };
    assert!(!service.is_changed(&before), "{:?} was {before:?}", service.settings());
    assert!(helpers(&place).is_empty());
    still_serves(&place, &service);
    let run = parsed(&done);
    let found = run.service.as_ref().unwrap();
    let server = &run.asked_service().unwrap().server;
    let own = ServerSpec::Running { pid: service.pid().cast_signed() };
    assert_eq!((found.mode, server), (ServiceMode::Toggle, &own));
    assert!(found.pairs.iter().all(|pair| pair.mode == ServiceMode::Toggle));
    let of = |arm: &str| -> Vec<&ServerPair> {
        found.pairs.iter().filter(|pair| pair.arm.starts_with(arm)).collect()
    };
    for pair in &found.pairs {
        assert_eq!(pair.plain.windows.len(), pair.other.windows.len(), "off as often as on");
        assert!(pair.other.warm_ups > 0, "the first run after a switch does not count");
        let all = pair.plain.windows.iter().chain(&pair.other.windows);
        assert_eq!(all.filter_map(|window| window.load.errors).sum::<f64>(), 0.0);
    }
    let thp = run.machine.as_ref().and_then(|machine| machine.thp_enabled.known());
    if may_switch_pages() && thp.is_some_and(|word| word == "madvise") {
        assert!(!of("heap-huge").is_empty(), "{:?}", run.candidates);
        for pair in of("heap-huge") {
            assert!(
                pair.other.at_first.anon_huge_bytes >= Bytes::mib(48),
                "{:?}",
                pair.other.at_first
            );
            assert_eq!(pair.plain.at_last.anon_huge_bytes, Bytes(before.0 << 10));
        }
    } else {
        println!("SKIP the heap: no CAP_SYS_NICE, or huge pages are not left to advice");
    }
    let place_fits = run.candidates.iter().any(|one| one.remedy == "place" && one.fits());
    if cpus() > 1 && place_fits {
        assert!(!of("place").is_empty(), "{:?}", run.candidates);
    }
}

/// A session whose `arm` is on by now. `None`, after a `SKIP` line, if another experiment runs for too long, or
/// if the session's own diagnosis says why the arm is not worth a try on this machine now.
fn begun(place: &Place, service: &Service, before: &Settings, arm: &str) -> Option<Child> {
    let child = once_free(|| {
        let mut command = session(place, service, 500, &["--live", "--only", arm]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let ended = || !Path::new("/proc").join(child.id().to_string()).join("exe").exists();
        comes(|| service.is_changed(before) || ended());
        if service.is_changed(before) {
            return Some(Ok(child));
        }
        let done = child.wait_with_output().unwrap();
        (!said(&done.stderr).contains("another experiment runs")).then_some(Err(done))
    })?;
    let done = match child {
        Ok(child) => return Some(child),
        Err(done) => done,
    };
    let run = parsed(&done);
    let refused = run.candidates.iter().find(|one| one.remedy == arm && !one.fits());
    let why = &refused.unwrap_or_else(|| panic!("{arm} was not switched: {run:?}")).why;
    println!("SKIP {arm} is not switched here: {why}");
    None
}

/// The remedies that this account can switch.
fn switchable() -> Vec<&'static str> {
    let mut found = Vec::new();
    found.extend(may_switch_pages().then_some("heap-huge"));
    found.extend((cpus() > 1).then_some("place"));
    if found.len() < 2 {
        println!("SKIP what cannot be switched here: only {found:?} can");
    }
    found
}

#[test]
fn every_way_out_undoes_what_was_on() {
    let _turn = only_turn();
    let Some(place) = place() else { return };
    let service = service(&place, "--heap 64 --cost 300");
    let before = service.settings();
    for (signal, status) in
        [(Signal::INT, Some(130)), (Signal::TERM, Some(130)), (Signal::KILL, None)]
    {
        for arm in switchable() {
            let Some(child) = begun(&place, &service, &before, arm) else { continue };
            kill_process(Pid::from_child(&child), signal).unwrap();
            let done = child.wait_with_output().unwrap();
            assert_eq!(done.status.code(), status, "{}", said(&done.stderr));
            let is_undone = comes(|| !service.is_changed(&before));
            assert!(is_undone, "{arm} {signal:?}: {:?}", service.settings());
            assert!(comes(|| helpers(&place).is_empty()), "{arm} {signal:?}");
            still_serves(&place, &service);
        }
    }
}

#[test]
fn a_killed_helper_leaves_nothing_on() {
    let _turn = only_turn();
    let Some(place) = place() else { return };
    let service = service(&place, "--heap 64 --cost 300");
    let before = service.settings();
    for arm in switchable() {
        let Some(child) = begun(&place, &service, &before, arm) else { continue };
        for helper in helpers(&place) {
            kill_process(Pid::from_raw(helper).unwrap(), Signal::KILL).unwrap();
        }
        let done = child.wait_with_output().unwrap();
        assert_eq!(done.status.code(), Some(2), "{}", said(&done.stderr));
        let text = said(&done.stderr);
        assert!(text.contains("that switches remedies ended unexpectedly"), "{arm}: {text}");
        assert!(!service.is_changed(&before), "{arm}: {:?}", service.settings());
        still_serves(&place, &service);
    }
}

#[test]
fn a_remedy_that_breaks_a_guard_is_off_within_its_window() {
    let _turn = only_turn();
    let Some(place) = place() else { return };
    if cpus() < 2 {
        return println!("SKIP a broken guard: one CPU");
    }
    let service = service(&place, "--heap 4 --cost 300 --picky");
    let before = service.settings();
    let more = ["--live", "--only", "place", "--budget", "60s"];
    let Some(done) = experiment(|| session(&place, &service, 1000, &more)) else { return };
    assert!(!service.is_changed(&before));
    let run = parsed(&done);
    let [verdict] = &run.experiment.as_ref().unwrap().verdicts[..] else { panic!() };
    assert_eq!(verdict.word, VerdictWord::Reject);
    let expected = "requests failed: guard errors=0; switched off at once and not tried again";
    assert!(verdict.why.contains(expected), "{verdict:?}");
    let pairs = &run.service.unwrap().pairs;
    assert_eq!(pairs.len(), 1, "not tried again");
    let (off, on) = (&pairs[0].plain, &pairs[0].other);
    assert!(off.at_last.pss_bytes > Bytes(0) && on.at_last.pss_bytes > Bytes(0), "{pairs:?}");
    assert!(on.windows.len() + on.warm_ups as usize <= 1, "{on:?}");
    still_serves(&place, &service);
}

#[test]
fn a_service_that_ends_meanwhile_is_one_line() {
    let _turn = only_turn();
    let Some(place) = place() else { return };
    for answers in ["3000", "15000"] {
        let service = service(&place, &format!("--heap 64 --cost 100 --die-after {answers}"));
        let Some(done) = experiment(|| session(&place, &service, 1000, &["--live"])) else {
            return;
        };
        let text = said(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{text}");
        let expected = format!("process {} ended under load", service.pid());
        let is_told = text.contains(&expected) || text.contains("no process");
        assert!(is_told, "{answers}: {text}");
        assert!(comes(|| helpers(&place).is_empty()));
    }
}

#[test]
fn without_live_nothing_is_touched() {
    let Some(place) = place() else { return };
    let service = service(&place, "--heap 4");
    let before = service.settings();
    let refused = |mut command: Command, expected: &[&str]| {
        let done = command.output().unwrap();
        let text = said(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{text}");
        assert_eq!(text.lines().filter(|line| !line.starts_with("help: ")).count(), 1, "{text}");
        expected.iter().for_each(|part| assert!(text.contains(part), "{part}: {text}"));
    };
    let pid = service.pid().to_string();
    let asked = session(&place, &service, 100, &[]);
    refused(asked, &["tune -p needs --live", &pid, "(served)", "help: add --live"]);
    let own = std::process::id().to_string();
    let load = ["--load", "true", "--metric", METRIC, "--live"];
    let mut command = place.pagewise(&["tune", "-p", &own]);
    command.args(load);
    refused(command, &["is an ancestor of pagewise"]);
    let mut command = place.pagewise(&["tune", "-p", "4194304"]);
    command.args(load);
    refused(command, &["no process 4194304 is running"]);
    if is_root() {
        let open = crate::helper::open_place("pagewise-live-");
        let mut command = crate::helper::as_nobody(&open.path().join("pagewise"));
        command.args(["tune", "-p", &pid]).args(load).env("HOME", open.path());
        refused(command, &["may not be observed by this account", "help: run as its user"]);
    }
    assert_eq!(service.settings(), before);
}

#[test]
fn a_look_changes_nothing() {
    let _turn = only_turn();
    let Some(place) = place() else { return };
    let service = service(&place, "--heap 64 --cost 300");
    let before = service.settings();
    let Some(done) = experiment(|| session(&place, &service, 1000, &["--advise"])) else { return };
    assert_eq!(service.settings().0, before.0);
    let run = parsed(&done);
    assert_eq!(run.outcome, Some(SessionOutcome::AdviceOnly));
    let names: Vec<&str> = run.candidates.iter().map(|one| &one.remedy[..]).collect();
    assert_eq!(names, ["heap-huge", "place"]);
    let service = run.service.unwrap();
    assert!(service.pairs.is_empty() && service.first.unwrap().windows.len() >= 4);
}

#[test]
fn a_user_without_rights_switches_what_it_may() {
    let _turn = only_turn();
    if !is_root() {
        return println!("SKIP as another user: only root can become one");
    }
    let Some(own) = place() else { return };
    let open = crate::helper::open_place("pagewise-live-");
    for name in ["served", "shoot"] {
        crate::helper::install(&own.path().join(name), &open.path().join(name));
    }
    crate::helper::give_prices(&open.path().join(".cache"));
    // Requests refused while it may use only one CPU end the race at its first pair.
    let options = "--heap 64 --cost 300 --picky";
    let service = Service::start(crate::helper::as_nobody(&open.path().join("served")), options);
    let before = service.settings();
    let load = load(open.path(), service.port, 1000);
    let make = || {
        let mut command = crate::helper::as_nobody(&open.path().join("pagewise"));
        command.args(["tune", "-p", &service.pid().to_string(), "--live", "--load", &load]);
        command
            .args(["--metric", METRIC, "--json", "--quiet", "--budget", "40s", "--warmup", "2s"]);
        command.env("HOME", open.path()).env("TMPDIR", open.path()).env_remove("XDG_STATE_HOME");
        command.env_remove("XDG_CACHE_HOME").stdin(Stdio::null());
        command
    };
    let Some(done) = experiment(make) else { return };
    let run = parsed(&done);
    let heap = run.candidates.iter().find(|one| one.remedy == "heap-huge").unwrap();
    assert!(!heap.fits());
    if run.machine.as_ref().unwrap().thp_enabled.known().is_some_and(|word| word == "madvise") {
        assert!(heap.why.contains("takes CAP_SYS_NICE"), "{}", heap.why);
    }
    if cpus() > 1 && run.candidates.iter().any(|one| one.remedy == "place" && one.fits()) {
        assert!(!run.service.unwrap().pairs.is_empty());
    }
    assert!(!service.is_changed(&before));
}
