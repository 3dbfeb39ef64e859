//! The undisturbed time of a cell.
//!
//! A process reads the blocks of a pass in slices, and reads the CPU clock of its thread after each slice.
//! For each step, the least time that any process of the cell took is kept. The sum of these times is the
//! undisturbed time of the cell. It leaves out the time in which others had the CPU (of a host's time, as
//! much as the host reports). It also leaves out stretches in which a neighbour slowed the core, the caches
//! or the memory, unless every process of the cell met such a stretch in the same slice. More processes give
//! a smaller sum, by some percent.

use crate::schema::JsonSchema;
use crate::units::Nanos;
use serde::{Deserialize, Serialize};

/// The least CPU time of each step over all processes of a cell with one thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UndisturbedPace {
    /// Time to open, advise and map.
    pub set_up_ns: Nanos,
    /// Time of each slice, in order, for each pass.
    pub slice_ns: Vec<Vec<Nanos>>,
    /// Time to unmap and close.
    pub tear_down_ns: Nanos,
}

impl UndisturbedPace {
    /// Keeps the smaller time of each step, its own or that of `other`.
    pub fn keep_least(&mut self, other: &Self) {
        self.set_up_ns = self.set_up_ns.min(other.set_up_ns);
        self.tear_down_ns = self.tear_down_ns.min(other.tear_down_ns);
        for (pass, others) in self.slice_ns.iter_mut().zip(&other.slice_ns) {
            for (slice, own) in pass.iter_mut().zip(others) {
                *slice = (*slice).min(*own);
            }
        }
    }

    /// Time of the pass with this number, from 0.
    #[must_use]
    pub fn pass_ns(&self, pass: usize) -> Option<Nanos> {
        Some(total(self.slice_ns.get(pass)?))
    }

    /// Sum of set-up, all passes and tear-down.
    #[must_use]
    pub fn total_ns(&self) -> Nanos {
        let passes = self.slice_ns.iter().map(|slices| total(slices));
        passes.fold(self.set_up_ns + self.tear_down_ns, |sum, pass| sum + pass)
    }
}

fn total(slices: &[Nanos]) -> Nanos {
    slices.iter().fold(Nanos(0), |sum, slice| sum + *slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(slices: &[&[u64]]) -> UndisturbedPace {
        let pass = |slices: &&[u64]| slices.iter().copied().map(Nanos).collect();
        UndisturbedPace {
            set_up_ns: Nanos(10),
            slice_ns: slices.iter().map(pass).collect(),
            tear_down_ns: Nanos(5),
        }
    }

    #[test]
    fn a_disturbance_that_one_process_met_is_not_in_it() {
        let mut least = pace(&[&[100, 900, 100], &[50, 50, 50]]);
        least.keep_least(&UndisturbedPace {
            set_up_ns: Nanos(7),
            ..pace(&[&[700, 110, 100], &[60, 40, 50]])
        });
        assert_eq!((least.pass_ns(0), least.pass_ns(1)), (Some(Nanos(310)), Some(Nanos(140))));
        assert_eq!((least.total_ns(), least.pass_ns(2)), (Nanos(7 + 310 + 140 + 5), None));
    }

    #[test]
    fn what_another_did_not_do_is_kept() {
        let mut least = pace(&[&[100, 900]]);
        least.keep_least(&pace(&[&[90]]));
        assert_eq!(least.slice_ns, [[Nanos(90), Nanos(900)]]);
    }
}
