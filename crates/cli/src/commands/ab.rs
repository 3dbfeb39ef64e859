//! `pagewise ab`

use super::experiment;
use super::helper;
use super::progress::ProgressDisplay;
use super::signals;
use crate::args::{AbArgs, HelperRole};
use crate::failure::{CommandFailure, UNFIT};
use crate::terminal;
use pagewise_judge::check::loss;
use pagewise_model::check::BudgetVerdict;
use pagewise_model::run::{SavedRun, SessionOutcome};
use pagewise_model::spec::OwnArm;
use pagewise_model::trial::{ArmVerdict, VerdictWord};
use pagewise_tracee::launch::ProgramLaunch;
use pagewise_tune::ab::CommandComparison;
use pagewise_tune::live::RealWorld;
use pagewise_tune::race::RaceGoal;
use pagewise_tune::request::unfit_name;
use pagewise_tune::{SessionRequest, SessionStop};
use std::ffi::OsString;
use std::process::ExitCode;

/// Separates the commands.
const BETWEEN: &str = "---";
/// Help text: how to give commands.
const HELP: &str =
    "pagewise ab -- CMD1 --- CMD2, or pagewise ab --scan N=1,2,4 -- CMD --threads {N}";

/// Compares the commands with the first of them.
pub(crate) fn run(args: AbArgs) -> Result<ExitCode, CommandFailure> {
    let mut commands = match &args.scan {
        Some(scan) => scanned(scan, &args.commands)?,
        None => split(&args.commands, "give two or more commands, separated by ---", HELP)?,
    };
    name(&mut commands, &args.names)?;
    let first = commands.remove(0);
    let mut request = experiment::request(&args.experiment, first.command, false)?;
    for other in &commands {
        ProgramLaunch::experiment(other.command.clone()).check()?;
    }
    request.spec.own_arms = commands;
    request.spec.quantity = args.goal;
    let limit = args.fail_if_slower_than.map(|limit| limit.0);
    let goal = limit.map_or(RaceGoal::Difference, RaceGoal::LossAtMost);
    let lock = experiment::lock(args.experiment.patience)?;
    let (run, end) = race(&request, &first.name, goal, args.experiment.quiet)?;
    drop(lock);
    let interrupted = matches!(run.outcome, Some(SessionOutcome::Interrupted));
    let judged = run
        .experiment
        .as_ref()
        .filter(|_| !interrupted && (args.fail_if_slower || limit.is_some()));
    let own = judged.and_then(|experiment| exit(&experiment.verdicts, limit));
    let refused = judged.and_then(|experiment| refused(&experiment.verdicts));
    let code = experiment::conclude(run, end, &args.experiment)?;
    if let Some(failure) = refused {
        terminal::report(&failure);
    }
    Ok(own.map_or(code, ExitCode::from))
}

/// Races the arms of `request` against its command, while the caller holds the lock. Returns the run, and why
/// it ended early.
pub(super) fn race(
    request: &SessionRequest,
    first_name: &str,
    goal: RaceGoal,
    quiet: bool,
) -> Result<(SavedRun, Option<SessionStop>), CommandFailure> {
    let stop = signals::stop_flag()?;
    let mut display = ProgressDisplay::new(quiet);
    let mut listener = |event: &pagewise_tune::world::SessionEvent<'_>| display.tell(event);
    let exe = helper::own_exe()?;
    let comparison = CommandComparison { request, first_name: first_name.to_owned(), goal };
    let recording = helper::timing(&exe);
    let words = helper::words(HelperRole::Supervise);
    let world = RealWorld::start(request, &exe, &words, recording, stop, &mut listener);
    let raced = match world {
        Ok(mut world) => comparison.run(&mut world),
        Err(stop) => return Err(experiment::failure(&stop)),
    };
    display.finish();
    Ok(raced)
}

/// The exit status that the options request. Without a limit: 1 if an arm is slower, or was refused before
/// times could be compared. With a limit: 1 if an arm exceeds it, 0 if every arm stays within it, else 3.
fn exit(verdicts: &[ArmVerdict], limit: Option<f64>) -> Option<u8> {
    let Some(limit) = limit else {
        let is_bad = |v: &ArmVerdict| matches!(v.word, VerdictWord::Reject | VerdictWord::Slower);
        return verdicts.iter().any(is_bad).then_some(1);
    };
    let kept: Vec<BudgetVerdict> = verdicts.iter().map(|verdict| loss(verdict, limit)).collect();
    if kept.contains(&BudgetVerdict::Broken) {
        Some(1)
    } else if kept.iter().all(|kept| *kept == BudgetVerdict::Passed) {
        Some(0)
    } else {
        Some(UNFIT)
    }
}

/// The failure of the first arm whose times were not compared, with the next step.
fn refused(verdicts: &[ArmVerdict]) -> Option<CommandFailure> {
    let arm = verdicts.iter().find(|verdict| verdict.word == VerdictWord::Reject)?;
    let why = format!("`{}` was not compared: {}", arm.arm, arm.why);
    Some(CommandFailure::usage(why).with_help(
        "use --ignore-failure for commands that always end with the same failure; other commands have to succeed",
    ))
}

/// Commands between `---`, two or more. `why` and `help` say so otherwise.
pub(super) fn split(
    words: &[OsString],
    why: &str,
    help: &str,
) -> Result<Vec<OwnArm>, CommandFailure> {
    let commands = words.split(|w| w == BETWEEN);
    let arms: Vec<OwnArm> =
        commands.map(|c| OwnArm { name: String::new(), command: c.to_vec() }).collect();
    if arms.len() < 2 || arms.iter().any(|arm| arm.command.is_empty()) {
        return Err(CommandFailure::usage(why).with_help(help));
    }
    Ok(arms)
}

