//! Samples that a child takes: of mapped files and of pages of a pool, where a touch may raise `SIGBUS`,
//! and of memory that a fork shares.
//!
//! Each sample has a child of its own (`pagewise_kernel::worker`), which goes through the cycle twice: once
//! over a few pages, so that its own code, stack and tables are there, and once over all. It makes system
//! calls only; its figures come back one by one.

use super::spent::{Spent, Taken};
use crate::error::PriceError;
use pagewise_kernel::page_size;
use pagewise_kernel::worker::Worker;
use pagewise_model::{Bytes, Fact, Nanos, PageSize};
use rustix::io::Errno;

/// The request to go through the cycle; the others ask for a figure each.
const RUN: u64 = 0;
/// In place of a number of pages that could not be counted.
const UNKNOWN: u64 = u64::MAX;
/// Figures of a cycle.
const FIGURES: usize = 10;

/// One mapping: made, touched, given back.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cycle {
    pub(super) setup: Spent,
    pub(super) touch: Spent,
    pub(super) teardown: Spent,
    /// Base pages that were mapped before the touches.
    pub(super) present: Option<u64>,
}

impl Cycle {
    fn figures(&self) -> [u64; FIGURES] {
        let three = |spent: Spent| [spent.wall.0, spent.cpu.0, spent.faults];
        let ([a, b, c], [d, e, f]) = (three(self.setup), three(self.touch));
        let [g, h, i] = three(self.teardown);
        [a, b, c, d, e, f, g, h, i, self.present.unwrap_or(UNKNOWN)]
    }

    fn from_figures(figures: [u64; FIGURES]) -> Self {
        let spent = |at: usize| Spent {
            begin: Nanos(0),
            wall: Nanos(figures[at]),
            cpu: Nanos(figures[at + 1]),
            faults: figures[at + 2],
        };
        let present = Some(figures[FIGURES - 1]).filter(|pages| *pages != UNKNOWN);
        Self { setup: spent(0), touch: spent(3), teardown: spent(6), present }
    }

    /// As a sample on pages of this size.
    pub(super) fn taken(self, page: Fact<PageSize>) -> Taken {
        let base = page_size::base().bytes();
        let resident = self.present.map_or_else(
            || Fact::missing("/proc/self/pagemap could not be read"),
            |pages| Fact::Known(Bytes(pages.saturating_mul(base))),
        );
        let Self { setup, touch, teardown, .. } = self;
        Taken { setup, touch, teardown, resident, page }
    }
}

/// A child that goes through `cycle` when it is asked to: over `small` bytes, then over `len`.
pub(super) fn start(
    mut cycle: impl FnMut(usize) -> Result<Cycle, Errno>,
    small: usize,
    len: usize,
) -> Result<Worker, PriceError> {
    serve(move || {
        cycle(small)?;
        cycle(len).map(|last| last.figures())
    })
}

/// A child that does `work` when it is asked to, and then tells its figures one by one.
pub(super) fn serve<const N: usize>(
    mut work: impl FnMut() -> Result<[u64; N], Errno>,
) -> Result<Worker, PriceError> {
    let mut last = [0; N];
    let serve = move |request| {
        if request == RUN {
            last = work()?;
        }
        let figure = usize::try_from(request).ok().and_then(|nth| nth.checked_sub(1));
        // Exact: no figure is above 2^53, save the one that means none.
        Ok(figure.and_then(|nth| last.get(nth).copied()).unwrap_or(0) as f64)
    };
    Ok(Worker::start(serve)?)
}

/// Has the child work; its figures.
pub(super) fn figures<const N: usize>(worker: &Worker) -> Result<[u64; N], PriceError> {
    worker.ask(RUN)?;
    let mut figures = [0; N];
    for (nth, figure) in (1..).zip(&mut figures) {
        *figure = worker.ask(nth)? as u64;
    }
    Ok(figures)
}

/// The cycle over all, as the child went through it.
pub(super) fn run(worker: &Worker) -> Result<Cycle, PriceError> {
    figures(worker).map(Cycle::from_figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_come_back_as_they_were() {
        let spent = |n| Spent { begin: Nanos(0), wall: Nanos(n), cpu: Nanos(n + 1), faults: n + 2 };
        let (setup, touch, teardown) = (spent(1), spent(1 << 40), spent(7));
        for present in [None, Some(0), Some(99)] {
            let cycle = Cycle { setup, touch, teardown, present };
            let mut calls = 0;
            let serve = |len| {
                calls += 1;
                Ok(if (calls, len) == (2, 2) { cycle } else { Cycle::default() })
            };
            let back = run(&start(serve, 1, 2).expect("a child")).expect("a cycle");
            assert_eq!(back.figures(), cycle.figures());
        }
    }

    #[test]
    fn an_error_of_the_child_is_told() {
        let worker = start(|_| Err(Errno::NOMEM), 1, 2).expect("a child");
        let error = run(&worker).expect_err("no memory");
        assert!(matches!(error, PriceError::Sys(e) if e.errno() == Some(libc::ENOMEM)));
    }
}
