//! First touches of memory as they were measured: what a page costs until it can be used, under every
//! way to get it.
//!
//! A [`Point`] is one [`Way`] with so many threads that use one base page in so many. A [`Sample`] is one
//! fresh mapping: made, touched, given back, each timed apart on the wall clock, with the faults that the
//! kernel counted meanwhile. Figures for people are nanoseconds for each base page used, so that ways on
//! pages of different sizes compare. Machine and version stand in the saved run around it (`run::Run`).

mod way;

pub use way::Way;

use crate::bench::{Claim, MissingWay, Series};
use crate::measured::{Fact, Measured, median};
use crate::units::{Bytes, Nanos, PageSize};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Faults that may come on top whatever is touched: the stack, the clock's page, the C library.
const STRAY_FAULTS: u64 = 32;
/// One expected fault in so many may be missing or too many.
const TOLERANCE: u64 = 50;

/// A part of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum Part {
    /// Making the mapping: mmap, advice, populating, fork.
    #[strum(serialize = "set-up")]
    Setup,
    /// One access to each page used.
    Touch,
    /// Giving it back: munmap.
    #[strum(serialize = "tear-down")]
    Teardown,
    /// All three.
    #[strum(serialize = "together")]
    Whole,
}

/// One fresh mapping.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// Number of the repeat, from 0.
    pub repeat: u32,
    /// Place in the order in which all mappings were made, from 0.
    pub place: u32,
    /// Making it.
    pub setup_ns: Nanos,
    /// Touching it, from the first thread's first access to the last one's last.
    pub touch_ns: Nanos,
    /// Giving it back.
    pub teardown_ns: Nanos,
    /// CPU time of all threads for all of it.
    pub cpu_ns: Nanos,
    /// Minor faults while it was made ready: none where the kernel fills the mapping itself.
    pub setup_faults: u64,
    /// Minor faults while it was touched.
    pub touch_faults: u64,
    /// What of it was mapped between the two.
    pub resident_bytes: Fact<Bytes>,
}

impl Sample {
    /// The time of a part.
    #[must_use]
    pub fn time(&self, part: Part) -> Nanos {
        match part {
            Part::Setup => self.setup_ns,
            Part::Touch => self.touch_ns,
            Part::Teardown => self.teardown_ns,
            Part::Whole => self.setup_ns + self.touch_ns + self.teardown_ns,
        }
    }
}

/// One way, by so many threads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    pub way: Way,
    /// One base page in so many is used.
    pub every_pages: u64,
    /// Threads that touch, each a part of its own.
    pub threads: u32,
    pub mapped_bytes: Bytes,
    /// Base pages that are used.
    pub used_pages: u64,
    /// Size of the pages that the kernel gave, as it showed.
    pub page_bytes: Fact<PageSize>,
    /// Faults that the touches must take, where that is known beforehand.
    pub expected_faults: Fact<u64>,
    /// The mappings, in the order of their repeats.
    pub samples: Vec<Sample>,
    /// Why there are no samples, or fewer than asked for.
    pub refused: Option<String>,
}

impl Point {
    /// Nanoseconds for each page used, over all mappings; none without samples.
    #[must_use]
    pub fn page_ns(&self, part: Part) -> Option<Measured> {
        self.page_times(part).measured()
    }

    /// The same of one mapping.
    #[must_use]
    pub fn page_ns_of(&self, sample: &Sample, part: Part) -> f64 {
        sample.time(part).0 as f64 / self.used_pages.max(1) as f64
    }

    /// The same, mapping by mapping.
    #[must_use]
    pub fn page_times(&self, part: Part) -> Series {
        self.samples.iter().map(|s| (s.repeat, self.page_ns_of(s, part))).collect()
    }

    /// CPU time of all threads for each page used.
    #[must_use]
    pub fn cpu_page_ns(&self) -> Option<f64> {
        let each = |sample: &Sample| sample.cpu_ns.0 as f64 / self.used_pages.max(1) as f64;
        median(&self.samples.iter().map(each).collect::<Vec<f64>>())
    }

    /// Faults of the touches in the median mapping.
    #[must_use]
    pub fn touch_faults(&self) -> Option<u64> {
        median_count(self.samples.iter().map(|sample| sample.touch_faults))
    }

    /// What was mapped before the first touch, in the median mapping.
    #[must_use]
    pub fn resident_bytes(&self) -> Option<Bytes> {
        let known = self.samples.iter().filter_map(|sample| sample.resident_bytes.known());
        median_count(known.map(|bytes| bytes.0)).map(Bytes)
    }

