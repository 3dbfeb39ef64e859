//! The observations of one server, for the pairs that it belongs to.

use pagewise_model::service::{ServerMeasurement, ServiceWindow};

/// The observations of a server.
pub(super) struct ServerObservations {
    /// With the windows that count for every pair.
    pub(super) side: ServerMeasurement,
    /// The others, with the position of the arm of the pair.
    pub(super) apart: Vec<(usize, ServiceWindow)>,
}

impl ServerObservations {
    /// In the pair with the arm at this position.
    pub(super) fn in_pair(&self, arm: usize) -> ServerMeasurement {
        let mut side = self.side.clone();
        let apart = self.apart.iter().filter(|(with, _)| *with == arm);
        side.windows.extend(apart.map(|(_, window)| window.clone()));
        side
    }
}
