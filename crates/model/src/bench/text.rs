//! Measured jumps through generated code: the cost of a jump by size of the code and by page size, with
//! targets that a branch predictor has learned and with targets that it cannot predict.
//!
//! A [`TextBenchPoint`] is a number of elements of code at one distance on one [`PageKind`], executed in one
//! [`JumpOrder`]. A [`TextBenchSample`] is one fresh mapping. Times are nanoseconds of CPU time for each jump. The saved
//! run around it (`run::SavedRun`) holds machine and version.

use crate::bench::tlb::{ClaimedTlb, RatioSteadiness, TlbKnee, UnavailablePages};
use crate::bench::{BenchClaim, PageKind, RepeatSeries};
use crate::measured::{Fact, Measured};
use crate::schema::JsonSchema;
use crate::units::{Bytes, PageSize};
use serde::{Deserialize, Serialize};

/// The order in which a chain visits its elements, each once in a lap.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)] // as it is typed and shown
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum JumpOrder {
    /// Random, the same in each lap. Each element always leads to the same one, so branch predictors learn it
    /// and the processor fetches ahead.
    Repeated,
    /// Random, different in each lap. The target of an element is known only when the jump is executed.
    Changing,
}

impl JumpOrder {
    /// All of them, in display order.
    pub const ALL: [Self; 2] = [Self::Repeated, Self::Changing];

    /// Name for use in a sentence.
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
pub struct TextBenchSample {
    /// Number of the repeat, from 0.
    pub repeat: u32,
    /// Position of this mapping in the order in which all mappings were run, from 0.
    pub place: u32,
    /// Median time of a jump over the pieces of the run, in nanoseconds.
    pub jump_ns: f64,
    /// Half the range of the pieces, relative to the median: disturbance while the memory stayed the same.
    pub within_share: f64,
    /// Misses of the instruction TLB in 1000 instructions, if they are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misses_per_1000_instructions: Option<f64>,
}

/// Elements at one distance on one kind of page, in one order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TextBenchPoint {
    pub order: JumpOrder,
    /// Kind of pages that was requested.
    pub pages: PageKind,
    /// Distance from one element to the next, in bytes of address: a base page, or more.
    pub apart_bytes: Bytes,
    /// Number of elements, which is the number of jumps in a lap.
    pub jumps: u64,
    /// Page size that the kernel showed after the run, the same for all samples.
    pub page_bytes: Fact<PageSize>,
    /// Samples in the order of their repeats.
    pub samples: Vec<TextBenchSample>,
    /// Why there are no samples, or fewer than requested.
    pub refused: Option<String>,
}

impl TextBenchPoint {
    /// A point that was not run yet.
    #[must_use]
    pub fn new(order: JumpOrder, pages: PageKind, apart_bytes: Bytes, jumps: u64) -> Self {
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
    pub fn jump_times(&self) -> RepeatSeries {
        self.samples.iter().map(|s| (s.repeat, s.jump_ns)).collect()
    }

    /// Misses of the instruction TLB in 1000 instructions; none if they were not counted.
    #[must_use]
    pub fn misses(&self) -> Option<Measured> {
        let counted = self.samples.iter().filter_map(|s| s.misses_per_1000_instructions);
        Measured::from_values(&counted.collect::<Vec<f64>>())
    }
}

/// All measured jumps of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TextBenchReport {
    /// Seed of all random orders.
    pub seed: u64,
    /// Number of fresh mappings requested for each point.
    pub repeats: u32,
    /// True for the short form (`--quick`).
    pub quick: bool,
    /// Number of the CPU that executed the jumps.
    pub cpu: u32,
    /// Most memory that the code could use.
    pub most_bytes: Bytes,
    /// The reason for that bound.
    pub bound_by: String,
    pub base_page_bytes: PageSize,
    pub huge_page_bytes: PageSize,
    pub points: Vec<TextBenchPoint>,
    /// Kinds of pages that are not available.
    pub unavailable: Vec<UnavailablePages>,
    /// The event that counted misses of the instruction TLB, or why none was counted.
    pub counter: Fact<String>,
    /// TLBs that the processor claims; empty if it claims none.
    pub claimed: Vec<ClaimedTlb>,
    /// Conclusions; none if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judgement: Option<TextBenchJudgement>,
}

