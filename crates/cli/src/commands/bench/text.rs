//! `pagewise bench text`: measures generated code on this machine, or a program's code if a command is given.

use super::session::{BenchStart, mappings, unfit};
use super::{chosen, load, program};
use crate::args::{TextBenchArgs, TextPartChoice};
use crate::failure::CommandFailure;
use pagewise_measure::BenchProgress;
use pagewise_measure::bench::text::{self, TextBenchParts, TextBenchPlan, TextBenchRequest};
use pagewise_model::Bytes;
use pagewise_model::bench::PageKind;
use pagewise_model::bench::text::{JumpOrder, TextBenchPoint};
use pagewise_model::body::{BenchReport, RunBody};
use std::process::ExitCode;

/// Largest code that the arithmetic of its elements can address.
const LARGEST: Bytes = Bytes::gib(64);

/// Runs, judges, saves and shows.
pub(super) fn run(args: &TextBenchArgs) -> Result<ExitCode, CommandFailure> {
    if let Some(serve) = &args.load.serve {
        return load::clients(args, serve);
    }
    if !args.load.jobs.is_empty() {
        return load::jobs(args);
    }
    if !args.command.is_empty() {
        return program::run(args);
    }
    let start = BenchStart::new("text", &args.result)?;
    let request = request(args, start.seed)?;
    let mut session = start.begin()?;
    let help = "try base pages or smaller code; pagewise doctor shows what is available";
    let plan = TextBenchPlan::new(request).map_err(|error| unfit(error, help))?;
    session.announce(&mappings(&plan.cost(), args.repeats));
    let text = |p: &BenchProgress<'_, TextBenchPoint>| {
        let (jumps, pages) = (p.point.jumps, p.point.pages.name());
        format!("{} of {}: {jumps} jumps on {pages}, {}", p.done, p.total, p.point.order.into_str())
    };
    let mut jumps = session.control.measure(text, |callbacks| text::run(&plan, callbacks));
    jumps.judgement = Some(pagewise_judge::bench::text::judge(&jumps));
    let any = jumps.points.iter().any(|point| !point.samples.is_empty());
    session.run.body = Some(RunBody::Bench(BenchReport::Text(jumps)));
    session.conclude(any)
}

/// The request that the command line describes.
fn request(args: &TextBenchArgs, seed: u64) -> Result<TextBenchRequest, CommandFailure> {
    let usual = if args.quick { Bytes::mib(64) } else { Bytes::mib(256) };
    let smallest = args.smallest.unwrap_or(Bytes::kib(64));
    let largest = args.largest.unwrap_or(usual.max(smallest));
    if smallest > largest || largest > LARGEST {
        let why = if smallest > largest {
            format!("--smallest {smallest} is more than --largest {largest}")
        } else {
            format!("--largest {largest} is more than {LARGEST}")
        };
        return Err(CommandFailure::usage(why)
            .with_help("use sizes such as 64K, 8M or 256M, with the smallest first"));
    }
    let part = |part| args.only.is_empty() || args.only.contains(&part);
    let parts =
        TextBenchParts { sizes: part(TextPartChoice::Sizes), knees: part(TextPartChoice::Knees) };
    let (repeats, quick) = (args.repeats, args.quick);
    Ok(TextBenchRequest {
        parts,
        kinds: chosen(&args.pages, vec![PageKind::Base, PageKind::Thp]),
        orders: chosen(&args.order, JumpOrder::ALL.to_vec()),
        smallest,
        largest,
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

    fn parse(words: &[&str]) -> Result<TextBenchRequest, CommandFailure> {
        let BenchCommand::Text(args) = typed("text", words).unwrap() else { panic!("not text") };
        request(&args, 1)
    }

    #[test]
    fn without_words_everything_is_run() {
        let all = parse(&[]).unwrap();
        assert_eq!(all.kinds, [PageKind::Base, PageKind::Thp]);
        assert_eq!((all.orders.len(), all.repeats, all.parts), (2, 10, TextBenchParts::ALL));
        assert_eq!((all.smallest, all.largest), (Bytes::kib(64), Bytes::mib(256)));
        let quick = parse(&["--quick"]).unwrap();
        assert!(quick.quick && quick.largest == Bytes::mib(64));
        assert_eq!(parse(&["--smallest", "1G"]).unwrap().largest, Bytes::gib(1));
    }

    #[test]
    fn parts_pages_and_orders_are_chosen() {
        let words = ["--only", "knees", "--pages", "pool,base", "--order", "changing,changing"];
        let some = parse(&words).unwrap();
        assert_eq!(some.parts, TextBenchParts { sizes: false, knees: true });
        assert_eq!(some.kinds, [PageKind::Base, PageKind::Pool]);
        assert_eq!(some.orders, [JumpOrder::Changing]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert!(parse(&["--smallest", "2M", "--largest", "1M"]).is_err());
        assert!(parse(&["--largest", "1000G"]).is_err());
    }
}
