//! `pagewise run`

use crate::args::Run;
use crate::failure::Failure;
use crate::terminal;
use pagewise_model::plan::{Dose, Settings};
use pagewise_tracee::launch::Launch;
use pagewise_tracee::passthrough;
use std::process::ExitCode;

/// Doses from a list as typed.
pub(super) fn doses(list: &str) -> Result<Vec<Dose>, Failure> {
    let machine = pagewise_kernel::machine::machine();
    pagewise_remedy::parse_list(list, &machine).map_err(|error| {
        Failure::usage(error.to_string()).with_help("pagewise run --list says what each remedy takes")
    })
}

/// Starts a program with remedies on.
pub(super) fn run(args: &Run) -> Result<ExitCode, Failure> {
    if args.list {
        list();
        return Ok(ExitCode::SUCCESS);
    }
    if args.command.is_empty() {
        return Err(Failure::usage("no command given").with_help("put it after --"));
    }
    let doses = if args.with.is_empty() { Vec::new() } else { doses(&args.with)? };
    let settings = doses.iter().fold(Settings::default(), |all, d| all.merged(&d.settings));
    let launch = Launch { settings, ..Launch::passthrough(args.command.clone()) };
    if !launch.settings.needs_supervision() {
        return Err(passthrough::exec_with(&launch).into());
    }
    let ended = passthrough::run_through(&launch, &pagewise_remedy::watch::build)?;
    passthrough::end_like(ended)
}

fn list() {
    for remedy in pagewise_remedy::all() {
        terminal::print(&format!(
            "{}\n    {}\n    =PARAMETER: {}\n",
            remedy.name(),
            remedy.sentence(),
            remedy.parameters()
        ));
    }
}
