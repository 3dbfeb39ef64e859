//! What measurements of throughput under load show: whether code on huge pages serves more, and more steadily.
//!
//! The unit is a round, since two starts of one server differ for their whole life: the pairs of a round count as
//! one observation, their mean. The spread is the deviation of the logarithm of the rate within a round. It needs two
//! pairs in a round.
//!
//! The entry is [`judge`]. It is pure, so saved measurements are judged again with the same result.

use crate::stats::paired_ratio;
use pagewise_model::bench::text_load::{
    TextLoadFinding, TextLoadJudgement, TextLoadPair, TextLoadPoint, TextLoadRatio, TextLoadReport,
    TextLoadWindow,
};
use pagewise_model::bench::{LEAST_REPEATS, RepeatSeries};
use pagewise_model::measured::{mean, median};

/// An interval that reaches this far to either side (as a logarithm) is narrow enough.
const NARROW: f64 = 0.03;
/// Why an interval is missing: fewer than 6 of these.
const ROUNDS: &str = "rounds";

/// All conclusions from `load`.
#[must_use]
pub fn judge(load: &TextLoadReport) -> TextLoadJudgement {
    let findings: Vec<TextLoadFinding> = load.points.iter().filter_map(finding).collect();
    let rounds = load.points.iter().flat_map(|point| &point.pairs).map(|pair| pair.round + 1);
    let rounds = rounds.max().unwrap_or(0);
    let overall = ratio(&overall(load).values());
    let advice =
        [pages(load, overall.as_ref()), steadiness(&findings), needed(load, &findings, rounds)];
    let advice = advice.into_iter().flatten().collect();
    TextLoadJudgement { findings, overall, rounds, advice }
}

fn ratio(logs: &[f64]) -> Option<TextLoadRatio> {
    paired_ratio(logs, ROUNDS).map(|(ratio, interval)| TextLoadRatio { ratio, interval })
}

/// A figure of each round of a point. A round whose figure is not finite is left out.
fn by_round(point: &TextLoadPoint, figure: impl Fn(&[TextLoadPair]) -> f64) -> RepeatSeries {
    let rounds = point.pairs.chunk_by(|one, next| one.round == next.round);
    let of = |pairs: &[TextLoadPair]| Some((pairs.first()?.round, figure(pairs)));
    rounds.filter_map(of).filter(|(_, value)| value.is_finite()).collect()
}

/// The mean logarithm of what on has, as a multiple of what off has, round by round.
fn logs(point: &TextLoadPoint, figure: fn(&TextLoadWindow) -> f64) -> RepeatSeries {
    by_round(point, |pairs| {
        let log = |pair: &TextLoadPair| (figure(&pair.on) / figure(&pair.off)).ln();
        mean(&pairs.iter().map(log).collect::<Vec<_>>())
    })
}

/// The squared deviation of the logarithm of an arm's rate, round by round; NaN for a single pair.
fn variances(point: &TextLoadPoint, arm: fn(&TextLoadPair) -> &TextLoadWindow) -> RepeatSeries {
    by_round(point, |pairs| {
        let rates: Vec<f64> = pairs.iter().map(|pair| arm(pair).rate_per_second.ln()).collect();
        let middle = mean(&rates);
        let squares: f64 = rates.iter().map(|rate| (rate - middle).powi(2)).sum();
        squares / (rates.len() as f64 - 1.0)
    })
}

