//! Measured cost of pinning: finding the frames of a piece of memory in the page table and holding them, by
//! page size and by every way that asks the kernel for it.
//!
//! A [`PinPoint`] is one [`PinWay`] with pieces of one size on one kind of page. A [`PinSample`] is one fresh mapping.
//! Times are nanoseconds of CPU time for each call. The saved run around it (`run::SavedRun`) holds machine and
//! version.

use crate::bench::tlb;
use crate::bench::{BenchClaim, PageKind, RepeatSeries};
use crate::measured::{Fact, Measured};
use crate::schema::JsonSchema;
use crate::units::{Bytes, PageSize};
use serde::{Deserialize, Serialize};

/// A way to pin memory, or the same work without pinning.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)] // as it is typed and shown
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum PinWay {
    /// vmsplice(2) into a pipe, which is then emptied into /dev/null by splice(2).
    Vmsplice,
    /// The same number of slots of that pipe, filled by tee(2). Nothing is looked up in a page table.
    Tee,
    /// Registration as a buffer of io_uring, and its release.
    Register,
    /// A read by process_vm_readv(2), which pins and copies.
    ReadOwn,
    /// A copy of the same bytes in user space.
    Copy,
    /// The kernel's own benchmark, `/sys/kernel/debug/gup_test`.
    GupTest,
}

impl PinWay {
    /// All of them; after each way comes the one without pinning that it is compared with.
    pub const ALL: [Self; 6] =
        [Self::Vmsplice, Self::Tee, Self::Register, Self::ReadOwn, Self::Copy, Self::GupTest];

    /// Name for use in a sentence.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vmsplice => "vmsplice into a drained pipe",
            Self::Tee => "tee into the same pipe",
            Self::Register => "io_uring buffers, registered and released",
            Self::ReadOwn => "process_vm_readv of own memory",
            Self::Copy => "the same copy in user space",
            Self::GupTest => "the kernel's gup_test",
        }
    }

    /// The same work without pinning; none for a way that does not pin, or does nothing else.
    #[must_use]
    pub const fn without(self) -> Option<Self> {
        match self {
            Self::Vmsplice => Some(Self::Tee),
            Self::ReadOwn => Some(Self::Copy),
            Self::Tee | Self::Register | Self::Copy | Self::GupTest => None,
        }
    }

    /// True if the way pins memory.
    #[must_use]
    pub const fn pins(self) -> bool {
        !matches!(self, Self::Tee | Self::Copy)
    }

    /// The kind of page on which this way is measured for comparison with pieces on `pages`. The pages that
    /// tee passes on belong to the kernel.
    #[must_use]
    pub const fn pages(self, pages: PageKind) -> PageKind {
        if matches!(self, Self::Tee) { PageKind::Base } else { pages }
    }
}

/// One fresh mapping.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PinSample {
    /// Number of the repeat, from 0.
    pub repeat: u32,
    /// Position of this mapping in the order in which all mappings were made, from 0.
    pub place: u32,
    /// Median time of a call over the pieces of the sample, in nanoseconds.
    pub call_ns: f64,
    /// Median time to release the memory, in nanoseconds; 0 if the call releases it.
    pub release_ns: f64,
    /// Half the range of the pieces, relative to the median: disturbance while the memory stayed the same.
    pub within_share: f64,
}

impl PinSample {
    /// Time to pin and release, in nanoseconds.
    #[must_use]
    pub const fn whole_ns(&self) -> f64 {
        self.call_ns + self.release_ns
    }
}

/// A way with pieces of one size on one kind of page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PinPoint {
    pub way: PinWay,
    /// Kind of pages that was requested.
    pub pages: PageKind,
    /// Bytes per call.
    pub size_bytes: Bytes,
    /// Page size that the kernel showed, the same for all samples.
    pub page_bytes: Fact<PageSize>,
    /// Samples in the order of their repeats.
    pub samples: Vec<PinSample>,
    /// Why there are no samples, or fewer than requested.
    pub refused: Option<String>,
}

impl PinPoint {
    /// A point that was not measured yet.
    #[must_use]
    pub fn new(way: PinWay, pages: PageKind, size_bytes: Bytes) -> Self {
        let page_bytes = Fact::missing("not measured");
        Self { way, pages, size_bytes, page_bytes, samples: Vec::new(), refused: None }
    }

    /// Nanoseconds for each call over all mappings, including the release; none without samples.
    #[must_use]
    pub fn whole_ns(&self) -> Option<Measured> {
        self.series(PinSample::whole_ns).measured()
    }

    /// One figure of each mapping.
    #[must_use]
    pub fn series(&self, figure: impl Fn(&PinSample) -> f64) -> RepeatSeries {
        self.samples.iter().map(|sample| (sample.repeat, figure(sample))).collect()
    }
}

/// A way that was requested and is not available.
pub type MissingWay = crate::bench::MissingWay<PinWay>;

/// All measurements of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PinBenchReport {
    /// Seed of the order of the mappings.
    pub seed: u64,
    /// Number of fresh mappings requested for each point.
    pub repeats: u32,
    /// True for the short form (`--quick`).
    pub quick: bool,
    /// Number of the CPU that measured.
    pub cpu: u32,
    /// Memory that the pieces cover in turn.
    pub region_bytes: Bytes,
    pub base_page_bytes: PageSize,
    pub huge_page_bytes: PageSize,
    /// Every way, size and kind of page.
    pub points: Vec<PinPoint>,
    /// Kinds of pages that are not available.
    pub unavailable: Vec<tlb::UnavailablePages>,
    /// Ways that are not available.
    pub missing_ways: Vec<MissingWay>,
    /// Conclusions; none if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judgement: Option<PinJudgement>,
}

