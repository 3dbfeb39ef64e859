//! Walks through memory as they were measured: what one load costs that needs the one before, over
//! growing sets and on pages of every size, and what of it is address translation.
//!
//! A [`Point`] is a [`Path`] through so many elements on one [`PageKind`]. A [`Sample`] is one fresh
//! mapping. Times are nanoseconds of CPU time for each load. [`Bandwidth`] is of the same minutes.
//! Machine and version stand in the saved run around it (`run::Run`).

pub use crate::bench::PageKind;
use crate::bench::{Claim, Series};
use crate::measured::{Fact, Measured};
use crate::units::{Bytes, PageSize};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The order in which a list goes through its elements.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum Order {
    /// By chance, each element once in a lap.
    Random,
    /// By address, and back to the first.
    Sequential,
}

impl Order {
    /// Both, by address first.
    pub const ALL: [Self; 2] = [Self::Sequential, Self::Random];
}

/// Where the elements of a walk lie.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Path {
    /// List elements side by side: a pointer and `npad` words of padding each.
    List {
        order: Order,
        /// Words of padding behind the pointer.
        npad: u32,
    },
    /// One cache line in every `apart_bytes`, in random order: with a distance of a page or more each
    /// load needs a translation of its own, with that of a line hardly one.
    Lines {
        /// From one to the next.
        apart_bytes: Bytes,
    },
}

/// Bytes of a cache line.
pub const LINE: Bytes = Bytes(64);

impl Path {
    /// From one element to the next by address.
    #[must_use]
    pub const fn pitch(self) -> Bytes {
        match self {
            Self::List { npad, .. } => Bytes(8 * (npad as u64 + 1)),
            Self::Lines { apart_bytes } => apart_bytes,
        }
    }

    /// Lines without a gap: what the caches make of so many lines, nearly without translation.
    pub const PACKED: Self = Self::Lines { apart_bytes: LINE };
}

/// One fresh mapping.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// Number of the repeat, from 0.
    pub repeat: u32,
    /// Place in the order in which all mappings were walked, from 0.
    pub place: u32,
    /// Median time of a load over the pieces of the walk.
    pub load_ns: f64,
    /// Half the range of the pieces, relative to the median: what passed while the memory stayed.
    pub within_share: f64,
}

/// A path through so many elements on one kind of page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// Where the elements lie.
    pub path: Path,
    /// The pages asked for.
    pub pages: PageKind,
    /// How many elements.
    pub elements: u64,
    /// Page size as the kernel showed it after the walk, the same for all samples.
    pub page_bytes: Fact<PageSize>,
    /// The mappings, in the order of their repeats.
    pub samples: Vec<Sample>,
    /// Why there are no samples, or fewer than asked for.
    pub refused: Option<String>,
}

impl Point {
    /// A point that was not walked yet.
    #[must_use]
    pub fn new(path: Path, pages: PageKind, elements: u64) -> Self {
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
    pub fn loads(&self) -> Series {
        self.samples.iter().map(|s| (s.repeat, s.load_ns)).collect()
    }
}

/// What a TLB translates.
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
    /// Loads go through it.
    #[must_use]
    pub const fn serves_loads(self) -> bool {
        matches!(self, Self::Data | Self::Load | Self::Unified)
    }

    /// The fetching of code goes through it.
    #[must_use]
    pub const fn serves_code(self) -> bool {
        matches!(self, Self::Code | Self::Unified)
    }
}

/// A TLB as the processor, or a hypervisor in its place, claims it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimedTlb {
    /// 1 or 2.
    pub level: u8,
    /// What it translates.
    pub side: TlbSide,
    /// The page sizes that share its entries.
    pub page_bytes: Vec<PageSize>,
    pub entries: u32,
    /// Entries if the figure is in a larger unit, which processors of this family use and do not
    /// say here.
    pub scaled_entries: Option<u32>,
}

/// A data cache of the CPU that walked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cache {
    /// 1, 2, ...
    pub level: u8,
    pub size_bytes: Bytes,
}

/// Pages that were requested and are not available.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unavailable {
    pub pages: PageKind,
    /// What the kernel said.
    pub why: String,
    /// What would make them available.
    pub next: String,
}

/// Rates over buffers larger than the caches, in GiB/s; of a copy the bytes are counted once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rates {
    /// Every byte read.
    pub read_gib_per_s: Fact<Measured>,
    /// Every byte written.
    pub write_gib_per_s: Fact<Measured>,
    /// Every byte copied to another buffer.
    pub copy_gib_per_s: Fact<Measured>,
}

impl Rates {
    /// No rates, for one reason.
    #[must_use]
    pub fn missing(reason: &str) -> Self {
        Self {
            read_gib_per_s: Fact::missing(reason),
            write_gib_per_s: Fact::missing(reason),
            copy_gib_per_s: Fact::missing(reason),
        }
    }

    /// The three with their names.
    #[must_use]
    pub const fn named(&self) -> [(&'static str, &Fact<Measured>); 3] {
        [
            ("read", &self.read_gib_per_s),
            ("write", &self.write_gib_per_s),
            ("copy", &self.copy_gib_per_s),
        ]
    }
}

/// What the memory gives to one CPU and to all that may be used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bandwidth {
    pub buffer_bytes: Bytes,
    /// CPUs of `all`.
    pub cpus: u32,
    /// One CPU alone.
    pub one: Rates,
    /// All at the same time, together.
    pub all: Rates,
}