fn finding(point: &TextLoadPoint) -> Option<TextLoadFinding> {
    let middle = |arm: fn(&TextLoadPair) -> &TextLoadWindow| {
        median(&point.pairs.iter().map(|pair| arm(pair).rate_per_second).collect::<Vec<_>>())
    };
    let [off, on] = [variances(point, |pair| &pair.off), variances(point, |pair| &pair.on)];
    let spread = |all: &RepeatSeries| {
        let all = all.values();
        (!all.is_empty()).then(|| mean(&all).sqrt())
    };
    // Half of the logarithm of squares is that of deviations.
    let spreads: Vec<f64> = on.log_ratios(&off).into_iter().map(|log| log / 2.0).collect();
    let spreads: Vec<f64> = spreads.into_iter().filter(|log| log.is_finite()).collect();
    Some(TextLoadFinding {
        size: point.size,
        disturbed: point.disturbed,
        off_per_second: middle(|pair| &pair.off)?,
        on_per_second: middle(|pair| &pair.on)?,
        rate: ratio(&logs(point, |window| window.rate_per_second).values())?,
        cpu: ratio(&logs(point, |window| window.cpu_ns).values()),
        off_spread: spread(&off),
        on_spread: spread(&on),
        spread: ratio(&spreads),
    })
}

/// The mean of all sizes without a neighbour, for the rounds that have every size.
fn overall(load: &TextLoadReport) -> RepeatSeries {
    let alone = load.points.iter().filter(|point| !point.disturbed);
    let all: Vec<RepeatSeries> =
        alone.map(|point| logs(point, |window| window.rate_per_second)).collect();
    let count = all.len() as f64;
    let sum = all.into_iter().reduce(|sum, one| sum.paired(&one, |a, b| a + b));
    let sum = sum.unwrap_or_default();
    sum.paired(&sum, |sum, _| sum / count)
}

/// Which pages the code should be on.
fn pages(load: &TextLoadReport, overall: Option<&TextLoadRatio>) -> Option<String> {
    Some(match overall?.is_more() {
        Some(true) => format!(
            "Keep this code on huge pages: `pagewise run --fold -- {} ...`, or a copy by `pagewise text fold --merge`.",
            load.program
        ),
        Some(false) => {
            "Leave this code on base pages: huge pages lower its throughput here.".to_owned()
        }
        None => "Leave this code as it is: no difference in throughput is shown here.".to_owned(),
    })
}

/// Whether rates vary less with code on huge pages.
fn steadiness(findings: &[TextLoadFinding]) -> Option<String> {
    let shown = |more: bool| {
        let of = findings
            .iter()
            .filter(|one| one.spread.as_ref().and_then(TextLoadRatio::is_more) == Some(more));
        of.count()
    };
    let all = findings.iter().filter(|one| one.spread.is_some()).count();
    let (less, more) = (shown(false), shown(true));
    (less + more > 0).then(|| {
        format!(
            "Of {all} sizes, rates vary less with code on huge pages at {less}, and more at {more}."
        )
    })
}

