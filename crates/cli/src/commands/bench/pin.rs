//! `pagewise bench pin`

use super::session::{BenchStart, mappings, unfit};
use super::{chosen, once_each};
use crate::args::PinBenchArgs;
use crate::failure::CommandFailure;
use pagewise_measure::BenchProgress;
use pagewise_measure::bench::pin::{self, PinBenchRequest, PinPlan};
use pagewise_model::Bytes;
use pagewise_model::bench::PageKind;
use pagewise_model::bench::pin::{PinPoint, PinWay};
use pagewise_model::body::{BenchReport, RunBody};
use std::process::ExitCode;

/// Largest piece: more than an ordinary user's pipe can hold.
const LARGEST: Bytes = Bytes::mib(1);

/// Measures, judges, saves and shows.
pub(super) fn run(args: &PinBenchArgs) -> Result<ExitCode, CommandFailure> {
    let start = BenchStart::new("pin", &args.result)?;
    let request = request(args, start.seed)?;
    let mut session = start.begin()?;
    let help = "try another way or base pages; pagewise doctor shows what is available";
    let plan = PinPlan::new(request).map_err(|error| unfit(error, help))?;
    session.announce(&mappings(&plan.cost(), args.repeats));
    let text = |p: &BenchProgress<'_, PinPoint>| {
        let (way, size, pages) = (p.point.way.into_str(), p.point.size_bytes, p.point.pages.name());
        format!("{} of {}: {way}, {size} on {pages}", p.done, p.total)
    };
    let mut pins = session.control.measure(text, |callbacks| pin::run(&plan, callbacks));
    pins.judgement = Some(pagewise_judge::bench::pin::judge(&pins));
    let any = pins.points.iter().any(|point| !point.samples.is_empty());
    session.run.body = Some(RunBody::Bench(BenchReport::Pin(pins)));
    session.conclude(any)
}

/// The request that the command line describes.
fn request(args: &PinBenchArgs, seed: u64) -> Result<PinBenchRequest, CommandFailure> {
    let ways = PinWay::ALL.into_iter().filter(|way| way.pins()).collect();
    let kinds = vec![PageKind::Base, PageKind::Thp, PageKind::Pool];
    let mut sizes = args.size.clone();
    if sizes.is_empty() {
        let step = if args.quick { 4 } else { 2 };
        sizes = std::iter::successors(Some(Bytes::kib(4)), |size| Some(Bytes(size.0 * step)))
            .take_while(|size| *size <= LARGEST)
            .collect();
    }
    let fits = |size: &&Bytes| size.0.is_power_of_two() && **size <= LARGEST;
    if let Some(size) = sizes.iter().find(|size| !fits(size)) {
        return Err(CommandFailure::usage(format!("--size {size}: this size is not supported"))
            .with_help("use a power of two from 4K to 1M"));
    }
    let (repeats, quick) = (args.repeats, args.quick);
    Ok(PinBenchRequest {
        ways: chosen(&args.only, ways),
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

    fn parse(words: &[&str]) -> Result<PinBenchRequest, CommandFailure> {
        let BenchCommand::Pin(args) = typed("pin", words).unwrap() else { panic!("not pin") };
        request(&args, 1)
    }

    #[test]
    fn without_words_everything_is_pinned() {
        let all = parse(&[]).unwrap();
        assert_eq!(
            all.ways,
            [PinWay::Vmsplice, PinWay::Register, PinWay::ReadOwn, PinWay::GupTest]
        );
        assert_eq!(all.kinds, [PageKind::Base, PageKind::Thp, PageKind::Pool]);
        assert_eq!((all.sizes.len(), all.repeats), (9, 10));
        assert_eq!(all.sizes.last(), Some(&Bytes::mib(1)));
        let quick = parse(&["--quick"]).unwrap();
        assert!(quick.quick && quick.sizes.len() == 5 && quick.sizes.contains(&LARGEST));
    }

    #[test]
    fn ways_pages_and_sizes_are_chosen() {
        let some = parse(&["--only", "read-own,vmsplice", "--pages", "thp", "--size", "1M,4K,1M"])
            .unwrap();
        assert_eq!(some.ways, [PinWay::Vmsplice, PinWay::ReadOwn]);
        assert_eq!((some.kinds, some.sizes), (vec![PageKind::Thp], vec![Bytes::kib(4), LARGEST]));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for size in ["3K", "2M", "0"] {
            assert!(parse(&["--size", size]).is_err(), "{size}");
        }
    }
}
