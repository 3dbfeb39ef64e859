//! `pagewise profile --memory`

use super::{conclude, launch, report};
use crate::args::Profile;
use crate::commands::experiment::{environment, identity};
use crate::commands::faults;
use crate::commands::faults::running::{begun_line, refusal};
use crate::commands::signals::stop_flag;
use crate::failure::Failure;
use crate::terminal;
use pagewise_judge::memory_account::{Facts, account};
use pagewise_kernel::clock;
use pagewise_kernel::proc::{smaps, tree};
use pagewise_model::memory_account::{MemoryAccount, Moment};
use pagewise_model::run::{Run, RunKind};
use pagewise_model::{Bytes, Nanos};
use pagewise_observe::memory;
use pagewise_tracee::launch::{Launch, Observe};
use pagewise_tracee::memory_peak::Held;
use pagewise_tracee::passthrough;
use pagewise_tracee::target::{Target, Until};
use pagewise_tune::request::run_of;
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

/// The kernel's stack of a thread (`THREAD_SIZE`): so much on x86-64, arm64 with base pages of 4 KiB, and riscv64.
const KERNEL_STACK: Bytes = Bytes::kib(16);
const TOO_SHORT: &str = "the program ended before its memory could be looked at";

/// Accounts for the memory of a program at its peak.
pub(super) fn of_program(args: &Profile) -> Result<ExitCode, Failure> {
    let start = clock::now();
    let launch = Launch { observe: Observe::default(), ..launch(args)? };
    launch.check()?;
    args.files.check()?;
    let mut run = begin(&args.command);
    run.input = args.input.as_ref().map(|file| file.to_string_lossy().into_owned());
    let mut largest: Option<MemoryAccount> = None;
    let mut take = |moment: &Moment, held: &[Held<'_>]| {
        let taken = look(moment.clone(), held, None);
        if largest.as_ref().is_none_or(|largest| largest.pss() <= taken.pss()) {
            largest = Some(taken);
        }
    };
    let (usage, watched) =
        passthrough::peak_through(&launch, &mut take).map_err(faults::failure)?;
    match largest {
        Some(account) => run.memory = Some(MemoryAccount { watched: Some(watched), ..account }),
        None => run.warnings.push(TOO_SHORT.to_owned()),
    }
    conclude(&mut run, start);
    // The program has run: its status is passed on, whatever becomes of our report.
    if let Err(error) = report(&run, args) {
        terminal::report(&error);
    }
    passthrough::end_like(usage.ended)
}

/// Accounts for the memory of a running process and of those below it.
pub(super) fn of_running(args: &Profile, pid: i32) -> Result<ExitCode, Failure> {
    let start = clock::now();
    args.files.check()?;
    let target = Target::find(pid).map_err(refusal)?;
    let command: Vec<OsString> = target.command().iter().map(Into::into).collect();
    let mut run = begin(&command);
    let within = match args.duration {
        Some(time) => Some(use_within(&target, time, &run)?),
        None => None,
    };
    let pids = [vec![pid], tree::descendants(pid).unwrap_or_default()].concat();
    let held: Vec<Held<'_>> = pids.iter().map(|pid| Held { pid: *pid, history: &[] }).collect();
    run.memory = Some(look(Moment::Running, &held, within));
    conclude(&mut run, start);
    report(&run, args)?;
    Ok(ExitCode::SUCCESS)
}

fn begin(command: &[OsString]) -> Run {
    let (started, id) = identity(command);
    let mut run = run_of(RunKind::Profile, id, started, command);
    run.environment = environment();
    run.machine = Some(pagewise_kernel::machine::machine());
    run
}

/// Clears the marks of use and waits, so that a page counts as referenced only if it was used since; how long that was.
fn use_within(target: &Target, time: Nanos, run: &Run) -> Result<Nanos, Failure> {
    let pids = tree::descendants(target.pid()).unwrap_or_default();
    for pid in pids.into_iter().chain([target.pid()]) {
        smaps::clear_referenced(pid).map_err(|error| {
            Failure::usage(error.to_string())
                .with_help("leave out --for: without it, no marks are cleared")
        })?;
    }
    let begun = clock::now();
    let stop = stop_flag()?;
    let enough = || stop.load(Ordering::Relaxed);
    let threads = tree::threads(target.pid()).map_or(1, |threads| threads.len() as u64);
    let doing = "watching the use of memory of";
    terminal::remark(&begun_line(doing, target.pid(), &run.command, threads));
    target.attend(&Until { begun: &|_| {}, time: Some(time), enough: &enough });
    Ok(Nanos(clock::now().0.saturating_sub(begun.0)))
}

/// An account of these processes; those that have ended are left out.
fn look(moment: Moment, held: &[Held<'_>], used_within_ns: Option<Nanos>) -> MemoryAccount {
    let mut facts = Facts {
        processes: Vec::with_capacity(held.len()),
        unseen_processes: 0,
        moment,
        watched: None,
        used_within_ns,
        kernel_stack_bytes: KERNEL_STACK,
    };
    for Held { pid, history } in held {
        match memory::look(*pid, history) {
            Ok(seen) => facts.processes.push(seen),
            Err(error) if error.is_gone() => {}
            Err(_) => facts.unseen_processes += 1,
        }
    }
    account(&facts)
}
