//! `pagewise run`

use crate::args::Run;
use crate::failure::Failure;
use crate::terminal;
use pagewise_model::plan::{Dose, Settings};
use pagewise_remedy::{Target, warmth};
use pagewise_tracee::launch::Launch;
use pagewise_tracee::watcher::WatchReport;
use pagewise_tracee::{passthrough, read_ahead};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// Doses for `command` from a list as typed.
pub(super) fn doses(list: &str, command: &[OsString]) -> Result<Vec<Dose>, Failure> {
    let machine = pagewise_kernel::machine::machine();
    pagewise_remedy::parse_list(list, &machine, &|| Target::of(command)).map_err(|error| {
        Failure::usage(error.to_string())
            .with_help("pagewise run --list says what each remedy takes")
    })
}

/// Starts a program with remedies on.
pub(super) fn run(args: &Run) -> Result<ExitCode, Failure> {
    if args.list {
        list()?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.command.is_empty() {
        return Err(Failure::usage("no command given").with_help("put it after --"));
    }
    let doses = if args.with.is_empty() { Vec::new() } else { doses(&args.with, &args.command)? };
    let mut settings = doses.iter().fold(Settings::default(), |all, d| all.merged(&d.settings));
    if let Some(path) = settings.working_set.take() {
        read_before_start(&path)?;
    }
    for line in warmth::before_start(&std::mem::take(&mut settings.huge_files), args.verbose) {
        terminal::remark(&line);
    }
    let launch = Launch { settings, ..Launch::passthrough(args.command.clone()) };
    if !launch.settings.needs_supervision() {
        return Err(passthrough::exec_with(&launch).into());
    }
    let through = passthrough::run_through(&launch, &pagewise_remedy::watch::build)?;
    for line in through.watches.iter().flat_map(|watch| told(watch, args.verbose)) {
        terminal::remark(&line);
    }
    passthrough::end_like(through.ended)
}

/// Reads a working set, and says which of its files are left out, for they are not what was recorded.
fn read_before_start(path: &str) -> Result<(), Failure> {
    let set = read_ahead::load(Path::new(path)).map_err(Failure::usage)?;
    let plan = read_ahead::Plan::of(&set);
    for line in plan.left_out() {
        terminal::remark(&format!("working-set: {line}; left out"));
    }
    let _done = plan.execute();
    Ok(())
}

/// What did not work, a line each; all that was done when `verbose`.
fn told(watch: &WatchReport, verbose: bool) -> Vec<String> {
    let mut lines = Vec::new();
    if verbose {
        lines.push(format!("{}: took effect {} time(s)", watch.watch, watch.counter));
        lines.extend(watch.notes.iter().map(|note| format!("{}: {note}", watch.watch)));
    }
    lines.extend(watch.failures.iter().map(|why| format!("{}: {why}", watch.watch)));
    lines
}

fn list() -> Result<(), Failure> {
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
    fn only_what_failed_is_told_unless_all_is_asked_for() {
        let mut watch = WatchReport { watch: "pipes".into(), counter: 2, ..WatchReport::default() };
        watch.notes.push("1 MiB more".into());
        assert!(told(&watch, false).is_empty());
        assert_eq!(told(&watch, true), ["pipes: took effect 2 time(s)", "pipes: 1 MiB more"]);
        watch.failures.push("limit reached".into());
        assert_eq!(told(&watch, false), ["pipes: limit reached"]);
        assert_eq!(told(&watch, true).len(), 3);
    }
}