impl PinBenchReport {
    /// The point of this way, kind of page and size.
    #[must_use]
    pub fn find(&self, way: PinWay, pages: PageKind, size: Bytes) -> Option<&PinPoint> {
        let is_it = |p: &&PinPoint| (p.way, p.pages, p.size_bytes) == (way, pages, size);
        self.points.iter().find(is_it)
    }

    /// Points of one way on one kind of page, by growing size.
    #[must_use]
    pub fn curve(&self, way: PinWay, pages: PageKind) -> Vec<&PinPoint> {
        let of = self.points.iter().filter(|p| (p.way, p.pages) == (way, pages));
        let mut curve: Vec<&PinPoint> = of.collect();
        curve.sort_by_key(|point| point.size_bytes);
        curve
    }

    /// Time to pin and release a piece, repeat by repeat: the whole time minus that of the same work without
    /// pinning.
    #[must_use]
    pub fn held(&self, point: &PinPoint) -> RepeatSeries {
        let whole = point.series(PinSample::whole_ns);
        let Some(without) = point.way.without() else { return whole };
        let other = self.find(without, without.pages(point.pages), point.size_bytes);
        other.map(|other| whole.less(&other.series(PinSample::whole_ns))).unwrap_or_default()
    }

    /// Number of base pages in a piece.
    #[must_use]
    pub const fn pages_of(&self, point: &PinPoint) -> u64 {
        point.size_bytes.pages(self.base_page_bytes)
    }
}

/// The price of pinning by one way on one kind of page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PinPrice {
    pub way: PinWay,
    pub pages: PageKind,
    /// Time to pin and release each further base page of a piece, between the smallest size and the largest,
    /// in nanoseconds.
    pub page_ns: Fact<Measured>,
    /// Time of a call apart from its pages, in nanoseconds.
    pub call_ns: Fact<Measured>,
}

/// The share of pinning in a transfer through a pipe by vmsplice and splice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PinShare {
    pub pages: PageKind,
    /// Bytes per call.
    pub size_bytes: Bytes,
    /// Share of pinning in the call of vmsplice.
    pub of_call_share: Fact<f64>,
    /// Share of pinning in the call and the emptying of the pipe together.
    pub of_transfer_share: Fact<f64>,
    /// Rate of the transfer by one thread that fills and empties the pipe in turn.
    pub transfer_gib_per_s: Fact<Measured>,
}

/// Larger pages compared with base pages, for one way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PinRatio {
    pub way: PinWay,
    /// Kind of the larger pages.
    pub pages: PageKind,
    /// Time of a call and its release for each further page, divided by that on base pages. Below 1 the
    /// larger pages are cheaper.
    pub ratio: f64,
    /// 95% interval of the ratio; missing if there are fewer repeats than it needs.
    pub interval: Fact<(f64, f64)>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PinJudgement {
    /// Prices by way and kind of page.
    pub prices: Vec<PinPrice>,
    /// Shares by kind of page and size.
    pub shares: Vec<PinShare>,
    /// Larger pages compared with base pages.
    pub ratios: Vec<PinRatio>,
    /// Published figures, compared with those of this machine.
    pub claims: Vec<BenchClaim>,
    /// Advice for this machine: three sentences.
    pub advice: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(repeat: u32, call_ns: f64, release_ns: f64) -> PinSample {
        PinSample { repeat, place: 0, call_ns, release_ns, within_share: 0.0 }
    }

    #[test]
    fn pinning_is_what_is_beyond_the_same_without() {
        let size = Bytes::kib(64);
        let point = |way, pages, ns| PinPoint {
            samples: vec![sample(3, ns, 10.0)],
            ..PinPoint::new(way, pages, size)
        };
        let pins = PinBenchReport {
            seed: 1,
            repeats: 1,
            quick: false,
            cpu: 0,
            region_bytes: Bytes::mib(2),
            base_page_bytes: PageSize::BASE_4K,
            huge_page_bytes: PageSize::PMD_2M,
            points: vec![
                point(PinWay::Vmsplice, PageKind::Thp, 500.0),
                point(PinWay::Tee, PageKind::Base, 300.0),
                point(PinWay::Register, PageKind::Thp, 900.0),
                point(PinWay::ReadOwn, PageKind::Thp, 900.0),
            ],
            unavailable: Vec::new(),
            missing_ways: Vec::new(),
            judgement: None,
        };
        let held = |way| pins.held(pins.find(way, PageKind::Thp, size).unwrap());
        assert_eq!(held(PinWay::Vmsplice), [(3, 200.0)].into_iter().collect());
        assert_eq!(held(PinWay::Register), [(3, 910.0)].into_iter().collect());
        assert_eq!(held(PinWay::ReadOwn), RepeatSeries::default(), "without the copy alone");
        assert_eq!(pins.pages_of(&pins.points[0]), 16);
        let text = serde_json::to_string(&pins).unwrap();
        assert_eq!(serde_json::from_str::<PinBenchReport>(&text).unwrap(), pins);
    }
}
