//! Constructed walks in round numbers that come from no machine.

use super::bench_of;
use pagewise_model::bench::tlb::{
    AccessOrder, ClaimedTlb, DataCache, MemoryBandwidth, MemoryRates, PageKind, RatioSteadiness,
    TlbBenchReport, TlbJudgement, TlbKnee, TlbPath, TlbPoint, TlbRatio, TlbSample, TlbSide,
    UnavailablePages,
};
use pagewise_model::bench::{BenchClaim, ClaimEvidence};
use pagewise_model::body::{BenchReport, RunBody};
use pagewise_model::run::SavedRun;
use pagewise_model::{Bytes, Fact, Measured, PageSize};

const RANDOM: TlbPath = TlbPath::List { order: AccessOrder::Random, npad: 7 };
const SEQUENTIAL: TlbPath = TlbPath::List { order: AccessOrder::Sequential, npad: 31 };
const APART: Bytes = Bytes::kib(68);

/// Three mappings around `load_ns`.
pub(crate) fn point(path: TlbPath, pages: PageKind, set: Bytes, load_ns: f64) -> TlbPoint {
    let page = if pages == PageKind::Base { PageSize::BASE_4K } else { PageSize::PMD_2M };
    let sample = |repeat: u32| TlbSample {
        repeat,
        place: repeat,
        load_ns: load_ns * (1.0 + 0.05 * (f64::from(repeat) - 1.0)),
        within_share: 0.01,
    };
    TlbPoint {
        page_bytes: Fact::Known(page),
        samples: (0..3).map(sample).collect(),
        ..TlbPoint::new(path, pages, set.0 / path.pitch().0)
    }
}

fn points() -> Vec<TlbPoint> {
    let sets = [(Bytes::kib(16), 1.0), (Bytes::kib(512), 4.0), (Bytes::mib(8), 12.0)];
    let mut points = Vec::new();
    for (set, ns) in sets {
        points.push(point(RANDOM, PageKind::Base, set, ns));
        points.push(point(RANDOM, PageKind::Thp, set, ns * 0.9));
        points.push(point(SEQUENTIAL, PageKind::Base, set, 1.0 + ns / 10.0));
    }
    let mut refused = TlbPoint::new(RANDOM, PageKind::Thp, Bytes::mib(128).0 / 64);
    refused.refused = Some("the kernel gave huge pages for 2.0 MiB of 128 MiB".into());
    points.push(point(RANDOM, PageKind::Base, Bytes::mib(128), 90.0));
    points.push(refused);
    for (count, extra) in [(64_u64, 0.0), (128, 2.0), (4096, 11.0)] {
        let apart = TlbPath::Lines { apart_bytes: APART };
        let set = Bytes(count * APART.0);
        points.push(point(apart, PageKind::Base, set, 1.0 + extra));
        points.push(point(TlbPath::PACKED, PageKind::Thp, Bytes(count * 64), 1.0));
    }
    points
}

fn flat(rate: f64) -> Fact<Measured> {
    Measured::from_values(&[rate]).map_or(Fact::missing("none"), Fact::Known)
}

fn rates(read: f64) -> MemoryRates {
    MemoryRates {
        read_gib_per_s: flat(read),
        write_gib_per_s: flat(read / 2.0),
        copy_gib_per_s: flat(read / 4.0),
    }
}

fn ratio(set_bytes: Bytes, ratio: f64, steadiness: RatioSteadiness) -> TlbRatio {
    let interval = Fact::Known((ratio - 0.02, ratio + 0.02));
    TlbRatio { path: RANDOM, pages: PageKind::Thp, set_bytes, ratio, interval, steadiness }
}

fn judgement() -> TlbJudgement {
    TlbJudgement {
        ratios: vec![
            ratio(Bytes::kib(16), 1.0, RatioSteadiness::Steady),
            ratio(Bytes::kib(512), 0.95, RatioSteadiness::Placement),
            ratio(Bytes::mib(8), 0.9, RatioSteadiness::Steady),
        ],
        knees: vec![TlbKnee {
            pages: PageKind::Base,
            apart_bytes: APART,
            below_pages: 64,
            above_pages: 72,
            about_pages: 68,
            from_ns: 0.0,
            to_ns: 2.0,
        }],
        claims: vec![
            BenchClaim::judged(
                "level 1 holds 64 translations of 4 KiB pages",
                ClaimEvidence::counted([true]),
                "a load costs 2.0 ns more from about 68 pages on",
            ),
            BenchClaim::judged(
                "level 2 holds 128 translations of 4 KiB pages",
                ClaimEvidence::counted([false]),
                "the figure is in units of 32",
            ),
        ],
        huge_translation_share: Fact::Known(0.1),
        advice: vec![
            "Do this: 10% less (9..11%).".into(),
            "Do that in 5.0 ns.".into(),
            "The rest: not measured.".into(),
        ],
    }
}

/// Two lists, lines, and a kind of page that is missing.
pub(crate) fn walks() -> TlbBenchReport {
    TlbBenchReport {
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
        bandwidth: MemoryBandwidth {
            buffer_bytes: Bytes::mib(64),
            cpus: 4,
            one: rates(20.0),
            all: MemoryRates::missing("only one CPU may be used here"),
        },
        claimed: vec![ClaimedTlb {
            level: 1,
            side: TlbSide::Data,
            page_bytes: vec![PageSize::BASE_4K],
            entries: 64,
            scaled_entries: None,
        }],
        caches: vec![DataCache { level: 2, size_bytes: Bytes::mib(1) }],
        judgement: Some(judgement()),
    }
}

/// A saved run that contains the walks.
pub(crate) fn bench(walks: TlbBenchReport) -> SavedRun {
    let mut run = bench_of("tlb", "t-0001");
    run.body = Some(RunBody::Bench(BenchReport::Tlb(walks)));
    run
}
