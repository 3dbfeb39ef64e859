//! Constructed measurements of pinning in round numbers that come from no machine.

use super::bench_of;
use pagewise_model::bench::pin::{
    MissingWay, PinBenchReport, PinJudgement, PinPoint, PinPrice, PinRatio, PinSample, PinShare,
    PinWay,
};
use pagewise_model::bench::tlb::{PageKind, UnavailablePages};
use pagewise_model::bench::{BenchClaim, ClaimEvidence};
use pagewise_model::body::{BenchReport, RunBody};
use pagewise_model::run::SavedRun;
use pagewise_model::{Bytes, Fact, Measured, PageSize};

/// Three mappings that take about `call_ns`, and half of that to release.
fn point(way: PinWay, pages: PageKind, size: Bytes, call_ns: f64) -> PinPoint {
    let page = if pages == PageKind::Base { PageSize::BASE_4K } else { PageSize::PMD_2M };
    let sample = |repeat: u32| {
        let call_ns = call_ns * (1.0 + 0.05 * (f64::from(repeat) - 1.0));
        let release_ns = if way.without().is_some() { call_ns / 2.0 } else { 0.0 };
        PinSample { repeat, place: repeat, call_ns, release_ns, within_share: 0.01 }
    };
    PinPoint {
        page_bytes: Fact::Known(page),
        samples: (0..3).map(sample).collect(),
        ..PinPoint::new(way, pages, size)
    }
}

fn spread(median: f64) -> Fact<Measured> {
    Fact::Known(Measured { median, min: median * 0.9, max: median * 1.1, n: 3 })
}

fn points() -> Vec<PinPoint> {
    let mut points = Vec::new();
    for (size, ns) in [(Bytes::kib(4), 200.0), (Bytes::kib(64), 1000.0), (Bytes::mib(1), 12_000.0)]
    {
        points.push(point(PinWay::Vmsplice, PageKind::Base, size, ns));
        points.push(point(PinWay::Vmsplice, PageKind::Thp, size, ns / 2.0));
        points.push(point(PinWay::Tee, PageKind::Base, size, ns / 3.0));
        points.push(point(PinWay::Register, PageKind::Base, size, ns * 3.0));
    }
    let mut refused = PinPoint::new(PinWay::Register, PageKind::Thp, Bytes::mib(1));
    refused.refused = Some("`io_uring_register` on a buffer failed: no memory".into());
    points.push(refused);
    points
}

fn price(way: PinWay, pages: PageKind, page_ns: f64, call_ns: f64) -> PinPrice {
    PinPrice { way, pages, page_ns: spread(page_ns), call_ns: spread(call_ns) }
}

fn judgement() -> PinJudgement {
    let missing = "less than the noise";
    PinJudgement {
        prices: vec![
            price(PinWay::Vmsplice, PageKind::Base, 46.0, 120.0),
            price(PinWay::Vmsplice, PageKind::Thp, 7.5, 110.0),
            price(PinWay::Register, PageKind::Base, 90.0, 1500.0),
            PinPrice {
                way: PinWay::Register,
                pages: PageKind::Thp,
                page_ns: Fact::missing(missing),
                call_ns: Fact::missing(missing),
            },
        ],
        shares: vec![
            PinShare {
                pages: PageKind::Base,
                size_bytes: Bytes::kib(64),
                of_call_share: Fact::Known(0.34),
                of_transfer_share: Fact::Known(0.2),
                transfer_gib_per_s: spread(20.0),
            },
            PinShare {
                pages: PageKind::Thp,
                size_bytes: Bytes::kib(64),
                of_call_share: Fact::missing(missing),
                of_transfer_share: Fact::missing(missing),
                transfer_gib_per_s: spread(40.0),
            },
        ],
        ratios: vec![PinRatio {
            way: PinWay::Vmsplice,
            pages: PageKind::Thp,
            ratio: 0.16,
            interval: Fact::Known((0.15, 0.17)),
        }],
        claims: vec![BenchClaim::judged(
            "a third of vmsplice is finding and holding base pages",
            ClaimEvidence::counted([true]),
            "34% of the call, pieces of 64.0 KiB",
        )],
        advice: ["Do this: 10% less (9..11%).", "Do that in 5.0 ns.", "The rest: not measured."]
            .map(str::to_owned)
            .to_vec(),
    }
}

/// All measurements of pinning.
pub(crate) fn pins() -> PinBenchReport {
    PinBenchReport {
        seed: 7,
        repeats: 3,
        quick: false,
        cpu: 1,
        region_bytes: Bytes::mib(2),
        base_page_bytes: PageSize::BASE_4K,
        huge_page_bytes: PageSize::PMD_2M,
        points: points(),
        unavailable: vec![UnavailablePages {
            pages: PageKind::Pool,
            why: "no page is free".into(),
            next: "as root: reserve some".into(),
        }],
        missing_ways: vec![MissingWay {
            way: PinWay::GupTest,
            why: "`open` on /sys/kernel/debug/gup_test failed".into(),
            next: "run as root".into(),
        }],
        judgement: Some(judgement()),
    }
}

/// A run that contains them.
pub(crate) fn bench(pins: PinBenchReport) -> SavedRun {
    let mut run = bench_of("pin", "pin-1");
    run.body = Some(RunBody::Bench(BenchReport::Pin(pins)));
    run
}
