//! `pagewise tune`

use super::experiment::{self, Display};
use crate::args::Tune;
use crate::failure::Failure;
use pagewise_tune::live::Live;
use pagewise_tune::request::OwnArm;
use pagewise_tune::session::Session;
use std::process::ExitCode;

/// Diagnoses, tries, proves and prints the receipt.
pub(crate) fn run(args: Tune) -> Result<ExitCode, Failure> {
    let mut request = experiment::request(&args.experiment, args.command)?;
    request.advise = args.advise;
    request.own_arms = args.arms.iter().map(|arm| own_arm(arm)).collect::<Result<_, _>>()?;
    if let Some(list) = &args.only {
        request.only = Some(super::run::doses(list)?);
    }
    let _lock = experiment::lock()?;
    let stop = experiment::stop_flag()?;
    let display = Display::new(args.experiment.quiet);
    let mut listener = |event: &pagewise_tune::world::Event<'_>| display.tell(event);
    let exe = experiment::own_exe()?;
    let world = Live::start(&request, &exe, &experiment::SUPERVISE, stop, &mut listener);
    let (run, end) = match world {
        Ok(mut world) => Session::new(&request).run(&mut world),
        Err(stop) => return Err(experiment::failure(&stop)),
    };
    display.finish();
    experiment::conclude(run, end, &args.experiment)
}

/// `NAME=COMMAND`, the command as words of a shell.
fn own_arm(text: &str) -> Result<OwnArm, Failure> {
    let bad = |why: &str| {
        Failure::usage(format!("--arm `{text}`: {why}"))
            .with_help("--arm 'name=env GLIBC_TUNABLES=... ./program'")
    };
    let (name, command) = text.split_once('=').ok_or_else(|| bad("it needs NAME=COMMAND"))?;
    if name.is_empty() || command.trim().is_empty() {
        return Err(bad("it needs NAME=COMMAND"));
    }
    if name == "plain" {
        return Err(bad("`plain` is the name of the program itself"));
    }
    let words = shlex::split(command).ok_or_else(|| bad("a quote is not closed"))?;
    Ok(OwnArm { name: name.to_owned(), command: words.into_iter().map(Into::into).collect() })
}
