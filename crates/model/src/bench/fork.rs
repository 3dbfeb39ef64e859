//! Measured cost of fork(2), by the memory that the parent has touched and by page size, and the cost of each
//! write of the parent afterwards, while the child still shares the pages.
//!
//! A [`ForkPoint`] is an amount of memory on one kind of page. A [`ForkSample`] is one fresh mapping, forked once.
//! Times are nanoseconds of the parent's CPU time. The saved run around it (`run::SavedRun`) holds machine and
//! version.

use crate::bench::tlb::UnavailablePages;
use crate::bench::{PageKind, RepeatSeries};
use crate::measured::{Fact, Measured};
use crate::schema::JsonSchema;
use crate::units::{Bytes, PageSize};
use serde::{Deserialize, Serialize};

/// One fresh mapping, forked once.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ForkSample {
    /// Number of the repeat, from 0.
    pub repeat: u32,
    /// Position of this mapping in the order in which all mappings were made, from 0.
    pub place: u32,
    /// Time of the call in the parent, in nanoseconds.
    pub fork_ns: f64,
    /// Time of the parent's first write to each base page while the child lives, in nanoseconds, summed over
    /// all pages.
    pub writes_ns: f64,
    /// Faults of these writes.
    pub write_faults: u64,
}

/// An amount of memory on one kind of page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ForkPoint {
    /// Kind of pages that was requested.
    pub pages: PageKind,
    /// Memory that the parent has touched.
    pub size_bytes: Bytes,
    /// Page size that the kernel showed before the fork, the same for all samples.
    pub page_bytes: Fact<PageSize>,
    /// Samples in the order of their repeats.
    pub samples: Vec<ForkSample>,
    /// Why there are no samples, or fewer than requested.
    pub refused: Option<String>,
}

impl ForkPoint {
    /// A point that was not measured yet.
    #[must_use]
    pub fn new(pages: PageKind, size_bytes: Bytes) -> Self {
        let page_bytes = Fact::missing("not measured");
        Self { pages, size_bytes, page_bytes, samples: Vec::new(), refused: None }
    }

    /// One figure of each mapping.
    #[must_use]
    pub fn series(&self, figure: impl Fn(&ForkSample) -> f64) -> RepeatSeries {
        self.samples.iter().map(|sample| (sample.repeat, figure(sample))).collect()
    }

    /// Nanoseconds of a fork; none without samples.
    #[must_use]
    pub fn fork_ns(&self) -> Option<Measured> {
        self.series(|sample| sample.fork_ns).measured()
    }

    /// Nanoseconds of a write to a base page, as the mean over the pages; none without samples.
    #[must_use]
    pub fn write_ns(&self, base: PageSize) -> Option<Measured> {
        let pages = self.size_bytes.pages(base).max(1) as f64;
        self.series(|sample| sample.writes_ns / pages).measured()
    }
}

/// All measurements of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ForkBenchReport {
    /// Seed of the order of the mappings.
    pub seed: u64,
    /// Number of fresh mappings requested for each point.
    pub repeats: u32,
    /// True for the short form (`--quick`).
    pub quick: bool,
    /// Number of the CPU that forked.
    pub cpu: u32,
    pub base_page_bytes: PageSize,
    pub huge_page_bytes: PageSize,
    /// Every size on every kind of page.
    pub points: Vec<ForkPoint>,
    /// Kinds of pages that are not available.
    pub unavailable: Vec<UnavailablePages>,
    /// Conclusions; none if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judgement: Option<ForkJudgement>,
}

impl ForkBenchReport {
    /// Points of one kind of page, by growing size.
    #[must_use]
    pub fn curve(&self, pages: PageKind) -> Vec<&ForkPoint> {
        let mut curve: Vec<&ForkPoint> = self.points.iter().filter(|p| p.pages == pages).collect();
        curve.sort_by_key(|point| point.size_bytes);
        curve
    }
}

/// The cost of memory on one kind of page for a parent that forks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ForkPrice {
    pub pages: PageKind,
    /// Time of a fork for each further GiB that the parent has touched, between the smallest size and the
    /// largest, in nanoseconds.
    pub gib_ns: Fact<Measured>,
    /// Time of a fork apart from that memory, in nanoseconds.
    pub call_ns: Fact<Measured>,
    /// Time of a write to a base page afterwards, at the largest size, in nanoseconds.
    pub write_ns: Fact<Measured>,
}

/// Larger pages compared with base pages, at the largest size that both have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ForkRatio {
    /// Kind of the larger pages.
    pub pages: PageKind,
    pub size_bytes: Bytes,
    /// Time of a fork divided by that on base pages.
    pub fork_ratio: f64,
    /// 95% interval of `fork_ratio`; missing if there are fewer mappings than it needs.
    pub fork_interval: Fact<(f64, f64)>,
    /// Time of all writes divided by that on base pages.
    pub writes_ratio: f64,
    /// 95% interval of `writes_ratio`.
    pub writes_interval: Fact<(f64, f64)>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ForkJudgement {
    /// Prices of every kind of page.
    pub prices: Vec<ForkPrice>,
    /// Larger pages compared with base pages.
    pub ratios: Vec<ForkRatio>,
    /// Advice for programs that fork on this machine.
    pub advice: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_medians_over_the_mappings() {
        let mut point = ForkPoint::new(PageKind::Base, Bytes::kib(64));
        let base = PageSize::new(4096).unwrap();
        assert_eq!((point.fork_ns(), point.write_ns(base)), (None, None));
        for (repeat, fork_ns) in (0..).zip([2.0, 9.0, 1.0]) {
            let (place, writes_ns, write_faults) = (repeat, 16.0 * fork_ns, 16);
            point.samples.push(ForkSample { repeat, place, fork_ns, writes_ns, write_faults });
        }
        assert_eq!(point.fork_ns().map(|m| (m.median, m.n)), Some((2.0, 3)));
        assert_eq!(point.write_ns(base).map(|m| m.median), Some(2.0));
        let text = serde_json::to_string(&point).unwrap();
        assert!(text.contains(r#""size_bytes":65536"#), "{text}");
        assert_eq!(serde_json::from_str::<ForkPoint>(&text).unwrap(), point);
    }
}
