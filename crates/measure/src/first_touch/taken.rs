//! What came of one mapping, whoever made it.

use super::spent::Spent;
use pagewise_model::first_touch::Sample;
use pagewise_model::{Bytes, Fact, PageSize};

/// The parts of one sample.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Taken {
    pub(super) setup: Spent,
    pub(super) touch: Spent,
    pub(super) teardown: Spent,
    /// What was mapped before the touches.
    pub(super) resident: Fact<Bytes>,
    /// The size of the pages.
    pub(super) page: Fact<PageSize>,
}

impl Taken {
    /// As it is saved: of this repeat, at this place of the order.
    pub(super) fn sample(&self, repeat: u32, place: u32) -> Sample {
        Sample {
            repeat,
            place,
            setup_ns: self.setup.wall,
            touch_ns: self.touch.wall,
            teardown_ns: self.teardown.wall,
            cpu_ns: self.setup.cpu + self.touch.cpu + self.teardown.cpu,
            setup_faults: self.setup.faults,
            touch_faults: self.touch.faults,
            resident_bytes: self.resident.clone(),
        }
    }
}
