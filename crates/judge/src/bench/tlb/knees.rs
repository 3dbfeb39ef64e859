//! The cost of translation by the number of pages, and where that curve begins to rise.
//!
//! The cost is the time of a load (or a jump) on separate pages minus its time when the same number of
//! elements lies on few pages, for each repeat. While a TLB holds the translation of every page, more pages
//! cost no more: a plateau. A knee is where the cost leaves the plateau and stays above it. If a TLB replaces
//! the least recently used entry, the next step reaches the top immediately. With other rules the share of
//! misses grows as 1 - C/N with N pages and C entries, and the rise is seen only some way after C. The line
//! through the cost over 1/N is then followed back to the plateau. A later rise counts only if it is at least
//! half as high as the one before, from plateau to plateau. The slow end of such a growth is not.
//!
//! A step is separated from noise by two fifths of the fastest load (about two cycles) or four standard
//! deviations, whichever is more.

use pagewise_model::Bytes;
use pagewise_model::bench::tlb::TlbKnee;
use pagewise_model::bench::{LEAST_REPEATS, PageKind, RepeatSeries};
use pagewise_model::measured::median;

/// The median of absolute deviations, as a standard deviation.
const MAD_TO_SD: f64 = 1.4826;
/// The standard deviation of a median of n values is this factor times theirs over the root of n.
const OF_MEDIAN: f64 = 1.2533;

/// One number of lines.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CurvePoint {
    pub(crate) pages: u64,
    /// Cost of translation for each load.
    pub(crate) extra_ns: f64,
    /// Standard deviation of that.
    pub(crate) noise_ns: f64,
    /// Its lower bound in three of four repeats.
    pub(crate) low_ns: f64,
    /// Time of a load, all of it.
    pub(crate) load_ns: f64,
}

impl CurvePoint {
    /// From the cost of translation in each repeat. `None` without repeats.
    pub(crate) fn from_differences(pages: u64, differences: &[f64], load_ns: f64) -> Option<Self> {
        let extra_ns = median(differences)?;
        let deviations: Vec<f64> = differences.iter().map(|d| (d - extra_ns).abs()).collect();
        let sd = MAD_TO_SD * median(&deviations)?;
        let noise_ns = OF_MEDIAN * sd / (differences.len() as f64).sqrt();
        let low_ns = lower_quartile(differences);
        Some(Self { pages, extra_ns, noise_ns, low_ns, load_ns })
    }
}

/// Steps by growing number.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TranslationCurve {
    pub(crate) pages: PageKind,
    pub(crate) apart_bytes: Bytes,
    pub(crate) steps: Vec<CurvePoint>,
    /// Time of a load where nothing is missed.
    pub(crate) fastest_ns: f64,
    /// Fewest repeats of a number of lines.
    pub(crate) repeats: u64,
}

impl TranslationCurve {
    /// From the times by number of pages: with a page each, and as many on few pages.
    pub(crate) fn from_points(
        (pages, apart_bytes): (PageKind, Bytes),
        apart: &[(u64, RepeatSeries)],
        packed: &[(u64, RepeatSeries)],
    ) -> Self {
        let step = |(count, times): &(u64, RepeatSeries)| {
            let (_, reference) = packed.iter().find(|(number, _)| number == count)?;
            CurvePoint::from_differences(
                *count,
                &times.less(reference).values(),
                times.measured()?.median,
            )
        };
        let fastest = packed.iter().filter_map(|(_, times)| times.measured()).map(|m| m.median);
        let fastest_ns = fastest.reduce(f64::min).unwrap_or(0.0);
        let repeats = apart.iter().map(|(_, times)| times.values().len() as u64);
        let repeats = repeats.filter(|repeats| *repeats > 0).min().unwrap_or(0);
        let steps = apart.iter().filter_map(step).collect();
        Self { pages, apart_bytes, steps, fastest_ns, repeats }
    }
}

/// The value that at most a quarter of the values are below. For few values, the smallest.
fn lower_quartile(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 4).copied().unwrap_or(0.0)
}

