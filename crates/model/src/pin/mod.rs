//! What pinning costs, as it was measured: finding the frames of a piece of memory in the page table and
//! holding them, on pages of every size, by every way that asks the kernel for it.
//!
//! A [`Point`] is one [`Way`] with pieces of one size on one kind of page; a [`Sample`] is one fresh mapping.
//! Times are nanoseconds of CPU time for each call. Machine and version stand in the saved run around it
//! (`run::Run`).

mod judgement;

pub use judgement::{Judgement, Price, Ratio, Share};

use crate::measured::{Fact, Measured};
use crate::units::{Bytes, PageSize};
use crate::walk::{self, PageKind};
use serde::{Deserialize, Serialize};

/// A way to have memory pinned, or what the same costs without pinning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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

    /// As it is typed and shown.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Vmsplice => "vmsplice",
            Self::Tee => "tee",
            Self::Register => "register",
            Self::ReadOwn => "read-own",
            Self::Copy => "copy",
            Self::GupTest => "gup-test",
        }
    }

    /// In a sentence.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vmsplice => "vmsplice into a drained pipe",
            Self::Tee => "tee into the same pipe",
            Self::Register => "io_uring buffers, registered and given back",
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
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The way.
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

    /// Nanoseconds for a call in one repeat, release included; none where it was not measured.
    #[must_use]
    pub fn whole_ns_of(&self, repeat: u32) -> Option<f64> {
        self.samples.iter().find(|sample| sample.repeat == repeat).map(Sample::whole_ns)
    }

    /// Nanoseconds for each call over all mappings, release included; none without samples.
    #[must_use]
    pub fn whole_ns(&self) -> Option<Measured> {
        let values: Vec<f64> = self.samples.iter().map(Sample::whole_ns).collect();
        Measured::of(&values)
    }
}

/// A way that was asked for and is not to be had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingWay {
    /// Which.
    pub way: Way,
    /// What the kernel said.
    pub why: String,
    /// What would make it available.
    pub next: String,
}

/// All measurements of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// Base page.
    pub base_page_bytes: PageSize,
    /// Huge page.
    pub huge_page_bytes: PageSize,
    /// Every way, size and kind of page.
    pub points: Vec<Point>,
    /// Kinds of pages that are not to be had.
    pub unavailable: Vec<walk::Unavailable>,
    /// Ways that are not to be had.
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

    /// What pinning and letting go of a piece cost in one repeat: the whole, less what the same costs
    /// without; none where either was not measured.
    #[must_use]
    pub fn held_ns(&self, point: &Point, repeat: u32) -> Option<f64> {
        let whole = point.whole_ns_of(repeat)?;
        let Some(without) = point.way.without() else { return Some(whole) };
        let other = self.find(without, without.pages(point.pages), point.size_bytes)?;
        Some(whole - other.whole_ns_of(repeat)?)
    }

    /// Base pages of a piece.
    #[must_use]
    pub const fn pages_of(&self, point: &Point) -> u64 {
        point.size_bytes.pages(self.base_page_bytes)
    }
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
        let held = |way| pins.held_ns(pins.find(way, PageKind::Thp, size).unwrap(), 3);
        assert_eq!(held(Way::Vmsplice), Some(200.0));
        assert_eq!(held(Way::Register), Some(910.0));
        assert_eq!(held(Way::ReadOwn), None, "without the copy alone");
        assert_eq!(pins.held_ns(&pins.points[0], 4), None);
        assert_eq!(pins.pages_of(&pins.points[0]), 16);
        let text = serde_json::to_string(&pins).unwrap();
        assert_eq!(serde_json::from_str::<Pins>(&text).unwrap(), pins);
    }
}
