//! `pagewise ab`

use super::experiment::{self, Display};
use crate::args::Ab;
use crate::failure::Failure;
use pagewise_model::run::Run;
use pagewise_model::trial::Word;
use pagewise_tracee::launch::Launch;
use pagewise_tune::live::Live;
use pagewise_tune::pair::Pair;
use pagewise_tune::request::unfit_name;
use std::ffi::OsString;
use std::process::ExitCode;

/// What stands between the two commands.
const BETWEEN: &str = "---";

/// Sets two commands against each other.
pub(crate) fn run(args: Ab) -> Result<ExitCode, Failure> {
    let (first, second) = split(&args.commands)?;
    let names = names(&args.names)?;
    let request = experiment::request(&args.experiment, first, false)?;
    Launch::experiment(second.clone()).check()?;
    let _lock = experiment::lock()?;
    let stop = experiment::stop_flag()?;
    let display = Display::new(args.experiment.quiet);
    let mut listener = |event: &pagewise_tune::world::Event<'_>| display.tell(event);
    let exe = experiment::own_exe()?;
    let (first_name, second_name) = names;
    let pair = Pair { request: &request, first_name, second_name, second };
    let recording = super::touch::commands(&exe);
    let world = Live::start(&request, &exe, &experiment::SUPERVISE, recording, stop, &mut listener);
    let (run, end) = match world {
        Ok(mut world) => pair.run(&mut world),
        Err(stop) => return Err(experiment::failure(&stop)),
    };
    display.finish();
    let slower = args.fail_if_slower && is_slower(&run);
    let code = experiment::conclude(run, end, &args.experiment)?;
    Ok(if slower { ExitCode::from(1) } else { code })
}

fn is_slower(run: &Run) -> bool {
    let verdict = run.experiment.as_ref().and_then(|e| e.verdicts.first());
    verdict.is_some_and(|v| fails(v.word, v.effect.as_ref().map(|e| e.ratio)))
}

/// Proven slower, or refused before times could be compared: it ended or wrote otherwise.
fn fails(word: Word, ratio: Option<f64>) -> bool {
    word == Word::Reject && ratio.is_none_or(|ratio| ratio > 1.0)
}

fn split(words: &[OsString]) -> Result<(Vec<OsString>, Vec<OsString>), Failure> {
    let bad = |why: &str| Failure::usage(why).with_help("pagewise ab -- CMD1 --- CMD2");
    let mut parts = words.split(|w| w == BETWEEN);
    match (parts.next(), parts.next(), parts.next()) {
        (Some(first), Some(second), None) if !first.is_empty() && !second.is_empty() => {
            Ok((first.to_vec(), second.to_vec()))
        }
        (_, _, Some(_)) => Err(bad("more than two commands")),
        _ => Err(bad("two commands are needed, with --- between them")),
    }
}

fn names(given: &[String]) -> Result<(String, String), Failure> {
    match given {
        [] => Ok(("first".to_owned(), "second".to_owned())),
        [a, b] => {
            let why = unfit_name(a, []).or_else(|| unfit_name(b, [a.as_str()]));
            why.map_or_else(|| Ok((a.clone(), b.clone())), |why| Err(Failure::usage(why)))
        }
        _ => Err(Failure::usage("--name is given twice, with two different names, or not at all")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_command_that_fails_is_no_pass() {
        assert!(fails(Word::Reject, Some(1.2)));
        assert!(fails(Word::Reject, None));
        assert!(!fails(Word::Reject, Some(0.8)));
        assert!(!fails(Word::Keep, Some(0.8)));
        assert!(!fails(Word::CannotTell, None));
    }
}
