//! Compares the knees with the processor's description of its TLBs, for loads or for instruction fetches.
//!
//! A claim holds if the steps around the knee lie within a quarter of it. It does not hold if the walk went
//! well beyond it, found no knee, and would have seen a rise. If the unit of the figure is ambiguous, both
//! readings are tried. A claim beyond the reach of the walk stays undecided: that many huge pages need more
//! memory than may be taken. For instruction fetches a missing knee decides nothing either, because not every
//! fetch needs a translation.

use super::knees::{self, TranslationCurve};
use pagewise_model::bench::tlb::{ClaimedTlb, TlbKnee};
use pagewise_model::bench::{BenchClaim, ClaimEvidence, ClaimFigure, LEAST_REPEATS, PageKind};
use pagewise_model::{Bytes, Fact, PageSize};

/// A knee this far from the claimed number, either way, is at it.
const SAME: f64 = 1.25;
/// The numbers walked must go this far beyond a claim to speak against it.
const BEYOND: f64 = 1.5;

/// What a processor claims.
pub(crate) struct ProcessorClaims<'a> {
    /// The operation that costs more when a TLB runs out: a load or a jump.
    pub(crate) unit: &'static str,
    /// The cost of a TLB that runs out may be hidden, so a missing knee proves nothing.
    pub(crate) is_hidden: bool,
    /// Base and huge page.
    pub(crate) pages: [PageSize; 2],
    /// The TLBs that are asked for pages of a size.
    pub(crate) by_page: &'a dyn Fn(PageSize) -> Vec<&'a ClaimedTlb>,
}

impl ProcessorClaims<'_> {
    /// Every claim with its answer, by page size and level.
    pub(crate) fn beside(&self, curves: &[TranslationCurve], all: &[TlbKnee]) -> Vec<BenchClaim> {
        curves.iter().flat_map(|curve| self.beside_one(curve, all)).collect()
    }

    fn beside_one(&self, curve: &TranslationCurve, all: &[TlbKnee]) -> Vec<BenchClaim> {
        let [base, huge] = self.pages;
        let page = if curve.pages == PageKind::Base { base } else { huge };
        let Some(last) = curve.steps.last() else { return Vec::new() };
        let here: Vec<&TlbKnee> = all
            .iter()
            .filter(|k| k.pages == curve.pages && k.apart_bytes == curve.apart_bytes)
            .collect();
        let mut claimed = (self.by_page)(page);
        claimed.sort_by_key(|t| (t.level, t.entries));
        let Self { unit, is_hidden, .. } = *self;
        let found = KneeEvidence { knees: &here, walked: last.pages, curve, unit, is_hidden };
        if claimed.is_empty() {
            return vec![found.nothing_claimed(page)];
        }
        claimed.iter().map(|tlb| found.judge(tlb, page)).collect()
    }
}

/// What the lines of one page size showed.
struct KneeEvidence<'a> {
    knees: &'a [&'a TlbKnee],
    /// Most pages.
    walked: u64,
    curve: &'a TranslationCurve,
    unit: &'static str,
    /// A knee may be there and not be seen.
    is_hidden: bool,
}