/// A rise counts only from this share of the fastest load on.
const LEAST_SHARE: f64 = 0.4;
/// A rise counts only from this many standard deviations on.
const LEAST_SDS: f64 = 4.0;
/// Steps that make a plateau span at least this ratio of numbers.
const PLATEAU: f64 = 2.0;
/// Steps that must be above by more than noise, and the share of all later ones that must be above.
const LASTING: usize = 3;
const MOSTLY: f64 = 0.75;
/// A rise from a level above 0 is at least this share of it.
const OF_LEVEL: f64 = 0.5;
/// A later rise counts only from this share of the previous rise on.
const LATER: f64 = 0.5;

/// Steps over which the cost stays.
#[derive(Debug, Clone, Copy)]
struct Plateau {
    /// Its last step, or one before it.
    end: usize,
    level: f64,
}

/// The knees of one curve, smallest first.
pub(crate) fn find(curve: &TranslationCurve) -> Vec<TlbKnee> {
    let steps = smooth(&curve.steps);
    let least = LEAST_SHARE * curve.fastest_ns;
    let mut knees: Vec<TlbKnee> = Vec::new();
    let mut now = plateau(&steps, 0, least);
    while let Some(Plateau { end, level }) = now {
        let Some(risen) = leave(&steps, end, level, least) else { break };
        let next = plateau(&steps, risen, least);
        let rise = begin(&steps, risen, level, least);
        // A growth by chance ends above the plateau that its slow end is taken for, by less than what it
        // has risen by then.
        let next = next.map(|next| Plateau {
            level: rise.end_ns.clamp(next.level, next.level.max(2.0 * next.level - level)),
            ..next
        });
        let to_ns = next.map_or_else(|| highest(&steps[risen..]), |next| next.level);
        let before = knees.last().map_or(0.0, |knee| knee.to_ns - knee.from_ns);
        if to_ns - level >= LATER * before {
            knees.push(TlbKnee {
                pages: curve.pages,
                apart_bytes: curve.apart_bytes,
                below_pages: steps[risen - 1].pages,
                above_pages: steps[risen].pages,
                about_pages: rise.about_pages,
                from_ns: level.max(0.0),
                to_ns,
            });
        }
        now = next;
    }
    knees
}

/// Replaces each step by the median of itself and its neighbours, so that a single outlier disappears.
fn smooth(steps: &[CurvePoint]) -> Vec<CurvePoint> {
    let of = |at: usize| {
        let around = [at.saturating_sub(1), at, (at + 1).min(steps.len() - 1)];
        let mut values = around.map(|i| steps[i].extra_ns);
        values.sort_by(f64::total_cmp);
        // The first and last step have one neighbour each and are not changed.
        let is_end = at == 0 || at + 1 == steps.len();
        CurvePoint { extra_ns: if is_end { steps[at].extra_ns } else { values[1] }, ..steps[at] }
    };
    (0..steps.len()).map(of).collect()
}

/// Half of the steps near this number of pages can separate rises above this from noise. Infinite without
/// such steps.
pub(super) fn resolution_ns(curve: &TranslationCurve, pages: u64) -> f64 {
    let least = LEAST_SHARE * curve.fastest_ns;
    let about = |step: &&CurvePoint| step.pages <= 2 * pages && 2 * step.pages >= pages;
    let all: Vec<f64> =
        curve.steps.iter().filter(about).map(|step| tolerance(step, least)).collect();
    median(&all).unwrap_or(f64::INFINITY)
}

/// Whether base pages were walked too few times for any interval.
pub(crate) fn is_thin(curves: &[TranslationCurve]) -> bool {
    let mut base = curves.iter().filter(|curve| curve.pages == PageKind::Base);
    base.any(|curve| curve.repeats < LEAST_REPEATS)
}

