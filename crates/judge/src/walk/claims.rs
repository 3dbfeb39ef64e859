//! What the processor claims of the TLBs that serve loads, set beside the knees.
//!
//! A claim is confirmed when a knee is within a quarter of it, refuted when the numbers walked go well
//! beyond it and no knee is there. Where the figure may be in a larger unit that is not told, both
//! readings are tried. What no walk could reach (so many huge pages are more memory than may be taken)
//! cannot be told.

use super::extra::Curve;
use super::knees;
use pagewise_model::ladder::{Answer, Claim};
use pagewise_model::walk::{ClaimedTlb, Knee, PageKind, Walks};
use pagewise_model::{Bytes, PageSize};

/// A knee this far from the claimed number, either way, is at it.
const SAME: f64 = 1.25;
/// The numbers walked must go this far beyond a claim to speak against it.
const BEYOND: f64 = 1.5;

/// Every claim with its answer, by page size and level.
pub(super) fn claims(walks: &Walks, curves: &[Curve], all: &[Knee]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for curve in curves {
        let page = match curve.pages {
            PageKind::Base => walks.base_page_bytes,
            _ => walks.huge_page_bytes,
        };
        let Some(last) = curve.steps.last() else { continue };
        let here: Vec<&Knee> = all
            .iter()
            .filter(|k| k.pages == curve.pages && k.apart_bytes == curve.apart_bytes)
            .collect();
        let mut claimed: Vec<&ClaimedTlb> = walks.serving_loads(page).collect();
        claimed.sort_by_key(|t| (t.level, t.entries));
        let found = Found { knees: &here, walked: last.pages, curve };
        claims.extend(claimed.iter().map(|tlb| judge(tlb, page, &found)));
        if claimed.is_empty() {
            claims.push(nothing_claimed(page, &here));
        }
    }
    claims
}

/// What the lines of one page size showed.
struct Found<'a> {
    knees: &'a [&'a Knee],
    /// Most pages.
    walked: u64,
    curve: &'a Curve,
}

/// Why a rise about so many pages may have gone unseen: a TLB that runs out costs a load at least as much
/// as the fastest one takes.
fn unseen(curve: &Curve, pages: u64) -> Option<String> {
    let resolution = knees::resolution_ns(curve, pages);
    (resolution > curve.fastest_ns).then(|| {
        format!("too much noise: only rises of more than {resolution:.1} ns are seen about there")
    })
}

fn judge(tlb: &ClaimedTlb, page: PageSize, found: &Found<'_>) -> Claim {
    let (entries, walked) = (u64::from(tlb.entries), found.walked);
    let claim = format!("level {} holds {entries} translations of {page} pages", tlb.level);
    let at = |count: u64| found.knees.iter().find(|knee| is_at(knee, count));
    let scaled = tlb.scaled_entries.map(u64::from);
    let (answer, why) = if let Some(knee) = at(entries) {
        (Answer::Confirmed, told(knee))
    } else if let Some((knee, count)) = scaled.and_then(|count| Some((at(count)?, count))) {
        let why = format!(
            "the figure is in units of 32 on this family, and the bit that says so is hidden: \
             {count}, and {}",
            told(knee)
        );
        (Answer::Refuted, why)
    } else if let Some(far) = scaled.filter(|far| beyond(*far) > walked) {
        let why = format!("in units of 32 it would be {far}; {}", reach(far, page, walked));
        (Answer::CannotTell, why)
    } else if beyond(entries) > walked {
        (Answer::CannotTell, reach(entries, page, walked))
    } else if let Some(why) = unseen(found.curve, entries) {
        (Answer::CannotTell, why)
    } else {
        (Answer::Refuted, elsewhere(found.knees, walked))
    };
    Claim { claim, answer, why }
}

fn beyond(entries: u64) -> u64 {
    (entries as f64 * BEYOND) as u64
}

/// The claimed number is at the knee: where it begins by its shape, or between its two steps.
fn is_at(knee: &Knee, count: u64) -> bool {
    let about = knee.about_pages.max(1) as f64;
    let ratio = count as f64 / about;
    (1.0 / SAME..=SAME).contains(&ratio) || (knee.below_pages..=knee.above_pages).contains(&count)
}

fn told(knee: &Knee) -> String {
    format!(
        "a load costs {:.1} ns more from about {} pages on (still {:.1} with {}, more with {})",
        knee.to_ns - knee.from_ns,
        knee.about_pages,
        knee.from_ns,
        knee.below_pages,
        knee.above_pages
    )
}

fn reach(entries: u64, page: PageSize, walked: u64) -> String {
    let needed = Bytes(entries.saturating_mul(page.bytes()));
    format!("walked to {walked} pages; so many would be {needed}")
}

fn elsewhere(knees: &[&Knee], walked: u64) -> String {
    if knees.is_empty() {
        return format!("up to {walked} pages a load costs no more");
    }
    let told: Vec<String> = knees.iter().map(|knee| told(knee)).collect();
    told.join("; ")
}

fn nothing_claimed(page: PageSize, knees: &[&Knee]) -> Claim {
    let found = if knees.is_empty() { "no knee was found".to_owned() } else { elsewhere(knees, 0) };
    Claim {
        claim: format!("nothing is claimed for {page} pages"),
        answer: Answer::CannotTell,
        why: found,
    }
}
