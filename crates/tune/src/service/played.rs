//! The observations of one server, for the pairs that it belongs to.

use pagewise_model::service::{Side, Window};

/// The observations of a server.
pub(super) struct Played {
    /// With the windows that count for every pair.
    pub(super) side: Side,
    /// The others, with the position of the arm of the pair.
    pub(super) apart: Vec<(usize, Window)>,
}

impl Played {
    /// In the pair with the arm at this position.
    pub(super) fn in_pair(&self, arm: usize) -> Side {
        let mut side = self.side.clone();
        let apart = self.apart.iter().filter(|(with, _)| *with == arm);
        side.windows.extend(apart.map(|(_, window)| window.clone()));
        side
    }
}
