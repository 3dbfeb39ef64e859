//! Which buffer and pipe suit a technique, from a grid over both sizes.
//!
//! Two rules compete. Bytes passed by reference only keep slots busy. A larger pipe lets each end do more
//! before it must wake the other, so the largest is best. Bytes touched at the far end move from cache to
//! cache. Bytes in flight must stay in the private cache of one core, together with the buffer they came
//! from, so at most half of that cache is best. The advice names the rule that applies and says whether the
//! grid confirms it. The grid decides.

use super::compare;
use pagewise_model::bench::pipe::{
    PipeBenchReport, PipeConsumption, PipePoint, PipeSizeAdvice, PointSpeed,
};
use pagewise_model::{Bytes, Fact};

/// Rates of at least this share of the best count as equally good if the repeats cannot separate them.
const AS_GOOD: f64 = 0.95;

/// Points that differ only in their sizes.
pub(super) struct PipeSizeGrid<'a> {
    pub(super) points: Vec<&'a PipePoint>,
}

/// The measured points of `ladder` by technique and consumption; only those with several sizes.
pub(super) fn grids(ladder: &PipeBenchReport) -> Vec<PipeSizeGrid<'_>> {
    let mut grids: Vec<PipeSizeGrid<'_>> = Vec::new();
    for point in ladder.points.iter().filter(|p| p.rate().is_some()) {
        let is_alike = |grid: &&mut PipeSizeGrid<'_>| {
            let first = grid.points[0];
            first.consumption == point.consumption && first.rung.is_alike(&point.rung)
        };
        match grids.iter_mut().find(is_alike) {
            Some(grid) => grid.points.push(point),
            None => grids.push(PipeSizeGrid { points: vec![point] }),
        }
    }
    grids.retain(|grid| grid.points.len() > 1);
    grids
}

impl PipeSizeGrid<'_> {
    /// The fastest point and its rate.
    pub(super) fn best(&self) -> Option<(&PipePoint, f64)> {
        let rated = self.points.iter().filter_map(|p| Some((*p, p.rate()?.median)));
        rated.max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// The slowest.
    pub(super) fn worst(&self) -> Option<(&PipePoint, f64)> {
        let rated = self.points.iter().filter_map(|p| Some((*p, p.rate()?.median)));
        rated.min_by(|a, b| a.1.total_cmp(&b.1))
    }

    fn largest_pipe(&self) -> Bytes {
        self.points.iter().map(|p| p.pipe_bytes).max().unwrap_or_default()
    }

    fn smallest_pipe(&self) -> Bytes {
        self.points.iter().map(|p| p.pipe_bytes).min().unwrap_or_default()
    }

    /// The smallest pipe with a point as good as `best`.
    fn enough(&self, best: &PipePoint, rate: f64) -> Bytes {
        let as_good = self.points.iter().filter(|point| {
            let close = point.rate().is_some_and(|r| r.median >= AS_GOOD * rate);
            close && compare(best, point).is_none_or(|c| c.pace != PointSpeed::Slower)
        });
        as_good.map(|p| p.pipe_bytes).min().unwrap_or(best.pipe_bytes)
    }
}

/// Sizes for each technique and consumption of a sweep.
pub(super) fn advise(ladder: &PipeBenchReport, l2: &Fact<Bytes>) -> Vec<PipeSizeAdvice> {
    grids(ladder).iter().filter_map(|grid| advise_one(grid, l2)).collect()
}

fn advise_one(grid: &PipeSizeGrid<'_>, l2: &Fact<Bytes>) -> Option<PipeSizeAdvice> {
    let (best, rate) = grid.best()?;
    let enough = grid.enough(best, rate);
    Some(PipeSizeAdvice {
        rung: best.technique(),
        consumption: best.consumption,
        buffer_bytes: best.rung.buffer_bytes,
        pipe_bytes: best.pipe_bytes,
        gib_per_s: rate,
        enough_pipe_bytes: enough,
        why: if grid.largest_pipe() == grid.smallest_pipe() {
            "all pipes of this grid have the same size".to_owned()
        } else if best.consumption == PipeConsumption::Untouched {
            untouched(grid, best)
        } else {
            touched(best.consumption, enough, l2)
        },
    })
}

fn untouched(grid: &PipeSizeGrid<'_>, best: &PipePoint) -> String {
    let largest = grid.largest_pipe();
    let rule = "the bytes are never read, so the largest pipe should be best";
    if best.pipe_bytes == largest {
        format!("{rule}, and it is")
    } else {
        format!("{rule}; here {} beats {largest}", best.pipe_bytes)
    }
}

fn touched(consumption: PipeConsumption, enough: Bytes, l2: &Fact<Bytes>) -> String {
    let what = match consumption {
        PipeConsumption::Touched => "the far end touches the bytes",
        _ => "the bytes are copied at the far end",
    };
    let Fact::Known(l2) = l2 else {
        return format!(
            "{what}, so they should fit half of one core's L2 cache, whose size is not known"
        );
    };
    let half = Bytes(l2.0 / 2);
    let rule =
        format!("{what}, so a pipe of half of one core's L2 cache ({half}) should be enough");
    if enough <= half {
        format!("{rule}, and it is")
    } else {
        format!("{rule}; here {enough} is needed")
    }
}
