//! What written files show (`--write`): a mapping against write(2), and what it costs that the device has the bytes.
//!
//! The published study did not write. Its finding, that a mapping is faster than calls, is asked of writing here.

use super::{FileFindings, RatedCell, SAME};
use crate::stats::paired_figure;
use pagewise_model::bench::file::{BlockStore, FileBenchPart, FileCell, FilePoint, ReadWay};
use pagewise_model::bench::tlb::AccessOrder;
use pagewise_model::bench::{BenchClaim, ClaimEvidence, ClaimFigure};

/// With both waiting for the device, a time this near to the other is the same.
const AS_FAST: f64 = 0.05;

impl FileFindings<'_> {
    pub(super) fn written_claims(&self) -> Vec<BenchClaim> {
        let pairs = |store, range: fn(ClaimFigure) -> ClaimFigure| {
            let mapped = self.stored(ReadWay::Map, store);
            mapped.filter_map(move |point| {
                let (_, called) = self.readings.find(&point.cell.by(ReadWay::Read))?;
                times(called, point).map(range)
            })
        };
        let synced = self.stored(ReadWay::Read, BlockStore::Synced).filter_map(|point| {
            let cached = FileCell { store: Some(BlockStore::Cached), ..point.cell };
            let (_, cached) = self.readings.find(&cached)?;
            times(cached, point).map(|figure| figure.above(2.0))
        });
        let claims: [(&str, Vec<ClaimFigure>, &str); 3] = [
            (
                "a mapping is faster than write() to overwrite a cached file",
                pairs(BlockStore::Cached, |figure| figure.below(1.0)).collect(),
                "time of the mapping over that of write()",
            ),
            (
                "once msync() and fsync() wait for the device, both take the same time",
                pairs(BlockStore::Synced, |f| f.above(1.0 - AS_FAST).below(1.0 + AS_FAST))
                    .collect(),
                "time of the mapping with msync() over that of write() with fsync()",
            ),
            (
                "that the device has the bytes takes longer than writing them",
                synced.collect(),
                "time of write() with fsync() over that without",
            ),
        ];
        claims
            .into_iter()
            .filter_map(|(claim, figures, what)| judged(claim, figures, what))
            .collect()
    }

    /// The cells of one way of writing that did their work.
    fn stored(&self, arm: ReadWay, store: BlockStore) -> impl Iterator<Item = &FilePoint> {
        let all = self.whole(FileBenchPart::Blocks).map(|(_, point)| point);
        all.filter(move |point| (point.cell.arm, point.cell.store) == (arm, Some(store)))
    }

    /// The advice: the faster way for each order, once left in the cache and once synced.
    pub(super) fn written(&self) -> String {
        let best = |order, store| {
            let all = self.rated(FileBenchPart::Blocks).map(|(rated, _)| rated);
            let of = all.filter(|r| (r.cell.order, r.cell.store) == (order, Some(store)));
            let of: Vec<RatedCell> = of.collect();
            let fastest = |arm| {
                let same = of.iter().copied().filter(|r| r.cell.arm == arm);
                same.max_by(|a, b| a.rate.total_cmp(&b.rate))
            };
            let (called, mapped) = (fastest(ReadWay::Read)?, fastest(ReadWay::Map)?);
            let (one, other) =
                if mapped.rate > called.rate { (mapped, called) } else { (called, mapped) };
            Some(match one.rate / other.rate {
                gain if gain < 1.0 + SAME => format!("both {:.1} GiB/s", one.rate),
                gain => format!(
                    "{} {:.1} GiB/s, {gain:.1} times {}",
                    one.cell.way(),
                    one.rate,
                    other.cell.way()
                ),
            })
        };
        let orders = [(AccessOrder::Sequential, "in order"), (AccessOrder::Random, "at random")];
        let stores = [(BlockStore::Cached, ""), (BlockStore::Synced, ", on the device")];
        let told = stores.into_iter().flat_map(|(store, end)| {
            orders.map(|(order, name)| Some(format!("{name}{end}: {}", best(order, store)?)))
        });
        let told: Vec<String> = told.flatten().collect();
        match told.is_empty() {
            true => {
                "No verdict on writing: write() and a mapping were not both measured.".to_owned()
            }
            false => format!("To overwrite a cached file {}.", told.join("; ")),
        }
    }
}

/// The time of `second` over that of `first`, from the first call to the last.
fn times(first: &FilePoint, second: &FilePoint) -> Option<ClaimFigure> {
    let total = |point: &FilePoint| point.series(|sample| sample.total_ns().0 as f64);
    paired_figure(&total(second).log_ratios(&total(first)), "repeats of both")
}

fn judged(claim: &str, figures: Vec<ClaimFigure>, what: &str) -> Option<BenchClaim> {
    let estimates = || figures.iter().map(|figure| figure.estimate);
    let why = format!(
        "{what}: {:.2} to {:.2} (cells: {})",
        estimates().reduce(f64::min)?,
        estimates().reduce(f64::max)?,
        figures.len()
    );
    Some(BenchClaim::judged(claim, ClaimEvidence::Figures(figures), why))
}
