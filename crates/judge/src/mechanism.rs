//! Did the remedy take hold? The kernel's own counter of its mechanism, read in every run of the arm
//! and of the control. Pure; units are those of the counter (pages, pipes, faults).
//!
//! Not seen: whether the counter moved for the reason that the remedy gives. That the effect is
//! there, and is the remedy's, is for the comparison of times to show.

/// Share of its runs in which an arm must have taken hold. Not all: glibc 2.36 takes its own
/// `hugetlb` tunable in four of five starts (docs/decisions/008).
pub const HELD_SHARE: f64 = 2.0 / 3.0;
/// How far the arm's counter must exceed the control's largest.
const COUNTER_FACTOR: u64 = 10;

/// What the kernel's counter of the arm's mechanism read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mechanism {
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

impl Mechanism {
    /// Took hold in at least [`HELD_SHARE`] of the arm's runs, and in no run of the control.
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

    /// Runs of the arm in which its counter stood out from the control's largest.
    pub(crate) fn held(&self) -> usize {
        let Self::Counter { arm, control } = self else { return 0 };
        // Without a reading of the control nothing shows that the counter idles there.
        let Some(idle) = control.iter().copied().max() else { return 0 };
        arm.iter().filter(|reading| **reading > idle.saturating_mul(COUNTER_FACTOR)).count()
    }

    /// In how many of its runs it took hold, as words.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::None => String::new(),
            Self::Counter { arm, .. } if self.held() == arm.len() => {
                "; its counter moved in each of its runs only".to_owned()
            }
            Self::Counter { arm, .. } => format!(
                "; its counter moved in {} of its {} runs only: it does not take hold in each",
                self.held(),
                arm.len()
            ),
        }
    }
}
