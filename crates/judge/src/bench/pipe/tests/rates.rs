//! Rates alone: which is faster, which claims hold, which sizes suit.

use super::*;
use crate::bench::fairness::{check, factor, noise};
use crate::stats::Rng;
use proptest::prelude::*;

fn rated(rung: PipeRung, consumption: PipeConsumption, rates: &[f64]) -> PipePoint {
    let one = |(i, rate): (usize, &f64)| sample(i as u32, COUNTS, 1e6, 2e9 / rate, 2.0);
    point(rung, consumption, rates.iter().enumerate().map(one).collect())
}

#[test]
fn a_pace_needs_repeats_that_agree() {
    let at = |rates: &[f64]| rated(write_read(), PipeConsumption::Untouched, rates);
    let pace = |a: &[f64], b: &[f64]| compare(&at(a), &at(b)).unwrap().pace;
    let (one, two) = ([1.0, 1.1, 0.9, 1.0, 1.0, 1.1], [2.0, 2.1, 1.9, 2.0, 2.1, 2.0]);
    assert_eq!(pace(&one, &two), PointSpeed::Faster);
    assert_eq!(pace(&two, &one), PointSpeed::Slower);
    assert_eq!(pace(&one[..5], &two[..5]), PointSpeed::CannotTell, "five repeats have no interval");
    let mixed = pace(&[1.0, 2.0, 1.0, 1.5, 1.0, 1.2], &[1.4, 1.2, 2.1, 1.0, 1.3, 1.0]);
    assert_eq!(mixed, PointSpeed::CannotTell);
    let (slow, fast) = ([1.0, 1.1, 0.9, 1.0, 1.05, 0.95], [1.5, 1.4, 1.6, 1.5, 1.5, 1.45]);
    let comparison = compare(&at(&slow), &at(&fast)).unwrap();
    let (low, high) = *comparison.interval.known().unwrap();
    assert!(low > 1.2 && comparison.ratio > low && comparison.ratio < high && high < 1.8);
    assert_eq!(comparison.pace, PointSpeed::Faster);
    assert!(compare(&at(&[]), &at(&[1.0])).is_none());
}

fn published(factors: [f64; 5]) -> Vec<PipePoint> {
    let mut rungs = vec![
        rung("write", RungWriter::Write, RungReader::Read),
        rung("vmsplice", RungWriter::Vmsplice, RungReader::Read),
        rung("splice", RungWriter::Vmsplice, RungReader::Splice),
        rung("huge", RungWriter::Vmsplice, RungReader::Splice),
        rung("busy", RungWriter::Vmsplice, RungReader::Splice),
    ];
    rungs[3].pages = RungPages::Huge;
    rungs[4].pages = RungPages::Huge;
    rungs[4].wait = RungWait::Busy;
    let figures = [3.7, 12.7, 32.8, 51.0, 62.5];
    let at = |(rung, rate): (PipeRung, f64)| {
        let rates: Vec<f64> = (0..8).map(|i| rate * (1.0 + 0.01 * f64::from(i))).collect();
        rated(rung, PipeConsumption::Untouched, &rates)
    };
    let rates = figures.iter().zip(factors).map(|(figure, factor)| figure * factor);
    rungs.into_iter().zip(rates).map(at).collect()
}

const L2: Fact<Bytes> = Fact::Known(Bytes::mib(1));

fn answers(points: Vec<PipePoint>) -> Vec<ClaimAnswer> {
    claims(&ladder(points), &L2).into_iter().map(|c| c.answer).collect()
}

