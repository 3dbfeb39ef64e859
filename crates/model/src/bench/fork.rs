//! What fork(2) costs as it was measured: by the memory that the parent has touched, on pages of every size,
//! and what each write of the parent costs afterwards, while the child still shares the pages.
//!
//! A [`Point`] is so much memory on one kind of page; a [`Sample`] is one fresh mapping, forked once. Times are
//! nanoseconds of the parent's CPU time. Machine and version stand in the saved run around it (`run::Run`).

use crate::bench::tlb::Unavailable;
use crate::bench::{PageKind, Series};
use crate::measured::{Fact, Measured};
use crate::units::{Bytes, PageSize};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One fresh mapping, forked once.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// Number of the repeat, from 0.
    pub repeat: u32,
    /// Place in the order in which all mappings were made, from 0.
    pub place: u32,
    /// Time of the call in the parent.
    pub fork_ns: f64,
    /// Time of the parent's first write to each base page while the child lives, all pages together.
    pub writes_ns: f64,
    /// Faults of these writes.
    pub write_faults: u64,
}

/// So much memory on one kind of page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// The pages asked for.
    pub pages: PageKind,
    /// Memory that the parent has touched.
    pub size_bytes: Bytes,
    /// Page size before the fork as the kernel showed it, the same for all samples.
    pub page_bytes: Fact<PageSize>,
    /// The mappings, in the order of their repeats.
    pub samples: Vec<Sample>,
    /// Why there are no samples, or fewer than asked for.
    pub refused: Option<String>,
}

impl Point {
    /// A point that was not measured yet.
    #[must_use]
    pub fn new(pages: PageKind, size_bytes: Bytes) -> Self {
        let page_bytes = Fact::missing("not measured");
        Self { pages, size_bytes, page_bytes, samples: Vec::new(), refused: None }
    }

    /// A figure, mapping by mapping.
    #[must_use]
    pub fn series(&self, figure: impl Fn(&Sample) -> f64) -> Series {
        self.samples.iter().map(|sample| (sample.repeat, figure(sample))).collect()
    }

    /// Nanoseconds of a fork; none without samples.
    #[must_use]
    pub fn fork_ns(&self) -> Option<Measured> {
        self.series(|sample| sample.fork_ns).measured()
    }

    /// Nanoseconds of a write to a base page, on average over the pages; none without samples.
    #[must_use]
    pub fn write_ns(&self, base: PageSize) -> Option<Measured> {
        let pages = self.size_bytes.pages(base).max(1) as f64;
        self.series(|sample| sample.writes_ns / pages).measured()
    }
}

/// All measurements of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Forks {
    /// Seed of the order of the mappings.
    pub seed: u64,
    /// Fresh mappings asked for of each point.
    pub repeats: u32,
    /// The short form.
    pub quick: bool,
    /// The CPU that forked.
    pub cpu: u32,
    pub base_page_bytes: PageSize,
    pub huge_page_bytes: PageSize,
    /// Every size on every kind of page.
    pub points: Vec<Point>,
    /// Kinds of pages that are not available.
    pub unavailable: Vec<Unavailable>,
    /// What is concluded; none where nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judgement: Option<Judgement>,
}

impl Forks {
    /// The points on one kind of page, by growing size.
    #[must_use]
    pub fn curve(&self, pages: PageKind) -> Vec<&Point> {
        let mut curve: Vec<&Point> = self.points.iter().filter(|p| p.pages == pages).collect();
        curve.sort_by_key(|point| point.size_bytes);
        curve
    }
}

/// What memory on one kind of page costs a parent that forks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Price {
    pub pages: PageKind,
    /// Time of a fork for each GiB that was touched: from the smallest size to the largest.
    pub gib_ns: Fact<Measured>,
    /// Time of a fork beside that memory.
    pub call_ns: Fact<Measured>,
    /// Time of a write to a base page afterwards, at the largest size.
    pub write_ns: Fact<Measured>,
}

/// Larger pages against base pages, at the largest size that both have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ratio {
    /// The larger pages.
    pub pages: PageKind,
    pub size_bytes: Bytes,
    /// Time of a fork over that on base pages.
    pub fork_ratio: f64,
    /// Its 95% interval; missing with fewer mappings than one needs.
    pub fork_interval: Fact<(f64, f64)>,
    /// Time of all writes over that on base pages.
    pub writes_ratio: f64,
    /// Its 95% interval.
    pub writes_interval: Fact<(f64, f64)>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Judgement {
    /// A price for every kind of page.
    pub prices: Vec<Price>,
    /// Larger pages against base pages.
    pub ratios: Vec<Ratio>,
    /// What programs that fork should do on this machine.
    pub advice: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_medians_over_the_mappings() {
        let mut point = Point::new(PageKind::Base, Bytes::kib(64));
        let base = PageSize::new(4096).unwrap();
        assert_eq!((point.fork_ns(), point.write_ns(base)), (None, None));
        for (repeat, fork_ns) in (0..).zip([2.0, 9.0, 1.0]) {
            let (place, writes_ns, write_faults) = (repeat, 16.0 * fork_ns, 16);
            point.samples.push(Sample { repeat, place, fork_ns, writes_ns, write_faults });
        }
        assert_eq!(point.fork_ns().map(|m| (m.median, m.n)), Some((2.0, 3)));
        assert_eq!(point.write_ns(base).map(|m| m.median), Some(2.0));
        let text = serde_json::to_string(&point).unwrap();
        assert!(text.contains(r#""size_bytes":65536"#), "{text}");
        assert_eq!(serde_json::from_str::<Point>(&text).unwrap(), point);
    }
}
