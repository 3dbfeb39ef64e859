//! Measured walks through memory: the cost of a load that depends on the previous one, for growing sets and
//! every page size, and the share of address translation in it.
//!
//! A [`TlbPoint`] is a [`TlbPath`] through a number of elements on one [`PageKind`]. A [`TlbSample`] is one fresh
//! mapping. Times are nanoseconds of CPU time for each load. [`MemoryBandwidth`] is measured in the same minutes.
//! The saved run around it (`run::SavedRun`) holds machine and version.

pub use crate::bench::PageKind;
use crate::bench::{BenchClaim, RepeatSeries};
use crate::measured::{Fact, Measured};
use crate::schema::JsonSchema;
use crate::units::{Bytes, PageSize};
use serde::{Deserialize, Serialize};

/// The order in which a list visits its elements.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum AccessOrder {
    /// Random, each element once in a lap.
    Random,
    /// By address, then back to the first.
    Sequential,
}

impl AccessOrder {
    /// Both, by address first.
    pub const ALL: [Self; 2] = [Self::Sequential, Self::Random];
}

/// The layout of the elements of a walk.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum TlbPath {
    /// Adjacent list elements: a pointer and `npad` words of padding each.
    List {
        order: AccessOrder,
        /// Words of padding behind the pointer.
        npad: u32,
    },
    /// One cache line in every `apart_bytes`, in random order. At a distance of a page or more, each load
    /// needs its own translation. At the distance of a line, hardly any load does.
    Lines {
        /// Distance from one line to the next.
        apart_bytes: Bytes,
    },
}

/// Bytes of a cache line.
pub const LINE: Bytes = Bytes(64);

impl TlbPath {
    /// Distance from one element to the next, by address.
    #[must_use]
    pub const fn pitch(self) -> Bytes {
        match self {
            Self::List { npad, .. } => Bytes(8 * (npad as u64 + 1)),
            Self::Lines { apart_bytes } => apart_bytes,
        }
    }

    /// Lines without a gap, which show the effect of the caches nearly without translation.
    pub const PACKED: Self = Self::Lines { apart_bytes: LINE };
}

/// One fresh mapping.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TlbSample {
    /// Number of the repeat, from 0.
    pub repeat: u32,
    /// Position of this mapping in the order in which all mappings were walked, from 0.
    pub place: u32,
    /// Median time of a load over the pieces of the walk, in nanoseconds.
    pub load_ns: f64,
    /// Half the range of the pieces, relative to the median: disturbance while the memory stayed the same.
    pub within_share: f64,
}

/// A path through a number of elements on one kind of page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TlbPoint {
    /// Layout of the elements.
    pub path: TlbPath,
    /// Kind of pages that was requested.
    pub pages: PageKind,
    /// Number of elements.
    pub elements: u64,
    /// Page size that the kernel showed after the walk, the same for all samples.
    pub page_bytes: Fact<PageSize>,
    /// Samples in the order of their repeats.
    pub samples: Vec<TlbSample>,
    /// Why there are no samples, or fewer than requested.
    pub refused: Option<String>,
}

impl TlbPoint {
    /// A point that was not walked yet.
    #[must_use]
    pub fn new(path: TlbPath, pages: PageKind, elements: u64) -> Self {
        let page_bytes = Fact::missing("not walked");
        Self { path, pages, elements, page_bytes, samples: Vec::new(), refused: None }
    }

    /// Bytes from the first element to the end of the last.
    #[must_use]
    pub const fn set_bytes(&self) -> Bytes {
        Bytes(self.elements.saturating_mul(self.path.pitch().0))
    }

    /// Nanoseconds for each load over all mappings; none without samples.
    #[must_use]
    pub fn load_ns(&self) -> Option<Measured> {
        self.loads().measured()
    }

    /// Nanoseconds for each load, mapping by mapping.
    #[must_use]
    pub fn loads(&self) -> RepeatSeries {
        self.samples.iter().map(|s| (s.repeat, s.load_ns)).collect()
    }
}

/// The accesses that a TLB translates.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(const_into_str)]
pub enum TlbSide {
    /// Loads and stores.
    #[strum(serialize = "dTLB")]
    Data,
    /// Loads only.
    #[strum(serialize = "load dTLB")]
    Load,
    /// Stores only.
    #[strum(serialize = "store dTLB")]
    Store,
    #[strum(serialize = "iTLB")]
    Code,
    /// Data and code.
    #[strum(serialize = "TLB")]
    Unified,
}