    /// Whether the kernel counted the faults that were expected; none where that is not known.
    #[must_use]
    pub fn has_expected_faults(&self) -> Option<bool> {
        Some(Self::is_expected(self.touch_faults()?, *self.expected_faults.known()?))
    }

    /// Whether so many faults are as many as expected, but for strays.
    #[must_use]
    pub const fn is_expected(found: u64, expected: u64) -> bool {
        found.abs_diff(expected) <= STRAY_FAULTS + expected / TOLERANCE
    }

    /// What is mapped and never used.
    #[must_use]
    pub fn wasted_bytes(&self, base: PageSize) -> Bytes {
        Bytes(self.mapped_bytes.0.saturating_sub(self.used_pages.saturating_mul(base.bytes())))
    }

    /// This way, so much of it used, by so many threads.
    #[must_use]
    pub fn is(&self, way: Way, every_pages: u64, threads: u32) -> bool {
        (self.way, self.every_pages, self.threads) == (way, every_pages, threads)
    }

    /// How it is shown: `map-populate 10%`, `thp x4`.
    #[must_use]
    pub fn label(&self) -> String {
        let mut label = self.way.label();
        if self.every_pages > 1 {
            label.push_str(&format!(" {}%", 100 / self.every_pages));
        }
        if self.threads > 1 {
            label.push_str(&format!(" x{}", self.threads));
        }
        label
    }
}

/// The lower median of counts.
fn median_count(counts: impl Iterator<Item = u64>) -> Option<u64> {
    let mut sorted: Vec<u64> = counts.collect();
    sorted.sort_unstable();
    let middle = sorted.len().checked_sub(1)? / 2;
    sorted.get(middle).copied()
}

/// A way that was requested and is not available.
pub type Unavailable = MissingWay<Way>;

/// What a first touch costs more where a virtual machine's host must back the memory again. Such chunks
/// are met while memory is touched and freed before the mappings that are timed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// Whether the chunks were touched on huge pages.
    pub is_huge: bool,
    pub chunk_bytes: Bytes,
    /// Chunks that were touched.
    pub chunks: u64,
    /// Those that cost more than memory that is there.
    pub slow_chunks: u64,
    /// What those cost more for each base page.
    pub extra_page_ns: Fact<f64>,
}

/// A huge page of which one base page is made read-only and writable again, against the same calls on base
/// pages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Split {
    /// Huge pages of each repeat.
    pub huge_pages: u64,
    /// Memory on huge pages before.
    pub before_bytes: Bytes,
    /// And behind it.
    pub after_bytes: Bytes,
    /// The first call, for each huge page: splits the page.
    pub split_ns: Measured,
    /// The second: the rights are as before, the page stays split.
    pub mend_ns: Measured,
    /// The first call on base pages.
    pub base_split_ns: Measured,
    /// The second on base pages.
    pub base_mend_ns: Measured,
}

/// What two processes see of one file on hugetlbfs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SharedPool {
    /// Where hugetlbfs is mounted.
    pub mount: String,
    /// Pages that this process filled.
    pub pages: u64,
    /// Pages in which the second process found what the first had written.
    pub seen_pages: u64,
    /// Faults of the second process: it maps what is there and gets no page of its own.
    pub second_faults: u64,
    /// Whether the file can be mapped for execution.
    pub executable: Fact<bool>,
}

/// What came of a file that was mapped with `MAP_POPULATE` and not cached before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Populated {
    /// Mapping and filling it.
    pub setup_ns: Nanos,
    /// What of it was mapped when the call came back.
    pub resident_bytes: Bytes,
    /// Reading each page once.
    pub touch_ns: Nanos,
    /// Faults of these reads that waited for the device.
    pub major_faults: u64,
}

/// The same file populated by a process alone, and by one whose cgroup may not hold all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pressure {
    pub file_bytes: Bytes,
    /// What the group may hold.
    pub limit_bytes: Bytes,
    /// Without a limit.
    pub alone: Populated,
    pub limited: Populated,
}

/// All first touches of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FirstTouch {
    /// Seed of the order of the mappings.
    pub seed: u64,
    /// Fresh mappings asked for of each point.
    pub repeats: u32,
    /// The short form.
    pub quick: bool,
    /// The CPUs of the threads, in their order.
    pub cpus: Vec<u32>,
    /// Size of each mapping.
    pub size_bytes: Bytes,
    /// Most memory that could be taken.
    pub most_bytes: Bytes,
    /// What sets that bound.
    pub bound_by: String,
    pub base_page_bytes: PageSize,
    pub huge_page_bytes: PageSize,
    /// Every way.
    pub points: Vec<Point>,
    /// Ways that are not available.
    pub unavailable: Vec<Unavailable>,
    /// What the host's part is.
    pub host: Vec<Host>,
    /// A huge page split.
    pub split: Fact<Split>,
    /// The pool shared by two processes.
    pub shared_pool: Fact<SharedPool>,
    /// A mapping filled where memory is short.
    #[serde(default = "not_asked")]
    pub pressure: Fact<Pressure>,
    /// What is concluded; none where nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judgement: Option<Judgement>,
}

