//! `pagewise bench memory`

use super::session::{BenchStart, unfit};
use crate::args::MemoryBenchArgs;
use crate::failure::CommandFailure;
use pagewise_measure::BenchProgress;
use pagewise_measure::bench::memory::{self, MemoryBenchPlan, MemoryBenchRequest};
use pagewise_model::bench::memory::{MemoryBenchPoint, MemoryBenchReport};
use pagewise_model::body::{BenchReport, RunBody};
use std::process::ExitCode;

/// Help text for when nothing can be measured.
const HELP: &str = "try a smaller --size or other ways; pagewise doctor shows what is available";

/// Touches, judges, saves and shows.
pub(super) fn run(args: &MemoryBenchArgs) -> Result<ExitCode, CommandFailure> {
    let start = BenchStart::new("memory", &args.result)?;
    let seed = start.seed;
    let mut session = start.begin()?;
    let plan = MemoryBenchPlan::new(request(args, seed)).map_err(|error| unfit(error, HELP))?;
    session.announce(&announcement(&plan, args.repeats));
    let text = |p: &BenchProgress<'_, MemoryBenchPoint>| {
        format!("{} of {}: {}", p.done, p.total, p.point.label())
    };
    let mut touches = session.control.measure(text, |callbacks| memory::run(&plan, callbacks));
    touches.judgement = Some(pagewise_judge::bench::memory::judge(&touches));
    let any = is_any(&touches);
    session.run.body = Some(RunBody::Bench(BenchReport::Memory(touches)));
    session.conclude(any)
}

/// The request that the command line describes.
fn request(args: &MemoryBenchArgs, seed: u64) -> MemoryBenchRequest {
    MemoryBenchRequest {
        only: args.only.clone(),
        size: args.size,
        threads: args.threads.unwrap_or(u32::MAX),
        repeats: args.repeats,
        quick: args.quick,
        seed,
    }
}

/// Announces the measurement and its cost.
fn announcement(plan: &MemoryBenchPlan, repeats: u32) -> String {
    let cost = plan.cost();
    format!(
        "{} points, {repeats} fresh mappings of {} for each: {} mappings, about {}, at most {}, in at most \
         {} of memory",
        cost.points,
        plan.size(),
        cost.samples,
        cost.about_ns,
        cost.cap_ns,
        cost.memory_bytes
    )
}

/// Whether anything was measured.
fn is_any(touches: &MemoryBenchReport) -> bool {
    let beside = touches.split.known().is_some() || touches.pressure.known().is_some();
    beside || touches.points.iter().any(|p| !p.samples.is_empty())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::args::BenchCommand;
    use crate::commands::bench::typed;
    use pagewise_model::Bytes;

    fn parse(words: &[&str]) -> Result<MemoryBenchRequest, clap::Error> {
        let BenchCommand::Memory(args) = typed("memory", words)? else { panic!("not memory") };
        Ok(request(&args, 1))
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
        let all = memory::words().join(",");
        assert_eq!(parse(&["--only", &all]).unwrap().only.len(), memory::words().len());
        for words in [["--only", "nothing"], ["--threads", "0"], ["--size", "x"]] {
            assert!(parse(&words).is_err(), "{words:?}");
        }
    }
}
