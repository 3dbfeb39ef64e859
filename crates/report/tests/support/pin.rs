//! Constructed measurements of pinning in round numbers that come from no machine.

use super::bench_of;
use pagewise_model::bench::pin::{
    Judgement, MissingWay, Pins, Point, Price, Ratio, Sample, Share, Way,
};
use pagewise_model::bench::tlb::{PageKind, Unavailable};
use pagewise_model::bench::{Claim, Evidence};
use pagewise_model::body::{Bench, Body};
use pagewise_model::run::Run;
use pagewise_model::{Bytes, Fact, Measured, PageSize};

/// Three mappings that take about `call_ns`, and half of that to release.
fn point(way: Way, pages: PageKind, size: Bytes, call_ns: f64) -> Point {
    let page = if pages == PageKind::Base { PageSize::BASE_4K } else { PageSize::PMD_2M };
    let sample = |repeat: u32| {
        let call_ns = call_ns * (1.0 + 0.05 * (f64::from(repeat) - 1.0));
        let release_ns = if way.without().is_some() { call_ns / 2.0 } else { 0.0 };
        Sample { repeat, place: repeat, call_ns, release_ns, within_share: 0.01 }
    };
    Point {
        page_bytes: Fact::Known(page),
        samples: (0..3).map(sample).collect(),
        ..Point::new(way, pages, size)
    }
}

fn spread(median: f64) -> Fact<Measured> {
    Fact::Known(Measured { median, min: median * 0.9, max: median * 1.1, n: 3 })
}

fn points() -> Vec<Point> {
    let mut points = Vec::new();
    for (size, ns) in [(Bytes::kib(4), 200.0), (Bytes::kib(64), 1000.0), (Bytes::mib(1), 12_000.0)]
    {
        points.push(point(Way::Vmsplice, PageKind::Base, size, ns));
        points.push(point(Way::Vmsplice, PageKind::Thp, size, ns / 2.0));
        points.push(point(Way::Tee, PageKind::Base, size, ns / 3.0));
        points.push(point(Way::Register, PageKind::Base, size, ns * 3.0));
    }
    let mut refused = Point::new(Way::Register, PageKind::Thp, Bytes::mib(1));
    refused.refused = Some("`io_uring_register` on a buffer failed: no memory".into());
    points.push(refused);
    points
}

fn price(way: Way, pages: PageKind, page_ns: f64, call_ns: f64) -> Price {
    Price { way, pages, page_ns: spread(page_ns), call_ns: spread(call_ns) }
}

fn judgement() -> Judgement {
    let missing = "less than the noise";
    Judgement {
        prices: vec![
            price(Way::Vmsplice, PageKind::Base, 46.0, 120.0),
            price(Way::Vmsplice, PageKind::Thp, 7.5, 110.0),
            price(Way::Register, PageKind::Base, 90.0, 1500.0),
            Price {
                way: Way::Register,
                pages: PageKind::Thp,
                page_ns: Fact::missing(missing),
                call_ns: Fact::missing(missing),
            },
        ],
        shares: vec![
            Share {
                pages: PageKind::Base,
                size_bytes: Bytes::kib(64),
                of_call_share: Fact::Known(0.34),
                of_transfer_share: Fact::Known(0.2),
                transfer_gib_per_s: spread(20.0),
            },
            Share {
                pages: PageKind::Thp,
                size_bytes: Bytes::kib(64),
                of_call_share: Fact::missing(missing),
                of_transfer_share: Fact::missing(missing),
                transfer_gib_per_s: spread(40.0),
            },
        ],
        ratios: vec![Ratio {
            way: Way::Vmsplice,
            pages: PageKind::Thp,
            ratio: 0.16,
            interval: Fact::Known((0.15, 0.17)),
        }],
        claims: vec![Claim::judged(
            "finding and holding base pages is a third of vmsplice",
            Evidence::counted([true]),
            "34% of the call, pieces of 64.0 KiB",
        )],
        advice: ["Do this: 10% less (9..11%).", "Do that in 5.0 ns.", "The rest: not measured."]
            .map(str::to_owned)
            .to_vec(),
    }
}

/// All measurements of pinning.
pub(crate) fn pins() -> Pins {
    Pins {
        seed: 7,
        repeats: 3,
        quick: false,
        cpu: 1,
        region_bytes: Bytes::mib(2),
        base_page_bytes: PageSize::BASE_4K,
        huge_page_bytes: PageSize::PMD_2M,
        points: points(),
        unavailable: vec![Unavailable {
            pages: PageKind::Pool,
            why: "no page is free".into(),
            next: "as root: reserve some".into(),
        }],
        missing_ways: vec![MissingWay {
            way: Way::GupTest,
            why: "`open` on /sys/kernel/debug/gup_test failed".into(),
            next: "run as root".into(),
        }],
        judgement: Some(judgement()),
    }
}

/// A run that contains them.
pub(crate) fn bench(pins: Pins) -> Run {
    let mut run = bench_of("pin", "pin-1");
    run.body = Some(Body::Bench(Bench::Pins(pins)));
    run
}
