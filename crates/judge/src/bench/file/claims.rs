//! What the published study (mmap against system calls, 2019) found, what holds here and why it differs, and
//! what the study's errors would show.
//!
//! Its cells are a read and a mapping with a copy, in blocks of 4, 8 and 16 KiB, in order and at random,
//! warm. Its clock did not see the unmapping, and since its last change not the mapping either. Here both are
//! counted.

use super::FileFindings;
use crate::stats::{interval_text, paired_figure};
use pagewise_model::bench::file::{
    BenchmarkFlaw, CacheResidency, CopyWay, FileBenchPart, FileCell, FilePoint, FileRatio,
    FileSample, FileTimeAccount, FileWork, ReadWay, RefusedCell,
};
use pagewise_model::bench::tlb::AccessOrder;
use pagewise_model::bench::{BenchClaim, ClaimAnswer, ClaimEvidence, ClaimFigure};
use pagewise_model::measured::median;
use pagewise_model::{Bytes, Fact};

/// The study found mappings this many times as fast as calls.
const FASTER: (f64, f64) = (2.0, 6.0);
/// Shares of the time that it gave, and how far off another is the same.
const MAPPING: f64 = 0.36;
const COPY: f64 = 0.60;
const NEAR: f64 = 0.10;
/// Shares of the time that it explained, of read() and of the mapping.
const EXPLAINED: (f64, f64) = (0.82, 0.96);
/// A pass, or a copy, as fast as another.
const SAME: f64 = 0.05;
/// A later pass takes no faults if it takes fewer than one for this many faults of the first.
const FEW: u64 = 50;

