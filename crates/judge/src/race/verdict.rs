//! The verdict on one arm, and the sentence that gives its reason.
//!
//! *keep* needs all of these: evidence of 50 against no gain and of 20 against a gain of 1% at most, both for
//! an arm that was picked among several; evidence of 20 against no gain with the host's time subtracted from
//! each run; and the mechanism's counter moved in two of three runs of the arm and not in the control's
//! (docs/decisions/008). *likely* needs evidence of [`super::LIKELY`] against a gain of 1% at most, the
//! counter, and an interval that excludes *no gain*. *slower* is the mirror image of keep without the
//! counter. *no gain above N* needs evidence of 20 against a gain of N. It is also the verdict on a smaller
//! gain that the host could explain, and on a loss that it could explain if the gain is ruled out without the
//! host's time too. If times are corrected by the cost of memory meanwhile, a gain must also
//! show in plain times to be kept. Everything else is *cannot tell*, with the interval.

use super::{ArmRace, GainClaim, LEAST_GAIN, NORMAL_SHARE, PROVEN, WORTH};
use crate::mechanism::MechanismReadings;
use crate::race::{NoisePrior, mean_and_squares, shrunk};
use crate::stats::NORMAL_95;
use pagewise_model::trial::{ArmEffect, ArmVerdict, TimeRatio, VerdictWord};
use pagewise_model::{Bytes, Nanos};

/// Deviation of the true effect between sessions on the same machine, as a logarithm of the time ratio:
/// memory lies elsewhere, the host has other guests. From repeats of receipts within hours
/// (`bench/accept/tune/answers/drift`, docs/decisions/010).
const DRIFT: f64 = 0.020;
/// The part of it that grows with the effect, as a share of its logarithm.
const DRIFT_SHARE: f64 = 0.05;
/// Runs of each side in the later repeat whose outcome is predicted.
const REPEAT_RUNS: f64 = 20.0;
/// The host's time is shown separately if the two sides differ in it by this share of the time.
const HOST_SHOWN: f64 = 0.01;
/// Evidence is written up to this value. More adds nothing and does not fit every number format.
const MOST_EVIDENCE: f64 = 1e9;

/// Deviation of an effect of this logarithm from one session to another.
pub(super) fn drift(log: f64) -> f64 {
    DRIFT.hypot(DRIFT_SHARE * log)
}

/// All that the verdict on one arm rests on.
#[derive(Debug)]
pub(super) struct VerdictFindings<'a> {
    /// The race that decides: by wall time, corrected where that helps.
    pub(super) race: &'a ArmRace,
    /// The race by plain wall time, if the arm's times are corrected.
    pub(super) plain: Option<&'a ArmRace>,
    /// The same with the host's time taken off each run.
    pub(super) without_host: &'a ArmRace,
    /// The arm's number.
    pub(super) arm: usize,
    /// The counter of the mechanism.
    pub(super) mechanism: MechanismReadings,
    /// Mean host time of a run of the arm, as a share of the control's median wall time.
    pub(super) host_share_arm: f64,
    /// Mean host time of a run of the control, as a share of the control's median wall time.
    pub(super) host_share_control: f64,
    /// Time from one run to the next.
    pub(super) run_ns: f64,
}

/// The costs of the arm besides time, as shown with the verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct ArmCosts {
    /// Median ratio of CPU time.
    pub(super) cpu_ratio: Option<f64>,
    /// Median peak memory, arm minus control.
    pub(super) peak_rss_change_bytes: Option<i64>,
    /// Median peak memory of the control.
    pub(super) control_peak_rss_bytes: Option<Bytes>,
    /// Median CPU time of our supervisor beside a run of the arm.
    pub(super) supervisor_ns: Nanos,
}

/// A verdict that rests on no comparison of times.
fn without_effect(arm: &str, word: VerdictWord, why: String, costs: ArmCosts) -> ArmVerdict {
    ArmVerdict {
        arm: arm.to_owned(),
        word,
        why,
        effect: None,
        no_gain_above_share: None,
        no_loss_above_share: None,
        settled_by_ns: None,
        cpu_ratio: costs.cpu_ratio,
        peak_rss_change_bytes: costs.peak_rss_change_bytes,
        control_peak_rss_bytes: costs.control_peak_rss_bytes,
        supervisor_ns: costs.supervisor_ns,
    }
}