#[test]
fn claims_hold_where_they_were_made() {
    use ClaimAnswer::{CannotTell, Confirmed, Refuted};
    let there = answers(published([1.0; 5]));
    assert_eq!(there[..5], [Confirmed; 5]);
    // By reference 62.5 is far above the 30 that the memory gives, and 12.7 with a copy far below.
    assert_eq!(there[5..], [CannotTell, CannotTell, Refuted, Refuted]);
    let other = answers(published([0.3, 0.4, 0.16, 0.14, 1.0]));
    assert_eq!(other[..5], [Confirmed, Refuted, Refuted, Confirmed, Refuted]);
    let swapped = answers(published([1.0, 0.2, 1.0, 1.0, 1.0]));
    assert_eq!(swapped[..2], [Refuted, Refuted]);
    assert_eq!(answers(Vec::new()), [CannotTell; 9]);
}

/// A grid of one technique: rates by pipe size.
fn grid(consumption: PipeConsumption, rates: &[(u64, f64)]) -> PipeBenchReport {
    let at = |(nth, &(kib, rate)): (usize, &(u64, f64))| {
        let mut rung = rung(&format!("pipe {kib}"), RungWriter::Vmsplice, RungReader::Splice);
        rung.pipe_bytes = Some(Bytes::kib(kib));
        // Each size has its noise in another order.
        let mut noise = [1.0, 1.01, 0.99, 1.02, 1.005, 0.98];
        noise.rotate_left(nth);
        rated(rung, consumption, &noise.map(|part| part * rate))
    };
    let mut ladder = ladder(rates.iter().enumerate().map(at).collect());
    ladder.sweep = true;
    ladder
}

