//! `pagewise bench pin`

use super::{once_each, result};
use crate::args::BenchPin;
use crate::commands::experiment::{Display, identity, lock, stop_flag};
use crate::failure::Failure;
use crate::terminal;
use pagewise_judge::stats::Rng;
use pagewise_kernel::clock;
use pagewise_measure::pin::{self, Asked, Plan};
use pagewise_measure::{Company, Progress};
use pagewise_model::Bytes;
use pagewise_model::pin::{Pins, Point, Way};
use pagewise_model::run::Outcome;
use pagewise_model::walk::PageKind;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Largest piece: more than any pipe of an ordinary user holds.
const LARGEST: Bytes = Bytes::mib(1);

/// Measures, judges, keeps and shows.
pub(super) fn run(args: &BenchPin) -> Result<ExitCode, Failure> {
    let start = clock::now();
    let (started, id) = identity(&["pin".into()]);
    let out = &args.result;
    result::check_chart(out.chart.as_deref())?;
    let seed = out.seed.unwrap_or(started);
    let asked = asked(args, seed)?;
    let _lock = lock()?;
    let stop = stop_flag()?;
    let help = "ask for another way or base pages; pagewise doctor says what there is";
    let plan = Plan::new(asked).map_err(|error| result::unfit(error, help))?;
    if !out.quiet {
        terminal::complain(&result::announcement(&plan.cost(), args.repeats));
    }
    let display = Display::new(out.quiet);
    let mut run = result::begun(id, started);
    let mut pins = measure(&plan, seed, &display, &stop);
    display.finish();
    if stop.load(Ordering::Relaxed) {
        run.outcome = Some(Outcome::Interrupted);
    }
    pins.judgement = Some(pagewise_judge::pin::judge(&pins));
    let any = pins.points.iter().any(|point| !point.samples.is_empty());
    run.pins = Some(pins);
    result::conclude(run, start, any, out)
}

/// From what was typed to what is asked of the machine.
fn asked(args: &BenchPin, seed: u64) -> Result<Asked, Failure> {
    let mut ways: Vec<Way> = args.only.iter().map(|word| (*word).into()).collect();
    if ways.is_empty() {
        ways = Way::ALL.into_iter().filter(|way| way.pins()).collect();
    }
    let mut kinds: Vec<PageKind> = args.pages.iter().map(|word| (*word).into()).collect();
    if kinds.is_empty() {
        kinds = vec![PageKind::Base, PageKind::Thp, PageKind::Pool];
    }
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
        ways: once_each(ways),
        kinds: once_each(kinds),
        sizes: once_each(sizes),
        repeats,
        quick,
        seed,
    })
}

fn measure(plan: &Plan, seed: u64, display: &Display, stop: &AtomicBool) -> Pins {
    let mut rng = Rng::new(seed);
    let company = Company {
        shuffle: &mut |order| rng.shuffle(order),
        stop: &|| stop.load(Ordering::Relaxed),
        tell: &mut |p: &Progress<'_, Point>| {
            let (way, size) = (p.point.way.label(), p.point.size_bytes);
            let pages = p.point.pages.name();
            display.show(&format!("{} of {}: {way}, {size} on {pages}", p.done, p.total));
        },
    };
    pin::run(plan, company)
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
