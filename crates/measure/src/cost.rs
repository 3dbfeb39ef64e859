//! What a plan of fresh mappings takes: told before anything is begun.

use pagewise_model::{Bytes, Nanos};

/// Time beyond what is expected after which the whole is stopped.
const PATIENCE: Nanos = Nanos::secs(20);
/// The short form is stopped after this.
const QUICK: Nanos = Nanos::secs(18);

/// What a plan takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// Points.
    pub points: u64,
    /// Fresh mappings that will be made.
    pub mappings: u64,
    /// About how long it takes.
    pub about_ns: Nanos,
    /// When it is stopped, finished or not.
    pub cap_ns: Nanos,
    /// Most memory taken at a time.
    pub memory_bytes: Bytes,
}

impl Cost {
    /// Of `points` with `repeats` mappings each, which take `about` so long; less patience with the
    /// short form.
    pub(crate) fn of(points: usize, repeats: u32, about: Nanos, is_quick: bool) -> Self {
        let patient = Nanos(about.0.saturating_mul(2)) + PATIENCE;
        Self {
            points: points as u64,
            mappings: points as u64 * u64::from(repeats),
            about_ns: about,
            cap_ns: if is_quick { QUICK } else { patient },
            memory_bytes: Bytes(0),
        }
    }

    /// The same, which takes at most so much memory at a time.
    pub(crate) const fn with_memory(self, memory_bytes: Bytes) -> Self {
        Self { memory_bytes, ..self }
    }
}
