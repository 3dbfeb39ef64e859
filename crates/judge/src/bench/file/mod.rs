//! What readings show: which cells did the work they were asked for, what every way costs against read(),
//! where the time goes, which findings of the published study hold, and what to do on this machine.
//!
//! The entry is [`judge`]. It is pure, so saved readings are judged again with the same result. A cell whose
//! ledger differs from its work is not compared.
//!
//! Every way is compared with read() of the same blocks, from the first call to the last. Times of unequal
//! work are not compared. The published benchmark once walked half of its file but divided by the whole. It
//! also drew random blocks with replacement, and mapped the file before its clock started.
//!
//! Not seen: what a program does with its bytes after it has them.

mod account;
mod claims;
mod prices;
mod writing;

use crate::stats::paired_ratio;
use pagewise_model::bench::file::{
    CacheResidency, FileBenchPart, FileBenchReport, FileCell, FileJudgement, FilePoint, FileRatio,
    FileTimeAccount, ReadLedger, ReadWay, RefusedCell,
};
use pagewise_model::bench::tlb::AccessOrder;

/// Ways within this share of the best are as good.
const SAME: f64 = 0.03;

/// All conclusions from `readings`.
#[must_use]
pub fn judge(readings: &FileBenchReport) -> FileJudgement {
    let (ratios, accounts) = (Vec::new(), Vec::new());
    let mut found = FileFindings { readings, refusals: refusals(readings), ratios, accounts };
    let points = || readings.points.iter().enumerate();
    found.ratios = points().filter_map(|(at, point)| found.ratio(at, point)).collect();
    found.accounts = found.accounts();
    let claims = found.claims();
    let advice = match readings.is_written() {
        true => vec![found.written()],
        false => vec![found.warm(), found.cold(), found.kept()],
    };
    let FileFindings { refusals, ratios, accounts, .. } = found;
    FileJudgement { refusals, ratios, accounts, claims, advice }
}

/// Every point whose ledger does not match its work, with the difference.
pub(crate) fn refusals(readings: &FileBenchReport) -> Vec<RefusedCell> {
    let refusal = |(point, it): (usize, &FilePoint)| {
        let asked = readings.asked(&it.cell);
        let why = it.samples.iter().find_map(|sample| match asked {
            Some(asked) => difference(&asked, &sample.ledger),
            None => Some("its expected checksum is not known".to_owned()),
        })?;
        Some(RefusedCell { point, why })
    };
    readings.points.iter().enumerate().filter_map(refusal).collect()
}

/// How the found ledger differs from the expected one. `None` if they are equal.
fn difference(asked: &ReadLedger, found: &ReadLedger) -> Option<String> {
    let of = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
    if found.bytes != asked.bytes || found.blocks != asked.blocks {
        let share = of(found.bytes.0, asked.bytes.0);
        return Some(format!("it read {} of {} ({share:.0}%)", found.bytes, asked.bytes));
    }
    if found.distinct_blocks != asked.distinct_blocks {
        let share = of(found.distinct_blocks, asked.distinct_blocks);
        let (seen, all) = (found.distinct_blocks, asked.distinct_blocks);
        return Some(format!(
            "it touched {seen} of {all} blocks ({share:.0}%), some more than once"
        ));
    }
    if found.checksum != asked.checksum {
        return Some("its checksum is wrong: blocks were missing or different".to_owned());
    }
    (found.mapped_before_bytes != asked.mapped_before_bytes)
        .then(|| format!("{} was mapped before its clock started", found.mapped_before_bytes))
}

/// The intermediate results.
struct FileFindings<'a> {
    readings: &'a FileBenchReport,
    refusals: Vec<RefusedCell>,
    ratios: Vec<FileRatio>,
    accounts: Vec<FileTimeAccount>,
}

impl FileFindings<'_> {
    /// Whether a point did what it was asked for.
    fn is_whole(&self, at: usize) -> bool {
        !self.refusals.iter().any(|refusal| refusal.point == at)
    }

    /// The points of a part that did.
    fn whole(&self, part: FileBenchPart) -> impl Iterator<Item = (usize, &FilePoint)> {
        self.readings.part(part).filter(move |(at, _)| self.is_whole(*at))
    }

    /// A way against read() of the same blocks, where both did equal work.
    fn ratio(&self, at: usize, point: &FilePoint) -> Option<FileRatio> {
        let (base, read) = self.readings.find(&point.cell.by(ReadWay::Read))?;
        if base == at || !self.is_whole(at) || !self.is_whole(base) {
            return None;
        }
        let total = |point: &FilePoint| point.series(|sample| sample.total_ns().0 as f64);
        let logs = total(point).log_ratios(&total(read));
        let (ratio, interval) = paired_ratio(&logs, "repeats of both")?;
        Some(FileRatio { point: at, base, ratio, interval })
    }
}

