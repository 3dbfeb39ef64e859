//! Jumps through generated code as they were measured: what one costs by the size of the code, on pages of
//! every size, with targets that a branch predictor has learned and with targets that none can foresee.
//!
//! A [`Point`] is so many elements of code at one distance on one [`PageKind`], gone through in one
//! [`Order`]. A [`Sample`] is one fresh mapping. Times are nanoseconds of CPU time for each jump. Machine
//! and version stand in the saved run around it (`run::Run`).

use crate::bench::tlb::{ClaimedTlb, Knee, Steadiness, Unavailable};
use crate::bench::{Claim, PageKind, Series};
use crate::measured::{Fact, Measured};
use crate::units::{Bytes, PageSize};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The order in which a chain goes through its elements, each once in a lap.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)] // as it is typed and shown
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum Order {
    /// By chance, the same in each lap: each element always leads to the same one, which branch predictors
    /// learn, and the processor fetches ahead.
    Repeated,
    /// By chance, another in each lap: where an element leads is known when the jump is executed.
    Changing,
}

impl Order {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 2] = [Self::Repeated, Self::Changing];

    /// In a sentence.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Repeated => "the same order in each lap, which predictors learn",
            Self::Changing => "a different order in each lap, which nothing predicts",
        }
    }
}

/// One fresh mapping.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// Number of the repeat, from 0.
    pub repeat: u32,
    /// Place in the order in which all mappings were gone through, from 0.
    pub place: u32,
    /// Median time of a jump over the pieces of the run.
    pub jump_ns: f64,
    /// Half the range of the pieces, relative to the median: what passed while the memory stayed.
    pub within_share: f64,
    /// Misses of the instruction TLB in a thousand instructions, where they are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misses_per_1000_instructions: Option<f64>,
}

/// So many elements at one distance on one kind of page, in one order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    pub order: Order,
    /// The pages asked for.
    pub pages: PageKind,
    /// From one element to the next by address: a base page, or more.
    pub apart_bytes: Bytes,
    /// Elements, which are the jumps of a lap.
    pub jumps: u64,
    /// Page size as the kernel showed it after the run, the same for all samples.
    pub page_bytes: Fact<PageSize>,
    /// The mappings, in the order of their repeats.
    pub samples: Vec<Sample>,
    /// Why there are no samples, or fewer than asked for.
    pub refused: Option<String>,
}

impl Point {
    /// A point that was not run yet.
    #[must_use]
    pub fn new(order: Order, pages: PageKind, apart_bytes: Bytes, jumps: u64) -> Self {
        let page_bytes = Fact::missing("not run");
        Self { order, pages, apart_bytes, jumps, page_bytes, samples: Vec::new(), refused: None }
    }

    /// Bytes of address space from the first element to the end of the last one's distance.
    #[must_use]
    pub const fn set_bytes(&self) -> Bytes {
        Bytes(self.jumps.saturating_mul(self.apart_bytes.0))
    }

    /// Nanoseconds for each jump over all mappings; none without samples.
    #[must_use]
    pub fn jump_ns(&self) -> Option<Measured> {
        self.jump_times().measured()
    }

    /// Nanoseconds for each jump, mapping by mapping.
    #[must_use]
    pub fn jump_times(&self) -> Series {
        self.samples.iter().map(|s| (s.repeat, s.jump_ns)).collect()
    }

    /// Misses of the instruction TLB in a thousand instructions; none where they were not counted.
    #[must_use]
    pub fn misses(&self) -> Option<Measured> {
        let counted = self.samples.iter().filter_map(|s| s.misses_per_1000_instructions);
        Measured::from_values(&counted.collect::<Vec<f64>>())
    }
}