/// What intervals of 3% to either side take.
fn needed(load: &TextLoadReport, findings: &[TextLoadFinding], rounds: u32) -> Option<String> {
    let each = load.rounds_ns.0 as f64 / f64::from(rounds.max(1));
    let budget = |rounds: f64| match (each * rounds / 60e9).ceil() {
        minutes if minutes < 120.0 => format!("--budget {minutes:.0}m"),
        minutes => format!("--budget {:.0}h", (minutes / 60.0).ceil()),
    };
    let half = |one: &TextLoadFinding| {
        let (low, high) = one.rate.interval.known()?;
        Some((high / low).ln() / 2.0)
    };
    let halves: Vec<f64> = findings.iter().filter_map(half).collect();
    if halves.len() < findings.len() {
        let budget = budget(LEAST_REPEATS as f64);
        return Some(format!("Intervals take {LEAST_REPEATS} {ROUNDS}: {budget}."));
    }
    let widest = halves.into_iter().fold(0.0, f64::max);
    let budget = budget(f64::from(rounds) * (widest / NARROW).powi(2));
    (widest > NARROW).then(|| {
        format!("Intervals of 3% to either side at every size take about this time: {budget}.")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Rng;
    use pagewise_model::bench::text_load::TextLoadKind;
    use pagewise_model::{Bytes, Nanos};

    /// Four pairs in each of these rounds at one size: on has `gain` times the rate, and `calm` times the deviation.
    fn loaded(rounds: u32, gain: f64, calm: f64) -> TextLoadReport {
        let mut rng = Rng::new(7);
        let mut point = |disturbed| {
            let mut pairs = Vec::new();
            for round in 0..rounds {
                let start = 0.01 * rng.normal();
                for _ in 0..4 {
                    let mut window = |rate: f64, deviation: f64| {
                        let rate_per_second = rate * (start + deviation * rng.normal()).exp();
                        TextLoadWindow { rate_per_second, cpu_ns: 1e9 / rate_per_second }
                    };
                    let (off, on) = (window(1000.0, 0.04), window(1000.0 * gain, 0.04 * calm));
                    pairs.push(TextLoadPair { round, off, on });
                }
            }
            TextLoadPoint { size: 2, disturbed, pairs }
        };
        TextLoadReport {
            seed: 1,
            kind: TextLoadKind::Clients,
            program: "/bin/db".into(),
            cpus: 2,
            at_once: false,
            text_bytes: Bytes::mib(8),
            off_huge_bytes: Bytes(0),
            on_huge_bytes: Bytes::mib(8),
            rounds_ns: Nanos::secs(30 * u64::from(rounds)),
            points: vec![point(false), point(true)],
            ended_early: None,
            judgement: None,
        }
    }

    #[test]
    fn a_gain_and_a_calm_are_found_where_they_are() {
        let found = judge(&loaded(12, 1.10, 0.3));
        let (one, all) = (&found.findings[0], found.overall.as_ref().unwrap());
        assert_eq!((found.rounds, all.is_more()), (12, Some(true)));
        let (low, high) = *one.rate.interval.known().unwrap();
        assert!(low < 1.10 && 1.10 < high && low > 1.05, "{low} {high}");
        let cpu = one.cpu.as_ref().unwrap();
        assert_eq!((one.rate.is_more(), cpu.is_more()), (Some(true), Some(false)));
        assert_eq!(one.spread.as_ref().unwrap().is_more(), Some(false));
        assert!(one.off_spread > one.on_spread, "{one:?}");
        assert!(found.advice[0].contains("pagewise run --fold -- /bin/db"), "{:?}", found.advice);
        assert!(
            found.advice[1].contains("less with code on huge pages at 2"),
            "{:?}",
            found.advice
        );
    }

    #[test]
    fn nothing_is_claimed_without_a_difference_or_an_interval() {
        let equal = judge(&loaded(12, 1.0, 1.0));
        assert_eq!(equal.overall.unwrap().is_more(), None);
        assert_eq!(equal.findings[0].spread.as_ref().unwrap().is_more(), None);
        assert!(equal.advice[0].contains("no difference"), "{:?}", equal.advice);
        let few = judge(&loaded(5, 1.5, 1.0));
        assert_eq!(few.overall.unwrap().is_more(), None);
        let last = few.advice.last().unwrap();
        assert_eq!(last, "Intervals take 6 rounds: --budget 3m.");
    }

    #[test]
    fn what_narrow_intervals_take_grows_with_the_square() {
        let mut wide = loaded(6, 1.0, 1.0);
        for pair in wide.points.iter_mut().flat_map(|point| &mut point.pairs) {
            pair.on.rate_per_second = 1000.0 * [0.9, 1.1][pair.round as usize % 2];
            pair.off.rate_per_second = 1000.0;
        }
        // Half of the interval is 0.1: 11 times the 3 minutes.
        let advice = judge(&wide).advice;
        let minutes = advice.last().unwrap().rsplit(' ').next().unwrap();
        let minutes: f64 = minutes.trim_end_matches("m.").parse().unwrap();
        assert!((30.0..=37.0).contains(&minutes), "{advice:?}");
    }

    #[test]
    fn a_size_without_pairs_and_single_pairs_are_no_spread() {
        let mut load = loaded(8, 1.0, 1.0);
        load.points[1].pairs.clear();
        load.points[0].pairs.dedup_by_key(|pair| pair.round);
        let found = judge(&load);
        let [one] = &found.findings[..] else { panic!("{found:?}") };
        assert_eq!((one.off_spread, one.spread.as_ref()), (None, None));
        assert!(one.rate.interval.known().is_some());
    }
}
