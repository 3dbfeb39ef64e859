use super::*;
use crate::bench::fairness::{check, factor, noise};
use crate::stats::Rng;
use pagewise_model::PageSize;
use pagewise_model::bench::pin::PinSample;
use pagewise_model::bench::pipe::ClaimAnswer;
use proptest::prelude::*;

const SMALL: Bytes = Bytes::kib(4);
const LARGE: Bytes = Bytes::mib(1);

/// Ten repeats of a call that takes `call` and `page` for each page, and as much again per page to let go.
fn point(way: PinWay, pages: PageKind, size: Bytes, call: f64, page: f64) -> PinPoint {
    let count = size.pages(PageSize::BASE_4K) as f64;
    let sample = |repeat: u32| {
        let noise = 1.0 + 0.001 * f64::from(repeat);
        PinSample {
            repeat,
            place: repeat,
            call_ns: (call + page * count) * noise,
            release_ns: page * count * noise,
            within_share: 0.01,
        }
    };
    PinPoint { samples: (0..10).map(sample).collect(), ..PinPoint::new(way, pages, size) }
}

fn pins(points: Vec<PinPoint>) -> PinBenchReport {
    PinBenchReport {
        seed: 1,
        repeats: 10,
        quick: false,
        cpu: 0,
        region_bytes: Bytes::mib(2),
        base_page_bytes: PageSize::BASE_4K,
        huge_page_bytes: PageSize::PMD_2M,
        points,
        unavailable: Vec::new(),
        missing_ways: Vec::new(),
        judgement: None,
    }
}

/// vmsplice costs 30 ns a page more than tee on base pages and 5 ns on huge ones, each on both sides.
fn usual() -> PinBenchReport {
    let mut points = Vec::new();
    for size in [SMALL, Bytes::kib(128), LARGE] {
        points.push(point(PinWay::Tee, PageKind::Base, size, 100.0, 20.0));
        points.push(point(PinWay::Vmsplice, PageKind::Base, size, 200.0, 35.0));
        points.push(point(PinWay::Vmsplice, PageKind::Thp, size, 200.0, 22.5));
        points.push(point(PinWay::Register, PageKind::Base, size, 1000.0, 25.0));
    }
    pins(points)
}

fn near(fact: &Fact<Measured>, expected: f64) -> bool {
    fact.known().is_some_and(|found| (found.median / expected - 1.0).abs() < 0.02)
}

#[test]
fn a_page_and_a_call_have_their_prices() {
    let judgement = judge(&usual());
    let price = |way, pages| {
        judgement.prices.iter().find(|p| (p.way, p.pages) == (way, pages)).expect("measured")
    };
    let base = price(PinWay::Vmsplice, PageKind::Base);
    assert!(near(&base.page_ns, 30.0) && near(&base.call_ns, 100.0), "{base:?}");
    assert!(near(&price(PinWay::Vmsplice, PageKind::Thp).page_ns, 5.0));
    let register = price(PinWay::Register, PageKind::Base);
    assert!(near(&register.page_ns, 50.0) && near(&register.call_ns, 1000.0), "{register:?}");
}

#[test]
fn a_share_is_what_is_beyond_the_same_without() {
    let judgement = judge(&usual());
    let share =
        judgement.shares.iter().find(|s| s.pages == PageKind::Base && s.size_bytes == LARGE);
    let share = share.expect("measured");
    let (of_call, whole) = (share.of_call_share.known(), share.of_transfer_share.known());
    let expected = (200.0 + 256.0 * 35.0 - 100.0 - 256.0 * 20.0) / (200.0 + 256.0 * 35.0);
    assert!(of_call.is_some_and(|s| (s - expected).abs() < 0.01), "{share:?}");
    assert!(whole.is_some_and(|s| *s > 0.4 && *s < 0.45), "{share:?}");
    let rate = 1.0 / 1024.0 / ((200.0 + 512.0 * 35.0) * 1e-9);
    assert!(near(&share.transfer_gib_per_s, rate), "{share:?}");
}

#[test]
fn huge_pages_are_set_against_base_pages() {
    let judgement = judge(&usual());
    let [ratio] = &judgement.ratios[..] else { panic!("{:?}", judgement.ratios) };
    assert!((ratio.ratio - 45.0 / 70.0).abs() < 0.01, "{ratio:?}");
    assert!(ratio.interval.known().is_some_and(|(low, high)| *low <= ratio.ratio && *high < 0.7));
    let answers: Vec<ClaimAnswer> = judgement.claims.iter().map(|claim| claim.answer).collect();
    assert_eq!(answers, [ClaimAnswer::Refuted, ClaimAnswer::Refuted, ClaimAnswer::Confirmed]);
}

