//! Did the remedy take hold? Reads the kernel's own counter of its mechanism in every run of the arm and of
//! the control. Pure; units are those of the counter (pages, pipes, faults).
//!
//! Not seen: whether the counter moved because of the remedy. The comparison of times must show that the
//! effect exists and comes from the remedy.

/// Share of its runs in which an arm must have taken hold. Less than 1, because glibc 2.36 applies its own
/// `hugetlb` tunable in only four of five starts (docs/decisions/008).
pub const HELD_SHARE: f64 = 2.0 / 3.0;
/// How far the arm's counter must exceed the control's.
const COUNTER_FACTOR: u64 = 10;
/// This share of the control's highest readings is attributed to other programs. Some counters cover the
/// whole machine, and one other program during one run must not decide.
const VISITED_SHARE: f64 = 0.1;

/// What the kernel's counter of the arm's mechanism read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MechanismReadings {
    /// The arm has no counter: this check is passed over.
    None,
    /// Readings, one per run; a reading that failed counts as 0.
    Counter {
        /// In runs of the arm.
        arm: Vec<u64>,
        /// In runs of the control.
        control: Vec<u64>,
    },
}

impl MechanismReadings {
    /// Took hold in at least [`HELD_SHARE`] of the arm's runs, and was idle in the control's.
    #[must_use]
    pub fn moved(&self) -> bool {
        match self {
            Self::None => true,
            Self::Counter { arm, .. } => {
                let held = self.held();
                held > 0 && held as f64 >= HELD_SHARE * arm.len() as f64
            }
        }
    }

    /// The most that the counter reads in the control, but for the few highest readings.
    fn idle(&self) -> Option<u64> {
        let Self::Counter { control, .. } = self else { return None };
        let mut sorted = control.clone();
        sorted.sort_unstable();
        let visited = (sorted.len() as f64 * VISITED_SHARE) as usize;
        sorted.len().checked_sub(visited + 1).map(|at| sorted[at])
    }

    /// Of `readings`, those that stand out from the control's.
    fn standing_out(&self, readings: &[u64]) -> usize {
        // Without a reading of the control nothing shows that the counter idles there.
        let Some(idle) = self.idle() else { return 0 };
        let least = idle.saturating_mul(COUNTER_FACTOR);
        readings.iter().filter(|reading| **reading > least).count()
    }

    /// Runs of the arm in which its counter stood out from the control's.
    pub(crate) fn held(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Counter { arm, .. } => self.standing_out(arm),
        }
    }

    /// In how many of its runs it took hold, as words.
    pub(crate) fn describe(&self) -> String {
        let Self::Counter { arm, control } = self else { return String::new() };
        let (held, idle) = (self.held(), self.standing_out(control));
        let control = match idle {
            0 => "none of the control's".to_owned(),
            some => format!("{some} of the control's {}", control.len()),
        };
        if held == arm.len() {
            format!("; its counter stood out in each of its runs and in {control}")
        } else {
            format!(
                "; its counter stood out in {held} of its {} runs and in {control}: it does not take effect in every run",
                arm.len()
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counter(arm: &[u64], control: &[u64]) -> MechanismReadings {
        MechanismReadings::Counter { arm: arm.into(), control: control.into() }
    }

    #[test]
    fn one_visitor_in_a_control_run_does_not_decide() {
        let mut control = vec![0; 20];
        control[7] = 100;
        let visited = counter(&[200; 10], &control);
        assert!(visited.moved());
        assert!(visited.describe().contains("and in 1 of the control's 20"));
        control[8..12].fill(100);
        assert!(!counter(&[200; 10], &control).moved(), "five of twenty are its own");
    }

    #[test]
    fn few_control_runs_all_count() {
        assert!(counter(&[30; 3], &[0, 0, 2]).moved());
        assert!(!counter(&[30; 3], &[0, 0, 3]).moved());
        assert!(!counter(&[30; 3], &[]).moved());
    }

    #[test]
    fn words_tell_where_it_stood_out() {
        let always = counter(&[30; 9], &[1; 18]).describe();
        assert_eq!(
            always,
            "; its counter stood out in each of its runs and in none of the control's"
        );
        assert!(counter(&[30, 0, 30], &[0; 6]).describe().contains("in 2 of its 3 runs"));
    }
}
