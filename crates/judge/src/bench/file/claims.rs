//! What the published study (mmap against system calls, 2019) found, and what becomes of it here, with why
//! it differs; and what its errors would show.
//!
//! Its cells are a read and a mapping with a copy, in blocks of 4, 8 and 16 KiB, in order and at random,
//! warm. Its clock did not see the unmapping, and since its last change not the mapping either; here both
//! are counted.

use super::Found;
use pagewise_model::Bytes;
use pagewise_model::bench::file::{
    Account, Arm, Cell, CopyWay, Part, Point, Ratio, Refusal, Residency, Sample, Slip, Work,
};
use pagewise_model::bench::tlb::Order;
use pagewise_model::bench::{Answer, Claim};

/// It found a mapping so many times as fast as calls.
const FASTER: (f64, f64) = (2.0, 6.0);
/// Shares of the time that it gave, and how far off another is the same.
const MAPPING: f64 = 0.36;
const COPY: f64 = 0.60;
const NEAR: f64 = 0.10;
/// Shares of the time that it explained, of read() and of the mapping.
const EXPLAINED: (f64, f64) = (0.82, 0.96);
/// A pass as fast as another.
const SAME: f64 = 0.05;

impl Found<'_> {
    /// All claims for which there are cells.
    pub(super) fn claims(&self) -> Vec<Claim> {
        let all = [
            self.faster(),
            self.mapping(),
            self.copying(),
            self.explained(),
            self.populating(),
            self.again(),
            self.vectors(),
        ];
        all.into_iter().flatten().chain(self.slips()).collect()
    }

    /// The largest of the study's blocks that was read warm and in order by this way.
    fn usual(&self, arm: Arm) -> Option<(usize, &Point)> {
        let of = self.whole(Part::Blocks).filter(|(_, point)| {
            let cell = &point.cell;
            cell.arm == arm
                && cell.order == Order::Sequential
                && cell.residency == Residency::Warm
                && !point.samples.is_empty()
        });
        of.max_by_key(|(_, point)| point.cell.block_bytes)
    }

    fn account(&self, arm: Arm) -> Option<&Account> {
        let (at, _) = self.usual(arm)?;
        self.accounts.iter().find(|account| account.point == at)
    }

    fn faster(&self) -> Option<Claim> {
        let is_warm_copy = |cell: &Cell| cell.arm == Arm::Map && cell.residency == Residency::Warm;
        let of = |ratio: &&Ratio| {
            let point = self.readings.points.get(ratio.point);
            point.is_some_and(|point| point.cell.part == Part::Blocks && is_warm_copy(&point.cell))
        };
        let times: Vec<f64> =
            self.ratios.iter().filter(of).map(|ratio| 1.0 / ratio.ratio).collect();
        let least = times.iter().copied().reduce(f64::min)?;
        let most = times.iter().copied().reduce(f64::max)?;
        Some(Claim::new(
            "a mapping with a copy is 2 to 6 times as fast as read() on a cached file",
            Answer::from_bool(least >= FASTER.0 && most <= FASTER.1),
            format!(
                "here {least:.2} to {most:.2} times (cells: {}), from open to close; the study did not time unmapping, and its loop over the mapping once ended half way",
                times.len()
            ),
        ))
    }

    fn mapping(&self) -> Option<Claim> {
        let account = self.account(Arm::Map)?;
        let share = account.share(&[Work::Faults, Work::Populate]);
        let unmapping = account.share(&[Work::Unmap, Work::Open]);
        Some(Claim::new(
            "mapping pages is 36% of the time of a mapping with a copy",
            Answer::from_bool((share - MAPPING).abs() <= NEAR),
            format!(
                "here {:.0}%, and {:.0}% more for unmapping and opening, which the study did not count",
                100.0 * share,
                100.0 * unmapping
            ),
        ))
    }

    fn copying(&self) -> Option<Claim> {
        let account = self.account(Arm::Read)?;
        let [copy, entry, lookup] = [Work::KernelCopy, Work::Entry, Work::Lookup]
            .map(|work| 100.0 * account.share(&[work]));
        Some(Claim::new(
            "read() spends 60% on the copy, 15% on crossing into the kernel, 6 to 8% on lookup",
            Answer::from_bool((copy / 100.0 - COPY).abs() <= NEAR),
            format!("here {copy:.0}%, {entry:.0}% and {lookup:.0}%"),
        ))
    }

    fn explained(&self) -> Option<Claim> {
        let share = |arm| self.account(arm).map(Account::explained_share);
        let (read, mapped) = (share(Arm::Read)?, share(Arm::Map)?);
        Some(Claim::new(
            "82% of the time of read() and 96% of that of a mapping can be explained",
            Answer::from_bool(read >= EXPLAINED.0 && mapped >= EXPLAINED.1),
            format!(
                "here {:.0}% and {:.0}%, by counts times prices measured before",
                100.0 * read,
                100.0 * mapped
            ),
        ))
    }

    fn populating(&self) -> Option<Claim> {
        let ms = |arm, pick: fn(&Sample) -> f64| {
            self.usual(arm).and_then(|(_, point)| point.ms_per_gib(pick))
        };
        let all: fn(&Sample) -> f64 = |s| s.total_ns().0 as f64;
        let inner: fn(&Sample) -> f64 = |s| s.use_ns().0 as f64;
        let (plain, populated) = (ms(Arm::Map, all)?, ms(Arm::MapPopulate, all)?);
        let (plain_loop, populated_loop) = (ms(Arm::Map, inner)?, ms(Arm::MapPopulate, inner)?);
        Some(Claim::new(
            "MAP_POPULATE removes the cost of mapping",
            Answer::from_bool(populated < plain * (1.0 - MAPPING + NEAR)),
            format!(
                "the loop goes from {plain_loop:.0} to {populated_loop:.0} ms per GiB, the total from {plain:.0} to {populated:.0}: the cost moves to the set-up"
            ),
        ))
    }

    /// The long run: later passes.
    fn again(&self) -> Option<Claim> {
        let passes = |arm| {
            let (_, point) = self.whole(Part::Passes).find(|(_, p)| p.cell.arm == arm)?;
            let last = (point.cell.passes as usize).checked_sub(1).filter(|last| *last > 0)?;
            Some((point.pass_gib_per_s(0)?.median, point.pass_gib_per_s(last)?.median))
        };
        let (read, mapped) = (passes(Arm::Read)?, passes(Arm::Map)?);
        let is_flat = (read.1 / read.0 - 1.0).abs() <= SAME;
        Some(Claim::new(
            "with repeated passes over a file, a mapping becomes pure copy and read() does not change",
            Answer::from_bool(is_flat && mapped.1 > mapped.0 * (1.0 + SAME)),
            format!(
                "first pass and last: the mapping {:.1} and {:.1} GiB/s, read() {:.1} and {:.1}",
                mapped.0, mapped.1, read.0, read.1
            ),
        ))
    }

    /// The kernel's copy against one by vector registers, and what the kernel would pay for them.
    fn vectors(&self) -> Option<Claim> {
        let copies = self.readings.copies.as_ref()?;
        let kernel = copies.aligned(CopyWay::Kernel)?;
        let wide = [CopyWay::Avx2, CopyWay::Avx512].into_iter();
        let rated = wide.filter_map(|way| Some((way.into_str(), copies.aligned(way)?)));
        let (name, vector) = rated.max_by(|a, b| a.1.total_cmp(&b.1))?;
        let save = copies.save_restore_ns.known()?.median;
        let state = copies.state_bytes.known()?;
        // Nanoseconds that each byte is cheaper.
        let gain = (1.0 / kernel - 1.0 / vector) * 1e9 / Bytes::gib(1).0 as f64;
        let is_faster = vector > kernel * (1.0 + SAME);
        let pays = if is_faster {
            format!("it pays from {} per call on", Bytes((save / gain) as u64))
        } else {
            "that is never earned back".to_owned()
        };
        Some(Claim::new(
            "copying with vector registers is faster than the kernel's copy, which would have to save them",
            Answer::from_bool(is_faster),
            format!(
                "page-aligned, {name} copies {vector:.1} GiB/s, the kernel {kernel:.1}; saving and \
                 restoring {state} of registers takes {save:.0} ns: {pays}"
            ),
        ))
    }

    /// What each error that was repeated would show.
    fn slips(&self) -> Vec<Claim> {
        let slip = |slip: &Slip| {
            let changed = |refusal: &&Refusal| {
                let point = self.readings.points.get(refusal.point);
                point.is_some_and(|point| slip.changes(&point.cell))
            };
            let refusal = self.refusals.iter().find(changed)?;
            let point = self.readings.points.get(refusal.point)?;
            let rate = point.rate_gib_per_s()?.median;
            Some(Claim::new(
                format!(
                    "with the error {}: {} gives {rate:.1} GiB/s",
                    slip.into_str(),
                    point.cell.arm.name()
                ),
                Answer::Refuted,
                refusal.why.clone(),
            ))
        };
        self.readings.slips.iter().filter_map(slip).collect()
    }
}
