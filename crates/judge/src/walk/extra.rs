//! The cost of translation: lines on a page each, less the same number of lines packed together, repeat
//! by repeat.

use super::paired_ns;
use pagewise_model::Bytes;
use pagewise_model::measured::median;
use pagewise_model::walk::{PageKind, Path, Point, Walks};

/// The median of absolute deviations, as a standard deviation.
const MAD_TO_SD: f64 = 1.4826;
/// The deviation of a median of n values, as a multiple of theirs over the root of n.
const OF_MEDIAN: f64 = 1.2533;

/// One number of lines.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Step {
    pub(crate) pages: u64,
    /// Cost of translation for each load.
    pub(crate) extra_ns: f64,
    /// Standard deviation of that.
    pub(crate) noise_ns: f64,
    /// What it is at least in three of four repeats.
    pub(crate) low_ns: f64,
    /// Time of a load, all of it.
    pub(crate) load_ns: f64,
}

impl Step {
    /// From what translation cost in each repeat; none without repeats.
    pub(crate) fn of(pages: u64, differences: &[f64], load_ns: f64) -> Option<Self> {
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
pub(crate) struct Curve {
    pub(crate) pages: PageKind,
    pub(crate) apart_bytes: Bytes,
    pub(crate) steps: Vec<Step>,
    /// Time of a load where nothing is missed.
    pub(crate) fastest_ns: f64,
}

/// The curve of one kind of page at one distance.
pub(super) fn curve(walks: &Walks, pages: PageKind, apart_bytes: Bytes) -> Curve {
    let apart = walks.curve(Path::Lines { apart_bytes }, pages);
    let packed = packed(walks);
    let fastest = packed.iter().filter_map(|p| p.load_ns()).map(|m| m.median).reduce(f64::min);
    let step = |point: &&Point| {
        let reference = packed.iter().find(|p| p.elements == point.elements)?;
        step(point, reference)
    };
    Curve {
        pages,
        apart_bytes,
        steps: apart.iter().filter_map(step).collect(),
        fastest_ns: fastest.unwrap_or(0.0),
    }
}

/// Packed lines, on whichever pages they were walked.
fn packed(walks: &Walks) -> Vec<&Point> {
    let kinds = PageKind::ALL.into_iter();
    kinds.map(|kind| walks.curve(Path::PACKED, kind)).find(|c| !c.is_empty()).unwrap_or_default()
}

fn step(point: &Point, reference: &Point) -> Option<Step> {
    let differences: Vec<f64> =
        paired_ns(point, reference).map(|(ns, packed_ns)| ns - packed_ns).collect();
    Step::of(point.elements, &differences, point.load_ns()?.median)
}

/// The value that at most a quarter of all are below; of few the smallest.
fn lower_quartile(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 4).copied().unwrap_or(0.0)
}
