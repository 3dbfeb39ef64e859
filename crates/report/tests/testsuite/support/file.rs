//! Constructed readings in round numbers that come from no machine.

use super::bench_of;
use pagewise_model::bench::file::{
    BenchmarkFlaw, CacheResidency, FileBenchPart, FileBenchReport, FileCell, FileJudgement,
    FilePoint, FileRatio, FileTimeAccount, FileWork, FileWorkPart, ReadWay, RefusedCell,
};
use pagewise_model::bench::tlb::AccessOrder;
use pagewise_model::bench::{BenchClaim, ClaimEvidence};
use pagewise_model::body::{BenchReport, RunBody};
use pagewise_model::cache::FolioClass;
use pagewise_model::constructed::{cell, reading, readings as around};
use pagewise_model::run::SavedRun;
use pagewise_model::{Bytes, Fact, Nanos};

/// Three processes around `ms` for each pass of `cell`.
pub(crate) fn point(cell: FileCell, ms: f64) -> FilePoint {
    let mut point = reading(cell, Nanos::from_f64(ms * 1e6), 3);
    for (sample, factor) in point.samples.iter_mut().zip([1.0, 0.9, 1.2]) {
        for ns in &mut sample.pass_ns {
            *ns = Nanos::from_f64(ns.0 as f64 * factor);
        }
    }
    point
}

fn races() -> Vec<FilePoint> {
    let mut points = Vec::new();
    for residency in [CacheResidency::Warm, CacheResidency::Cold] {
        for order in AccessOrder::ALL {
            for (arm, ms) in
                [(ReadWay::Read, 20.0), (ReadWay::MapPopulate, 15.0), (ReadWay::Place, 5.0)]
            {
                for (block_bytes, factor) in [(Bytes::kib(4), 2.0), (Bytes::kib(16), 1.0)] {
                    let slow = if residency == CacheResidency::Cold { 4.0 } else { 1.0 };
                    let cell = FileCell { residency, order, block_bytes, ..cell(arm) };
                    points.push(point(cell, ms * factor * slow));
                }
            }
        }
    }
    points
}

/// A share of 320 ms for each GiB, half of it in faults.
fn account(point: usize, share: f64) -> FileTimeAccount {
    let all = 320e6;
    let part =
        |work, per_gib_ns| FileWorkPart { work, per_gib_ns, evidence: "1024 at 9 ns".into() };
    FileTimeAccount {
        point,
        per_gib_ns: all,
        disturbed_per_gib_ns: all / 4.0,
        parts: vec![
            part(FileWork::Entry, all * share / 2.0),
            part(FileWork::Faults, all * share / 2.0),
        ],
        unexplained_per_gib_ns: all * (1.0 - share),
    }
}

/// Every part, a cell that did other work, and a cell that was not read.
pub(crate) fn readings() -> FileBenchReport {
    let mut points = races();
    points[3].samples.iter_mut().for_each(|s| s.ledger.mapped_before_bytes = Bytes::mib(64));
    let last = points.len() - 1;
    points[last].samples.clear();
    points[last].refused = Some("3 of 16384 pages stay in the page cache".into());
    let again = FileCell { part: FileBenchPart::Passes, passes: 8, ..cell(ReadWay::Place) };
    let mut kept = point(again, 5.0);
    kept.samples.iter_mut().for_each(|s| s.pass_ns[1..].iter_mut().for_each(|ns| ns.0 /= 2));
    points.push(kept);
    for (fresh, offset) in [(false, 0), (false, 16), (true, 0), (true, 16)] {
        let offset_bytes = Bytes(offset);
        let cell =
            FileCell { part: FileBenchPart::Buffers, fresh, offset_bytes, ..cell(ReadWay::Read) };
        points.push(point(cell, if fresh { 40.0 } else { 20.0 }));
    }
    for threads in [1, 2] {
        let cell = FileCell { part: FileBenchPart::Threads, threads, ..cell(ReadWay::Map) };
        points.push(point(cell, 20.0 / f64::from(threads)));
    }
    let mut all = around(points);
    all.price_folios = Some(FolioClass::Piece);
    all.slips = vec![BenchmarkFlaw::UnclockedPopulate];
    all.judgement = Some(FileJudgement {
        refusals: vec![RefusedCell {
            point: 3,
            why: "64.0 MiB were mapped before its clock started".into(),
        }],
        ratios: vec![FileRatio {
            point: 5,
            base: 1,
            ratio: 0.25,
            interval: Fact::missing("fewer than 6 repeats of both"),
        }],
        accounts: vec![account(1, 0.9), account(5, 1.02)],
        claims: vec![BenchClaim::judged(
            "a mapping is faster",
            ClaimEvidence::counted([false]),
            "here 0.9 times",
        )],
        advice: vec![
            "Do this: 10% less (9..11%).".into(),
            "Do that in 5.0 ns.".into(),
            "The rest: not measured.".into(),
        ],
    });
    all
}

/// A saved run that contains the readings.
pub(crate) fn bench(readings: FileBenchReport) -> SavedRun {
    let mut run = bench_of("file", "t-0001");
    run.body = Some(RunBody::Bench(BenchReport::File(readings)));
    run
}
