//! What pinning costs, as it was measured: finding the frames of a piece of memory in the page table and
//! holding them, on pages of every size, by every way that asks the kernel for it.
//!
//! A [`Point`] is one [`Way`] with pieces of one size on one kind of page; a [`Sample`] is one fresh mapping.
//! Times are nanoseconds of CPU time for each call. Machine and version stand in the saved run around it
//! (`run::Run`).

use crate::bench::tlb;
use crate::bench::{Claim, PageKind, Series};
use crate::measured::{Fact, Measured};
use crate::units::{Bytes, PageSize};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A way to have memory pinned, or what the same costs without pinning.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)] // as it is typed and shown
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum Way {
    /// vmsplice(2) into a pipe, which is then emptied into /dev/null by splice(2).
    Vmsplice,
    /// As many slots of the same pipe filled by tee(2): nothing is looked up in a page table.
    Tee,
    /// Registered as a buffer of io_uring, and given back.
    Register,
    /// Read by process_vm_readv(2), which pins and copies.
    ReadOwn,
    /// The same bytes copied in user space.
    Copy,
    /// Pinned by the kernel's own benchmark, `/sys/kernel/debug/gup_test`.
    GupTest,
}

impl Way {
    /// All of them, each followed by the one without pinning that it is set against.
    pub const ALL: [Self; 6] =
        [Self::Vmsplice, Self::Tee, Self::Register, Self::ReadOwn, Self::Copy, Self::GupTest];

    /// In a sentence.
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

    /// What the same costs without pinning; none for ways that do nothing else, or only pin.
    #[must_use]
    pub const fn without(self) -> Option<Self> {
        match self {
            Self::Vmsplice => Some(Self::Tee),
            Self::ReadOwn => Some(Self::Copy),
            Self::Tee | Self::Register | Self::Copy | Self::GupTest => None,
        }
    }

    /// Whether anything is pinned.
    #[must_use]
    pub const fn pins(self) -> bool {
        !matches!(self, Self::Tee | Self::Copy)
    }

    /// The kind of page on which it is measured beside pieces on `pages`: what tee hands over is the
    /// kernel's.
    #[must_use]
    pub const fn pages(self, pages: PageKind) -> PageKind {
        if matches!(self, Self::Tee) { PageKind::Base } else { pages }
    }
}

/// One fresh mapping.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// Number of the repeat, from 0.
    pub repeat: u32,
    /// Place in the order in which all mappings were made, from 0.
    pub place: u32,
    /// Median time of a call over the pieces of the sample.
    pub call_ns: f64,
    /// The same for what lets the memory go again; 0 where the call does that.
    pub release_ns: f64,
    /// Half the range of the pieces, relative to the median: what passed while the memory stayed.
    pub within_share: f64,
}

impl Sample {
    /// Pinned and let go.
    #[must_use]
    pub const fn whole_ns(&self) -> f64 {
        self.call_ns + self.release_ns
    }
}

/// A way with pieces of one size on one kind of page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    pub way: Way,
    /// The pages asked for.
    pub pages: PageKind,
    /// Bytes of a call.
    pub size_bytes: Bytes,
    /// Page size as the kernel showed it, the same for all samples.
    pub page_bytes: Fact<PageSize>,
    /// The mappings, in the order of their repeats.
    pub samples: Vec<Sample>,
    /// Why there are no samples, or fewer than asked for.
    pub refused: Option<String>,
}

impl Point {
    /// A point that was not measured yet.
    #[must_use]
    pub fn new(way: Way, pages: PageKind, size_bytes: Bytes) -> Self {
        let page_bytes = Fact::missing("not measured");
        Self { way, pages, size_bytes, page_bytes, samples: Vec::new(), refused: None }
    }

    /// Nanoseconds for each call over all mappings, release included; none without samples.
    #[must_use]
    pub fn whole_ns(&self) -> Option<Measured> {
        self.series(Sample::whole_ns).measured()
    }

    /// A figure, mapping by mapping.
    #[must_use]
    pub fn series(&self, figure: impl Fn(&Sample) -> f64) -> Series {
        self.samples.iter().map(|sample| (sample.repeat, figure(sample))).collect()
    }
}

/// A way that was requested and is not available.
pub type MissingWay = crate::bench::MissingWay<Way>;

/// All measurements of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pins {
    /// Seed of the order of the mappings.
    pub seed: u64,
    /// Fresh mappings asked for of each point.
    pub repeats: u32,
    /// The short form.
    pub quick: bool,
    /// The CPU that measured.
    pub cpu: u32,
    /// Memory through which the pieces go in turn.
    pub region_bytes: Bytes,
    pub base_page_bytes: PageSize,
    pub huge_page_bytes: PageSize,
    /// Every way, size and kind of page.
    pub points: Vec<Point>,
    /// Kinds of pages that are not available.
    pub unavailable: Vec<tlb::Unavailable>,
    /// Ways that are not available.
    pub missing_ways: Vec<MissingWay>,
    /// What is concluded; none where nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judgement: Option<Judgement>,
}