impl TlbSide {
    /// True if loads use this TLB.
    #[must_use]
    pub const fn serves_loads(self) -> bool {
        matches!(self, Self::Data | Self::Load | Self::Unified)
    }

    /// True if the fetching of code uses this TLB.
    #[must_use]
    pub const fn serves_code(self) -> bool {
        matches!(self, Self::Code | Self::Unified)
    }
}

/// A TLB that the processor, or a hypervisor for it, claims.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimedTlb {
    /// Level of the TLB: 1 or 2.
    pub level: u8,
    /// The accesses that it translates.
    pub side: TlbSide,
    /// Page sizes that share its entries.
    pub page_bytes: Vec<PageSize>,
    pub entries: u32,
    /// Number of entries if the reported figure is in a larger unit. Processors of this family use such a
    /// unit and do not report it here.
    pub scaled_entries: Option<u32>,
}

/// A data cache of the CPU that walked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DataCache {
    /// Level of the cache, from 1.
    pub level: u8,
    pub size_bytes: Bytes,
}

/// Pages that were requested and are not available.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnavailablePages {
    pub pages: PageKind,
    /// The kernel's reason.
    pub why: String,
    /// The step that would make them available.
    pub next: String,
}

/// Rates over buffers larger than the caches, in GiB/s. The bytes of a copy count once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryRates {
    /// Rate of reading every byte.
    pub read_gib_per_s: Fact<Measured>,
    /// Rate of writing every byte.
    pub write_gib_per_s: Fact<Measured>,
    /// Rate of copying every byte to another buffer.
    pub copy_gib_per_s: Fact<Measured>,
}

impl MemoryRates {
    /// No rates, all for the same reason.
    #[must_use]
    pub fn missing(reason: &str) -> Self {
        Self {
            read_gib_per_s: Fact::missing(reason),
            write_gib_per_s: Fact::missing(reason),
            copy_gib_per_s: Fact::missing(reason),
        }
    }

    /// The three rates with their names.
    #[must_use]
    pub const fn named(&self) -> [(&'static str, &Fact<Measured>); 3] {
        [
            ("read", &self.read_gib_per_s),
            ("write", &self.write_gib_per_s),
            ("copy", &self.copy_gib_per_s),
        ]
    }
}

/// Rates of the memory for one CPU and for all CPUs that may be used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryBandwidth {
    pub buffer_bytes: Bytes,
    /// Number of CPUs behind `all`.
    pub cpus: u32,
    /// Rates of one CPU alone.
    pub one: MemoryRates,
    /// Rates of all CPUs at the same time, added up.
    pub all: MemoryRates,
}

/// All walks of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TlbBenchReport {
    /// Seed of all random orders.
    pub seed: u64,
    /// Number of fresh mappings requested for each point.
    pub repeats: u32,
    /// True for the short form (`--quick`).
    pub quick: bool,
    /// Number of the CPU that walked.
    pub cpu: u32,
    /// Most memory that a walk could use.
    pub most_bytes: Bytes,
    /// The reason for that bound.
    pub bound_by: String,
    pub base_page_bytes: PageSize,
    pub huge_page_bytes: PageSize,
    /// Every path on every kind of page.
    pub points: Vec<TlbPoint>,
    /// Kinds of pages that are not available.
    pub unavailable: Vec<UnavailablePages>,
    /// Rates of the memory.
    pub bandwidth: MemoryBandwidth,
    /// TLBs that the processor claims; empty if it claims none.
    pub claimed: Vec<ClaimedTlb>,
    /// Data caches that the processor claims, smallest first.
    pub caches: Vec<DataCache>,
    /// Conclusions; none if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judgement: Option<TlbJudgement>,
}

impl TlbBenchReport {
    /// The point of this path, kind of page and number of elements.
    #[must_use]
    pub fn find(&self, path: TlbPath, pages: PageKind, elements: u64) -> Option<&TlbPoint> {
        let is_it = |p: &&TlbPoint| p.path == path && p.pages == pages && p.elements == elements;
        self.points.iter().find(is_it)
    }

    /// Points of one path on one kind of page, by growing set.
    #[must_use]
    pub fn curve(&self, path: TlbPath, pages: PageKind) -> Vec<&TlbPoint> {
        let of = self.points.iter().filter(|p| p.path == path && p.pages == pages);
        let mut curve: Vec<&TlbPoint> = of.collect();
        curve.sort_by_key(|p| p.elements);
        curve
    }

