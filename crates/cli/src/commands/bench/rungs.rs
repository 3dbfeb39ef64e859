//! Turns the command line into the rungs to measure.

use crate::args::{OwnRungArgs, PipeBenchArgs};
use crate::failure::CommandFailure;
use pagewise_kernel::page_size;
use pagewise_measure::bench::pipe::catalogue;
use pagewise_model::Bytes;
use pagewise_model::bench::pipe::{
    PipeConsumption, PipeRung, RungBuffers, RungPages, RungReader, RungWait, RungWriter,
};

/// Default rungs of a sweep: copied, lent, frozen.
const SWEPT: [&str; 3] = ["P1", "P5", "frozen-busy"];

/// Default rungs of the short form: those of the published study, and sealed buffers, which any reader may keep.
const QUICK: [&str; 7] = ["P1", "P2", "P3", "P4", "P5", "frozen", "frozen-adaptive"];

/// Rungs beside a producer: the plain way, and those that may be the fastest.
const PRODUCED: [&str; 5] = ["P1", "P5", "seed", "frozen-busy", "fizzbuzz"];

/// The requested points, in the order of display.
pub(super) fn points(
    args: &PipeBenchArgs,
) -> Result<Vec<(PipeRung, PipeConsumption)>, CommandFailure> {
    check_sizes(args)?;
    let mut rungs = chosen(args)?;
    for rung in &mut rungs {
        apply(args, rung);
    }
    if args.sweep {
        rungs = catalogue::sweep(&rungs);
    }
    let consumptions = consumptions(args);
    let of =
        |rung: PipeRung| consumptions.iter().map(move |c| (rung.clone(), *c)).collect::<Vec<_>>();
    let points = rungs.into_iter().flat_map(of);
    let Some(switch) = args.compare else { return Ok(points.collect()) };
    let pair = |(rung, consumption): (PipeRung, _)| {
        let switched = rung.switched(switch, consumption)?;
        Some([(rung, consumption), (switched, consumption)])
    };
    let pairs: Vec<_> = points.filter_map(pair).flatten().collect();
    if pairs.is_empty() {
        let text = format!("--compare {} makes no difference to these rungs", switch.into_str());
        return Err(CommandFailure::usage(text).with_help("choose others with --only or --consume"));
    }
    Ok(pairs)
}

fn consumptions(args: &PipeBenchArgs) -> Vec<PipeConsumption> {
    if !args.consume.is_empty() {
        return args.consume.clone();
    }
    let usual =
        [PipeConsumption::Untouched, PipeConsumption::Touched, PipeConsumption::ForwardedSocket];
    let is_short = args.quick || args.compare.is_some() || args.producer.is_some();
    usual[..if is_short { 2 } else { 3 }].to_vec()
}

fn check_sizes(args: &PipeBenchArgs) -> Result<(), CommandFailure> {
    let page = Bytes(page_size::base().bytes());
    let small = |name: &str, size: Option<Bytes>, least: Bytes| match size {
        Some(size) if size < least => {
            Err(CommandFailure::usage(format!("{name} {size} is too small"))
                .with_help(format!("{name} needs at least {least}")))
        }
        _ => Ok(()),
    };
    small("--buffer", args.buffer, page)?;
    small("--pipe-size", args.pipe_size, page)?;
    small("--bytes", args.bytes, page)
}

fn chosen(args: &PipeBenchArgs) -> Result<Vec<PipeRung>, CommandFailure> {
    if args.own.writer.is_some() || args.own.reader.is_some() {
        let writer = args.own.writer.unwrap_or(RungWriter::Write);
        let reader = args.own.reader.unwrap_or(RungReader::Read);
        let own = PipeRung::plain("own", writer, reader);
        let pipe_bytes = catalogue::pipe_for(writer, own.buffer_bytes);
        return Ok(vec![PipeRung { pipe_bytes, ..own }]);
    }
    let mut names = args.only.clone();
    if args.producer.is_some() {
        names = PRODUCED.map(str::to_owned).to_vec();
    } else if names.is_empty() && args.sweep {
        names = SWEPT.map(str::to_owned).to_vec();
    } else if names.is_empty() && args.compare.is_some() {
        names = QUICK[..5].iter().map(|name| (*name).to_owned()).collect();
    } else if names.is_empty() && args.quick {
        names = QUICK.map(str::to_owned).to_vec();
    }
    let all = catalogue::ladder();
    let unknown = names.iter().find(|name| !all.iter().any(|rung| rung.name == **name));
    if let Some(name) = unknown {
        let known: Vec<&str> = all.iter().map(|rung| rung.name.as_str()).collect();
        return Err(CommandFailure::usage(format!("no rung `{name}`")).with_help(known.join(", ")));
    }
    Ok(all.into_iter().filter(|rung| names.is_empty() || names.contains(&rung.name)).collect())
}