impl KneeEvidence<'_> {
    fn judge(&self, tlb: &ClaimedTlb, page: PageSize) -> BenchClaim {
        let (entries, walked) = (u64::from(tlb.entries), self.walked);
        let claim = format!("level {} holds {entries} translations of {page} pages", tlb.level);
        let at = |count: u64| self.knees.iter().find(|knee| is_at(knee, count));
        let scaled = tlb.scaled_entries.map(u64::from);
        let (evidence, why) = if let Some(knee) = at(entries) {
            (self.place(knee, entries), self.knee_text(knee))
        } else if let Some((knee, count)) = scaled.and_then(|count| Some((at(count)?, count))) {
            let why = format!(
                "on this family the figure is in units of 32, and the bit that shows it is hidden: {count}, and {}",
                self.knee_text(knee)
            );
            (self.place(knee, entries), why)
        } else if let Some(far) = scaled.filter(|far| beyond(*far) > walked) {
            let why = format!("in units of 32 it would be {far}; {}", reach(far, page, walked));
            (ClaimEvidence::Nothing, why)
        } else if beyond(entries) > walked {
            (ClaimEvidence::Nothing, reach(entries, page, walked))
        } else if self.is_hidden {
            let why = "; decoded code needs no translation, so the end may be invisible";
            (ClaimEvidence::Nothing, self.elsewhere() + why)
        } else {
            self.no_rise(entries)
        };
        BenchClaim::judged(claim, evidence, why)
    }

    /// An interval from too few repeats is not used.
    fn known(&self, interval: (f64, f64)) -> Fact<(f64, f64)> {
        if self.curve.repeats < LEAST_REPEATS {
            return Fact::missing(format!("fewer than {LEAST_REPEATS} repeats"));
        }
        Fact::Known(interval)
    }

    /// Compares the place of the knee with the claimed one. They are equal within the steps of the walk.
    fn place(&self, knee: &TlbKnee, count: u64) -> ClaimEvidence {
        let [below, above, about] =
            [knee.below_pages, knee.above_pages, knee.about_pages].map(|pages| pages.max(1) as f64);
        let step = above / below;
        // A rise by its shape begins elsewhere than between the two, and is known as well as they are.
        let interval = if (below..=above).contains(&about) {
            (below, above)
        } else {
            (about / step, about * step)
        };
        let figure = ClaimFigure::new(about, self.known(interval), self.curve.repeats);
        let count = count as f64;
        ClaimEvidence::figure(figure.above(count / SAME).below(count * SAME))
    }

    /// No rise near this number of pages. A TLB that runs out costs a load at least the time of the fastest
    /// load.
    fn no_rise(&self, pages: u64) -> (ClaimEvidence, String) {
        let resolution = knees::resolution_ns(self.curve, pages);
        let fastest = self.curve.fastest_ns;
        let interval = self.known((0.0, resolution / fastest));
        let figure = ClaimFigure::new(0.0, interval, self.curve.repeats).above(1.0);
        let why = if resolution > fastest {
            format!("too much noise: there, only rises above {resolution:.1} ns can be seen")
        } else {
            self.elsewhere()
        };
        (ClaimEvidence::figure(figure), why)
    }

    fn knee_text(&self, knee: &TlbKnee) -> String {
        format!(
            "a {} costs {:.1} ns more from about {} pages on (still {:.1} with {}, more with {})",
            self.unit,
            knee.to_ns - knee.from_ns,
            knee.about_pages,
            knee.from_ns,
            knee.below_pages,
            knee.above_pages
        )
    }

    fn elsewhere(&self) -> String {
        if self.knees.is_empty() {
            return format!("up to {} pages a {} costs no more", self.walked, self.unit);
        }
        let knee_text: Vec<String> = self.knees.iter().map(|knee| self.knee_text(knee)).collect();
        knee_text.join("; ")
    }

    fn nothing_claimed(&self, page: PageSize) -> BenchClaim {
        let why =
            if self.knees.is_empty() { "no knee was found".to_owned() } else { self.elsewhere() };
        BenchClaim::judged(
            format!("nothing is claimed for {page} pages"),
            ClaimEvidence::Nothing,
            why,
        )
    }
}

fn beyond(entries: u64) -> u64 {
    (entries as f64 * BEYOND) as u64
}

/// Whether the claimed number is at the knee: where its shape begins, or between its two steps.
fn is_at(knee: &TlbKnee, count: u64) -> bool {
    let about = knee.about_pages.max(1) as f64;
    let ratio = count as f64 / about;
    (1.0 / SAME..=SAME).contains(&ratio) || (knee.below_pages..=knee.above_pages).contains(&count)
}

fn reach(entries: u64, page: PageSize, walked: u64) -> String {
    let needed = Bytes(entries.saturating_mul(page.bytes()));
    format!("walked up to {walked} pages; that many would need {needed}")
}