/// All jumps of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Jumps {
    /// Seed of all random orders.
    pub seed: u64,
    /// Fresh mappings asked for of each point.
    pub repeats: u32,
    /// The short form.
    pub quick: bool,
    /// The CPU that ran them.
    pub cpu: u32,
    /// Most memory that code could take.
    pub most_bytes: Bytes,
    /// What sets that bound.
    pub bound_by: String,
    pub base_page_bytes: PageSize,
    pub huge_page_bytes: PageSize,
    pub points: Vec<Point>,
    /// Kinds of pages that are not available.
    pub unavailable: Vec<Unavailable>,
    /// The event that counted misses of the instruction TLB, or why there is none.
    pub counter: Fact<String>,
    /// TLBs as claimed; empty where nothing is claimed.
    pub claimed: Vec<ClaimedTlb>,
    /// What is concluded; none where nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judgement: Option<Judgement>,
}

impl Jumps {
    /// The point of this order, these pages, this distance and so many jumps.
    #[must_use]
    pub fn find(&self, order: Order, pages: PageKind, apart: Bytes, jumps: u64) -> Option<&Point> {
        let wanted = (order, pages, apart, jumps);
        self.points.iter().find(|p| (p.order, p.pages, p.apart_bytes, p.jumps) == wanted)
    }

    /// The points of one order at one distance on one kind of page, by growing number.
    #[must_use]
    pub fn curve(&self, order: Order, pages: PageKind, apart: Bytes) -> Vec<&Point> {
        let wanted = (order, pages, apart);
        let of = self.points.iter().filter(|p| (p.order, p.pages, p.apart_bytes) == wanted);
        let mut curve: Vec<&Point> = of.collect();
        curve.sort_by_key(|point| point.jumps);
        curve
    }

    /// The distance at which every base page has an element.
    #[must_use]
    pub const fn dense(&self) -> Bytes {
        Bytes(self.base_page_bytes.bytes())
    }

    /// The claimed TLBs through which the fetching of code from pages of this size goes.
    pub fn serving_code(&self, page: PageSize) -> impl Iterator<Item = &ClaimedTlb> {
        let serves = move |t: &&ClaimedTlb| t.side.serves_code() && t.page_bytes.contains(&page);
        self.claimed.iter().filter(serves)
    }
}

/// Larger pages against base pages, for code of one size in one order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ratio {
    pub order: Order,
    /// The larger pages.
    pub pages: PageKind,
    /// Size of the code.
    pub set_bytes: Bytes,
    /// Time of a jump over that on base pages; below 1 the larger pages are faster.
    pub ratio: f64,
    /// Its 95% interval; missing with fewer mappings than one needs.
    pub interval: Fact<(f64, f64)>,
    /// Whether the next run finds the same.
    pub steadiness: Steadiness,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Judgement {
    /// Larger pages against base pages, for every order and size with both.
    pub ratios: Vec<Ratio>,
    /// Where translations of code run out, by kind of page, smallest first.
    pub knees: Vec<Knee>,
    /// What the processor claims of its TLBs for code, set beside the knees.
    pub claims: Vec<Claim>,
    /// What this machine should do: three sentences.
    pub advice: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_the_median_of_its_mappings() {
        let mut point = Point::new(Order::Changing, PageKind::Thp, Bytes::kib(4), 16);
        assert_eq!(
            (point.set_bytes(), point.jump_ns(), point.misses()),
            (Bytes::kib(64), None, None)
        );
        for (repeat, jump_ns) in (0..).zip([2.0, 9.0, 1.0]) {
            let misses_per_1000_instructions = (repeat < 2).then_some(jump_ns);
            let (place, within_share) = (repeat, 0.0);
            let sample =
                Sample { repeat, place, jump_ns, within_share, misses_per_1000_instructions };
            point.samples.push(sample);
        }
        assert_eq!(point.jump_ns().map(|m| (m.median, m.n)), Some((2.0, 3)));
        assert_eq!(point.misses().map(|m| m.n), Some(2));
    }

    #[test]
    fn keys_end_in_their_unit() {
        let point = Point::new(Order::Repeated, PageKind::Base, Bytes::kib(68), 64);
        let text = serde_json::to_string(&point).unwrap();
        for part in [r#""order":"repeated""#, r#""apart_bytes":69632"#, r#""page_bytes""#] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert_eq!(serde_json::from_str::<Point>(&text).unwrap(), point);
    }
}
