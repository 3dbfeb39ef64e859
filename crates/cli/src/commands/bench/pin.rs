//! `pagewise bench pin`

use super::sitting::{Start, unfit};
use super::{chosen, once_each, result};
use crate::args::BenchPin;
use crate::failure::Failure;
use pagewise_measure::Progress;
use pagewise_measure::pin::{self, Asked, Plan};
use pagewise_model::Bytes;
use pagewise_model::pin::{Point, Way};
use pagewise_model::walk::PageKind;
use std::process::ExitCode;

/// Largest piece: more than any pipe of an ordinary user holds.
const LARGEST: Bytes = Bytes::mib(1);

/// Measures, judges, keeps and shows.
pub(super) fn run(args: &BenchPin) -> Result<ExitCode, Failure> {
    let start = Start::new("pin", &args.result)?;
    let asked = asked(args, start.seed)?;
    let mut sitting = start.sit()?;
    let help = "ask for another way or base pages; pagewise doctor says what there is";
    let plan = Plan::new(asked).map_err(|error| unfit(error, help))?;
    sitting.announce(&result::announcement(&plan.cost(), args.repeats));
    let text = |p: &Progress<'_, Point>| {
        let (way, size, pages) = (p.point.way.label(), p.point.size_bytes, p.point.pages.name());
        format!("{} of {}: {way}, {size} on {pages}", p.done, p.total)
    };
    let mut pins = sitting.conduct.measure(text, |company| pin::run(&plan, company));
    pins.judgement = Some(pagewise_judge::pin::judge(&pins));
    let any = pins.points.iter().any(|point| !point.samples.is_empty());
    sitting.run.pins = Some(pins);
    sitting.conclude(any)
}

/// From what was typed to what is asked of the machine.
fn asked(args: &BenchPin, seed: u64) -> Result<Asked, Failure> {
    let ways = Way::ALL.into_iter().filter(|way| way.pins()).collect();
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
        return Err(Failure::usage(format!("--size {size} is no piece that is measured"))
            .with_help("powers of two from a page up to 1M"));
    }
    let (repeats, quick) = (args.repeats, args.quick);
    Ok(Asked {
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
    use crate::args::{BenchKind, Cli, Command};
    use clap::Parser;

    fn parse(words: &[&str]) -> Result<Asked, Failure> {
        let line = ["pagewise", "bench", "pin"].iter().chain(words);
        let Command::Bench(bench) = Cli::try_parse_from(line).unwrap().command else {
            panic!("not bench")
        };
        let BenchKind::Pin(args) = bench.what else { panic!("not pin") };
        asked(&args, 1)
    }

    #[test]
    fn without_words_everything_is_pinned() {
        let all = parse(&[]).unwrap();
        assert_eq!(all.ways, [Way::Vmsplice, Way::Register, Way::ReadOwn, Way::GupTest]);
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
        assert_eq!(some.ways, [Way::Vmsplice, Way::ReadOwn]);
        assert_eq!((some.kinds, some.sizes), (vec![PageKind::Thp], vec![Bytes::kib(4), LARGEST]));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for size in ["3K", "2M", "0"] {
            assert!(parse(&["--size", size]).is_err(), "{size}");
        }
    }
}