#[test]
fn lending_can_be_cheaper_than_tee() {
    let mut cheap = usual();
    for point in cheap.points.iter_mut().filter(|point| point.pages == PageKind::Thp) {
        point.samples.iter_mut().for_each(|sample| sample.release_ns /= 4.0);
    }
    let judgement = judge(&cheap);
    let thp = judgement.prices.iter().find(|price| price.pages == PageKind::Thp);
    assert!(thp.is_some_and(|price| price.page_ns.reason().is_some()), "{thp:?}");
    assert!(
        judgement.ratios[0].ratio < 0.5 && judgement.claims[2].answer == ClaimAnswer::Confirmed
    );
}

#[test]
fn published_shares_are_confirmed_where_they_hold() {
    // A third of the call: 45 ns against 30 ns a page; 18% of both: release is 2.2 times the call.
    let size = Bytes::kib(128);
    let mut lent = point(PinWay::Vmsplice, PageKind::Base, size, 0.0, 45.0);
    let mut teed = point(PinWay::Tee, PageKind::Base, size, 0.0, 30.0);
    for sample in lent.samples.iter_mut().chain(&mut teed.samples) {
        sample.release_ns = 1200.0;
    }
    let claims = judge(&pins(vec![lent, teed])).claims;
    assert_eq!(claims[0].answer, ClaimAnswer::Confirmed, "{claims:?}");
    assert_eq!(claims[1].answer, ClaimAnswer::Confirmed, "{claims:?}");
    assert_eq!(claims[2].answer, ClaimAnswer::CannotTell, "{claims:?}");
}

#[test]
fn what_is_missing_has_a_reason() {
    let lone = judge(&pins(vec![point(PinWay::Vmsplice, PageKind::Base, SMALL, 1.0, 1.0)]));
    assert!(lone.prices[0].page_ns.reason().is_some_and(|why| why.contains("two sizes")));
    assert!(lone.shares[0].of_call_share.reason().is_some_and(|why| why.contains("tee")));
    let slower: Vec<PinPoint> = [SMALL, LARGE]
        .into_iter()
        .flat_map(|size| {
            [
                point(PinWay::ReadOwn, PageKind::Base, size, 10.0, 5.0),
                point(PinWay::Copy, PageKind::Base, size, 20.0, 9.0),
            ]
        })
        .collect();
    let judged = judge(&pins(slower));
    let why = judged.prices[0].page_ns.reason();
    assert!(why.is_some_and(|why| why.contains(" ns, not above zero")), "{why:?}");
    let mut refused = PinPoint::new(PinWay::Register, PageKind::Thp, SMALL);
    refused.refused = Some("why".to_owned());
    assert_eq!(judge(&pins(vec![refused])).prices[0].call_ns.reason(), Some("why"));
}

#[test]
fn three_sentences_whatever_is_known() {
    for pins in [usual(), pins(Vec::new())] {
        let advice = judge(&pins).advice;
        assert_eq!(advice.len(), 3);
        assert!(advice.iter().all(|sentence| sentence.ends_with('.')), "{advice:?}");
    }
    let advice = judge(&usual()).advice;
    assert!(advice[0].starts_with("Pass huge pages to pipes"), "{advice:?}");
    // 100 ns a call, 30 ns a page: a tenth from 34 pages on.
    assert!(advice[1].contains("136 KiB"), "{advice:?}");
    // 1000 + 64 * 50 against 64 * 30.
    assert!(advice[2].contains("use it 3 times"), "{advice:?}");
}

proptest! {
    #[test]
    fn any_figures_are_judged(
        values in prop::collection::vec((any::<f64>(), any::<f64>(), 0u32..4, 0usize..6, 0usize..4, 0u64..30), 0..20),
    ) {
        let points = values.iter().map(|(call_ns, release_ns, repeat, way, pages, shift)| {
            let sample = PinSample {
                repeat: *repeat,
                place: 0,
                call_ns: *call_ns,
                release_ns: *release_ns,
                within_share: 0.0,
            };
            let (way, pages) = (PinWay::ALL[*way], PageKind::ALL[*pages]);
            PinPoint { samples: vec![sample], ..PinPoint::new(way, pages, Bytes(1 << shift)) }
        });
        let judgement = judge(&pins(points.collect()));
        prop_assert_eq!(judgement.advice.len(), 3);
        for price in &judgement.prices {
            prop_assert!(price.page_ns.known().is_none_or(|ns| ns.median > 0.0));
        }
    }
}

proptest! {
    #[test]
    fn claims_keep_to_the_rule(noise in noise()) {
        let (seed, repeats, spread) = noise;
        let mut rng = Rng::new(seed);
        let mut all = usual();
        for point in &mut all.points {
            point.samples.truncate(repeats);
            for sample in &mut point.samples {
                sample.call_ns *= factor(&mut rng, spread);
                sample.release_ns *= factor(&mut rng, spread);
            }
        }
        let judged = judge(&all);
        prop_assert_eq!(judged.claims.len(), 3);
        check(&judged.claims)?;
        prop_assert!(repeats >= 6 || judged.claims.iter().all(|c| c.answer == ClaimAnswer::CannotTell));
        prop_assert!(repeats >= 6 || !judged.advice[0].starts_with("Pass huge pages"));
    }
}