/// Why the end of base-page reach is unknown: it was not searched, noise hides it, or it does not exist.
pub(crate) fn no_end(curves: &[TranslationCurve], what: &str) -> String {
    let base = curves.iter().find(|curve| curve.pages == PageKind::Base);
    // A knee needs a plateau and some steps behind it.
    let walked = base.filter(|curve| curve.steps.len() > 2 * LASTING);
    let Some((curve, last)) = walked.and_then(|curve| Some((curve, curve.steps.last()?))) else {
        return format!(
            "The limit on base pages {what}: not measured. Too few numbers of pages have a figure."
        );
    };
    if is_thin(curves) {
        return format!(
            "The limit on base pages {what}: open. An interval needs {LEAST_REPEATS} repeats (now {}).",
            curve.repeats
        );
    }
    let resolution = resolution_ns(curve, last.pages);
    if resolution > curve.fastest_ns {
        return format!(
            "The limit on base pages {what}: open. Too much noise: only rises above {resolution:.1} ns can be seen."
        );
    }
    format!(
        "No limit on base pages {what} was seen up to {} pages: no rise above {resolution:.1} ns that is not of caches.",
        last.pages
    )
}

fn tolerance(step: &CurvePoint, least: f64) -> f64 {
    least.max(LEAST_SDS * step.noise_ns)
}

/// The first plateau from `from` on.
fn plateau(steps: &[CurvePoint], from: usize, least: f64) -> Option<Plateau> {
    (from..steps.len()).find_map(|start| {
        let wide = |step: &CurvePoint| step.pages as f64 >= PLATEAU * steps[start].pages as f64;
        let end = start + steps[start..].iter().position(wide)?;
        let within = &steps[start..=end];
        let lowest = within.iter().map(|step| step.extra_ns).fold(f64::INFINITY, f64::min);
        let allowed = within.iter().map(|step| tolerance(step, least)).fold(least, f64::max);
        (highest(within) - lowest <= allowed).then(|| Plateau { end, level: level(within) })
    })
}

fn level(steps: &[CurvePoint]) -> f64 {
    let values: Vec<f64> = steps.iter().map(|step| step.extra_ns).collect();
    median(&values).unwrap_or(0.0)
}

fn highest(steps: &[CurvePoint]) -> f64 {
    steps.iter().map(|step| step.extra_ns).fold(f64::NEG_INFINITY, f64::max)
}

/// The first step after `at` from which the cost stays above the level. The next few steps must do so by more
/// than noise or in nearly every repeat, most of the later steps in any way.
fn leave(steps: &[CurvePoint], at: usize, level: f64, least: f64) -> Option<usize> {
    let least = least.max(OF_LEVEL * level);
    let above = |step: &CurvePoint| {
        step.extra_ns > level + tolerance(step, least) || step.low_ns > level + least
    };
    (at + 1..steps.len()).find(|&start| {
        let rest = &steps[start..];
        let higher = rest.iter().filter(|step| step.extra_ns > level + least).count();
        rest.len() >= LASTING
            && rest[..LASTING].iter().all(above)
            && higher as f64 >= MOSTLY * rest.len() as f64
    })
}

/// A rise by its shape.
struct CurveRise {
    about_pages: u64,
    /// Where it ends, with any number of pages.
    end_ns: f64,
}

/// The cost over 1/N followed back to the level and on to its end; where it rises at once, the middle of
/// the two steps, and the second.
fn begin(steps: &[CurvePoint], risen: usize, level: f64, least: f64) -> CurveRise {
    let (first, below) = (steps[risen], steps[risen - 1].pages as f64);
    let middle = (below * first.pages as f64).sqrt();
    let at_once = CurveRise { about_pages: middle.round() as u64, end_ns: first.extra_ns };
    let last = steps.last().filter(|s| 2 * s.pages >= 3 * first.pages);
    let doubled = steps[risen..].iter().find(|s| s.pages >= 2 * first.pages);
    let rising = doubled.or(last).filter(|s| s.extra_ns - first.extra_ns > tolerance(s, least));
    let Some(second) = rising else { return at_once };
    let (one, two) = (1.0 / first.pages as f64, 1.0 / second.pages as f64);
    let slope = (second.extra_ns - first.extra_ns) / (one - two);
    let end_ns = first.extra_ns + slope * one;
    let met = slope / (end_ns - level);
    if !met.is_finite() {
        return at_once;
    }
    // No TLB loses entries long before it has too few.
    let about = met.clamp(below / 2.0, first.pages as f64);
    CurveRise { about_pages: about.round() as u64, end_ns }
}