impl VerdictFindings<'_> {
    /// The verdict on the arm named `name`.
    #[must_use]
    pub(super) fn judge(&self, name: &str, costs: ArmCosts) -> ArmVerdict {
        let Some(effect) = self.effect() else {
            let why = "no block with a run of this arm was finished".to_owned();
            return without_effect(name, VerdictWord::NotTried, why, costs);
        };
        let (word, why) = self.decide();
        let open = matches!(word, VerdictWord::Likely | VerdictWord::CannotTell);
        ArmVerdict {
            no_gain_above_share: self.no_gain_above(),
            no_loss_above_share: self.race.no_loss_above(self.arm),
            settled_by_ns: Some(&effect)
                .filter(|_| open)
                .and_then(|effect| self.settled_by(effect)),
            effect: Some(effect),
            ..without_effect(name, word, why, costs)
        }
    }

    fn effect(&self) -> Option<ArmEffect> {
        let standing = self.race.standing(self.arm)?;
        let (low, high) = self.race.interval(self.arm)?;
        let log = standing.ratio.ln();
        let own = standing.deviation * (2.0 / REPEAT_RUNS).sqrt();
        let later = NORMAL_95 * own.hypot(drift(log));
        let selected = |share| self.race.selected(self.arm, GainClaim::GainAtMost(share));
        let worth = selected(LEAST_GAIN);
        let host_differs = (self.host_share_arm - self.host_share_control).abs() > HOST_SHOWN;
        Some(ArmEffect {
            ratio: standing.ratio,
            ratio_low: low,
            ratio_high: high,
            repeat_low: (log - (log - low.ln()).hypot(later)).exp(),
            repeat_high: (log + (high.ln() - log).hypot(later)).exp(),
            evidence_of_gain: selected(0.0).min(MOST_EVIDENCE),
            evidence_of_worth: worth.min(MOST_EVIDENCE),
            sure_share: sure_share(worth),
            runs: standing.runs,
            control_runs: standing.control_runs,
            without_host: host_differs.then(|| self.ratio(self.without_host)).flatten(),
            uncorrected: self.plain.and_then(|plain| self.ratio(plain)),
            at_once: false,
            alone: None,
        })
    }

    fn ratio(&self, race: &ArmRace) -> Option<TimeRatio> {
        let (ratio_low, ratio_high) = race.interval(self.arm)?;
        Some(TimeRatio { ratio: race.standing(self.arm)?.ratio, ratio_low, ratio_high })
    }

    fn decide(&self) -> (VerdictWord, String) {
        let interval = self.race.interval(self.arm);
        if self.race.is_likely(self.arm) && interval.is_some_and(|(_, high)| high < 1.0) {
            return self.faster();
        }
        if self.race.is_slower(self.arm) {
            let doubt = match self.host_made(GainClaim::GainAtLeast(0.0)) {
                Some(why) => why,
                None if self.shows_plainly(GainClaim::GainAtLeast(0.0)) => {
                    return (VerdictWord::Slower, "a loss over 1% is proven".to_owned());
                }
                None => "a loss over 1% is likely, but plain times do not show it yet".to_owned(),
            };
            return match self.no_gain_above() {
                Some(share) => (VerdictWord::NoGain, format!("{}, and {doubt}", ruled_out(share))),
                None => (VerdictWord::CannotTell, doubt),
            };
        }
        match self.no_gain_above() {
            Some(share) => (VerdictWord::NoGain, ruled_out(share)),
            None => (
                VerdictWord::CannotTell,
                "there are too few runs yet to prove a gain over 1% or to rule one out".to_owned(),
            ),
        }
    }

    fn faster(&self) -> (VerdictWord, String) {
        if let MechanismReadings::Counter { arm, control } = &self.mechanism
            && !self.mechanism.moved()
        {
            let why = format!(
                "faster, but its counter does not show why: it stood out in {} of its {} runs, and reached {} in the control",
                self.mechanism.held(),
                arm.len(),
                control.iter().max().unwrap_or(&0)
            );
            return (VerdictWord::CannotTell, why);
        }
        let counter = self.mechanism.describe();
        if !self.race.is_proven(self.arm) {
            return (VerdictWord::Likely, format!("a gain over 1% is likely{counter}"));
        }
        if !self.shows_plainly(GainClaim::GainAtMost(0.0)) {
            let why = "a gain over 1% is likely, but plain times do not show it yet".to_owned();
            return (VerdictWord::Likely, why);
        }
        match (self.host_made(GainClaim::GainAtMost(0.0)), self.no_gain_above()) {
            (Some(why), Some(most)) => {
                (VerdictWord::NoGain, format!("{}, and {why}", ruled_out(most)))
            }
            (Some(why), None) => (VerdictWord::CannotTell, why),
            (None, _) => (VerdictWord::Keep, format!("a gain over 1% is proven{counter}")),
        }
    }

    /// The least gain that is ruled out. Where the host could have made the arm slower, it must be ruled out without
    /// the host's time, too.
    fn no_gain_above(&self) -> Option<f64> {
        let share = self.race.no_gain_above(self.arm)?;
        let is_slower = self.race.is_slower(self.arm);
        if !(is_slower && self.may_be_host_made(GainClaim::GainAtLeast(0.0))) {
            return Some(share);
        }
        self.without_host.no_gain_above(self.arm).map(|own| own.max(share))
    }

    /// Plain times speak against the claim too, where times are corrected.
    fn shows_plainly(&self, claim: GainClaim) -> bool {
        self.plain.is_none_or(|race| race.evidence(self.arm, claim) >= PLAINLY)
    }

    /// The effect is not proven without the host's time.
    fn may_be_host_made(&self, claim: GainClaim) -> bool {
        self.without_host.evidence(self.arm, claim) < WORTH
    }

    /// The sentence for an effect that is not proven without the host's time.
    fn host_made(&self, claim: GainClaim) -> Option<String> {
        self.may_be_host_made(claim).then(|| {
            format!(
                "the host could explain the difference: memory that it supplied late took {} of the control's time and {} of the arm's",
                percent(self.host_share_control),
                percent(self.host_share_arm)
            )
        })
    }

    /// The time in which the evidence would prove the gain if it keeps growing at this rate. `None` if the
    /// times already prove it: more runs would not help then.
    fn settled_by(&self, effect: &ArmEffect) -> Option<Nanos> {
        // Below this growth, the effect may be pure chance.
        const LEAST_GROWTH: f64 = 0.5;
        let [gain, worth] = [effect.evidence_of_gain.ln(), effect.evidence_of_worth.ln()];
        if worth < LEAST_GROWTH {
            return None;
        }
        let times = (PROVEN.ln() / gain).max(WORTH.ln() / worth);
        let runs = f64::from(effect.runs + effect.control_runs);
        // One of each at least.
        (times > 1.0).then(|| Nanos::from_f64(((times - 1.0) * runs).max(2.0) * self.run_ns))
    }
}

