//! One price for several sizes of transfer, as a call and its bytes do not grow together.

use crate::error::PriceError;
use crate::sample::{Probe, Series};
use pagewise_model::Bytes;
use pagewise_model::price::TransferPoint;

/// A probe of transfers of one size; a repeat is in ns per transfer.
pub(crate) trait Transfer: Probe + Sized {
    /// Bytes of one transfer.
    fn bytes(&self) -> usize;
}

/// Repeats of all sizes.
#[derive(Debug)]
pub(crate) struct Transfers<P>(Vec<Series<P>>);

impl<P: Transfer> Transfers<P> {
    /// Starts a series of each size, given smallest first.
    pub(crate) fn start(sizes: impl IntoIterator<Item = Result<P, PriceError>>) -> Self {
        Self(sizes.into_iter().map(Series::start).collect())
    }

    /// Takes one repeat of each size.
    pub(crate) fn step(&mut self) {
        self.0.iter_mut().for_each(Series::step);
    }

    /// The prices, by growing size.
    pub(crate) fn finish(self) -> Result<Vec<TransferPoint>, PriceError> {
        let mut points = Vec::with_capacity(self.0.len());
        for series in self.0 {
            let size = series.probe().map_or(0, |probe| probe.bytes() as u64);
            let transfer_ns = series.finish()?;
            points.push(TransferPoint { transfer_bytes: Bytes(size), transfer_ns });
        }
        // Where a pipe holds two pages only, or these are 64 KiB, two of the sizes are one.
        points.dedup_by(|next, before| next.transfer_bytes <= before.transfer_bytes);
        Ok(points)
    }
}
