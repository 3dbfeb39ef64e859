//! What jumps through code say: what larger pages are worth by the size of the code, from how many pages on
//! translations of code run out, what becomes of the processor's claims, and what the machine should do.
//!
//! The entry is [`judge`]; pure, so saved runs are judged again with the same result. Samples of one repeat
//! were taken in the same round and are paired. Knees, noise and claims are found by the rules for walks
//! ([`crate::walk`]): the cost of translation is what a jump takes on pages of its own beyond what as many
//! jumps take on few huge pages.
//!
//! Not seen: what of a translation is hidden because the processor fetches ahead or has the decoded
//! instructions, so that a knee that is not there speaks against no claim.

mod advice;

use crate::walk::claims::Claimed;
use crate::walk::extra::{Curve, Step};
use crate::walk::knees;
use crate::walk::ratios::Judged;
use pagewise_model::Bytes;
use pagewise_model::jump::{Judgement, Jumps, Order, Point, Ratio};
use pagewise_model::walk::{Knee, PageKind};

/// All conclusions from `jumps`.
#[must_use]
pub fn judge(jumps: &Jumps) -> Judgement {
    let ratios = all_ratios(jumps);
    let curves: Vec<Curve> =
        [PageKind::Base, PageKind::Thp].into_iter().filter_map(|kind| curve(jumps, kind)).collect();
    let knees: Vec<Knee> = curves.iter().flat_map(knees::find).collect();
    let claimed = |page| jumps.serving_code(page).collect::<Vec<_>>();
    let claims = Claimed {
        unit: "jump",
        is_hidden: true,
        pages: [jumps.base_page_bytes, jumps.huge_page_bytes],
        by_page: &claimed,
    }
    .beside(&curves, &knees);
    let advice = advice::advice(jumps, &ratios, &knees);
    Judgement { ratios, knees, claims, advice }
}

/// Larger pages against base pages, by order and size.
fn all_ratios(jumps: &Jumps) -> Vec<Ratio> {
    let larger = PageKind::ALL.into_iter().filter(|kind| *kind != PageKind::Base);
    let larger: Vec<PageKind> = larger.collect();
    let mut found = Vec::new();
    for order in Order::ALL {
        for base in jumps.curve(order, PageKind::Base, jumps.dense()) {
            let on =
                |kind: &PageKind| ratio(base, jumps.find(order, *kind, jumps.dense(), base.jumps)?);
            found.extend(larger.iter().filter_map(on));
        }
    }
    found
}

fn ratio(base: &Point, larger: &Point) -> Option<Ratio> {
    let logs: Vec<f64> = paired_ns(larger, base).map(|(ns, base_ns)| (ns / base_ns).ln()).collect();
    let samples = [base, larger].into_iter().flat_map(|p| &p.samples);
    let Judged { ratio, interval, steadiness } =
        Judged::of(&logs, samples.map(|s| s.within_share))?;
    let (order, pages, set_bytes) = (base.order, larger.pages, base.set_bytes());
    Some(Ratio { order, pages, set_bytes, ratio, interval, steadiness })
}

/// What translation costs by the number of pages of a kind that have one element each.
fn curve(jumps: &Jumps, pages: PageKind) -> Option<Curve> {
    let own = |p: &&Point| {
        let huge = jumps.huge_page_bytes.bytes();
        let is_apart = match pages {
            PageKind::Base => p.apart_bytes > jumps.dense(),
            _ => p.apart_bytes.0 >= huge,
        };
        p.order == Order::Changing && p.pages == pages && is_apart
    };
    let apart_bytes = jumps.points.iter().find(own)?.apart_bytes;
    let few = jumps.curve(Order::Changing, PageKind::Thp, jumps.dense());
    let step = |point: &Point| {
        let reference = few.iter().find(|p| p.jumps == point.jumps)?;
        let extra: Vec<f64> = paired_ns(point, reference).map(|(ns, few_ns)| ns - few_ns).collect();
        Step::of(point.jumps, &extra, point.jump_ns()?.median)
    };
    let apart = jumps.curve(Order::Changing, pages, apart_bytes);
    let fastest = few.iter().filter_map(|p| p.jump_ns()).map(|ns| ns.median).reduce(f64::min);
    Some(Curve {
        pages,
        apart_bytes,
        steps: apart.into_iter().filter_map(step).collect(),
        fastest_ns: fastest.unwrap_or(0.0),
    })
}

/// Times of a jump in the repeats that both points have.
fn paired_ns(point: &Point, other: &Point) -> impl Iterator<Item = (f64, f64)> {
    point.samples.iter().filter_map(|s| {
        let o = other.samples.iter().find(|o| o.repeat == s.repeat)?;
        Some((s.jump_ns, o.jump_ns))
    })
}

/// The size of so many base pages.
fn size_of(jumps: &Jumps, pages: u64) -> Bytes {
    Bytes(pages.saturating_mul(jumps.base_page_bytes.bytes()))
}

#[cfg(test)]
mod tests;