impl TextBenchReport {
    /// The point of this order, kind of page, distance and number of jumps.
    #[must_use]
    pub fn find(
        &self,
        order: JumpOrder,
        pages: PageKind,
        apart: Bytes,
        jumps: u64,
    ) -> Option<&TextBenchPoint> {
        let wanted = (order, pages, apart, jumps);
        self.points.iter().find(|p| (p.order, p.pages, p.apart_bytes, p.jumps) == wanted)
    }

    /// Points of one order, distance and kind of page, by growing number of jumps.
    #[must_use]
    pub fn curve(&self, order: JumpOrder, pages: PageKind, apart: Bytes) -> Vec<&TextBenchPoint> {
        let wanted = (order, pages, apart);
        let of = self.points.iter().filter(|p| (p.order, p.pages, p.apart_bytes) == wanted);
        let mut curve: Vec<&TextBenchPoint> = of.collect();
        curve.sort_by_key(|point| point.jumps);
        curve
    }

    /// The distance at which every base page holds an element.
    #[must_use]
    pub const fn dense(&self) -> Bytes {
        Bytes(self.base_page_bytes.bytes())
    }

    /// The claimed TLBs that the fetching of code from pages of this size uses.
    pub fn serving_code(&self, page: PageSize) -> impl Iterator<Item = &ClaimedTlb> {
        let serves = move |t: &&ClaimedTlb| t.side.serves_code() && t.page_bytes.contains(&page);
        self.claimed.iter().filter(serves)
    }
}

/// Larger pages compared with base pages, for code of one size in one order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TextBenchRatio {
    pub order: JumpOrder,
    /// Kind of the larger pages.
    pub pages: PageKind,
    /// Size of the code.
    pub set_bytes: Bytes,
    /// Time of a jump divided by that on base pages. Below 1 the larger pages are faster.
    pub ratio: f64,
    /// 95% interval of the ratio; missing if there are fewer mappings than it needs.
    pub interval: Fact<(f64, f64)>,
    /// Stability of the ratio from run to run.
    pub steadiness: RatioSteadiness,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TextBenchJudgement {
    /// Larger pages compared with base pages, for every order and size that has both.
    pub ratios: Vec<TextBenchRatio>,
    /// Numbers of pages at which translations of code run out, by kind of page, smallest first.
    pub knees: Vec<TlbKnee>,
    /// What the processor claims of its TLBs for code, compared with the knees.
    pub claims: Vec<BenchClaim>,
    /// Advice for this machine: three sentences.
    pub advice: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_the_median_of_its_mappings() {
        let mut point = TextBenchPoint::new(JumpOrder::Changing, PageKind::Thp, Bytes::kib(4), 16);
        assert_eq!(
            (point.set_bytes(), point.jump_ns(), point.misses()),
            (Bytes::kib(64), None, None)
        );
        for (repeat, jump_ns) in (0..).zip([2.0, 9.0, 1.0]) {
            let misses_per_1000_instructions = (repeat < 2).then_some(jump_ns);
            let (place, within_share) = (repeat, 0.0);
            let sample = TextBenchSample {
                repeat,
                place,
                jump_ns,
                within_share,
                misses_per_1000_instructions,
            };
            point.samples.push(sample);
        }
        assert_eq!(point.jump_ns().map(|m| (m.median, m.n)), Some((2.0, 3)));
        assert_eq!(point.misses().map(|m| m.n), Some(2));
    }

    #[test]
    fn keys_end_in_their_unit() {
        let point = TextBenchPoint::new(JumpOrder::Repeated, PageKind::Base, Bytes::kib(68), 64);
        let text = serde_json::to_string(&point).unwrap();
        for part in [r#""order":"repeated""#, r#""apart_bytes":69632"#, r#""page_bytes""#] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert_eq!(serde_json::from_str::<TextBenchPoint>(&text).unwrap(), point);
    }
}
