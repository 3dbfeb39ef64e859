//! `pagewise tune`

use super::experiment::{self, Display};
use crate::args::Tune;
use crate::failure::Failure;
use pagewise_remedy::reservation::Permit;
use pagewise_tracee::launch::Launch;
use pagewise_tune::Request;
use pagewise_tune::live::Live;
use pagewise_tune::request::OwnArm;
use pagewise_tune::session::Session;
use std::process::ExitCode;

/// How an arm is given.
const ARM_HELP: &str = "--arm 'name=env GLIBC_TUNABLES=... ./program'";

/// Diagnoses, tries, proves and prints the receipt.
pub(crate) fn run(args: Tune) -> Result<ExitCode, Failure> {
    let mut request = experiment::request(&args.experiment, args.command, true)?;
    request.advise = args.advise;
    request.own_arms = args.arms.iter().map(|arm| own_arm(arm)).collect::<Result<_, _>>()?;
    refuse_arms(&request)?;
    if let Some(list) = &args.only {
        request.only = Some(super::run::doses(list, &request.command)?);
    }
    let _lock = experiment::lock()?;
    if args.system {
        let refused = |why| Failure::unfit(why).with_help("without --system nothing is changed");
        request.system = Some(Permit::obtain().map_err(refused)?);
    }
    let stop = experiment::stop_flag()?;
    let display = Display::new(args.experiment.quiet);
    let mut listener = |event: &pagewise_tune::world::Event<'_>| display.tell(event);
    let exe = experiment::own_exe()?;
    let recording = super::touch::commands(&exe);
    let world = Live::start(&request, &exe, &experiment::SUPERVISE, recording, stop, &mut listener);
    let (run, end) = match world {
        Ok(mut world) => Session::new(&request).run(&mut world),
        Err(stop) => return Err(experiment::failure(&stop)),
    };
    display.finish();
    experiment::conclude(run, end, &args.experiment)
}

/// Arms that cannot be told apart or not be run, before seconds are spent on prices.
fn refuse_arms(request: &Request) -> Result<(), Failure> {
    if let Some(why) = request.unfit_arm() {
        return Err(Failure::usage(format!("--arm: {why}")).with_help(ARM_HELP));
    }
    for arm in &request.own_arms {
        Launch::experiment(arm.command.clone()).check()?;
    }
    Ok(())
}

/// `NAME=COMMAND`, the command as words of a shell.
fn own_arm(text: &str) -> Result<OwnArm, Failure> {
    let bad = |why: &str| Failure::usage(format!("--arm `{text}`: {why}")).with_help(ARM_HELP);
    let (name, command) = text.split_once('=').ok_or_else(|| bad("it needs NAME=COMMAND"))?;
    let words = shlex::split(command).ok_or_else(|| bad("a quote is not closed"))?;
    Ok(OwnArm { name: name.to_owned(), command: words.into_iter().map(Into::into).collect() })
}
