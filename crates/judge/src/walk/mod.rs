//! What walks through memory say: what larger pages are worth at each size of set and whether that is
//! the same in the next run, where translations run out and what becomes of the processor's claims, how
//! a host backs huge pages, and what the machine should do.
//!
//! The entry is [`judge`]; pure, so saved walks are judged again with the same result. Samples of one
//! repeat were taken in the same round, some seconds apart, and are paired.
//!
//! Not seen: which of two TLBs of equal size has run out, and what of a cost a processor hides where
//! loads do not depend on each other.

mod advice;
pub(crate) mod claims;
pub(crate) mod extra;
pub(crate) mod knees;
pub(crate) mod ratios;

use extra::{Curve, Step};
use pagewise_model::walk::{Judgement, Knee, PageKind, Path, Point, Walks};
use pagewise_model::{Bytes, Fact};

/// Lines at the distance of base pages on huge ones are compared where they have at most this many huge
/// pages, which any first level holds, and more base pages than any first level holds.
const MOST_HUGE_PAGES: u64 = 16;

/// All conclusions from `walks`.
#[must_use]
pub fn judge(walks: &Walks) -> Judgement {
    let ratios = ratios::ratios(walks);
    let curves = curves(walks);
    let knees: Vec<Knee> = curves.iter().flat_map(knees::find).collect();
    let claimed = |page| walks.serving_loads(page).collect::<Vec<_>>();
    let claims = claims::Claimed {
        unit: "load",
        is_hidden: false,
        pages: [walks.base_page_bytes, walks.huge_page_bytes],
        by_page: &claimed,
    }
    .beside(&curves, &knees);
    let huge_translation_share = huge_translation_share(walks, &curves);
    let advice = advice::advice(walks, &ratios, &knees);
    Judgement { ratios, knees, claims, huge_translation_share, advice }
}

/// Distance of lines that have a page each, smallest pages first.
fn distances(walks: &Walks) -> Vec<(PageKind, Bytes)> {
    let apart = |p: &Point| match p.path {
        Path::Lines { apart_bytes } if p.path != Path::PACKED => Some((p.pages, apart_bytes)),
        _ => None,
    };
    let mut all: Vec<(PageKind, Bytes)> = walks.points.iter().filter_map(apart).collect();
    // A huge page each, or a base page each: not base pages' distance on huge pages.
    let own = |(kind, apart): &(PageKind, Bytes)| {
        *kind == PageKind::Base || apart.0 >= walks.huge_page_bytes.bytes()
    };
    all.retain(own);
    all.sort_unstable();
    all.dedup();
    all
}

fn curves(walks: &Walks) -> Vec<Curve> {
    let of = |(pages, apart_bytes)| extra::curve(walks, pages, apart_bytes);
    distances(walks).into_iter().map(of).collect()
}

/// Cost of translation on huge pages over that on base pages, at the largest number of lines that a few
/// huge pages hold.
fn huge_translation_share(walks: &Walks, curves: &[Curve]) -> Fact<f64> {
    let Some(base) = curves.iter().find(|curve| curve.pages == PageKind::Base) else {
        return Fact::missing("no lines on base pages");
    };
    let huge = extra::curve(walks, PageKind::Thp, base.apart_bytes);
    let most = MOST_HUGE_PAGES * walks.huge_page_bytes.bytes() / base.apart_bytes.0.max(1);
    let on_base = |step| base.steps.iter().find(|other: &&Step| other.pages == step);
    let few = huge.steps.iter().rev().filter(|step| step.pages <= most);
    let both = few.filter_map(|step| Some((step, on_base(step.pages)?))).next();
    let Some((huge, base)) = both else {
        return Fact::missing("no lines on huge pages at the distance of base pages");
    };
    // Below this the difference that is looked for drowns in noise.
    let seen = 4.0 * (huge.noise_ns + base.noise_ns);
    if base.extra_ns <= seen.max(0.1 * base.load_ns) {
        return Fact::missing("translation of base pages costs too little here to tell");
    }
    Fact::Known((huge.extra_ns / base.extra_ns).max(0.0))
}

/// Times of a load in the repeats that both points have.
fn paired_ns(point: &Point, other: &Point) -> impl Iterator<Item = (f64, f64)> {
    point.samples.iter().filter_map(|s| {
        let o = other.samples.iter().find(|o| o.repeat == s.repeat)?;
        Some((s.load_ns, o.load_ns))
    })
}

#[cfg(test)]
mod tests;
