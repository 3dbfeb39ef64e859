//! One sample: a fresh mapping, proven to be on pages of the size asked for before and behind, and one way on
//! pieces of one size of it.
//!
//! One turn goes before; another says how many make up a piece of time. Five such pieces are timed, the sample
//! is their median.

use super::means::{Means, Turn};
use crate::error::PriceError;
use crate::kinds::Kinds;
use crate::sample::Stop;
use pagewise_model::pin::Way;
use pagewise_model::walk::PageKind;
use pagewise_model::{Bytes, Measured, Nanos, PageSize};

/// Timed pieces.
pub(super) const PIECES: u32 = 5;
/// Most turns of a piece.
const MOST: f64 = 100_000.0;

/// What to measure.
#[derive(Debug, Clone, Copy)]
pub(super) struct Job {
    pub(super) way: Way,
    pub(super) pages: PageKind,
    pub(super) size: Bytes,
    pub(super) region: Bytes,
    pub(super) kinds: Kinds,
    /// Time of a piece.
    pub(super) piece: Nanos,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Taken {
    pub(super) call_ns: f64,
    pub(super) release_ns: f64,
    pub(super) within_share: f64,
    pub(super) page: PageSize,
}

/// Takes the sample on the calling thread, which should be pinned.
pub(super) fn take(job: &Job, stop: Stop<'_>) -> Result<Taken, PriceError> {
    stop.check()?;
    let too_large = || PriceError::Unavailable(format!("{} do not fit memory", job.size));
    let size = usize::try_from(job.size.0).map_err(|_| too_large())?;
    let mut region = job.kinds.map(job.pages, job.region)?;
    region.populate()?;
    job.kinds.prove(job.pages, &region)?;
    let mut means = Means::new(job.way, size)?;
    means.turn(&region, size)?;
    let once = means.turn(&region, size)?;
    let once_ns = (once.call_ns + once.release_ns).max(1.0);
    let turns = (job.piece.0 as f64 / once_ns).clamp(1.0, MOST) as u64;
    let mut pieces = Vec::with_capacity(PIECES as usize);
    for _ in 0..PIECES {
        stop.check()?;
        let mut piece = Turn::default();
        for _ in 0..turns {
            piece += means.turn(&region, size)?;
        }
        pieces.push(piece);
    }
    let page = job.kinds.prove(job.pages, &region)?;
    let of = |figure: fn(&Turn) -> f64| {
        let values: Vec<f64> = pieces.iter().map(|p| figure(p) / p.calls.max(1) as f64).collect();
        Measured::of(&values).ok_or(PriceError::NoRepeat { price: "pinning" })
    };
    let (call, release) = (of(|turn| turn.call_ns)?, of(|turn| turn.release_ns)?);
    let whole = of(|turn| turn.call_ns + turn.release_ns)?;
    Ok(Taken {
        call_ns: call.median,
        release_ns: release.median,
        within_share: whole.spread_share(),
        page,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_times_and_a_proven_page() {
        let job = Job {
            way: Way::Copy,
            pages: PageKind::Base,
            size: Bytes::kib(64),
            region: Bytes::mib(2),
            kinds: Kinds::here(),
            piece: Nanos(1000),
        };
        let taken = std::thread::spawn(move || take(&job, Stop(&|| false)));
        let taken = taken.join().expect("no panic").expect("memory");
        assert!(taken.call_ns > 0.0 && taken.release_ns == 0.0, "{taken:?}");
        assert_eq!(taken.page, Kinds::here().base());
        let stopped = std::thread::spawn(move || take(&job, Stop(&|| true)));
        assert!(matches!(stopped.join().expect("no panic"), Err(PriceError::Interrupted)));
    }
}
