//! `pagewise bench fork`

use super::session::{BenchStart, mappings, unfit};
use super::{chosen, once_each};
use crate::args::ForkBenchArgs;
use crate::failure::CommandFailure;
use pagewise_measure::BenchProgress;
use pagewise_measure::bench::fork::{self, ForkBenchRequest, ForkPlan};
use pagewise_model::Bytes;
use pagewise_model::bench::PageKind;
use pagewise_model::bench::fork::ForkPoint;
use pagewise_model::body::{BenchReport, RunBody};
use std::process::ExitCode;

/// Smallest default size; below, the largest.
const SMALLEST: Bytes = Bytes::mib(2);
const LARGEST: Bytes = Bytes::gib(1);
const LARGEST_QUICK: Bytes = Bytes::mib(128);

/// Measures, judges, saves and shows.
pub(super) fn run(args: &ForkBenchArgs) -> Result<ExitCode, CommandFailure> {
    let start = BenchStart::new("fork", &args.result)?;
    let request = request(args, start.seed)?;
    let mut session = start.begin()?;
    let help = "use smaller sizes or base pages; pagewise doctor shows what is available";
    let plan = ForkPlan::new(request).map_err(|error| unfit(error, help))?;
    session.announce(&mappings(&plan.cost(), args.repeats));
    let text = |p: &BenchProgress<'_, ForkPoint>| {
        format!("{} of {}: {} on {}", p.done, p.total, p.point.size_bytes, p.point.pages.name())
    };
    let mut forks = session.control.measure(text, |callbacks| fork::run(&plan, callbacks));
    forks.judgement = Some(pagewise_judge::bench::fork::judge(&forks));
    let any = forks.points.iter().any(|point| !point.samples.is_empty());
    session.run.body = Some(RunBody::Bench(BenchReport::Fork(forks)));
    session.conclude(any)
}

/// The request that the command line describes.
fn request(args: &ForkBenchArgs, seed: u64) -> Result<ForkBenchRequest, CommandFailure> {
    let (step, largest) = if args.quick { (8, LARGEST_QUICK) } else { (4, LARGEST) };
    let mut sizes = args.size.clone();
    if sizes.is_empty() {
        let all = std::iter::successors(Some(SMALLEST), |size| Some(Bytes(size.0 * step)));
        sizes = all.take_while(|size| *size < largest).chain([largest]).collect();
    }
    let fits = |size: &&Bytes| size.0.is_power_of_two() && **size >= SMALLEST;
    if let Some(size) = sizes.iter().find(|size| !fits(size)) {
        return Err(CommandFailure::usage(format!("--size {size}: this size is not supported"))
            .with_help("use a power of two from 2M on"));
    }
    let kinds = vec![PageKind::Base, PageKind::Thp, PageKind::Pool];
    let (repeats, quick) = (args.repeats, args.quick);
    Ok(ForkBenchRequest {
        kinds: chosen(&args.pages, kinds),
        sizes: once_each(sizes),
        repeats,
        quick,
        seed,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::args::BenchCommand;
    use crate::commands::bench::typed;

    fn parse(words: &[&str]) -> Result<ForkBenchRequest, CommandFailure> {
        let BenchCommand::Fork(args) = typed("fork", words).unwrap() else { panic!("not fork") };
        request(&args, 1)
    }

    #[test]
    fn sizes_grow_to_the_largest() {
        let all = parse(&[]).unwrap();
        assert_eq!((all.sizes[0], *all.sizes.last().unwrap()), (SMALLEST, LARGEST));
        assert_eq!(all.kinds, [PageKind::Base, PageKind::Thp, PageKind::Pool]);
        let quick = parse(&["--quick"]).unwrap();
        assert_eq!(quick.sizes, [2, 16, 128].map(Bytes::mib));
        let some = parse(&["--pages", "thp", "--size", "1G,4M"]).unwrap();
        assert_eq!(
            (some.kinds, some.sizes),
            (vec![PageKind::Thp], vec![Bytes::mib(4), Bytes::gib(1)])
        );
        assert!(parse(&["--size", "3M"]).is_err() && parse(&["--size", "1M"]).is_err());
    }
}
