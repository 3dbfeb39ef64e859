//! The helper process of the live tests: a supervisor, a front that can be killed, a program passed through,
//! and programs whose behaviour is known.

use pagewise_model::Fact;
use pagewise_model::look::{SideEffect, TracedLook};
use pagewise_model::plan::WatchAction;
use pagewise_model::units::Nanos;
use pagewise_tracee::launch::{OutputSink, ProgramLaunch};
use pagewise_tracee::passthrough::{self, PeakRun};
use pagewise_tracee::pipes::{self, PipeLedger};
use pagewise_tracee::recorder::RecordError;
use pagewise_tracee::run::{self, RunOutcome};
use pagewise_tracee::supervise::{
    self, AccountedRun, LookOptions, RunSupervisor, SuperviseError, TraceFunctions,
};
use pagewise_tracee::tree::ProcessTree;
use pagewise_tracee::watcher::{RunWatcher, WatchContext, WatchReport};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Grows pipes according to the plan. It looks every millisecond.
struct Grower {
    ledger: PipeLedger,
}

impl RunWatcher for Grower {
    fn name(&self) -> &str {
        "grow-pipes"
    }
    fn tick(&mut self, tree: &ProcessTree, since_start: Nanos) -> Option<Nanos> {
        pipes::grow_all(tree, &mut self.ledger);
        Some(since_start + Nanos::millis(1))
    }
    fn finish(&mut self) -> WatchReport {
        let refusals = self.ledger.refusals();
        let notes = refusals.iter().map(|(errno, n)| format!("errno {errno}: {n}")).collect();
        let (watch, counter) = (self.name().into(), self.ledger.grown());
        WatchReport { watch, counter, notes, ..WatchReport::default() }
    }
}

/// Does nothing, and records that it was called.
struct Idle;

impl RunWatcher for Idle {
    fn name(&self) -> &str {
        "idle"
    }
    fn tick(&mut self, _tree: &ProcessTree, _since_start: Nanos) -> Option<Nanos> {
        None
    }
    fn finish(&mut self) -> WatchReport {
        WatchReport { watch: "idle".into(), ..WatchReport::default() }
    }
}

fn make(watch: &WatchAction, context: &WatchContext) -> Box<dyn RunWatcher> {
    match watch {
        WatchAction::GrowPipes { capacity_bytes, budget_bytes } => {
            let foreign = context.foreign_pipes.clone();
            Box::new(Grower { ledger: PipeLedger::new(*capacity_bytes, *budget_bytes, foreign) })
        }
        _ => Box::new(Idle),
    }
}

/// Watches the memory without keeping an account of it.
fn account(launch: &ProgramLaunch) -> Result<AccountedRun, SuperviseError> {
    let run = passthrough::peak_of(launch, &mut |_, _| None);
    let PeakRun { usage, .. } = run.map_err(|error| match error {
        RecordError::Launch(error) => SuperviseError::Launch(error),
        other => SuperviseError::Trace(other.to_string()),
    })?;
    Ok(AccountedRun { ended: usage.ended, account: None })
}