    /// The claimed TLBs that loads from pages of this size use.
    pub fn serving_loads(&self, page: PageSize) -> impl Iterator<Item = &ClaimedTlb> {
        let serves = move |t: &&ClaimedTlb| t.side.serves_loads() && t.page_bytes.contains(&page);
        self.claimed.iter().filter(serves)
    }

    /// The requested lists, random ones first, by growing element.
    #[must_use]
    pub fn lists(&self) -> Vec<TlbPath> {
        let of = self.points.iter().map(|p| p.path);
        let mut lists: Vec<TlbPath> = of.filter(|p| matches!(p, TlbPath::List { .. })).collect();
        lists.sort_unstable();
        lists.dedup();
        lists
    }
}

/// Stability of a figure from run to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RatioSteadiness {
    /// The next run finds the same.
    Steady,
    /// It differs from mapping to mapping and stays the same within a mapping. The physical pages that the
    /// kernel gives decide, because caches and TLBs choose their sets by address.
    Placement,
    /// It differs within a mapping: others use the same core, caches or memory.
    Disturbed,
}

/// Larger pages compared with base pages, for one list over one set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TlbRatio {
    pub path: TlbPath,
    /// Kind of the larger pages.
    pub pages: PageKind,
    pub set_bytes: Bytes,
    /// Time of a load divided by that on base pages. Below 1 the larger pages are faster.
    pub ratio: f64,
    /// 95% interval of the ratio; missing if there are fewer mappings than it needs.
    pub interval: Fact<(f64, f64)>,
    /// Stability of the ratio from run to run.
    pub steadiness: RatioSteadiness,
}

/// The number of pages from which the cost of a load rises.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TlbKnee {
    pub pages: PageKind,
    /// Distance from one line to the next.
    pub apart_bytes: Bytes,
    /// Largest number of pages that costs no more than fewer pages.
    pub below_pages: u64,
    /// Smallest number of pages that costs more.
    pub above_pages: u64,
    /// Number of pages at which the rise begins, by its shape.
    pub about_pages: u64,
    /// Cost of translation before the rise, in nanoseconds for each load.
    pub from_ns: f64,
    /// Cost of translation after the rise, in nanoseconds for each load.
    pub to_ns: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TlbJudgement {
    /// Larger pages compared with base pages, for every list and set that has both.
    pub ratios: Vec<TlbRatio>,
    /// Numbers of pages at which translations run out, by kind of page, smallest first.
    pub knees: Vec<TlbKnee>,
    /// What the processor claims of its TLBs, compared with the knees.
    pub claims: Vec<BenchClaim>,
    /// In a virtual machine: cost of translation on huge pages, as a share of that on base pages, for walks
    /// of the same lines. Near 0 the host backs huge pages by huge pages. Near 1 it backs them by base pages,
    /// and the TLB holds base pages.
    pub huge_translation_share: Fact<f64>,
    /// Advice for this machine: three sentences.
    pub advice: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_have_the_sizes_of_their_padding() {
        let of = |npad| TlbPath::List { order: AccessOrder::Random, npad }.pitch();
        assert_eq!([0, 7, 15, 31].map(of), [8, 64, 128, 256].map(Bytes));
        assert_eq!(TlbPath::PACKED.pitch(), LINE);
        let path = TlbPath::List { order: AccessOrder::Sequential, npad: 7 };
        assert_eq!(TlbPoint::new(path, PageKind::Base, 1 << 14).set_bytes(), Bytes::mib(1));
    }

    #[test]
    fn a_point_is_the_median_of_its_mappings() {
        let mut point = TlbPoint::new(TlbPath::PACKED, PageKind::Thp, 8);
        assert_eq!(point.load_ns(), None);
        for (repeat, load_ns) in (0..).zip([2.0, 9.0, 1.0]) {
            point.samples.push(TlbSample { repeat, place: repeat, load_ns, within_share: 0.0 });
        }
        assert_eq!(point.load_ns().map(|m| (m.median, m.n)), Some((2.0, 3)));
    }

    #[test]
    fn keys_end_in_their_unit() {
        let apart_bytes = Bytes::kib(68);
        let point = TlbPoint::new(TlbPath::Lines { apart_bytes }, PageKind::Base, 64);
        let text = serde_json::to_string(&point).unwrap();
        for part in [r#""lines":{"apart_bytes":69632}"#, r#""pages":"base""#, r#""page_bytes""#] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert_eq!(serde_json::from_str::<TlbPoint>(&text).unwrap(), point);
    }
}
