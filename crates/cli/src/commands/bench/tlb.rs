//! `pagewise bench tlb`

use super::session::{BenchStart, mappings, unfit};
use super::{chosen, once_each};
use crate::args::{TlbBenchArgs, TlbPartChoice};
use crate::failure::CommandFailure;
use pagewise_measure::BenchProgress;
use pagewise_measure::bench::tlb::{self, TlbBenchRequest, TlbParts, TlbPlan};
use pagewise_model::Bytes;
use pagewise_model::bench::PageKind;
use pagewise_model::bench::tlb::{AccessOrder, TlbBenchReport, TlbPoint};
use pagewise_model::body::{BenchReport, RunBody};
use std::process::ExitCode;

/// Largest padding in words: an element of 4 KiB.
const MOST_NPAD: u32 = 511;

/// Walks, judges, saves and shows.
pub(super) fn run(args: &TlbBenchArgs) -> Result<ExitCode, CommandFailure> {
    let start = BenchStart::new("tlb", &args.result)?;
    let request = request(args, start.seed)?;
    let mut session = start.begin()?;
    let help = "try base pages or smaller sets; pagewise doctor shows what is available";
    let plan = TlbPlan::new(request).map_err(|error| unfit(error, help))?;
    session.announce(&mappings(&plan.cost(), args.repeats));
    let text = |p: &BenchProgress<'_, TlbPoint>| {
        format!("{} of {}: {} on {}", p.done, p.total, p.point.set_bytes(), p.point.pages.name())
    };
    let mut walks = session.control.measure(text, |callbacks| tlb::run(&plan, callbacks));
    walks.judgement = Some(pagewise_judge::bench::tlb::judge(&walks));
    let any = is_any(&walks);
    session.run.body = Some(RunBody::Bench(BenchReport::Tlb(walks)));
    session.conclude(any)
}

/// The request that the command line describes.
fn request(args: &TlbBenchArgs, seed: u64) -> Result<TlbBenchRequest, CommandFailure> {
    let or = |given: Vec<u32>, usual: &[u32]| if given.is_empty() { usual.to_vec() } else { given };
    let (npads, smallest, largest): (&[u32], Bytes, Bytes) = if args.quick {
        (&[7], Bytes::kib(4), Bytes::mib(64))
    } else {
        (&[0, 7, 15, 31], Bytes::kib(1), Bytes::gib(1))
    };
    let npads = or(args.npad.clone(), npads);
    let (smallest, largest) = (args.smallest.unwrap_or(smallest), args.largest.unwrap_or(largest));
    check(&npads, smallest, largest)?;
    let mut orders = vec![AccessOrder::Random];
    orders.extend((!args.quick).then_some(AccessOrder::Sequential));
    let part = |part| args.only.is_empty() || args.only.contains(&part);
    let parts = TlbParts {
        lists: part(TlbPartChoice::Lists),
        lines: part(TlbPartChoice::Knees),
        bandwidth: part(TlbPartChoice::Bandwidth),
    };
    let (repeats, quick) = (args.repeats, args.quick);
    Ok(TlbBenchRequest {
        parts,
        kinds: chosen(&args.pages, PageKind::ALL.to_vec()),
        orders: chosen(&args.order, orders),
        npads: once_each(npads),
        smallest,
        largest,
        repeats,
        quick,
        seed,
    })
}

fn check(npads: &[u32], smallest: Bytes, largest: Bytes) -> Result<(), CommandFailure> {
    let fits = |npad: &&u32| **npad <= MOST_NPAD && (**npad + 1).is_power_of_two();
    if let Some(npad) = npads.iter().find(|npad| !fits(npad)) {
        return Err(CommandFailure::usage(format!("--npad {npad}: this padding is not supported"))
            .with_help(format!(
                "use one less than a power of two: 0, 1, 3, 7, 15, 31, up to {MOST_NPAD}"
            )));
    }
    if smallest > largest {
        return Err(CommandFailure::usage(format!(
            "--smallest {smallest} is more than --largest {largest}"
        ))
        .with_help("give a --smallest that is not larger than --largest"));
    }
    Ok(())
}

/// Whether anything was measured.
fn is_any(walks: &TlbBenchReport) -> bool {
    let rate = walks.bandwidth.one.read_gib_per_s.known().is_some();
    rate || walks.points.iter().any(|point| !point.samples.is_empty())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::args::BenchCommand;
    use crate::commands::bench::typed;

    fn parse(words: &[&str]) -> Result<TlbBenchRequest, CommandFailure> {
        let BenchCommand::Tlb(args) = typed("tlb", words).unwrap() else { panic!("not tlb") };
        request(&args, 1)
    }

    #[test]
    fn without_words_everything_is_walked() {
        let all = parse(&[]).unwrap();
        assert_eq!(all.npads, [0, 7, 15, 31]);
        assert_eq!((all.kinds.len(), all.orders.len(), all.repeats), (4, 2, 10));
        assert_eq!(
            (all.smallest, all.largest, all.parts),
            (Bytes::kib(1), Bytes::gib(1), TlbParts::ALL)
        );
    }

    #[test]
    fn the_short_form_is_less_of_it() {
        let quick = parse(&["--quick"]).unwrap();
        assert_eq!(
            (quick.npads.as_slice(), quick.orders.as_slice()),
            (&[7][..], &[AccessOrder::Random][..])
        );
        assert!(quick.quick && quick.largest == Bytes::mib(64));
        let own = parse(&["--quick", "--npad", "0,31,0", "--order", "sequential"]).unwrap();
        assert_eq!((own.npads.as_slice(), own.orders.len()), (&[0, 31][..], 1));
    }

    #[test]
    fn parts_and_pages_are_chosen() {
        let some = parse(&["--only", "knees,bandwidth", "--pages", "thp,base"]).unwrap();
        assert!(!some.parts.lists && some.parts.lines && some.parts.bandwidth);
        assert_eq!(some.kinds, [PageKind::Base, PageKind::Thp]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let words = [["--npad", "5"], ["--npad", "1023"], ["--smallest", "2G"]];
        for words in words {
            assert!(parse(&words).is_err(), "{words:?}");
        }
        assert!(parse(&["--npad", "4294967295"]).is_err());
    }
}
