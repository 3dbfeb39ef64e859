//! Rates alone: which is faster, what becomes of claims, which sizes suit.

use super::*;

fn rated(rung: Rung, consumption: Consumption, rates: &[f64]) -> Point {
    let one = |(i, rate): (usize, &f64)| sample(i as u32, COUNTS, 1e6, 2e9 / rate, 2.0);
    point(rung, consumption, rates.iter().enumerate().map(one).collect())
}

#[test]
fn a_pace_needs_repeats_that_agree() {
    let at = |rates: &[f64]| rated(write_read(), Consumption::Untouched, rates);
    let pace = |a: &[f64], b: &[f64]| compare(&at(a), &at(b)).unwrap().pace;
    assert_eq!(pace(&[1.0, 1.1, 0.9, 1.0], &[2.0, 2.1, 1.9, 2.0]), Pace::Faster);
    assert_eq!(pace(&[2.0, 2.1, 1.9, 2.0], &[1.0, 1.1, 0.9, 1.0]), Pace::Slower);
    assert_eq!(pace(&[1.0, 1.1, 0.9], &[2.0, 2.1, 1.9]), Pace::CannotTell);
    assert_eq!(pace(&[1.0, 2.0, 1.0, 1.5], &[1.4, 1.2, 2.1, 1.0]), Pace::CannotTell);
    let (slow, fast) = ([1.0, 1.1, 0.9, 1.0, 1.05, 0.95], [1.5, 1.4, 1.6, 1.5, 1.5, 1.45]);
    let comparison = compare(&at(&slow), &at(&fast)).unwrap();
    let (low, high) = *comparison.interval.known().unwrap();
    assert!(low > 1.2 && comparison.ratio > low && comparison.ratio < high && high < 1.8);
    assert_eq!(comparison.pace, Pace::Faster);
    assert!(compare(&at(&[]), &at(&[1.0])).is_none());
}

fn published(factors: [f64; 5]) -> Vec<Point> {
    let mut rungs = vec![
        rung("write", Writer::Write, Reader::Read),
        rung("vmsplice", Writer::Vmsplice, Reader::Read),
        rung("splice", Writer::Vmsplice, Reader::Splice),
        rung("huge", Writer::Vmsplice, Reader::Splice),
        rung("busy", Writer::Vmsplice, Reader::Splice),
    ];
    rungs[3].pages = Pages::Huge;
    rungs[4].pages = Pages::Huge;
    rungs[4].wait = Wait::Busy;
    let figures = [3.7, 12.7, 32.8, 51.0, 62.5];
    let at = |(rung, rate): (Rung, f64)| {
        let rates: Vec<f64> = (0..8).map(|i| rate * (1.0 + 0.01 * f64::from(i))).collect();
        rated(rung, Consumption::Untouched, &rates)
    };
    let rates = figures.iter().zip(factors).map(|(figure, factor)| figure * factor);
    rungs.into_iter().zip(rates).map(at).collect()
}

fn answers(points: Vec<Point>) -> Vec<Answer> {
    claims(&ladder(points)).into_iter().map(|c| c.answer).collect()
}

#[test]
fn claims_hold_where_they_were_made() {
    use Answer::{CannotTell, Confirmed, Refuted};
    let there = answers(published([1.0; 5]));
    assert_eq!(there[..5], [Confirmed; 5]);
    // By reference 62.5 is far above the 30 that the memory gives; nothing was touched.
    assert_eq!(there[5..], [CannotTell, Refuted, CannotTell]);
    let other = answers(published([0.3, 0.4, 0.16, 0.14, 1.0]));
    assert_eq!(other[..5], [Confirmed, Refuted, Refuted, Confirmed, Refuted]);
    let swapped = answers(published([1.0, 0.2, 1.0, 1.0, 1.0]));
    assert_eq!(swapped[..2], [Refuted, Refuted]);
    assert_eq!(answers(Vec::new()), [CannotTell; 8]);
}

