//! `pagewise bench memory`

use super::sitting::{Start, unfit};
use crate::args::BenchMemory;
use crate::failure::Failure;
use pagewise_measure::Progress;
use pagewise_measure::first_touch::{self, Asked, Plan};
use pagewise_model::first_touch::{FirstTouch, Point};
use std::process::ExitCode;

/// What to do where nothing can be measured.
const HELP: &str = "ask for a smaller --size or other ways; pagewise doctor says what there is";

/// Touches, judges, keeps and shows.
pub(super) fn run(args: &BenchMemory) -> Result<ExitCode, Failure> {
    let start = Start::new("memory", &args.result)?;
    let seed = start.seed;
    let mut sitting = start.sit()?;
    let plan = Plan::new(asked(args, seed)).map_err(|error| unfit(error, HELP))?;
    sitting.announce(&announcement(&plan, args.repeats));
    let text = |p: &Progress<'_, Point>| format!("{} of {}: {}", p.done, p.total, p.point.label());
    let mut touches = sitting.conduct.measure(text, |company| first_touch::run(&plan, company));
    touches.judgement = Some(pagewise_judge::first_touch::judge(&touches));
    let any = is_any(&touches);
    sitting.run.first_touch = Some(touches);
    sitting.conclude(any)
}

/// From what was typed to what is asked of the machine.
fn asked(args: &BenchMemory, seed: u64) -> Asked {
    Asked {
        only: args.only.clone(),
        size: args.size,
        threads: args.threads.unwrap_or(u32::MAX),
        repeats: args.repeats,
        quick: args.quick,
        seed,
    }
}

/// What will be done, before it is.
fn announcement(plan: &Plan, repeats: u32) -> String {
    let cost = plan.cost();
    format!(
        "{} points, {repeats} fresh mappings of {} for each: {} mappings, about {}, at most {}, in at most \
         {} of memory",
        cost.points,
        plan.size(),
        cost.mappings,
        cost.about_ns,
        cost.cap_ns,
        cost.memory_bytes
    )
}

/// Whether anything is known.
fn is_any(touches: &FirstTouch) -> bool {
    let beside = touches.split.known().is_some() || touches.pressure.known().is_some();
    beside || touches.points.iter().any(|p| !p.samples.is_empty())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::args::{BenchKind, Cli, Command};
    use clap::Parser;
    use pagewise_model::Bytes;

    fn parse(words: &[&str]) -> Result<Asked, clap::Error> {
        let line = ["pagewise", "bench", "memory"].iter().chain(words);
        let Command::Bench(bench) = Cli::try_parse_from(line)?.command else { panic!("not bench") };
        let BenchKind::Memory(args) = bench.what else { panic!("not memory") };
        Ok(asked(&args, 1))
    }

    #[test]
    fn without_words_everything_is_touched() {
        let all = parse(&[]).unwrap();
        assert!(all.only.is_empty() && !all.quick);
        assert_eq!((all.size, all.repeats, all.threads), (None, 10, u32::MAX));
        let quick = parse(&["--quick", "--size", "4M", "--threads", "1"]).unwrap();
        assert!(quick.quick && quick.threads == 1);
        assert_eq!(quick.size, Some(Bytes::mib(4)));
    }

    #[test]
    fn every_way_has_a_word() {
        let all = first_touch::words().join(",");
        assert_eq!(parse(&["--only", &all]).unwrap().only.len(), first_touch::words().len());
        for words in [["--only", "nothing"], ["--threads", "0"], ["--size", "x"]] {
            assert!(parse(&words).is_err(), "{words:?}");
        }
    }
}
