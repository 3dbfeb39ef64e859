//! Time and memory of each arm of an experiment, side by side.
//!
//! One of the two decides a session; a guard bounds the other. A user who pays for both wants to see all arms
//! together: which arms no other arm beats in both, and how much memory an arm takes for the time that it
//! saves. Figures are medians over the runs that count. Memory is [`ProgramUsage::peak_memory`].
//!
//! Differences below [`SAME`] count as none. Not judged here: whether a difference is proven. The verdict
//! says so for the deciding quantity, the guard for the other.

use pagewise_model::trial::{Experiment, TimeAndMemory};
use pagewise_model::usage::{ProgramUsage, typical};
use pagewise_model::{Bytes, Nanos};

/// Two figures that differ by less than this share are the same.
pub const SAME: f64 = 0.01;

/// Each arm that ran, the control first; empty without runs of the control.
#[must_use]
pub fn side_by_side(experiment: &Experiment) -> Vec<TimeAndMemory> {
    let figures = |arm: &str, at_once: bool| {
        let points = experiment.points_in(arm, at_once);
        let runs: Vec<ProgramUsage> = points.map(|point| point.usage.clone()).collect();
        // Runs at once share a CPU, so only their CPU time is meaningful.
        let time = |usage: &ProgramUsage| if at_once { usage.cpu_ns().0 } else { usage.wall_ns.0 };
        Some((typical(&runs, time)?, typical(&runs, |usage| usage.peak_memory().0)?))
    };
    let control = &experiment.design.control;
    let names = std::iter::once(control).chain(&experiment.design.arms);
    let mut all: Vec<TimeAndMemory> = names
        .filter_map(|arm| {
            let at_once = experiment.is_at_once(arm);
            let (plain_time, plain_memory) = figures(control, at_once)?;
            let (time, memory) = figures(arm, at_once)?;
            let (time_ratio, memory_ratio) =
                (time / plain_time.max(1.0), memory / plain_memory.max(1.0));
            Some(TimeAndMemory {
                arm: arm.clone(),
                time_ns: Nanos::from_f64(time),
                memory_bytes: Bytes(memory as u64),
                time_ratio,
                memory_ratio,
                memory_price: price(time_ratio, memory_ratio),
                is_on_front: true,
            })
        })
        .collect();
    let beaten: Vec<bool> =
        all.iter().map(|one| all.iter().any(|other| beats(other, one))).collect();
    for (one, beaten) in all.iter_mut().zip(beaten) {
        one.is_on_front = !beaten;
    }
    all
}

/// Percent of memory for each percent of time, where an arm has less of one and more of the other.
fn price(time_ratio: f64, memory_ratio: f64) -> Option<f64> {
    let (saved, added) = (1.0 - time_ratio, memory_ratio - 1.0);
    let is_trade = saved.abs() >= SAME && added.abs() >= SAME && (saved > 0.0) == (added > 0.0);
    is_trade.then(|| added / saved)
}

/// One needs clearly less of one and no more of the other.
fn beats(one: &TimeAndMemory, other: &TimeAndMemory) -> bool {
    let is_less = |a: f64, b: f64| a < b * (1.0 - SAME);
    let is_no_more = |a: f64, b: f64| a <= b * (1.0 + SAME);
    let of = |one: &TimeAndMemory| [one.time_ratio, one.memory_ratio];
    let ([time, memory], [other_time, other_memory]) = (of(one), of(other));
    is_less(time, other_time) && is_no_more(memory, other_memory)
        || is_less(memory, other_memory) && is_no_more(time, other_time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::constructed;
    use pagewise_model::trial::{ArmRun, ExperimentBlock};

    /// An experiment of arms with these milliseconds and MiB, the first the control.
    fn experiment(arms: &[(&str, u64, u64)]) -> Experiment {
        let point = |&(arm, ms, mib): &(&str, u64, u64)| ArmRun {
            arm: arm.to_owned(),
            usage: ProgramUsage {
                wall_ns: Nanos::millis(ms),
                peak_rss_bytes: Bytes::mib(mib),
                ..constructed::usage()
            },
            mechanism: None,
            idle_mechanisms: Vec::new(),
            huge_faults: 0,
            supervisor_ns: Nanos(0),
        };
        let points = arms.iter().map(point).collect();
        let (control, others) = arms.split_first().unwrap();
        let names: Vec<&str> = others.iter().map(|arm| arm.0).collect();
        Experiment {
            blocks: vec![ExperimentBlock { points, ..ExperimentBlock::default() }],
            ..constructed::experiment(control.0, &names)
        }
    }

    #[test]
    fn memory_has_a_price_where_it_buys_time() {
        let all = side_by_side(&experiment(&[
            ("plain", 1000, 100),
            ("huge", 800, 150),
            ("small", 1100, 80),
            ("better", 900, 90),
            ("same", 1001, 150),
        ]));
        let prices: Vec<Option<f64>> = all.iter().map(|one| one.memory_price).collect();
        assert_eq!(prices.len(), 5);
        assert!((prices[1].unwrap() - 2.5).abs() < 1e-9 && (prices[2].unwrap() - 2.0).abs() < 1e-9);
        assert_eq!([prices[0], prices[3], prices[4]], [None; 3]);
        let front: Vec<&str> =
            all.iter().filter(|one| one.is_on_front).map(|one| one.arm.as_str()).collect();
        assert_eq!(front, ["huge", "small", "better"]);
    }

    #[test]
    fn what_hardly_differs_beats_nobody() {
        let all = side_by_side(&experiment(&[("plain", 1000, 100), ("same", 995, 100)]));
        assert!(all.iter().all(|one| one.is_on_front));
    }

    #[test]
    fn nothing_is_compared_with_a_control_that_did_not_run() {
        let mut none = experiment(&[("plain", 1000, 100), ("huge", 800, 150)]);
        none.blocks[0].points.remove(0);
        assert!(side_by_side(&none).is_empty());
        none.blocks.clear();
        assert!(side_by_side(&none).is_empty());
    }
}