impl FileFindings<'_> {
    /// All claims for which there are cells.
    pub(super) fn claims(&self) -> Vec<BenchClaim> {
        if self.readings.is_written() {
            return self.written_claims();
        }
        let all = [
            self.faster(),
            self.mapping(),
            self.copying(),
            self.explained(),
            self.populating(),
            self.again(),
            self.unchanged(),
            self.vectors(),
        ];
        all.into_iter().flatten().chain(self.slips()).collect()
    }

    /// The largest of the study's blocks that was read warm and in order by this way.
    fn usual(&self, arm: ReadWay) -> Option<(usize, &FilePoint)> {
        let of = self.whole(FileBenchPart::Blocks).filter(|(_, point)| {
            let cell = &point.cell;
            cell.arm == arm
                && cell.order == AccessOrder::Sequential
                && cell.residency == CacheResidency::Warm
                && !point.samples.is_empty()
        });
        of.max_by_key(|(_, point)| point.cell.block_bytes)
    }

    fn account(&self, arm: ReadWay) -> Option<&FileTimeAccount> {
        let (at, _) = self.usual(arm)?;
        self.accounts.iter().find(|account| account.point == at)
    }

    fn faster(&self) -> Option<BenchClaim> {
        let is_warm_copy =
            |cell: &FileCell| cell.arm == ReadWay::Map && cell.residency == CacheResidency::Warm;
        let of = |ratio: &&FileRatio| {
            let point = self.readings.points.get(ratio.point);
            point.is_some_and(|point| {
                point.cell.part == FileBenchPart::Blocks && is_warm_copy(&point.cell)
            })
        };
        let times = |ratio: &FileRatio| {
            let inverse = |(low, high): (f64, f64)| (1.0 / high, 1.0 / low);
            let interval = ratio.interval.clone().map(inverse);
            let repeats = self.readings.points.get(ratio.point)?.samples.len() as u64;
            let figure = ClaimFigure::new(1.0 / ratio.ratio, interval, repeats);
            Some(figure.above(FASTER.0).below(FASTER.1))
        };
        let times: Vec<ClaimFigure> = self.ratios.iter().filter(of).filter_map(times).collect();
        let estimates = || times.iter().map(|figure| figure.estimate);
        let why = format!(
            "here {:.2} to {:.2} times (cells: {}), from open to close; the study did not time unmapping, and its loop over the mapping once ended half way",
            estimates().reduce(f64::min)?,
            estimates().reduce(f64::max)?,
            times.len()
        );
        let claim = "a mapping with a copy is 2 to 6 times as fast as read() on a cached file";
        Some(BenchClaim::judged(claim, ClaimEvidence::Figures(times), why))
    }

    /// A share of the undisturbed time, by counts and prices. Its interval reaches to what the same parts are of
    /// the time of the processes as they were.
    fn share(&self, arm: ReadWay, of: impl Fn(&FileTimeAccount) -> f64) -> Option<ClaimFigure> {
        let (_, point) = self.usual(arm)?;
        let account = self.account(arm)?;
        let gib = point.cell.total_bytes().0 as f64 / Bytes::gib(1).0 as f64;
        let beside = |ns: f64| {
            let per_gib_ns = ns / gib;
            let told = account.per_gib_ns - account.unexplained_per_gib_ns;
            let unexplained_per_gib_ns = per_gib_ns - told;
            of(&FileTimeAccount { per_gib_ns, unexplained_per_gib_ns, ..account.clone() })
        };
        let positive = |share: f64| share.max(f64::EPSILON).ln();
        let shares = point.series(|s| positive(beside(s.total_ns().0 as f64))).values();
        let mut figure = paired_figure(&shares, "processes")?;
        figure.estimate = of(account);
        if let Fact::Known((low, high)) = &mut figure.interval {
            (*low, *high) = (low.min(figure.estimate), high.max(figure.estimate));
        }
        Some(figure)
    }

    fn mapping(&self) -> Option<BenchClaim> {
        let share =
            self.share(ReadWay::Map, |a| a.share(&[FileWork::Faults, FileWork::Populate]))?;
        let unmapping = self.account(ReadWay::Map)?.share(&[FileWork::Unmap, FileWork::Open]);
        let why = format!(
            "here {}, and {:.0}% more for unmapping and opening, which the study did not count",
            share_text(&share),
            100.0 * unmapping
        );
        let evidence = ClaimEvidence::figure(share.above(MAPPING - NEAR).below(MAPPING + NEAR));
        let claim = "mapping pages is 36% of the time of a mapping with a copy";
        Some(BenchClaim::judged(claim, evidence, why))
    }

    fn copying(&self) -> Option<BenchClaim> {
        let share = self.share(ReadWay::Read, |a| a.share(&[FileWork::KernelCopy]))?;
        let account = self.account(ReadWay::Read)?;
        let [entry, lookup] =
            [FileWork::Entry, FileWork::Lookup].map(|work| 100.0 * account.share(&[work]));
        let why = format!("here {}, {entry:.0}% and {lookup:.0}%", share_text(&share));
        let evidence = ClaimEvidence::figure(share.above(COPY - NEAR).below(COPY + NEAR));
        let claim =
            "read() spends 60% on the copy, 15% on crossing into the kernel, 6 to 8% on lookup";
        Some(BenchClaim::judged(claim, evidence, why))
    }

    fn explained(&self) -> Option<BenchClaim> {
        let share =
            |arm, least| Some(self.share(arm, FileTimeAccount::explained_share)?.above(least));
        let (read, mapped) =
            (share(ReadWay::Read, EXPLAINED.0)?, share(ReadWay::Map, EXPLAINED.1)?);
        let why = format!(
            "here {} and {}, by counts times prices measured before",
            share_text(&read),
            share_text(&mapped)
        );
        let claim = "82% of the time of read() and 96% of that of a mapping can be explained";
        Some(BenchClaim::judged(claim, ClaimEvidence::Figures(vec![read, mapped]), why))
    }

    fn populating(&self) -> Option<BenchClaim> {
        let (plain, populated) = (self.usual(ReadWay::Map)?.1, self.usual(ReadWay::MapPopulate)?.1);
        if plain.cell.by(ReadWay::MapPopulate) != populated.cell {
            return None;
        }
        let all: fn(&FileSample) -> f64 = |s| s.total_ns().0 as f64;
        let inner: fn(&FileSample) -> f64 = |s| s.use_ns().0 as f64;
        let logs = populated.series(all).log_ratios(&plain.series(all));
        let figure = paired_figure(&logs, "processes of both")?.below(1.0 - MAPPING + NEAR);
        let why = format!(
            "the loop goes from {:.0} to {:.0} ms per GiB, the total from {:.0} to {:.0}, {:.2} times{}: the cost moves to the set-up",
            plain.ms_per_gib(inner)?,
            populated.ms_per_gib(inner)?,
            plain.ms_per_gib(all)?,
            populated.ms_per_gib(all)?,
            figure.estimate,
            interval_text(&figure.interval)
        );
        let claim = "MAP_POPULATE removes the cost of mapping";
        Some(BenchClaim::judged(claim, ClaimEvidence::figure(figure), why))
    }

    /// The passes of a way, and the number of the last.
    fn passes(&self, arm: ReadWay) -> Option<(&FilePoint, usize)> {
        let (_, point) = self.whole(FileBenchPart::Passes).find(|(_, p)| p.cell.arm == arm)?;
        let last = (point.cell.passes as usize).checked_sub(1).filter(|last| *last > 0)?;
        (!point.samples.is_empty()).then_some((point, last))
    }

    /// The long run of a mapping: whether later passes still take faults.
    fn again(&self) -> Option<BenchClaim> {
        let (point, last) = self.passes(ReadWay::Map)?;
        let counted = || point.samples.iter().filter_map(|s| s.pass_faults.split_first());
        let is_pure = |(first, later): (&u64, &[u64])| {
            later.iter().all(|faults| faults.saturating_mul(FEW) <= *first)
        };
        let of = |pick: fn((&u64, &[u64])) -> u64| {
            median(&counted().map(|faults| pick(faults) as f64).collect::<Vec<f64>>())
        };
        let faults =
            of(|(first, _)| *first).zip(of(|(_, later)| later.last().copied().unwrap_or_default()));
        let speed = format!(
            "{:.1} and {:.1} GiB/s",
            point.pass_gib_per_s(0)?.median,
            point.pass_gib_per_s(last)?.median
        );
        let why = match faults {
            Some((first, later)) => {
                format!("first pass and last: {first:.0} and {later:.0} faults, {speed}")
            }
            None => format!("first pass and last: {speed}; faults of each pass were not counted"),
        };
        let claim = "with repeated passes over a file, a mapping becomes pure copy: later passes take no faults";
        Some(BenchClaim::judged(claim, ClaimEvidence::counted(counted().map(is_pure)), why))
    }

    /// The same claim for calls: the last pass takes the time of the first.
    fn unchanged(&self) -> Option<BenchClaim> {
        let (point, last) = self.passes(ReadWay::Read)?;
        let pass =
            |at: usize| point.series(move |s| s.pass_ns.get(at).map_or(0.0, |ns| ns.0 as f64));
        let logs = pass(0).log_ratios(&pass(last));
        let figure = paired_figure(&logs, "processes")?.above(1.0 - SAME).below(1.0 + SAME);
        let why = format!(
            "the last pass has {:.2} times the rate of the first{}: {:.1} and {:.1} GiB/s",
            figure.estimate,
            interval_text(&figure.interval),
            point.pass_gib_per_s(last)?.median,
            point.pass_gib_per_s(0)?.median
        );
        let claim = "with repeated passes over a file, read() does not change";
        Some(BenchClaim::judged(claim, ClaimEvidence::figure(figure), why))
    }

    /// The same copy with and without vector registers, and what the kernel would pay for them.
    fn vectors(&self) -> Option<BenchClaim> {
        let copies = self.readings.copies.as_ref()?;
        let (plain, kernel) =
            (copies.aligned(CopyWay::RepMovsb)?, copies.aligned(CopyWay::Kernel)?);
        let wide = [CopyWay::Avx2, CopyWay::Avx512].into_iter();
        let rated = wide.filter_map(|way| Some((way.into_str(), copies.aligned(way)?)));
        let (name, vector) = rated.max_by(|a, b| a.1.median.total_cmp(&b.1.median))?;
        let evidence = ClaimEvidence::figure(ClaimFigure::over(vector, plain).above(1.0 + SAME));
        let save = copies.save_restore_ns.known()?.median;
        let state = copies.state_bytes.known()?;
        // Nanoseconds that each byte is cheaper.
        let ns = |rate: f64| 1e9 / Bytes::gib(1).0 as f64 / rate;
        let gain = ns(plain.median) - ns(vector.median);
        let pays = match evidence.answer() {
            ClaimAnswer::Confirmed => {
                format!("it pays from {} per call on", Bytes((save / gain) as u64))
            }
            ClaimAnswer::Refuted if gain > 0.0 => "it gains too little to matter".to_owned(),
            ClaimAnswer::Refuted => "that is never earned back".to_owned(),
            ClaimAnswer::CannotTell => "whether that is earned back is open".to_owned(),
        };
        let why = format!(
            "page-aligned, {name} copies {:.1} GiB/s, rep movsb {:.1}, pread {:.1}: what pread lacks to rep \
             movsb is call and lookup; saving and restoring {state} of registers takes {save:.0} ns: {pays}",
            vector.median, plain.median, kernel.median
        );
        let claim = "copying with vector registers, which the kernel would have to save, is faster than the same copy without";
        Some(BenchClaim::judged(claim, evidence, why))
    }

    /// What each error that was repeated would show.
    fn slips(&self) -> Vec<BenchClaim> {
        let slip = |slip: &BenchmarkFlaw| {
            let changed = |refusal: &&RefusedCell| {
                let point = self.readings.points.get(refusal.point);
                point.is_some_and(|point| slip.changes(&point.cell))
            };
            let refusal = self.refusals.iter().find(changed)?;
            let point = self.readings.points.get(refusal.point)?;
            let rate = point.rate_gib_per_s()?.median;
            let asked = self.readings.asked(&point.cell);
            let is_equal = |sample: &FileSample| Some(sample.ledger) == asked;
            Some(BenchClaim::judged(
                format!(
                    "with the error {}: {} gives {rate:.1} GiB/s",
                    slip.into_str(),
                    point.cell.arm.name()
                ),
                ClaimEvidence::counted(point.samples.iter().map(is_equal)),
                refusal.why.clone(),
            ))
        };
        self.readings.slips.iter().filter_map(slip).collect()
    }
}

/// `34% (95% interval 31 to 38%)`.
fn share_text(share: &ClaimFigure) -> String {
    let range = match &share.interval {
        Fact::Known((low, high)) => {
            format!(" (95% interval {:.0} to {:.0}%)", 100.0 * low, 100.0 * high)
        }
        Fact::Missing(_) => String::new(),
    };
    format!("{:.0}%{range}", 100.0 * share.estimate)
}
