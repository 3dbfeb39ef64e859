//! CPUs for the two processes.

use pagewise_kernel::{affinity, topology};
use pagewise_model::bench::pipe::Placement;

/// Where producer and consumer run; none where the scheduler chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seats {
    pub(super) writer: Option<u32>,
    pub(super) reader: Option<u32>,
}

/// CPUs that we may use, each with the first hardware thread of its core.
#[derive(Debug, Clone)]
pub(super) struct Cpus(Vec<(u32, u32)>);

impl Cpus {
    /// Those of this process. A core that the kernel does not tell of is taken to have one thread.
    pub(super) fn allowed() -> Self {
        let cpus = affinity::get(0).unwrap_or_default();
        let core = |cpu| topology::siblings(cpu).ok().and_then(|s| s.first().copied());
        Self(cpus.into_iter().map(|cpu| (cpu, core(cpu).unwrap_or(cpu))).collect())
    }

    /// The first CPU.
    pub(super) fn first(&self) -> Option<u32> {
        self.0.first().map(|(cpu, _)| *cpu)
    }

    /// Seats for a placement, or why there are none.
    pub(super) fn seats(&self, placement: Placement) -> Result<Seats, String> {
        let pinned = |writer, reader| Seats { writer: Some(writer), reader: Some(reader) };
        let (first, core) = *self.0.first().ok_or("no CPU is available")?;
        let partner = |same: bool| {
            let others = self.0.iter().skip(1);
            others.filter(|(_, c)| (*c == core) == same).map(|(cpu, _)| *cpu).next()
        };
        match placement {
            Placement::Free => Ok(Seats { writer: None, reader: None }),
            Placement::SameCore => Ok(pinned(first, first)),
            Placement::TwoCores => partner(false)
                .map(|second| pinned(first, second))
                .ok_or_else(|| "only one core may be used here".to_owned()),
            Placement::Siblings => partner(true)
                .map(|second| pinned(first, second))
                .ok_or_else(|| "the first core has only one hardware thread".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seats_by_cores() {
        let two_threads = Cpus(vec![(2, 2), (3, 2), (4, 4), (5, 4)]);
        let seats = |placement| two_threads.seats(placement).map(|s| (s.writer, s.reader));
        assert_eq!(seats(Placement::SameCore), Ok((Some(2), Some(2))));
        assert_eq!(seats(Placement::Siblings), Ok((Some(2), Some(3))));
        assert_eq!(seats(Placement::TwoCores), Ok((Some(2), Some(4))));
        assert_eq!(seats(Placement::Free), Ok((None, None)));
        let single = Cpus(vec![(0, 0), (1, 1)]);
        assert!(single.seats(Placement::Siblings).is_err());
        assert!(Cpus(vec![(0, 0)]).seats(Placement::TwoCores).is_err());
        assert!(Cpus(Vec::new()).seats(Placement::SameCore).is_err());
    }
}
