//! The ladder against a known truth: both ends count what was sent, in every mode, and changes on the way are
//! detected.
//!
//! The test runs itself as the ends of the pipes, with one argument.
#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used, reason = "a test program")]

use pagewise_measure::BenchCallbacks;
use pagewise_measure::bench::pipe::{HelperLauncher, PipePlan, run, serve_end};
use pagewise_model::bench::pipe::{
    CpuPlacement, PipeBenchReport, PipeConsumption, PipePoint, PipeRung, RungPages, RungReader,
    RungWait, RungWriter,
};
use pagewise_model::{Bytes, Nanos};
use std::sync::atomic::{AtomicU32, Ordering};

const END: &str = "--end";
const TOTAL: Bytes = Bytes::mib(8);

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args.get(1).is_some_and(|arg| arg == END) {
        serve_end(args[2].parse().unwrap()).unwrap();
        return;
    }
    let filter = args.iter().skip(1).find(|arg| !arg.starts_with('-')).map_or("", String::as_str);
    let tests: [(&str, fn()); 7] = [
        ("every_writer_and_reader_count_the_same", every_writer_and_reader_count_the_same),
        ("every_wait_moves_everything", every_wait_moves_everything),
        ("reuse_before_the_pipe_is_empty_is_seen", reuse_before_the_pipe_is_empty_is_seen),
        ("page_sizes_are_proven_or_said_not", page_sizes_are_proven_or_said_not),
        ("odd_sizes_add_up", odd_sizes_add_up),
        ("what_cannot_be_had_says_why", what_cannot_be_had_says_why),
        ("an_interrupt_ends_it", an_interrupt_ends_it),
    ];
    let mut ran = 0;
    for (name, test) in tests.into_iter().filter(|(name, _)| name.contains(filter)) {
        test();
        println!("test {name} ... ok");
        ran += 1;
    }
    assert!(ran > 0 || !filter.is_empty(), "no test was selected");
}

fn rung(writer: RungWriter, reader: RungReader) -> PipeRung {
    let name = format!("{}/{}", writer.into_str(), reader.into_str());
    PipeRung {
        buffer_bytes: Bytes::kib(64),
        pipe_bytes: Some(Bytes::kib(32)),
        placement: CpuPlacement::Free,
        ..PipeRung::plain(&name, writer, reader)
    }
}

fn measure(
    points: Vec<(PipeRung, PipeConsumption)>,
    bytes: Bytes,
    stop: &(dyn Fn() -> bool + Sync),
) -> PipeBenchReport {
    let plan = PipePlan {
        points,
        repeats: 1,
        bytes: Some(bytes),
        repeat_ns: Nanos(0),
        seed: 0,
        sweep: false,
        compared: None,
    };
    let launcher = HelperLauncher { exe: std::env::current_exe().unwrap(), args: vec![END.into()] };
    let callbacks =
        BenchCallbacks { shuffle: &mut |order| order.reverse(), stop, show: &mut |_| {} };
    run(&plan, &launcher, callbacks).unwrap()
}

fn measure_all(points: Vec<(PipeRung, PipeConsumption)>) -> Vec<PipePoint> {
    measure(points, TOTAL, &|| false).points
}

fn describe(point: &PipePoint) -> String {
    let PipeRung { name, wait, .. } = &point.rung;
    format!("{name} {wait:?} {:?}: {:?}", point.consumption, point.refused)
}

/// Both ends moved everything. Where it was checked, the sequence was whole.
fn is_exact(point: &PipePoint) {
    let text = describe(point);
    assert_eq!(point.samples.len(), 1, "{text}");
    let sample = &point.samples[0];
    assert_eq!((sample.writer.bytes, sample.reader.bytes), (sample.bytes, sample.bytes), "{text}");
    assert!(sample.timed_bytes < sample.bytes, "{text}");
    let calls = sample.writer.calls > 0 && sample.reader.calls > 0;
    assert!(calls && sample.writer.slots > 0, "{text}: {sample:?}");
    let looked = point.consumption == PipeConsumption::Touched;
    assert_eq!(point.verified.known().copied(), looked.then_some(true), "{text}");
}

fn every_writer_and_reader_count_the_same() {
    let writers = [
        RungWriter::Write,
        RungWriter::Vmsplice,
        RungWriter::SpliceFrozen,
        RungWriter::TeeSeed,
        RungWriter::GiveDropped,
        RungWriter::IoUring,
        RungWriter::FizzBuzz,
    ];
    let readers = [
        RungReader::Read,
        RungReader::Splice,
        RungReader::VmspliceOut,
        RungReader::IoUring,
        RungReader::Meter,
    ];
    let pairs = writers.into_iter().flat_map(|w| readers.into_iter().map(move |r| rung(w, r)));
    let points = pairs.flat_map(|rung| PipeConsumption::ALL.map(|c| (rung.clone(), c))).collect();
    let points = measure_all(points);
    assert_eq!(points.len(), 7 * 5 * 4);
    for point in &points {
        match &point.refused {
            Some(why) if why.contains("io_uring_setup") => {
                println!("SKIP every_writer_and_reader_count_the_same: {}: {why}", point.rung.name);
            }
            _ => is_exact(point),
        }
    }
}