/// The sentence for a gain above this share that is ruled out.
fn ruled_out(share: f64) -> String {
    format!("a gain above {:.0}% is ruled out", share * 100.0)
}

/// How sure a claim of this evidence is, if both sides were as likely before and noise is normal.
fn sure_share(evidence: f64) -> f64 {
    let odds = evidence / NORMAL_SHARE;
    odds / (1.0 + odds)
}

/// Evidence by plain times that a verdict by corrected times needs besides.
const PLAINLY: f64 = 2.0;

/// A share as a percentage with one decimal and without a negative zero.
fn percent(share: f64) -> String {
    let rounded = (share * 1000.0).round() / 10.0;
    format!("{:.1}%", if rounded == 0.0 { 0.0 } else { rounded })
}

// Plain runs of two sessions: how the program's time changed from one to the other.

/// The time ratio, `second` / `first`, with a 95% interval. It includes each run's noise and the drift of a
/// machine from one session to another (docs/decisions/010). `None` without two runs in each.
#[must_use]
pub fn between_sessions(first: &[Nanos], second: &[Nanos]) -> Option<TimeRatio> {
    let logs = |times: &[Nanos]| -> Vec<f64> {
        times.iter().map(|time| (time.0.max(1) as f64).ln()).collect()
    };
    between_logs(&logs(first), &logs(second))
}

/// The same from logarithms of the measured values.
pub(crate) fn between_logs(first: &[f64], second: &[f64]) -> Option<TimeRatio> {
    if first.len() < 2 || second.len() < 2 {
        return None;
    }
    // Their mean, and its variance.
    let typical = |logs: &[f64]| {
        let (mean, squares) = mean_and_squares(logs);
        let runs = logs.len() as f64;
        (mean, shrunk(squares, runs - 1.0, NoisePrior::IN_TURN) / runs)
    };
    let (before, after) = (typical(first), typical(second));
    let change = after.0 - before.0;
    let half = NORMAL_95 * (before.1 + after.1).sqrt().hypot(drift(change));
    Some(around(change, half))
}

/// The ratio, `second` / `first`, from the logarithms of a few runs of one session, with its 95% interval by
/// Student's distribution. `None` without two runs in each.
pub(super) fn of_few_runs(first: &[f64], second: &[f64]) -> Option<TimeRatio> {
    if first.len() < 2 || second.len() < 2 {
        return None;
    }
    let ((before, one), (after, other)) = (mean_and_squares(first), mean_and_squares(second));
    let runs = [first.len() as f64, second.len() as f64];
    let freedom = runs[0] + runs[1] - 2.0;
    let variance = (one + other) / freedom;
    let half = student_95(freedom) * (variance * (1.0 / runs[0] + 1.0 / runs[1])).sqrt();
    Some(around(after - before, half))
}