fn advice(ladder: &PipeBenchReport, l2: Bytes) -> pagewise_model::bench::pipe::PipeSizeAdvice {
    let known = PipeContext {
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
    let untouched = grid(PipeConsumption::Untouched, &[(64, 5.0), (256, 20.0), (1024, 60.0)]);
    let found = advice(&untouched, Bytes::mib(1));
    assert_eq!((found.pipe_bytes, found.enough_pipe_bytes), (Bytes::mib(1), Bytes::mib(1)));
    assert!(found.why.ends_with("and it is"), "{}", found.why);
    assert_eq!(claims(&untouched, &L2)[5].answer, ClaimAnswer::Refuted);
    let touched = grid(PipeConsumption::Touched, &[(64, 5.0), (256, 9.9), (1024, 10.0)]);
    let found = advice(&touched, Bytes::mib(1));
    assert_eq!((found.pipe_bytes, found.enough_pipe_bytes), (Bytes::mib(1), Bytes::kib(256)));
    assert!(found.why.ends_with("and it is"), "{}", found.why);
    assert!(advice(&touched, Bytes::kib(256)).why.ends_with("here 256 KiB is needed"));
    let flat = grid(PipeConsumption::Untouched, &[(64, 10.0), (1024, 10.5)]);
    assert_eq!(claims(&flat, &L2)[5].answer, ClaimAnswer::Confirmed);
}

/// Six repeats near `rate`.
fn near(rung: PipeRung, consumption: PipeConsumption, rate: f64) -> PipePoint {
    rated(rung, consumption, &[1.0, 1.01, 0.99, 1.02, 0.98, 1.0].map(|part| part * rate))
}

#[test]
fn what_a_machine_should_do_is_reported_of_safe_ways_that_are_proven_faster() {
    let frozen =
        |wait| PipeRung { wait, ..rung("frozen", RungWriter::SpliceFrozen, RungReader::Splice) };
    let lent = || rung("lent", RungWriter::Vmsplice, RungReader::Splice);
    let reported = |points: Vec<PipePoint>| sentences(&ladder(points));
    let all = reported(vec![
        near(write_read(), PipeConsumption::Touched, 2.0),
        near(frozen(RungWait::Block), PipeConsumption::Touched, 1.9),
        near(write_read(), PipeConsumption::Untouched, 2.0),
        near(lent(), PipeConsumption::Untouched, 60.0),
        near(frozen(RungWait::Block), PipeConsumption::Untouched, 8.0),
        near(frozen(RungWait::Adaptive), PipeConsumption::Untouched, 12.0),
    ]);
    assert!(
        all[0].ends_with("use plain write and read (2.00 GiB/s): of the 1 other safe ways measured none is more than 3% faster.")
    );
    let proven = "(rung frozen): 6.0 times the rate of write and read (6.0..6.0)";
    assert!(all[1].contains(proven), "{}", all[1]);
    assert!(all[2].contains("has 1.5 times the rate"), "{}", all[2]);
    let slow = near(frozen(RungWait::Busy), PipeConsumption::Touched, 1.0);
    let all = reported(vec![near(frozen(RungWait::Block), PipeConsumption::Touched, 1.0), slow]);
    assert!(all[0].contains(": not measured. No sleeping write and read"), "{all:?}");
    assert!(all[2].contains("in none of 1 pairs"), "{all:?}");
    let nothing = reported(Vec::new());
    assert!(nothing.iter().all(|text| text.contains(": not measured. ")), "{nothing:?}");
}

#[test]
fn missing_proof_is_no_advice() {
    let frozen = || rung("frozen", RungWriter::SpliceFrozen, RungReader::Splice);
    let reported = |points: Vec<PipePoint>| sentences(&ladder(points))[0].clone();
    let noisy = |rung, rates: &[f64]| rated(rung, PipeConsumption::Touched, rates);
    // Ten times as fast in most repeats, and slower in some.
    let plain = noisy(write_read(), &[0.33, 0.3, 3.0, 0.4, 2.0, 0.3]);
    let fast = noisy(frozen(), &[4.2, 2.3, 0.2, 4.0, 0.3, 3.9]);
    let open = reported(vec![plain.clone(), fast]);
    assert!(open.contains("If the data is read: open. frozen/read through a pipe"), "{open}");
    assert!(open.contains("times the rate of write and read") && !open.contains("use"), "{open}");
    let alone = reported(vec![plain]);
    assert_eq!(
        alone,
        "If the data is read: not measured. Only write and read (0.37 GiB/s) has a figure."
    );
}

#[test]
fn staying_below_a_ceiling_refutes_nothing() {
    let all = |consumption, rate| claims(&ladder(vec![near(write_read(), consumption, rate)]), &L2);
    let answer = |rate| all(PipeConsumption::Untouched, rate).swap_remove(7);
    let low = answer(0.68);
    assert!(low.answer == ClaimAnswer::CannotTell && low.why.contains("stays below"), "{low:?}");
    assert_eq!(answer(29.0).answer, ClaimAnswer::Confirmed);
    assert_eq!(answer(60.0).answer, ClaimAnswer::Refuted);
    let near_memory = |rate| all(PipeConsumption::Touched, rate).pop().unwrap();
    let far = near_memory(5.0);
    assert_eq!(far.answer, ClaimAnswer::Refuted, "{far:?}");
    assert!(far.why.starts_with("0.17 times here (95% interval"), "{far:?}");
    assert_eq!(near_memory(29.0).answer, ClaimAnswer::Confirmed);
    assert_eq!(near_memory(24.0).answer, ClaimAnswer::CannotTell);
}

#[test]
fn fitting_the_cache_is_judged_through_one_pipe() {
    let copied = |buffer, pipe, rate| {
        let rung = PipeRung { buffer_bytes: Bytes::kib(buffer), ..write_read() };
        let point = near(rung, PipeConsumption::Untouched, rate);
        PipePoint { pipe_bytes: Bytes::kib(pipe), ..point }
    };
    let answer = |points| claims(&ladder(points), &L2).swap_remove(6);
    let large = || copied(4096, 64, 2.0);
    let faster = answer(vec![copied(256, 64, 3.0), copied(64, 64, 2.5), large()]);
    assert!(
        faster.answer == ClaimAnswer::Confirmed && faster.why.contains("buffer 256 KiB is 1.5")
    );
    assert_eq!(answer(vec![copied(256, 64, 2.0), large()]).answer, ClaimAnswer::Refuted);
    // Through another pipe, or where nothing is larger than the cache.
    for points in [vec![copied(256, 128, 3.0), large()], vec![copied(256, 64, 3.0)]] {
        assert_eq!(answer(points).evidence, pagewise_model::bench::ClaimEvidence::Nothing);
    }
}

#[test]
fn fizzbuzz_is_set_beside_write_and_the_best_rung() {
    let untouched = |rung, rate| near(rung, PipeConsumption::Untouched, rate);
    let of = |consumption, rate| {
        near(rung("fizzbuzz", RungWriter::FizzBuzz, RungReader::Meter), consumption, rate)
    };
    let whole = |whole| {
        let touched = of(PipeConsumption::Touched, 20.0);
        PipePoint { verified: Fact::Known(whole), ..touched }
    };
    let seed = || untouched(rung("seed", RungWriter::TeeSeed, RungReader::Splice), 60.0);
    let told = |is_whole| {
        let points = vec![
            untouched(write_read(), 4.0),
            of(PipeConsumption::Untouched, 40.0),
            whole(is_whole),
            seed(),
        ];
        let all = claims(&ladder(points), &L2);
        all.into_iter().take(4).map(|claim| claim.answer).collect::<Vec<_>>()
    };
    assert_eq!(told(true), [ClaimAnswer::Confirmed; 4]);
    assert_eq!(told(false)[3], ClaimAnswer::Refuted);
}

#[test]
fn a_wide_interval_confirms_no_ratio() {
    let mut points = published([1.0; 5]);
    let at =
        |rates: &[f64], rung: &PipeRung| rated(rung.clone(), PipeConsumption::Untouched, rates);
    // The median is 1.6 times the rung before, and the repeats are all over the place.
    let rates = [16.0, 50.0, 52.0, 300.0, 53.0, 20.0, 51.0, 55.0];
    points[3] = at(&rates, &points[3].rung);
    let claim = claims(&ladder(points), &L2).swap_remove(3);
    assert!(claim.claim.starts_with("huge pages gives 1.6 times"), "{claim:?}");
    assert_eq!(claim.answer, ClaimAnswer::CannotTell, "{claim:?}");
    assert!(claim.why.contains("95% interval") && claim.why.contains("would"), "{claim:?}");
}

/// A rung at 30 GiB/s, and with `switch` at `factor` times that rate.
fn pair(rung: &PipeRung, switch: RungSwitch, factor: f64) -> [PipePoint; 2] {
    let switched = rung.switched(switch, PipeConsumption::Untouched).unwrap();
    [(rung.clone(), 30.0), (switched, 30.0 * factor)]
        .map(|(rung, rate)| near(rung, PipeConsumption::Untouched, rate))
}

fn compared(switch: RungSwitch, pairs: [[PipePoint; 2]; 2]) -> PipeBenchReport {
    PipeBenchReport { compared: Some(switch), ..ladder(pairs.concat()) }
}

#[test]
fn a_switch_is_compared_with_the_same_rung_without_it() {
    use ClaimAnswer::{CannotTell, Confirmed, Refuted};
    let base = PipeRung::plain("P3", RungWriter::Vmsplice, RungReader::Splice);
    let huge = PipeRung { pages: RungPages::Huge, ..base.clone() };
    let of = |switch, on_base, on_huge| {
        compared(switch, [pair(&base, switch, on_base), pair(&huge, switch, on_huge)])
    };
    let untouched = of(RungSwitch::Untouched, 0.8, 1.0);
    let judgement = unpriced(&untouched, &[]);
    let steps: Vec<_> = judgement.steps.iter().map(|s| (s.from, s.to, s.comparison.pace)).collect();
    assert_eq!(steps, [(0, 1, PointSpeed::Slower), (2, 3, PointSpeed::CannotTell)]);
    assert_eq!(judgement.sentences.len(), 0, "no advice from a comparison");
    let answers = |ladder: &PipeBenchReport| -> Vec<ClaimAnswer> {
        claims(ladder, &L2).iter().map(|claim| claim.answer).collect()
    };
    assert_eq!(answers(&untouched), [Confirmed, Confirmed]);
    assert_eq!(answers(&of(RungSwitch::Untouched, 0.99, 0.8)), [Refuted, Refuted]);
    assert_eq!(answers(&of(RungSwitch::Untouched, 1.3, 1.3)), [Refuted, Refuted]);
    // Two buffers are the rung without the switch.
    assert_eq!(answers(&of(RungSwitch::OneBuffer, 1.0, 0.8)), [Confirmed]);
    assert_eq!(answers(&of(RungSwitch::OneBuffer, 1.0, 1.2)), [Refuted]);
    assert_eq!(answers(&of(RungSwitch::Gift, 0.5, 0.5)), []);
    let mut cut = untouched;
    cut.points.truncate(2);
    assert_eq!(answers(&cut), [Confirmed, CannotTell]);
}

/// Rates of the published rungs, of a grid, of memory: each repeat off by chance.
fn by_chance((seed, repeats, spread): (u64, usize, f64)) -> PipeBenchReport {
    let mut rng = Rng::new(seed);
    let truths = [3.7, 12.7, 32.8, 51.0, 62.5].map(|rate| rate * factor(&mut rng, spread));
    let mut points = published([1.0; 5]);
    points.extend(grid(PipeConsumption::Touched, &[(64, 5.0), (256, 9.9), (1024, 10.0)]).points);
    for (at, point) in points.iter_mut().enumerate() {
        let truth = truths[at % truths.len()];
        let rates: Vec<f64> = (0..repeats).map(|_| truth * factor(&mut rng, spread)).collect();
        *point = rated(point.rung.clone(), point.consumption, &rates);
    }
    let mut ladder = ladder(points);
    let memory: Vec<f64> = (0..repeats).map(|_| 30.0 * factor(&mut rng, spread)).collect();
    ladder.yardsticks.read_gib_per_s =
        Measured::from_values(&memory).map_or(Fact::missing("none"), Fact::Known);
    ladder
}

proptest! {
    #[test]
    fn claims_keep_to_the_rule(noise in noise()) {
        let ladder = by_chance(noise);
        let claims = claims(&ladder, &L2);
        prop_assert_eq!(claims.len(), 9);
        check(&claims)?;
        // Uses the figures themselves, not what the claims say about them.
        for (claim, pair) in claims[1..5].iter().zip(ladder.points.windows(2)) {
            let known = compare(&pair[0], &pair[1]).and_then(|c| c.interval.known().copied());
            let is_open = known.is_none_or(|(low, high)| low <= 1.0 && 1.0 <= high);
            prop_assert!(!(is_open && claim.answer == ClaimAnswer::Confirmed), "{:?}", claim);
            prop_assert!(known.is_some() || claim.answer == ClaimAnswer::CannotTell, "{:?}", claim);
        }
    }

    #[test]
    fn advice_names_only_ways_with_a_figure(noise in noise(), without in 0..9_usize) {
        let mut ladder = by_chance(noise);
        ladder.points.truncate(ladder.points.len() - without);
        for text in sentences(&ladder) {
            prop_assert!(!text.contains(" nothing"), "{text}");
            let is_advice = text.contains(", use ") || text.contains("do not let");
            prop_assert!(!is_advice || noise.1 >= 6, "advice without an interval: {text}");
            let rung = text.split("(rung ").nth(1).and_then(|rest| rest.split(')').next());
            let is_named = |point: &PipePoint| Some(point.rung.name.as_str()) == rung && point.rate().is_some();
            let is_hint = rung.is_none() || text.contains("not measured");
            prop_assert!(is_hint || ladder.points.iter().any(is_named), "{text}");
        }
    }
}
