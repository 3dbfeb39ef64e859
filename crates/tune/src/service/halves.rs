//! Which CPUs servers and their loads have.

use super::LoadShape;
use pagewise_kernel::{affinity, topology};
use pagewise_model::service::ServiceMode;

impl LoadShape {
    /// The halves of the CPUs for the server that started as this one, and for its load, in a window.
    pub(super) const fn halves(&self, at: usize, window: u32) -> [usize; 2] {
        let (slot, turn) = (self.slot as usize % 2, window as usize);
        match self.mode {
            ServiceMode::AtOnce => [slot, 1 - slot],
            ServiceMode::Duet => [(slot + at + turn) % 2; 2],
            ServiceMode::Restart | ServiceMode::Toggle => {
                [(slot + turn) % 2, (slot + turn + 1) % 2]
            }
        }
    }
}

/// The CPUs that we may use in two halves, hardware threads of one core together.
pub(super) fn halves() -> Option<[Vec<u32>; 2]> {
    let mut cpus = affinity::get(0).ok()?;
    cpus.sort_by_key(|cpu| (topology::siblings(*cpu).unwrap_or_default(), *cpu));
    let second = cpus.split_off(cpus.len() / 2);
    (!cpus.is_empty()).then_some([cpus, second])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_and_loads_have_their_halves() {
        let halves = |mode| {
            let shape = LoadShape { mode, windows: 2, slot: 1 };
            [0, 1].map(|window| [0, 1].map(|at| shape.halves(at, window)))
        };
        assert_eq!(halves(ServiceMode::AtOnce), [[[1, 0]; 2]; 2], "together, apart from the loads");
        assert_eq!(halves(ServiceMode::Duet), [[[1, 1], [0, 0]], [[0, 0], [1, 1]]]);
        assert_eq!(halves(ServiceMode::Restart).map(|window| window[0]), [[1, 0], [0, 1]]);
    }
}