/// All walks of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Walks {
    /// Seed of all random orders.
    pub seed: u64,
    /// Fresh mappings asked for of each point.
    pub repeats: u32,
    /// The short form.
    pub quick: bool,
    /// The CPU that walked.
    pub cpu: u32,
    /// Most memory that a walk could take.
    pub most_bytes: Bytes,
    /// What sets that bound.
    pub bound_by: String,
    pub base_page_bytes: PageSize,
    pub huge_page_bytes: PageSize,
    /// Every path on every kind of page.
    pub points: Vec<Point>,
    /// Kinds of pages that are not available.
    pub unavailable: Vec<Unavailable>,
    /// What the memory gives.
    pub bandwidth: Bandwidth,
    /// TLBs as claimed; empty where nothing is claimed.
    pub claimed: Vec<ClaimedTlb>,
    /// Data caches as claimed, smallest first.
    pub caches: Vec<Cache>,
    /// What is concluded; none where nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judgement: Option<Judgement>,
}

impl Walks {
    /// The point of this path, these pages and so many elements.
    #[must_use]
    pub fn find(&self, path: Path, pages: PageKind, elements: u64) -> Option<&Point> {
        let is_it = |p: &&Point| p.path == path && p.pages == pages && p.elements == elements;
        self.points.iter().find(is_it)
    }

    /// The points of one path on one kind of page, by growing set.
    #[must_use]
    pub fn curve(&self, path: Path, pages: PageKind) -> Vec<&Point> {
        let of = self.points.iter().filter(|p| p.path == path && p.pages == pages);
        let mut curve: Vec<&Point> = of.collect();
        curve.sort_by_key(|p| p.elements);
        curve
    }

    /// The claimed TLBs through which loads of pages of this size go.
    pub fn serving_loads(&self, page: PageSize) -> impl Iterator<Item = &ClaimedTlb> {
        let serves = move |t: &&ClaimedTlb| t.side.serves_loads() && t.page_bytes.contains(&page);
        self.claimed.iter().filter(serves)
    }

    /// The lists that were asked for, random ones first, by growing element.
    #[must_use]
    pub fn lists(&self) -> Vec<Path> {
        let of = self.points.iter().map(|p| p.path);
        let mut lists: Vec<Path> = of.filter(|p| matches!(p, Path::List { .. })).collect();
        lists.sort_unstable();
        lists.dedup();
        lists
    }
}

/// Whether a figure of one run is that of the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Steadiness {
    /// It is.
    Steady,
    /// It differs from mapping to mapping and stays while a mapping does: which physical pages the
    /// kernel gave decides (caches and TLBs choose their sets by address).
    Placement,
    /// It differs while the mapping stays: others use the same core, caches or memory.
    Disturbed,
}

/// Larger pages against base pages, for one list over one set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ratio {
    pub path: Path,
    /// The larger pages.
    pub pages: PageKind,
    pub set_bytes: Bytes,
    /// Time of a load over that on base pages; below 1 the larger pages are faster.
    pub ratio: f64,
    /// Its 95% interval; missing with fewer mappings than one needs.
    pub interval: Fact<(f64, f64)>,
    /// Whether the next run finds the same.
    pub steadiness: Steadiness,
}

/// Where a growing number of pages begins to cost more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Knee {
    pub pages: PageKind,
    /// From one line to the next.
    pub apart_bytes: Bytes,
    /// The last number of pages that costs no more than fewer.
    pub below_pages: u64,
    /// The first that does.
    pub above_pages: u64,
    /// Where the rise begins, by its shape.
    pub about_pages: u64,
    /// Cost of translation for each load before the rise.
    pub from_ns: f64,
    /// And behind it.
    pub to_ns: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Judgement {
    /// Larger pages against base pages, for every list and set with both.
    pub ratios: Vec<Ratio>,
    /// Where translations run out, by kind of page, smallest first.
    pub knees: Vec<Knee>,
    /// What the processor claims of its TLBs, set beside the knees.
    pub claims: Vec<Claim>,
    /// In a virtual machine: cost of translation on huge pages, as a share of that on base pages, where
    /// both walk the same lines. Near 0 the host backs huge pages by huge pages; near 1 it backs them by
    /// base pages, and the TLB holds those.
    pub huge_translation_share: Fact<f64>,
    /// What this machine should do: three sentences.
    pub advice: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_have_the_sizes_of_their_padding() {
        let of = |npad| Path::List { order: Order::Random, npad }.pitch();
        assert_eq!([0, 7, 15, 31].map(of), [8, 64, 128, 256].map(Bytes));
        assert_eq!(Path::PACKED.pitch(), LINE);
        let path = Path::List { order: Order::Sequential, npad: 7 };
        assert_eq!(Point::new(path, PageKind::Base, 1 << 14).set_bytes(), Bytes::mib(1));
    }

    #[test]
    fn a_point_is_the_median_of_its_mappings() {
        let mut point = Point::new(Path::PACKED, PageKind::Thp, 8);
        assert_eq!(point.load_ns(), None);
        for (repeat, load_ns) in (0..).zip([2.0, 9.0, 1.0]) {
            point.samples.push(Sample { repeat, place: repeat, load_ns, within_share: 0.0 });
        }
        assert_eq!(point.load_ns().map(|m| (m.median, m.n)), Some((2.0, 3)));
    }

    #[test]
    fn keys_end_in_their_unit() {
        let apart_bytes = Bytes::kib(68);
        let point = Point::new(Path::Lines { apart_bytes }, PageKind::Base, 64);
        let text = serde_json::to_string(&point).unwrap();
        for part in [r#""lines":{"apart_bytes":69632}"#, r#""pages":"base""#, r#""page_bytes""#] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert_eq!(serde_json::from_str::<Point>(&text).unwrap(), point);
    }
}