/// A way with its rate, GiB/s from the first call to the last.
#[derive(Clone, Copy)]
struct RatedCell {
    cell: FileCell,
    rate: f64,
}

impl FileFindings<'_> {
    /// The points of a part that did what they were asked for, with their rates.
    fn rated(&self, part: FileBenchPart) -> impl Iterator<Item = (RatedCell, &FilePoint)> {
        self.whole(part).filter_map(|(_, point)| {
            let rate = point.rate_gib_per_s()?.median;
            Some((RatedCell { cell: point.cell, rate }, point))
        })
    }

    /// The fastest way for one order and residency, over all blocks, among those that `which` takes.
    fn best(
        &self,
        order: AccessOrder,
        residency: CacheResidency,
        which: fn(ReadWay) -> bool,
    ) -> Option<RatedCell> {
        let all = self.rated(FileBenchPart::Blocks).map(|(rated, _)| rated);
        let here = all.filter(|r| {
            r.cell.order == order && r.cell.residency == residency && which(r.cell.arm)
        });
        here.max_by(|a, b| a.rate.total_cmp(&b.rate))
    }

    fn warm(&self) -> String {
        let part = |order: AccessOrder| {
            let copied = self.best(order, CacheResidency::Warm, |arm| !arm.is_mapped())?;
            let mapped = self.best(order, CacheResidency::Warm, ReadWay::is_mapped)?;
            Some((copied, mapped))
        };
        let clause = |(copied, mapped): (RatedCell, RatedCell)| {
            let (better, other) =
                if mapped.rate > copied.rate { (mapped, copied) } else { (copied, mapped) };
            let gain = better.rate / other.rate;
            let than = format!("{} {:.1}", other.cell.arm.into_str(), other.rate);
            if gain < 1.0 + SAME {
                return format!("calls and mappings are as fast ({:.1} GiB/s)", better.rate);
            }
            format!(
                "{} in blocks of {} gives {:.1} GiB/s, {gain:.1} times {than}",
                better.cell.arm.name(),
                better.cell.block_bytes,
                better.rate
            )
        };
        match (part(AccessOrder::Sequential), part(AccessOrder::Random)) {
            (Some(in_order), Some(random)) => format!(
                "To read a cached file once in order: {}; at random: {}.",
                clause(in_order),
                clause(random)
            ),
            (Some(one), None) => format!("To read a cached file once in order: {}.", clause(one)),
            (None, Some(one)) => format!("To read a cached file once at random: {}.", clause(one)),
            (None, None) => {
                "No verdict on cached files: calls and mappings were not both measured.".to_owned()
            }
        }
    }

    fn cold(&self) -> String {
        let any = |order| self.best(order, CacheResidency::Cold, |_| true);
        let clause = |best: RatedCell, order: &str| {
            format!("{order} {} ({:.2} GiB/s)", best.cell.arm.into_str(), best.rate)
        };
        let found =
            [(any(AccessOrder::Sequential), "in order"), (any(AccessOrder::Random), "at random")];
        let clauses: Vec<String> =
            found.into_iter().filter_map(|(best, order)| Some(clause(best?, order))).collect();
        if clauses.is_empty() {
            let why =
                self.readings.points.iter().filter(|p| p.cell.residency == CacheResidency::Cold);
            let why = why.filter_map(|point| point.refused.as_deref()).next();
            return format!("No verdict on uncached files: {}.", why.unwrap_or("none was read"));
        }
        format!("To read an uncached file, the fastest way is {}.", clauses.join(", "))
    }

    /// What a mapping is worth that is kept over several passes.
    fn kept(&self) -> String {
        let passes = |which: fn(ReadWay) -> bool| {
            let all = self.rated(FileBenchPart::Passes).filter(|(rated, _)| which(rated.cell.arm));
            let rated = all.filter_map(|(rated, point)| {
                let last = rated.cell.passes.checked_sub(1)? as usize;
                let (first, last) = (point.pass_gib_per_s(0)?, point.pass_gib_per_s(last)?);
                Some((rated.cell.arm, first.median, last.median))
            });
            rated.max_by(|a, b| a.2.total_cmp(&b.2))
        };
        let (Some(read), Some(mapped)) =
            (passes(|arm| !arm.is_mapped()), passes(ReadWay::is_mapped))
        else {
            return "No verdict on files that are read again: no passes were measured.".to_owned();
        };
        let is_worth = mapped.2 > read.2 * (1.0 + SAME);
        let advice = if is_worth {
            "Keep the mapping of a file that you read again"
        } else {
            "Do not keep a mapping only for later passes"
        };
        format!(
            "{advice}: {} goes from {:.1} GiB/s in the first pass to {:.1} in the last, {} from {:.1} to \
             {:.1}.",
            mapped.0.name(),
            mapped.1,
            mapped.2,
            read.0.name(),
            read.1,
            read.2
        )
    }
}

#[cfg(test)]
mod tests;