/// A grid of one technique: rates by pipe size.
fn grid(consumption: Consumption, rates: &[(u64, f64)]) -> Ladder {
    let at = |&(kib, rate): &(u64, f64)| {
        let mut rung = rung(&format!("pipe {kib}"), Writer::Vmsplice, Reader::Splice);
        rung.pipe_bytes = Some(Bytes::kib(kib));
        rated(rung, consumption, &[rate, rate * 1.01, rate * 0.99, rate])
    };
    let mut ladder = ladder(rates.iter().map(at).collect());
    ladder.sweep = true;
    ladder
}

fn advice(ladder: &Ladder, l2: Bytes) -> pagewise_model::bench::pipe::Advice {
    let known = Known {
        prices: None,
        reference: &ReferencePrices::missing("none"),
        base_page: PageSize::BASE_4K,
        l2_bytes: &Fact::Known(l2),
        samples: &[],
    };
    let judgement = judge(ladder, &known);
    assert!(judgement.steps.is_empty());
    judgement.advice.into_iter().next().unwrap()
}

#[test]
fn sizes_are_advised_by_what_becomes_of_the_bytes() {
    let untouched = grid(Consumption::Untouched, &[(64, 5.0), (256, 20.0), (1024, 60.0)]);
    let found = advice(&untouched, Bytes::mib(1));
    assert_eq!((found.pipe_bytes, found.enough_pipe_bytes), (Bytes::mib(1), Bytes::mib(1)));
    assert!(found.why.ends_with("and it is"), "{}", found.why);
    assert_eq!(claims(&untouched)[5].answer, Answer::Refuted);
    let touched = grid(Consumption::Touched, &[(64, 5.0), (256, 9.9), (1024, 10.0)]);
    let found = advice(&touched, Bytes::mib(1));
    assert_eq!((found.pipe_bytes, found.enough_pipe_bytes), (Bytes::mib(1), Bytes::kib(256)));
    assert!(found.why.ends_with("and it is"), "{}", found.why);
    assert!(advice(&touched, Bytes::kib(256)).why.ends_with("here 256 KiB is needed"));
    let flat = grid(Consumption::Untouched, &[(64, 10.0), (1024, 10.5)]);
    assert_eq!(claims(&flat)[5].answer, Answer::Confirmed);
}

/// Six repeats near `rate`.
fn near(rung: Rung, consumption: Consumption, rate: f64) -> Point {
    rated(rung, consumption, &[1.0, 1.01, 0.99, 1.02, 0.98, 1.0].map(|part| part * rate))
}

#[test]
fn what_a_machine_should_do_is_reported_of_safe_ways_that_are_proven_faster() {
    let frozen = |wait| Rung { wait, ..rung("frozen", Writer::SpliceFrozen, Reader::Splice) };
    let lent = || rung("lent", Writer::Vmsplice, Reader::Splice);
    let reported = |points: Vec<Point>| sentences(&ladder(points));
    let all = reported(vec![
        near(write_read(), Consumption::Touched, 2.0),
        near(frozen(Wait::Block), Consumption::Touched, 1.9),
        near(write_read(), Consumption::Untouched, 2.0),
        near(lent(), Consumption::Untouched, 60.0),
        near(frozen(Wait::Block), Consumption::Untouched, 8.0),
        near(frozen(Wait::Adaptive), Consumption::Untouched, 12.0),
    ]);
    assert!(
        all[0].ends_with("use plain write and read (2.00 GiB/s): no safe way is proven faster.")
    );
    assert!(all[1].contains("(rung frozen): 6.0 times the rate"), "{}", all[1]);
    assert!(all[2].contains("has 1.5 times the rate"), "{}", all[2]);
    let slow = near(frozen(Wait::Busy), Consumption::Touched, 1.0);
    let all = reported(vec![near(frozen(Wait::Block), Consumption::Touched, 1.0), slow]);
    assert!(
        all[0].contains("were not measured") && all[2].contains("in none of 1 pairs"),
        "{all:?}"
    );
    let nothing = reported(Vec::new());
    assert_eq!(nothing.len(), 3);
    assert!(nothing[2].starts_with("No verdict on waiting"));
}
