//! `pagewise profile --memory`

use super::{conclude, launch, report};
use crate::args::ProfileArgs;
use crate::commands::experiment::{environment, identity};
use crate::commands::faults;
use crate::commands::faults::running::{begun_line, refusal};
use crate::commands::helper;
use crate::commands::signals::stop_flag;
use crate::failure::CommandFailure;
use crate::terminal;
use pagewise_judge::memory_account::{MemoryAccountFacts, account};
use pagewise_kernel::clock;
use pagewise_kernel::proc::{smaps, tree};
use pagewise_model::fault::ResidentPages;
use pagewise_model::memory_account::{AccountMoment, MemoryAccount};
use pagewise_model::run::{RunKind, SavedRun};
use pagewise_model::usage::ProgramUsage;
use pagewise_model::{Bytes, Fact, Nanos};
use pagewise_observe::memory;
use pagewise_tracee::launch::{ObservationOptions, ProgramLaunch};
use pagewise_tracee::memory_peak::{PeakProcess, Take};
use pagewise_tracee::passthrough::{self, PeakRun};
use pagewise_tracee::recorder::RecordError;
use pagewise_tracee::supervise::{AccountedRun, SuperviseError};
use pagewise_tracee::target::{RecordingCourse, TargetProcess};
use pagewise_tune::request::run_of;
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

/// Size of a thread's kernel stack (`THREAD_SIZE`) on x86-64, riscv64, and arm64 with base pages of 4 KiB.
const KERNEL_STACK: Bytes = Bytes::kib(16);
const TOO_SHORT: &str = "the program ended before its memory could be looked at";

/// Accounts for the memory of a program at its peak.
pub(super) fn of_program(args: &ProfileArgs) -> Result<ExitCode, CommandFailure> {
    let start = clock::now();
    let recorder = helper::timing(&helper::own_exe()?).recorder;
    let launch =
        ProgramLaunch { observe: ObservationOptions::default(), recorder, ..launch(args)? };
    launch.check()?;
    args.files.check()?;
    let mut run = begin(&args.command);
    run.input = args.input.as_ref().map(|file| file.to_string_lossy().into_owned());
    let (usage, account) =
        at_peak(true, |take| passthrough::peak_through(&launch, args.interpreter_frames, take))
            .map_err(faults::failure)?;
    if account.is_none() {
        run.warnings.push(TOO_SHORT.to_owned());
    }
    run.memory = account;
    conclude(&mut run, start);
    // Passes on the program's exit status, even if the report fails.
    if let Err(error) = report(&run, args) {
        terminal::report(&error);
    }
    passthrough::end_like(usage.ended)
}

/// Accounts for the memory of a running process and its descendants.
pub(super) fn of_running(args: &ProfileArgs, pid: i32) -> Result<ExitCode, CommandFailure> {
    let start = clock::now();
    args.files.check()?;
    let target = TargetProcess::find(pid).map_err(refusal)?;
    let command: Vec<OsString> = target.command().iter().map(Into::into).collect();
    let mut run = begin(&command);
    let within = match args.duration {
        Some(time) => Some(use_within(&target, time, &run)?),
        None => None,
    };
    let pids = [vec![pid], tree::descendants(pid).unwrap_or_default()].concat();
    let held: Vec<PeakProcess<'_>> =
        pids.iter().map(|pid| PeakProcess { pid: *pid, history: &[] }).collect();
    run.memory = Some(look(AccountMoment::Running, &held, within));
    conclude(&mut run, start);
    report(&run, args)?;
    Ok(ExitCode::SUCCESS)
}

/// The account of an experiment's run, without the page-level map.
pub(in crate::commands) fn account_of(
    launch: &ProgramLaunch,
) -> Result<AccountedRun, SuperviseError> {
    let done = at_peak(false, |take| passthrough::peak_of(launch, take));
    let (usage, mut account) = done.map_err(|error| match error {
        RecordError::Launch(error) => SuperviseError::Launch(error),
        other => SuperviseError::Trace(other.to_string()),
    })?;
    for process in account.iter_mut().flat_map(|account| &mut account.processes) {
        process.map.clear();
    }
    Ok(AccountedRun { ended: usage.ended, account })
}