/// The ratio from the differences of the logarithms of a few pairs, with its 95% interval by the same method.
/// `None` without two.
pub(super) fn of_few_differences(differences: &[f64]) -> Option<TimeRatio> {
    if differences.len() < 2 {
        return None;
    }
    let (mean, squares) = mean_and_squares(differences);
    let pairs = differences.len() as f64;
    let freedom = pairs - 1.0;
    Some(around(mean, student_95(freedom) * (squares / freedom / pairs).sqrt()))
}

/// The ratio of this logarithm with an interval of `half` to either side.
fn around(log: f64, half: f64) -> TimeRatio {
    TimeRatio { ratio: log.exp(), ratio_low: (log - half).exp(), ratio_high: (log + half).exp() }
}

/// Deviations that contain 95% of Student's distribution with this many degrees of freedom, to 1%.
fn student_95(freedom: f64) -> f64 {
    const FEW: [f64; 10] = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23];
    let few = FEW.get((freedom as usize).saturating_sub(1));
    few.copied().unwrap_or(NORMAL_95 + 2.7 / freedom)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::race::BlockTimes;

    fn runs(ms: &[u64]) -> Vec<Nanos> {
        ms.iter().map(|ms| Nanos::millis(*ms)).collect()
    }

    /// A race of one arm that takes this share more time than the control, within noise of 1%.
    fn race(loss: f64, blocks: u32) -> ArmRace {
        let mut race = ArmRace::new(1);
        for block in 0..blocks {
            let noise = 0.01 * f64::from(block % 3) - 0.01;
            let arm = vec![(1.0 + loss).ln() + noise, (1.0 + loss).ln() - noise];
            race.add(&BlockTimes { control: vec![-noise, noise], arms: vec![(0, arm)] });
        }
        race
    }

    #[test]
    fn a_loss_that_the_host_could_explain_still_rules_a_gain_out() {
        let judged = |without_host: &ArmRace| {
            let race = race(0.05, 12);
            let findings = VerdictFindings {
                race: &race,
                plain: None,
                without_host,
                arm: 0,
                mechanism: MechanismReadings::None,
                host_share_arm: 0.05,
                host_share_control: 0.0,
                run_ns: 1e8,
            };
            findings.judge("arm", ArmCosts::default())
        };
        assert_eq!(judged(&race(0.05, 12)).word, VerdictWord::Slower);
        let equal = judged(&race(0.0, 12));
        assert_eq!(equal.word, VerdictWord::NoGain, "{equal:?}");
        assert!(equal.why.contains("ruled out, and the host could explain"), "{equal:?}");
        let near = judged(&race(-0.015, 12));
        assert_eq!(near.word, VerdictWord::NoGain, "{near:?}");
        assert!(near.no_gain_above_share > equal.no_gain_above_share, "{near:?}");
        // The arm gains what the host takes: nothing is ruled out.
        let gains = judged(&race(-0.15, 12));
        assert_eq!((gains.word, gains.no_gain_above_share), (VerdictWord::CannotTell, None));
    }

    #[test]
    fn few_runs_have_wide_intervals() {
        let few = of_few_runs(&[0.0, 0.1, -0.1], &[-0.2, -0.1, -0.3]).unwrap();
        assert!((few.ratio.ln() + 0.2).abs() < 1e-12);
        // 2.78 times 0.1 times the root of two thirds.
        assert!((few.ratio_high.ln() - 0.027).abs() < 1e-3, "{few:?}");
        assert_eq!(of_few_runs(&[0.0], &[1.0, 1.0]), None);
        let pairs = of_few_differences(&[-0.2, -0.1, -0.3]).unwrap();
        // 4.30 times 0.1 over the root of three.
        assert!((pairs.ratio_high.ln() - 0.048).abs() < 1e-3, "{pairs:?}");
        assert_eq!(of_few_differences(&[0.1]), None);
        assert!((student_95(30.0) - 2.042).abs() < 0.02 && student_95(1.0) > 12.0);
    }

    #[test]
    fn a_change_beyond_noise_and_drift_is_seen() {
        let before = runs(&[100, 101, 99, 100, 102, 98]);
        let after = runs(&[80, 81, 79, 80, 82, 78]);
        let change = between_sessions(&before, &after).unwrap();
        assert!(change.ratio_high < 0.87 && 0.75 < change.ratio_low, "{change:?}");
        let none = between_sessions(&before, &before).unwrap();
        assert!(none.ratio_low < 0.97 && 1.03 < none.ratio_high, "drift: {none:?}");
        assert_eq!(between_sessions(&before, &runs(&[80])), None);
    }
}
