//! `pagewise run`

use super::experiment;
use super::signals::{self, INTERRUPTED};
use crate::args::RunArgs;
use crate::failure::CommandFailure;
use crate::terminal;
use pagewise_kernel::lock::ExperimentLock;
use pagewise_model::plan::{ArmSettings, HugeFile, PoolNeed, RemedyDose};
use pagewise_remedy::fold::{self, FoldChoice, FoldError};
use pagewise_remedy::folio_switches::{self, FolioSwitches};
use pagewise_remedy::reservation::{self, PoolPermit, PoolReservation};
use pagewise_remedy::{TargetProgram, idle, warmth};
use pagewise_report::number::counted;
use pagewise_tracee::launch::ProgramLaunch;
use pagewise_tracee::watcher::WatchReport;
use pagewise_tracee::{passthrough, read_ahead};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Exit code if the program could not be started, as in env(1).
const NOT_STARTED: u8 = 125;

/// Doses for `command` from a list on the command line.
pub(super) fn doses(list: &str, command: &[OsString]) -> Result<Vec<RemedyDose>, CommandFailure> {
    let machine = pagewise_kernel::machine::machine();
    pagewise_remedy::parse_list(list, &machine, &|| TargetProgram::from_command(command)).map_err(
        |error| {
            CommandFailure::usage(error.to_string())
                .with_help("pagewise run --list shows the parameters of each remedy")
        },
    )
}

/// Starts a program with remedies.
pub(super) fn run(args: &RunArgs) -> Result<ExitCode, CommandFailure> {
    if args.list {
        list()?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.command.is_empty() {
        return Err(CommandFailure::usage("no command given").with_help("put it after --"));
    }
    let mut doses =
        if args.with.is_empty() { Vec::new() } else { doses(&args.with, &args.command)? };
    if let Some((one, other)) = pagewise_remedy::clash(&doses) {
        let why = format!("`{}` and `{}` cannot be used together", one.spec(), other.spec());
        return Err(CommandFailure::usage(why).with_help("leave one of them out"));
    }
    let target = TargetProgram::from_command(&args.command);
    if let Some((remedy, why)) = pagewise_remedy::misfit(&doses, &target) {
        return Err(CommandFailure::usage(format!("{remedy}: {why}"))
            .with_help(format!(
                "start it without `{remedy}`; `pagewise tune --only {remedy}` tries it all the same"
            ))
            .with_code(NOT_STARTED));
    }
    for (dose, why) in doses.iter().filter_map(|dose| Some((dose, idle(dose, &target)?))) {
        terminal::remark(&format!("{} has no effect: {why}", dose.spec()));
    }
    let stop = if args.system { Some(permitted(&doses)?) } else { None };
    let changed = MachineChanges::for_doses(&mut doses, args.system);
    if args.verbose || terminal::reaches_a_person() {
        for (name, unseen) in pagewise_remedy::unseen(&doses) {
            terminal::remark(&format!("{name}: {unseen}"));
        }
    }
    let mut settings = doses.iter().fold(ArmSettings::default(), |all, d| all.merged(&d.settings));
    if let Some(path) = settings.working_set.take() {
        read_before_start(&path)?;
    }
    let mut files = std::mem::take(&mut settings.huge_files);
    let folded = if args.fold { Some(choose(&mut files, &doses)?) } else { None };
    remark(warmth::before_start(&files, args.verbose));
    if let Some(choice) = folded {
        let covering = choice.cover().map_err(|error| not_covered(&error))?;
        remark(covering.lines(args.verbose));
    }
    let launch = ProgramLaunch { settings, ..ProgramLaunch::passthrough(args.command.clone()) };
    if !launch.settings.needs_supervision() && stop.is_none() {
        return Err(passthrough::exec_with(&launch).into());
    }
    let interrupted = || stop.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed));
    let build = &pagewise_remedy::watch::build;
    let Some(through) = passthrough::run_through(&launch, build, &interrupted)? else {
        return Err(CommandFailure::usage("interrupted before the start").with_code(INTERRUPTED));
    };
    changed.undo();
    remark(through.watches.iter().flat_map(|watch| watch_lines(watch, args.verbose)));
    passthrough::end_like(through.ended)
}

fn remark(lines: impl IntoIterator<Item = String>) {
    lines.into_iter().for_each(|line| terminal::remark(&line));
}

/// The flag that a signal sets, for a run that may change the machine. Refuses doses that change nothing on
/// the machine.
fn permitted(doses: &[RemedyDose]) -> Result<Arc<AtomicBool>, CommandFailure> {
    if !doses.iter().any(|dose| dose.settings.needs_machine()) {
        return Err(CommandFailure::usage(
            "--system has no effect: none of these remedies changes the machine",
        )
        .with_help("pagewise run --system --with pool=SIZE -- CMD"));
    }
    signals::stop_flag()
}

/// The files whose code gets huge pages only in a folded copy. The others stay in `files`.
fn choose(files: &mut Vec<HugeFile>, doses: &[RemedyDose]) -> Result<FoldChoice, CommandFailure> {
    if doses.iter().all(|dose| dose.remedy != pagewise_remedy::TEXT_HUGE) {
        return Err(CommandFailure::usage("--fold needs the remedy text-huge")
            .with_help("pagewise run --fold --with text-huge -- CMD"));
    }
    let (choice, rest) = fold::choose(std::mem::take(files));
    *files = rest;
    Ok(choice)
}

