//! Constructed jumps in round numbers that come from no machine.

use super::bench_of;
use pagewise_model::bench::text::{
    JumpOrder, TextBenchJudgement, TextBenchPoint, TextBenchRatio, TextBenchReport, TextBenchSample,
};
use pagewise_model::bench::tlb::{
    ClaimedTlb, PageKind, RatioSteadiness, TlbKnee, TlbSide, UnavailablePages,
};
use pagewise_model::bench::{BenchClaim, ClaimEvidence};
use pagewise_model::body::{BenchReport, RunBody};
use pagewise_model::run::SavedRun;
use pagewise_model::{Bytes, Fact, PageSize};

const DENSE: Bytes = Bytes::kib(4);
const APART: Bytes = Bytes::kib(68);

/// Three mappings around `jump_ns`.
pub(crate) fn point(
    order: JumpOrder,
    pages: PageKind,
    apart: Bytes,
    jumps: u64,
    jump_ns: f64,
) -> TextBenchPoint {
    let page = if pages == PageKind::Base { PageSize::BASE_4K } else { PageSize::PMD_2M };
    let sample = |repeat: u32| TextBenchSample {
        repeat,
        place: repeat,
        jump_ns: jump_ns * (1.0 + 0.05 * (f64::from(repeat) - 1.0)),
        within_share: 0.01,
        misses_per_1000_instructions: (pages == PageKind::Base).then_some(jump_ns / 2.0),
    };
    TextBenchPoint {
        page_bytes: Fact::Known(page),
        samples: (0..3).map(sample).collect(),
        ..TextBenchPoint::new(order, pages, apart, jumps)
    }
}

fn points() -> Vec<TextBenchPoint> {
    let mut points = Vec::new();
    for (jumps, ns) in [(16, 7.0), (1024, 36.0), (4096, 69.0)] {
        points.push(point(JumpOrder::Changing, PageKind::Base, DENSE, jumps, ns));
        points.push(point(JumpOrder::Changing, PageKind::Thp, DENSE, jumps, ns * 0.8));
        points.push(point(JumpOrder::Repeated, PageKind::Base, DENSE, jumps, ns / 10.0));
        points.push(point(JumpOrder::Changing, PageKind::Base, APART, jumps, ns));
    }
    let mut refused = TextBenchPoint::new(JumpOrder::Repeated, PageKind::Thp, DENSE, 16);
    refused.refused = Some("the kernel gave huge pages for 0 B of 2.0 MiB".into());
    points.push(refused);
    points
}

fn ratio(order: JumpOrder, jumps: u64, ratio: f64, steadiness: RatioSteadiness) -> TextBenchRatio {
    let interval = Fact::Known((ratio - 0.02, ratio + 0.02));
    let set_bytes = Bytes(jumps * DENSE.0);
    TextBenchRatio { order, pages: PageKind::Thp, set_bytes, ratio, interval, steadiness }
}

fn judgement() -> TextBenchJudgement {
    TextBenchJudgement {
        ratios: vec![
            ratio(JumpOrder::Changing, 16, 1.0, RatioSteadiness::Steady),
            ratio(JumpOrder::Changing, 1024, 0.8, RatioSteadiness::Placement),
            ratio(JumpOrder::Changing, 4096, 0.6, RatioSteadiness::Steady),
        ],
        knees: vec![TlbKnee {
            pages: PageKind::Base,
            apart_bytes: APART,
            below_pages: 1024,
            above_pages: 1280,
            about_pages: 1100,
            from_ns: 0.0,
            to_ns: 6.0,
        }],
        claims: vec![BenchClaim::judged(
            "level 2 holds 64 translations of 4 KiB pages",
            ClaimEvidence::Nothing,
            "a jump costs 6.0 ns more from about 1100 pages on",
        )],
        advice: vec![
            "Do this: 10% less (9..11%).".into(),
            "Do that in 5.0 ns.".into(),
            "The rest: not measured.".into(),
        ],
    }
}

/// Both orders, pages far apart, and a kind of page that is missing.
pub(crate) fn jumps() -> TextBenchReport {
    TextBenchReport {
        seed: 7,
        repeats: 3,
        quick: false,
        cpu: 0,
        most_bytes: Bytes::gib(1),
        bound_by: "1/4 of the installed memory".into(),
        base_page_bytes: PageSize::BASE_4K,
        huge_page_bytes: PageSize::PMD_2M,
        points: points(),
        unavailable: vec![UnavailablePages {
            pages: PageKind::Pool,
            why: "`mmap MAP_HUGETLB` on 2.0 MiB of memory failed: Cannot allocate memory".into(),
            next: "as root: echo 512 > nr_hugepages".into(),
        }],
        counter: Fact::Known("iTLB-load-misses, user mode".into()),
        claimed: vec![ClaimedTlb {
            level: 2,
            side: TlbSide::Code,
            page_bytes: vec![PageSize::BASE_4K],
            entries: 64,
            scaled_entries: Some(2048),
        }],
        judgement: Some(judgement()),
    }
}

/// A saved run that contains the jumps.
pub(crate) fn bench(jumps: TextBenchReport) -> SavedRun {
    let mut run = bench_of("text", "x-0001");
    run.body = Some(RunBody::Bench(BenchReport::Text(jumps)));
    run
}