impl Pins {
    /// The point of this way, these pages and this size.
    #[must_use]
    pub fn find(&self, way: Way, pages: PageKind, size: Bytes) -> Option<&Point> {
        let is_it = |p: &&Point| (p.way, p.pages, p.size_bytes) == (way, pages, size);
        self.points.iter().find(is_it)
    }

    /// The points of one way on one kind of page, by growing size.
    #[must_use]
    pub fn curve(&self, way: Way, pages: PageKind) -> Vec<&Point> {
        let of = self.points.iter().filter(|p| (p.way, p.pages) == (way, pages));
        let mut curve: Vec<&Point> = of.collect();
        curve.sort_by_key(|point| point.size_bytes);
        curve
    }

    /// What pinning and letting go of a piece cost, repeat by repeat: the whole, less what the same costs
    /// without.
    #[must_use]
    pub fn held(&self, point: &Point) -> Series {
        let whole = point.series(Sample::whole_ns);
        let Some(without) = point.way.without() else { return whole };
        let other = self.find(without, without.pages(point.pages), point.size_bytes);
        other.map(|other| whole.less(&other.series(Sample::whole_ns))).unwrap_or_default()
    }

    /// Base pages of a piece.
    #[must_use]
    pub const fn pages_of(&self, point: &Point) -> u64 {
        point.size_bytes.pages(self.base_page_bytes)
    }
}

/// What pinning costs by one way on one kind of page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Price {
    pub way: Way,
    pub pages: PageKind,
    /// For each base page of a piece, pinned and let go: from the smallest size to the largest.
    pub page_ns: Fact<Measured>,
    /// For each call beside its pages.
    pub call_ns: Fact<Measured>,
}

/// How much of a transfer through a pipe by vmsplice and splice is pinning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Share {
    pub pages: PageKind,
    /// Bytes of a call.
    pub size_bytes: Bytes,
    /// Of the call of vmsplice.
    pub of_call_share: Fact<f64>,
    /// Of the call and of emptying the pipe together.
    pub of_transfer_share: Fact<f64>,
    /// Rate of the transfer by one thread that fills and empties in turn.
    pub transfer_gib_per_s: Fact<Measured>,
}

/// Larger pages against base pages, by one way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ratio {
    pub way: Way,
    /// The larger pages.
    pub pages: PageKind,
    /// What a call and its release take for each page, over the same on base pages; below 1 the larger
    /// pages are cheaper.
    pub ratio: f64,
    /// Its 95% interval; missing with fewer repeats than one needs.
    pub interval: Fact<(f64, f64)>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Judgement {
    /// Prices by way and kind of page.
    pub prices: Vec<Price>,
    /// Shares by kind of page and size.
    pub shares: Vec<Share>,
    /// Larger pages against base pages.
    pub ratios: Vec<Ratio>,
    /// Published figures, set beside this machine's.
    pub claims: Vec<Claim>,
    /// What this machine should do: three sentences.
    pub advice: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(repeat: u32, call_ns: f64, release_ns: f64) -> Sample {
        Sample { repeat, place: 0, call_ns, release_ns, within_share: 0.0 }
    }

    #[test]
    fn pinning_is_what_is_beyond_the_same_without() {
        let size = Bytes::kib(64);
        let point = |way, pages, ns| Point {
            samples: vec![sample(3, ns, 10.0)],
            ..Point::new(way, pages, size)
        };
        let pins = Pins {
            seed: 1,
            repeats: 1,
            quick: false,
            cpu: 0,
            region_bytes: Bytes::mib(2),
            base_page_bytes: PageSize::BASE_4K,
            huge_page_bytes: PageSize::PMD_2M,
            points: vec![
                point(Way::Vmsplice, PageKind::Thp, 500.0),
                point(Way::Tee, PageKind::Base, 300.0),
                point(Way::Register, PageKind::Thp, 900.0),
                point(Way::ReadOwn, PageKind::Thp, 900.0),
            ],
            unavailable: Vec::new(),
            missing_ways: Vec::new(),
            judgement: None,
        };
        let held = |way| pins.held(pins.find(way, PageKind::Thp, size).unwrap());
        assert_eq!(held(Way::Vmsplice), [(3, 200.0)].into_iter().collect());
        assert_eq!(held(Way::Register), [(3, 910.0)].into_iter().collect());
        assert_eq!(held(Way::ReadOwn), Series::default(), "without the copy alone");
        assert_eq!(pins.pages_of(&pins.points[0]), 16);
        let text = serde_json::to_string(&pins).unwrap();
        assert_eq!(serde_json::from_str::<Pins>(&text).unwrap(), pins);
    }
}