fn not_covered(error: &FoldError) -> CommandFailure {
    let help = match error {
        FoldError::Refused { help, .. } => *help,
        FoldError::System(error) if matches!(error.call, "unshare" | "mount" | "write") => {
            "run it as root, or allow user namespaces for this account \
             (user.max_user_namespaces, container filters, security modules); or make a copy with pagewise text fold and start that"
        }
        FoldError::System(_) | FoldError::Plan(_) | FoldError::Stopped => "start it without --fold",
    };
    CommandFailure::usage(format!("--fold: {error}")).with_help(help).with_code(NOT_STARTED)
}

/// Changes to the machine that last while the program runs.
#[derive(Default)]
struct MachineChanges {
    reserved: Option<PoolReservation>,
    switched: Option<FolioSwitches>,
    /// Held as long as the change lasts; `None` if an experiment holds the lock.
    no_experiment: Option<ExperimentLock>,
}

impl MachineChanges {
    /// Prepares the machine for the doses; removes a dose if that fails.
    fn for_doses(doses: &mut Vec<RemedyDose>, may_change: bool) -> Self {
        let mut changed = Self::default();
        let missing = |name: &str, why: &str| {
            terminal::remark(&format!("{name}: {why}; started without it"));
        };
        if let Some(need) = doses.iter().find_map(|dose| dose.settings.pool)
            && let Err(why) = changed.fill_pool(need, may_change)
        {
            missing(pagewise_remedy::POOL, &why);
            doses.retain(|dose| dose.settings.pool.is_none());
        }
        if doses.iter().any(|dose| dose.settings.folios.is_some())
            && let Err(why) = changed.switch_folios(may_change)
        {
            missing(pagewise_remedy::HEAP_MTHP, &why);
            doses.retain(|dose| dose.settings.folios.is_none());
        }
        changed
    }

    fn switch_folios(&mut self, may_change: bool) -> Result<(), String> {
        let permit = may_change.then(PoolPermit::obtain).transpose()?;
        if permit.is_some() {
            self.no_experiment = experiment::no_experiment_beside();
        }
        self.switched = folio_switches::ensure(permit.as_ref())?;
        Ok(())
    }

    fn fill_pool(&mut self, need: PoolNeed, may_change: bool) -> Result<(), String> {
        let as_it_is = reservation::ensure(need, None, &mut self.reserved);
        if as_it_is.is_ok() || !may_change {
            return as_it_is;
        }
        let permit = PoolPermit::obtain()?;
        self.no_experiment = experiment::no_experiment_beside();
        reservation::ensure(need, Some(&permit), &mut self.reserved)
    }

    /// Undoes the changes.
    fn undo(self) {
        if let Some(Err(why)) = self.reserved.map(PoolReservation::give_back) {
            terminal::remark(&format!("{}: {why}", pagewise_remedy::POOL));
        }
        if let Some(Err(why)) = self.switched.map(FolioSwitches::put_back) {
            terminal::remark(&format!("{}: {why}", pagewise_remedy::HEAP_MTHP));
        }
        drop(self.no_experiment);
    }
}

/// Reads a working set ahead, and reports files that are skipped because they have changed since the recording.
fn read_before_start(path: &str) -> Result<(), CommandFailure> {
    let set = read_ahead::load(Path::new(path)).map_err(CommandFailure::usage)?;
    let plan = read_ahead::ReadAheadPlan::of(&set);
    for line in plan.left_out() {
        terminal::remark(&format!("working-set: {line}; left out"));
    }
    let _done = plan.execute();
    Ok(())
}

/// What did not work, one line each; with `verbose`, everything that was done.
fn watch_lines(watch: &WatchReport, verbose: bool) -> Vec<String> {
    let mut lines = Vec::new();
    if verbose {
        let times = counted(watch.counter, "time", "times");
        lines.push(format!("{}: took effect {times}", watch.watch));
        lines.extend(watch.notes.iter().map(|note| format!("{}: {note}", watch.watch)));
    }
    lines.extend(watch.failures.iter().map(|why| format!("{}: {why}", watch.watch)));
    lines
}

fn list() -> Result<(), CommandFailure> {
    for remedy in pagewise_remedy::all() {
        terminal::print(&format!(
            "{}\n    {}\n    =PARAMETER: {}\n",
            remedy.name(),
            remedy.sentence(),
            remedy.parameters()
        ))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_failed_is_reported_unless_all_is_asked_for() {
        let mut watch = WatchReport { watch: "pipes".into(), counter: 2, ..WatchReport::default() };
        watch.notes.push("1 MiB more".into());
        assert!(watch_lines(&watch, false).is_empty());
        assert_eq!(watch_lines(&watch, true), ["pipes: took effect 2 times", "pipes: 1 MiB more"]);
        watch.failures.push("limit reached".into());
        assert_eq!(watch_lines(&watch, false), ["pipes: limit reached"]);
        assert_eq!(watch_lines(&watch, true).len(), 3);
    }
}