/// Replaces a recorder of traced runs: it only runs the program and lists its arguments.
fn look(launch: &ProgramLaunch, options: LookOptions) -> Result<TracedLook, SuperviseError> {
    if launch.argv.first().is_some_and(|name| name == "untraceable") {
        return Err(SuperviseError::Trace("it said so itself".into()));
    }
    // A tracer enforces no memory limit. It would enforce a time limit if it were given one.
    let launch = ProgramLaunch { memory_limit_bytes: None, ..launch.clone() };
    let ended = match run::run(&launch, &make, None)? {
        RunOutcome::Finished(finished) => finished.usage.ended,
        RunOutcome::Stopped => return Err(SuperviseError::Interrupted),
    };
    let huge = launch.argv.iter().any(|word| word == "tell-too-much");
    let kinds = huge.then(|| ("x".repeat(65 << 20), 1)).into_iter();
    let effect = |dir: &PathBuf| SideEffect {
        action: "spared".into(),
        subject: dir.to_string_lossy().into_owned(),
        pid: 0,
    };
    Ok(TracedLook {
        processes: Vec::new(),
        pipes: Vec::new(),
        pipe_calls: std::collections::BTreeSet::new(),
        most_processes: 0,
        effects: options.scratch.iter().map(effect).collect(),
        files: Vec::new(),
        pattern: Fact::missing("not stepped"),
        written: Vec::new(),
        footprint: Fact::missing("not followed"),
        stepped: None,
        descriptor_kinds: kinds.collect::<BTreeMap<_, _>>(),
        checkpoint_bytes: None,
        ended,
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let mode = if args.is_empty() { OsString::new() } else { args.remove(0) };
    match mode.to_str() {
        Some("supervise") => {
            let fd = args.first().and_then(|a| a.to_str()).unwrap_or_default().parse()?;
            supervise::serve(fd, &make, TraceFunctions { trace: &look, account: &account })?;
        }
        Some("front") => front(args)?,
        Some("through") => through(args),
        Some("observe") => observe(args),
        Some("exec") => refuse(&passthrough::exec_with(&ProgramLaunch::passthrough(args))),
        Some("args") => {
            let mut out = std::io::stdout().lock();
            for arg in &args {
                out.write_all(arg.as_bytes())?;
                out.write_all(b"\n")?;
            }
        }
        Some("hold") => {
            let memory = touch(args.first().and_then(|a| a.to_str()).unwrap_or_default().parse()?);
            std::thread::sleep(std::time::Duration::from_secs(600));
            drop(memory);
        }
        Some("touch") => {
            touch(args.first().and_then(|a| a.to_str()).unwrap_or_default().parse()?);
        }
        _ => return Err("unknown mode".into()),
    }
    Ok(())
}

/// Runs a program below a supervisor and reports how it ended.
fn front(args: Vec<OsString>) -> Result<(), Box<dyn std::error::Error>> {
    let mut supervisor = RunSupervisor::start(&std::env::current_exe()?, &["supervise"])?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "supervisor {}", supervisor.pid())?;
    let launch = ProgramLaunch { stderr: OutputSink::Inherit, ..ProgramLaunch::experiment(args) };
    match supervisor.run(&launch, &|| false) {
        Ok(finished) => writeln!(out, "ended {}", finished.usage.ended)?,
        Err(SuperviseError::Died { how, killed, .. }) => writeln!(out, "died {how}; {killed}")?,
        Err(error) => writeln!(out, "error {error}")?,
    }
    Ok(())
}

fn through(args: Vec<OsString>) {
    match passthrough::run_through(&ProgramLaunch::passthrough(args), &make, &|| false) {
        Ok(Some(through)) => passthrough::end_like(through.ended),
        Ok(None) => panic!("nobody interrupts"),
        Err(error) => refuse(&error),
    }
}

#[expect(clippy::exit, clippy::print_stderr, reason = "the end of a program under test")]
fn refuse(error: &pagewise_tracee::launch::LaunchError) {
    eprintln!("{error}");
    std::process::exit(error.exit_code());
}

fn observe(args: Vec<OsString>) {
    match passthrough::observe_through(&ProgramLaunch::passthrough(args)) {
        Ok(finished) if finished.usage.wall_ns.0 > 0 && finished.usage.read_calls.is_some() => {
            passthrough::end_like(finished.usage.ended)
        }
        Ok(finished) => panic!("no wall time or no calls: {finished:?}"),
        Err(error) => refuse(&error),
    }
}

/// Touches exactly `pages` base pages of a fresh mapping, without huge pages.
fn touch(pages: usize) -> Vec<u8> {
    let page = 4096;
    let mut memory: Vec<u8> = Vec::with_capacity(pages * page);
    for _ in 0..pages {
        memory.extend_from_slice(&[1; 4096]);
    }
    std::hint::black_box(memory)
}