fn every_wait_moves_everything() {
    let waits =
        [RungWait::Block, RungWait::Poll, RungWait::Busy, RungWait::BusyPoll, RungWait::Adaptive];
    let ways = [
        (RungWriter::Write, RungReader::Read),
        (RungWriter::Vmsplice, RungReader::Splice),
        (RungWriter::SpliceFrozen, RungReader::VmspliceOut),
        (RungWriter::TeeSeed, RungReader::Splice),
        (RungWriter::GiveDropped, RungReader::Read),
    ];
    for wait in waits {
        let rungs = ways.map(|(writer, reader)| PipeRung { wait, ..rung(writer, reader) });
        let consumptions = [PipeConsumption::Touched, PipeConsumption::ForwardedSocket];
        let points = rungs.into_iter().flat_map(|rung| consumptions.map(|c| (rung.clone(), c)));
        for point in &measure(points.collect(), Bytes::mib(1), &|| false).points {
            is_exact(point);
        }
    }
}

/// The double buffer is sound only while the pipe holds no more than one buffer. On one CPU the writer fills
/// the pipe before the reader runs.
fn reuse_before_the_pipe_is_empty_is_seen() {
    let sound = PipeRung {
        placement: CpuPlacement::SameCore,
        ..rung(RungWriter::Vmsplice, RungReader::Read)
    };
    let unsound = PipeRung { pipe_bytes: Some(Bytes::mib(1)), ..sound.clone() };
    let safe = PipeRung { writer: RungWriter::GiveDropped, ..unsound.clone() };
    let touched = [sound, unsound, safe].map(|rung| (rung, PipeConsumption::Touched)).to_vec();
    let points = measure_all(touched);
    if points[1].pipe_bytes < Bytes::mib(1) {
        println!("SKIP reuse_before_the_pipe_is_empty_is_seen: {}", describe(&points[1]));
        return;
    }
    let verified: Vec<_> = points.iter().map(|point| point.verified.known().copied()).collect();
    assert_eq!(verified, [Some(true), Some(false), Some(true)]);
    assert_eq!([false, false, true], [points[0].safe, points[1].safe, points[2].safe]);
}

fn page_sizes_are_proven_or_said_not() {
    let base = rung(RungWriter::Vmsplice, RungReader::Splice);
    let huge = PipeRung { pages: RungPages::Huge, ..base.clone() };
    let bare = PipeRung { untouched: true, ..base.clone() };
    let strict = PipeRung { check_huge: true, ..base.clone() };
    let points = [base, huge, bare, strict].map(|rung| (rung, PipeConsumption::Untouched)).to_vec();
    let points = measure_all(points);
    let size = |index: usize| points[index].page_bytes.known().copied();
    assert_eq!(size(0), Some(pagewise_kernel::page_size::base()), "{}", describe(&points[0]));
    match size(1) {
        Some(size) if size == pagewise_kernel::page_size::huge() => {}
        other => println!("SKIP page_sizes_are_proven_or_said_not: no huge page: {other:?}"),
    }
    let why = points[2].page_bytes.reason().unwrap();
    assert!(why.contains("zero page"), "{why}");
    let refused = points[3].refused.as_deref().unwrap();
    assert!(refused.contains("not on huge pages"), "{refused}");
    assert!(points[3].samples.is_empty());
}

fn odd_sizes_add_up() {
    let odd = |writer, reader| PipeRung { buffer_bytes: Bytes(10_001), ..rung(writer, reader) };
    let rungs = [
        odd(RungWriter::Write, RungReader::Read),
        odd(RungWriter::SpliceFrozen, RungReader::Read),
        odd(RungWriter::TeeSeed, RungReader::Read),
        odd(RungWriter::GiveDropped, RungReader::Read),
        odd(RungWriter::FizzBuzz, RungReader::Read),
    ];
    let points = rungs.map(|rung| (rung, PipeConsumption::Touched)).to_vec();
    for point in &measure(points, Bytes(1_234_567), &|| false).points {
        is_exact(point);
        assert_eq!(point.samples[0].bytes, Bytes(1_234_567));
    }
}

fn what_cannot_be_had_says_why() {
    let too_large =
        PipeRung { pipe_bytes: Some(Bytes::gib(8)), ..rung(RungWriter::Write, RungReader::Read) };
    let pool =
        PipeRung { pages: RungPages::HugeTlb, ..rung(RungWriter::SpliceFrozen, RungReader::Read) };
    let points = vec![(too_large, PipeConsumption::Untouched), (pool, PipeConsumption::Untouched)];
    let points = measure_all(points);
    let why = |index: usize| points[index].refused.as_deref().unwrap();
    assert!(why(0).contains("F_SETPIPE_SZ"), "{}", why(0));
    assert!(why(1).contains("producer: ") && why(1).contains("reserved pool"), "{}", why(1));
}

fn an_interrupt_ends_it() {
    let asked = AtomicU32::new(0);
    let stop = || asked.fetch_add(1, Ordering::Relaxed) >= 3;
    let points = vec![(rung(RungWriter::Write, RungReader::Read), PipeConsumption::Untouched); 20];
    let ladder = measure(points, Bytes::gib(64), &stop);
    assert!(ladder.points.iter().all(|p| p.refused.as_deref() == Some("interrupted")));
    let rate = &ladder.yardsticks.memcpy_gib_per_s;
    assert_eq!(rate.reason(), Some("not measured"));
}