/// The command once for each value of `NAME=VALUE,VALUE...`, which replaces `{NAME}`.
fn scanned(scan: &str, words: &[OsString]) -> Result<Vec<OwnArm>, CommandFailure> {
    let bad = |why: &str| CommandFailure::usage(format!("--scan `{scan}`: {why}")).with_help(HELP);
    let (name, values) = scan.split_once('=').ok_or_else(|| bad("use NAME=VALUE,VALUE"))?;
    let values: Vec<&str> = values.split(',').collect();
    if name.is_empty() || values.len() < 2 || values.iter().any(|value| value.is_empty()) {
        return Err(bad("give a name and at least two values"));
    }
    let place = format!("{{{name}}}");
    let is_used = |word: &OsString| word.to_str().is_some_and(|word| word.contains(&place));
    if !words.iter().any(is_used) {
        return Err(bad(&format!("the command does not contain {place}")));
    }
    let with = |value: &str| {
        let replaced = |word: &OsString| match word.to_str() {
            Some(text) => text.replace(&place, value).into(),
            None => word.clone(),
        };
        let command = words.iter().map(replaced).collect();
        OwnArm { name: format!("{name}={value}"), command }
    };
    Ok(values.into_iter().map(with).collect())
}

/// Names the commands: by the user's names, the values of the scan, or their positions.
pub(super) fn name(commands: &mut [OwnArm], given: &[String]) -> Result<(), CommandFailure> {
    const PLACES: [&str; 4] = ["first", "second", "third", "fourth"];
    if !given.is_empty() && given.len() != commands.len() {
        let why = format!("--name names {} of {} commands", given.len(), commands.len());
        return Err(CommandFailure::usage(why).with_help("name all commands or none"));
    }
    for (at, arm) in commands.iter_mut().enumerate() {
        if let Some(name) = given.get(at) {
            arm.name.clone_from(name);
        } else if arm.name.is_empty() {
            arm.name = PLACES.get(at).map_or_else(|| (at + 1).to_string(), |p| (*p).to_owned());
        }
    }
    for (at, arm) in commands.iter().enumerate() {
        let others = commands[..at].iter().map(|other| other.name.as_str());
        if let Some(why) = unfit_name(&arm.name, others) {
            return Err(CommandFailure::usage(why));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn a_scan_puts_each_value_in_its_place() {
        let arms = scanned("n=1,8", &words("prog -j{n} x")).unwrap();
        let shown: Vec<(&str, Vec<OsString>)> =
            arms.iter().map(|arm| (arm.name.as_str(), arm.command.clone())).collect();
        assert_eq!(shown, [("n=1", words("prog -j1 x")), ("n=8", words("prog -j8 x"))]);
        for bad in ["n", "n=1", "n=1,", "=1,2", "m=1,2"] {
            assert!(scanned(bad, &words("prog -j{n}")).is_err(), "{bad}");
        }
    }

    fn verdict(word: &str, ratios: Option<[f64; 3]>) -> ArmVerdict {
        let effect = ratios.map(|[low, ratio, high]| {
            serde_json::json!({
                "ratio": ratio, "ratio_low": low, "ratio_high": high, "repeat_low": low, "repeat_high": high,
                "evidence_of_gain": 1.0, "evidence_of_worth": 1.0, "sure_share": 0.0, "runs": 4, "control_runs": 4,
            })
        });
        let verdict = serde_json::json!({
            "arm": "b", "word": word, "why": "", "effect": effect, "supervisor_ns": 0,
        });
        serde_json::from_value(verdict).unwrap()
    }

    #[test]
    fn a_second_command_that_fails_is_no_pass() {
        let code = |word, ratios| exit(&[verdict(word, ratios)], None);
        assert_eq!(code("slower", Some([1.1, 1.2, 1.3])), Some(1));
        assert_eq!(code("reject", None), Some(1));
        assert_eq!(code("keep", Some([0.7, 0.8, 0.9])), None);
        assert_eq!(code("cannot_tell", None), None);
    }

    #[test]
    fn an_arm_that_was_refused_is_named_with_what_to_do() {
        let failure = refused(&[verdict("keep", None), verdict("reject", None)]).unwrap();
        assert!(failure.message.starts_with("`b` was not compared: "), "{failure}");
        assert!(failure.help.unwrap().contains("--ignore-failure"));
        assert!(refused(&[verdict("slower", None)]).is_none());
    }

    #[test]
    fn a_limit_passes_only_what_lies_below_it() {
        let code = |word, ratios| {
            exit(&[verdict("keep", Some([0.7, 0.8, 0.9])), verdict(word, ratios)], Some(0.05))
        };
        assert_eq!(code("cannot_tell", Some([0.98, 1.0, 1.04])), Some(0));
        assert_eq!(code("slower", Some([1.06, 1.1, 1.2])), Some(1));
        assert_eq!(code("slower", Some([1.02, 1.1, 1.2])), Some(UNFIT));
        assert_eq!(code("not_tried", None), Some(UNFIT));
        assert_eq!(code("reject", Some([0.7, 0.8, 0.9])), Some(1));
    }

    #[test]
    fn all_commands_have_names_of_their_own() {
        let mut arms = split(&words("a --- b --- c"), "", "").unwrap();
        name(&mut arms, &[]).unwrap();
        assert_eq!(
            arms.iter().map(|a| a.name.as_str()).collect::<Vec<_>>(),
            ["first", "second", "third"]
        );
        let same = ["x", "x", "y"].map(str::to_owned);
        assert!(name(&mut arms, &same).is_err() && name(&mut arms, &same[..2]).is_err());
        let is_refused = |text: &str| split(&words(text), "", "").is_err();
        assert!(is_refused("a ---") && is_refused("a"));
    }
}