/// Applies the switches to a rung.
fn apply(args: &PipeBenchArgs, rung: &mut PipeRung) {
    let OwnRungArgs { huge, pages, check_huge, one_buffer, gift, lock, untouched, .. } = args.own;
    if let Some(pages) = pages.or(huge.then_some(RungPages::Huge)) {
        rung.pages = pages;
    }
    if let Some(wait) = wait(&args.own) {
        rung.wait = wait;
    }
    if one_buffer {
        rung.buffers = RungBuffers::One;
    }
    rung.check_huge |= check_huge;
    rung.gift |= gift;
    rung.lock |= lock;
    rung.untouched |= untouched;
    if let Some(placement) = args.placement {
        rung.placement = placement;
    }
    if let Some(buffer) = args.buffer {
        rung.buffer_bytes = buffer;
        if rung.writer == RungWriter::Vmsplice {
            rung.pipe_bytes = catalogue::pipe_for(rung.writer, buffer);
        }
    }
    if args.pipe_size.is_some() {
        rung.pipe_bytes = args.pipe_size;
    }
}

fn wait(own: &OwnRungArgs) -> Option<RungWait> {
    match (own.busy, own.poll) {
        (true, true) => Some(RungWait::BusyPoll),
        (true, false) => Some(RungWait::Busy),
        (false, true) => Some(RungWait::Poll),
        (false, false) => own.wait,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::args::BenchCommand;
    use crate::commands::bench::typed;
    use pagewise_model::bench::pipe::CpuPlacement;

    fn parse(words: &[&str]) -> Result<Vec<(PipeRung, PipeConsumption)>, CommandFailure> {
        let BenchCommand::Pipe(args) = typed("pipe", words).unwrap() else { panic!("not pipe") };
        points(&args)
    }

    #[test]
    fn without_words_the_whole_ladder_in_three_rows() {
        let points = parse(&[]).unwrap();
        assert_eq!(points.len(), 3 * catalogue::ladder().len());
        assert_eq!(points[0].0, points[2].0);
        assert_eq!(points[1].1, PipeConsumption::Touched);
    }

    #[test]
    fn every_switch_reaches_the_rung() {
        let words = "--writer vmsplice --reader splice --huge --check-huge --busy --poll --gift \
                     --lock --one-buffer --buffer 1M --placement one-core --consume untouched";
        let points = parse(&words.split_whitespace().collect::<Vec<_>>()).unwrap();
        let rung = &points[0].0;
        assert_eq!((rung.writer, rung.reader), (RungWriter::Vmsplice, RungReader::Splice));
        assert_eq!((rung.pages, rung.wait), (RungPages::Huge, RungWait::BusyPoll));
        assert!(rung.check_huge && rung.gift && rung.lock && !rung.untouched);
        assert_eq!((rung.buffers, rung.placement), (RungBuffers::One, CpuPlacement::SameCore));
        assert_eq!((rung.buffer_bytes, rung.pipe_bytes), (Bytes::mib(1), Some(Bytes::kib(512))));
        let words = ["--only", "P2", "--pipe-size", "1M", "--untouched", "--poll"];
        let rung = &parse(&words).unwrap()[0].0;
        assert_eq!((rung.pipe_bytes, rung.wait), (Some(Bytes::mib(1)), RungWait::Poll));
        assert!(rung.untouched);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let words = [["--only", "P9"], ["--buffer", "100"], ["--bytes", "0"], ["--pipe-size", "1"]];
        for words in words {
            assert!(parse(&words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn the_short_form_is_less_of_it() {
        let points_of = |words: &[&str]| parse(words).unwrap();
        let quick = points_of(&["--quick"]);
        assert_eq!(quick.len(), QUICK.len() * 2);
        assert_eq!(points_of(&["--quick", "--only", "P1", "--consume", "file"]).len(), 1);
    }

    #[test]
    fn a_comparison_is_of_pairs_that_differ() {
        let names = |words: &[&str]| -> Vec<String> {
            parse(words).unwrap().into_iter().map(|(rung, _)| rung.name).collect()
        };
        assert_eq!(
            names(&["--compare", "one-buffer", "--only", "P1,P4", "--consume", "touched"]),
            ["P4", "P4+one-buffer"]
        );
        // P1 to P3, untouched and touched.
        assert_eq!(names(&["--compare", "huge"]).len(), 3 * 2 * 2);
        assert!(parse(&["--compare", "busy", "--only", "P5"]).is_err());
        assert!(parse(&["--compare", "untouched", "--untouched"]).is_err());
    }

    #[test]
    fn a_producer_stands_beside_the_plain_way_and_the_fastest() {
        let points = parse(&["--producer", "fizzbuzz"]).unwrap();
        let of = |at: usize| (points[at].0.name.as_str(), points[at].1);
        assert_eq!(points.len(), 2 * PRODUCED.len());
        assert_eq!(of(0), ("P1", PipeConsumption::Untouched));
        assert_eq!(of(9), ("fizzbuzz", PipeConsumption::Touched));
        assert!(typed("pipe", &["--print"]).is_err(), "of what?");
    }

    #[test]
    fn a_sweep_is_of_the_named_rungs() {
        let points = parse(&["--sweep", "--only", "P1", "--consume", "touched"]).unwrap();
        assert_eq!(points.len(), 15);
        assert!(points.iter().all(|(rung, _)| rung.name == "P1"));
    }
}
