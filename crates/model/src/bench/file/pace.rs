//! How fast a cell goes when undisturbed.
//!
//! A process takes the blocks of a pass in slices and reads the CPU clock of its thread after each. Of every
//! step the least that any process of the cell took is kept, and their sum is what the cell takes
//! undisturbed. Not in it: the time in which others had the CPU (of what a host takes, what it tells), and
//! the stretches in which a neighbour slowed the core, the caches or the memory, unless each process of the
//! cell met one in the same slice. More processes give a smaller sum, by some percent.

use crate::units::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The least CPU time of each step, over all processes of a cell with one thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pace {
    /// Opening, advising and mapping.
    pub set_up_ns: Nanos,
    /// Of each pass, the slices in their order.
    pub slice_ns: Vec<Vec<Nanos>>,
    /// Unmapping and closing.
    pub tear_down_ns: Nanos,
}

impl Pace {
    /// Keeps of each step what `other` did in less.
    pub fn keep_least(&mut self, other: &Self) {
        self.set_up_ns = self.set_up_ns.min(other.set_up_ns);
        self.tear_down_ns = self.tear_down_ns.min(other.tear_down_ns);
        for (pass, others) in self.slice_ns.iter_mut().zip(&other.slice_ns) {
            for (slice, own) in pass.iter_mut().zip(others) {
                *slice = (*slice).min(*own);
            }
        }
    }

    /// The pass with this number, from 0.
    #[must_use]
    pub fn pass_ns(&self, pass: usize) -> Option<Nanos> {
        Some(total(self.slice_ns.get(pass)?))
    }

    /// Everything: set-up, all passes, tear-down.
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

    fn pace(slices: &[&[u64]]) -> Pace {
        let pass = |slices: &&[u64]| slices.iter().copied().map(Nanos).collect();
        Pace {
            set_up_ns: Nanos(10),
            slice_ns: slices.iter().map(pass).collect(),
            tear_down_ns: Nanos(5),
        }
    }

    #[test]
    fn a_disturbance_that_one_process_met_is_not_in_it() {
        let mut least = pace(&[&[100, 900, 100], &[50, 50, 50]]);
        least.keep_least(&Pace { set_up_ns: Nanos(7), ..pace(&[&[700, 110, 100], &[60, 40, 50]]) });
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