/// Of runs that were saved before it was measured.
fn not_asked() -> Fact<Pressure> {
    Fact::missing("not requested")
}

impl FirstTouch {
    /// The point of this way, use and number of threads.
    #[must_use]
    pub fn find(&self, way: Way, every_pages: u64, threads: u32) -> Option<&Point> {
        self.points.iter().find(|point| point.is(way, every_pages, threads))
    }

    /// The point by one thread that uses every page.
    #[must_use]
    pub fn plain(&self, way: Way) -> Option<&Point> {
        self.find(way, 1, 1)
    }
}

/// One way against its baseline ([`Way::baseline`]), with as many threads, all of it together: making,
/// touching, giving back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ratio {
    pub way: Way,
    /// It used one base page in so many.
    pub every_pages: u64,
    /// So many threads touched.
    pub threads: u32,
    /// Time for each page used over that of the baseline; below 1 it is faster.
    pub ratio: f64,
    /// Its 95% interval; missing with fewer repeats than one needs.
    pub interval: Fact<(f64, f64)>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Judgement {
    /// Every way against its baseline.
    pub ratios: Vec<Ratio>,
    /// The claims about these calls, and whether they hold here.
    pub claims: Vec<Claim>,
    /// What this machine should do: three sentences.
    pub advice: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(setup: u64, touch: u64, teardown: u64, touch_faults: u64) -> Sample {
        Sample {
            repeat: 0,
            place: 0,
            setup_ns: Nanos(setup),
            touch_ns: Nanos(touch),
            teardown_ns: Nanos(teardown),
            cpu_ns: Nanos(setup + touch),
            setup_faults: 0,
            touch_faults,
            resident_bytes: Fact::Known(Bytes::kib(4)),
        }
    }

    fn point(samples: Vec<Sample>) -> Point {
        Point {
            way: Way::MapPopulate,
            every_pages: 10,
            threads: 1,
            mapped_bytes: Bytes::mib(4),
            used_pages: 100,
            page_bytes: Fact::Known(PageSize::BASE_4K),
            expected_faults: Fact::Known(1000),
            samples,
            refused: None,
        }
    }

    #[test]
    fn times_are_for_each_page_used() {
        let point = point(vec![sample(1000, 300, 200, 1000), sample(3000, 100, 200, 1000)]);
        let of = |part| point.page_ns(part).unwrap().median;
        assert_eq!([Part::Setup, Part::Touch, Part::Teardown].map(of), [20.0, 2.0, 2.0]);
        assert_eq!(of(Part::Whole), 24.0);
        assert_eq!(point.cpu_page_ns(), Some(22.0));
        assert_eq!(point.wasted_bytes(PageSize::BASE_4K), Bytes(Bytes::mib(4).0 - 100 * 4096));
        assert_eq!(point.label(), "map-populate 10%");
    }

    #[test]
    fn faults_are_as_expected_within_strays() {
        let found = |faults| point(vec![sample(1, 1, 1, faults)]).has_expected_faults();
        assert_eq!([1000, 1052, 948].map(found), [Some(true); 3]);
        assert_eq!([1053, 947, 0].map(found), [Some(false); 3]);
        assert_eq!(point(Vec::new()).has_expected_faults(), None);
        let mut unknown = point(vec![sample(1, 1, 1, 5)]);
        unknown.expected_faults = Fact::missing("the kernel decides");
        assert_eq!(unknown.has_expected_faults(), None);
    }

    #[test]
    fn keys_end_in_their_unit_and_words_are_different() {
        let way = Way::Mthp { page_bytes: PageSize::BASE_64K };
        let point = Point { way, ..point(vec![sample(1, 2, 3, 4)]) };
        let text = serde_json::to_string(&point).unwrap();
        for part in [r#""mthp":{"page_bytes":65536}"#, r#""touch_ns":2"#, r#""used_pages":100"#] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert_eq!(serde_json::from_str::<Point>(&text).unwrap(), point);
        let mut words: Vec<&str> = Way::ALL.iter().map(|way| way.into_str()).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), Way::ALL.len());
    }
}
