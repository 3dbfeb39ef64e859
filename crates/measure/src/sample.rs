//! Repeats of one price.
//!
//! A probe owns its resources (buffers, pipes, files) and takes one repeat at a time. A session cycles
//! through all probes, so that a disturbance of some milliseconds hits one repeat of a few prices instead of
//! all repeats of one. The median then ignores it.

use crate::error::PriceError;
use pagewise_kernel::clock;
use pagewise_model::price::TransferPoint;
use pagewise_model::{Bytes, Fact, Measured};
use std::time::Instant;

/// Whether the caller wants no more; asked between pieces of at most a second.
#[derive(Clone, Copy)]
pub(crate) struct StopCheck<'a>(pub(crate) &'a (dyn Fn() -> bool + Sync));

impl StopCheck<'_> {
    /// Returns normally, or with [`PriceError::Interrupted`].
    pub(crate) fn check(self) -> Result<(), PriceError> {
        if (self.0)() { Err(PriceError::Interrupted) } else { Ok(()) }
    }
}

/// The resources for one repeat of one price.
pub(crate) trait PriceProbe {
    /// Name, for errors.
    const NAME: &'static str;
    /// One repeat, in the unit of the price.
    fn measure_once(&mut self) -> Result<f64, PriceError>;
}

/// A probe with its repeats so far. A probe that fails keeps its first error and is skipped from then on.
#[derive(Debug)]
pub(crate) struct ProbeSeries<P> {
    probe: Result<P, PriceError>,
    values: Vec<f64>,
}

impl<P: PriceProbe> ProbeSeries<P> {
    /// Starts a series. The first repeat warms code, caches and page tables, and is not counted.
    pub(crate) fn start(probe: Result<P, PriceError>) -> Self {
        let mut series = Self { probe, values: Vec::new() };
        series.step();
        series.values.clear();
        series
    }

    /// Takes one repeat.
    pub(crate) fn step(&mut self) {
        let Ok(probe) = &mut self.probe else { return };
        match probe.measure_once() {
            Ok(value) if value.is_finite() && value > 0.0 => self.values.push(value),
            Ok(_) => {}
            Err(error) => self.probe = Err(error),
        }
    }

    /// The probe, or why it failed.
    pub(crate) fn probe(&self) -> Option<&P> {
        self.probe.as_ref().ok()
    }

    pub(crate) fn finish(self) -> Result<Measured, PriceError> {
        self.probe?;
        Measured::from_values(&self.values).ok_or(PriceError::NoRepeat { price: P::NAME })
    }

    /// The price, or why it is missing.
    pub(crate) fn finish_fact(self) -> Fact<Measured> {
        self.finish().into()
    }
}

/// Nanoseconds of CPU time that `work` took from this thread, with its result: what others did on
/// this CPU meanwhile is not in it. One system call before and one after.
pub(crate) fn time_cpu<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let start = clock::thread_cpu();
    let result = work();
    (clock::thread_cpu().0.saturating_sub(start.0) as f64, result)
}

/// Nanoseconds on the wall clock that `work` took, with its result.
pub(crate) fn time<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let start = Instant::now();
    let result = work();
    (start.elapsed().as_nanos() as f64, result)
}

// One price for several transfer sizes, because a call and its bytes do not grow together.

/// A probe of transfers of one size; a repeat is in ns per transfer.
pub(crate) trait TransferProbe: PriceProbe + Sized {
    /// Bytes of one transfer.
    fn bytes(&self) -> usize;
}

/// Repeats of all sizes.
#[derive(Debug)]
pub(crate) struct TransferSeries<P>(Vec<ProbeSeries<P>>);

impl<P: TransferProbe> TransferSeries<P> {
    /// Starts a series for each size. `sizes` must be sorted, smallest first.
    pub(crate) fn start(sizes: impl IntoIterator<Item = Result<P, PriceError>>) -> Self {
        Self(sizes.into_iter().map(ProbeSeries::start).collect())
    }

    /// Takes one repeat of each size.
    pub(crate) fn step(&mut self) {
        self.0.iter_mut().for_each(ProbeSeries::step);
    }

    /// The prices, by growing size.
    pub(crate) fn finish(self) -> Result<Vec<TransferPoint>, PriceError> {
        let mut points = Vec::with_capacity(self.0.len());
        for series in self.0 {
            let size = series.probe().map_or(0, |probe| probe.bytes() as u64);
            let transfer_ns = series.finish()?;
            points.push(TransferPoint { transfer_bytes: Bytes(size), transfer_ns });
        }
        // If a pipe holds only two pages, or these are 64 KiB, two of the sizes are equal.
        points.dedup_by(|next, before| next.transfer_bytes <= before.transfer_bytes);
        Ok(points)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Script(Vec<Option<f64>>);

    impl PriceProbe for Script {
        const NAME: &'static str = "script";
        fn measure_once(&mut self) -> Result<f64, PriceError> {
            self.0.pop().flatten().ok_or_else(|| PriceError::Unavailable("over".to_owned()))
        }
    }

    #[test]
    fn the_first_repeat_is_not_counted_and_nonsense_is_dropped() {
        let script = vec![Some(3.0), Some(f64::NAN), Some(0.0), Some(1.0), Some(99.0)];
        let mut series = ProbeSeries::start(Ok(Script(script)));
        (0..4).for_each(|_| series.step());
        let measured = series.finish().expect("two repeats");
        assert_eq!((measured.n, measured.min, measured.max), (2, 1.0, 3.0));
    }

    #[test]
    fn a_failure_is_the_reason() {
        let mut series = ProbeSeries::start(Ok(Script(vec![Some(1.0), Some(1.0)])));
        series.step();
        series.step();
        assert_eq!(series.finish_fact().reason(), Some("over"));
    }
}