/// The largest account taken while `run` runs a program; with `sites` of its first touches if requested.
fn at_peak(
    sites: bool,
    run: impl FnOnce(&mut Take<'_>) -> Result<PeakRun, RecordError>,
) -> Result<(ProgramUsage, Option<MemoryAccount>), RecordError> {
    let mut largest: Option<MemoryAccount> = None;
    let at_peak = run(&mut |moment, held| {
        let taken = look(moment.clone(), held, None);
        if largest.as_ref().is_none_or(|largest| largest.pss() <= taken.pss()) {
            largest = Some(taken);
            return sites.then(|| resident(held));
        }
        None
    })?;
    let PeakRun { usage, watched, sites: found } = at_peak;
    let found = found.and_then(|found| match found.seen_bytes + found.unseen_bytes {
        Bytes(0) => Fact::missing("the resident pages could not be read at the peak"),
        _ => Fact::Known(found),
    });
    let account = largest.map(|account| MemoryAccount {
        watched: Some(watched),
        sites: sites.then_some(found),
        ..account
    });
    Ok((usage, account))
}

fn begin(command: &[OsString]) -> SavedRun {
    let (started, id) = identity(command);
    let mut run = run_of(RunKind::Profile, id, started, command);
    run.environment = environment();
    run.machine = Some(pagewise_kernel::machine::machine());
    run
}

/// Clears the referenced bits and waits, so that a page counts as referenced only if it was used since.
/// Returns the time waited.
fn use_within(
    target: &TargetProcess,
    time: Nanos,
    run: &SavedRun,
) -> Result<Nanos, CommandFailure> {
    let pids = tree::descendants(target.pid()).unwrap_or_default();
    for pid in pids.into_iter().chain([target.pid()]) {
        smaps::clear_referenced(pid).map_err(|error| {
            CommandFailure::usage(error.to_string())
                .with_help("leave out --for: without it, no marks are cleared")
        })?;
    }
    let begun = clock::now();
    let stop = stop_flag()?;
    let enough = || stop.load(Ordering::Relaxed);
    let threads = tree::threads(target.pid()).map_or(1, |threads| threads.len() as u64);
    let doing = "watching the use of memory of";
    terminal::remark(&begun_line(doing, target.pid(), &run.command, threads));
    target.attend(&RecordingCourse { begun: &|_| {}, time: Some(time), enough: &enough });
    Ok(Nanos(clock::now().0.saturating_sub(begun.0)))
}

/// The resident pages of these processes; skips those that cannot be read.
fn resident(held: &[PeakProcess<'_>]) -> Vec<ResidentPages> {
    held.iter().flat_map(|one| memory::resident(one.pid).unwrap_or_default()).collect()
}

/// An account of these processes, without those that have ended.
fn look(
    moment: AccountMoment,
    held: &[PeakProcess<'_>],
    used_within_ns: Option<Nanos>,
) -> MemoryAccount {
    let mut facts = MemoryAccountFacts {
        processes: Vec::with_capacity(held.len()),
        unseen_processes: 0,
        moment,
        watched: None,
        used_within_ns,
        kernel_stack_bytes: KERNEL_STACK,
    };
    for PeakProcess { pid, history } in held {
        match memory::look(*pid, history) {
            Ok(seen) => facts.processes.push(seen),
            Err(error) if error.is_gone() => {}
            Err(_) => facts.unseen_processes += 1,
        }
    }
    account(&facts)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use pagewise_kernel::proc::own_pid;
    use pagewise_model::constructed;
    use pagewise_model::fault::MemorySites;
    use pagewise_model::memory_account::PeakWatch;

    #[test]
    fn pages_of_the_largest_account_replace_those_before_even_where_there_are_none() {
        let own = [PeakProcess { pid: own_pid(), history: &[] }];
        let found = at_peak(true, |take| {
            assert_eq!(
                take(&AccountMoment::Running, &[]),
                Some(Vec::new()),
                "the first is the largest"
            );
            assert!(!take(&AccountMoment::Running, &own).unwrap().is_empty());
            assert_eq!(take(&AccountMoment::Running, &[]), None, "smaller than the one before");
            let sites = Fact::Known(MemorySites::default());
            Ok(PeakRun { usage: constructed::usage(), watched: PeakWatch::default(), sites })
        });
        let sites = found.unwrap().1.unwrap().sites.unwrap();
        assert!(sites.reason().is_some_and(|why| why.contains("at the peak")), "{sites:?}");
    }
}
