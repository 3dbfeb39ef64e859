//! Measured first touches of memory: the cost of a page before it can be used, for every way to get it.
//!
//! A [`MemoryBenchPoint`] is one [`MemoryBenchWay`], used by a number of threads that touch one base page in a given number. A
//! [`MemoryBenchSample`] is one fresh mapping: made, touched and given back. Each step is timed by the wall clock, with
//! the faults that the kernel counted. Reports show nanoseconds for each base page used, so that ways on
//! pages of different sizes compare. The saved run around it (`run::SavedRun`) holds machine and version.

mod way;

pub use way::MemoryBenchWay;

use crate::bench::{BenchClaim, MissingWay, RepeatSeries};
use crate::measured::{Fact, Measured, median};
use crate::schema::JsonSchema;
use crate::units::{Bytes, Nanos, PageSize};
use serde::{Deserialize, Serialize};

/// Faults that may occur in addition, whatever is touched: the stack, the clock's page, the C library.
const STRAY_FAULTS: u64 = 32;
/// One in this many expected faults may be missing or extra.
const TOLERANCE: u64 = 50;

/// A part of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum MemoryBenchPhase {
    /// Time to make the mapping: mmap, advice, populating, fork.
    #[strum(serialize = "set-up")]
    Setup,
    /// Time of one access to each page used.
    Touch,
    /// Time to give the mapping back: munmap.
    #[strum(serialize = "tear-down")]
    Teardown,
    /// Time of all three.
    #[strum(serialize = "together")]
    Whole,
}

/// One fresh mapping.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryBenchSample {
    /// Number of the repeat, from 0.
    pub repeat: u32,
    /// Position of this mapping in the order in which all mappings were made, from 0.
    pub place: u32,
    /// Time to make the mapping.
    pub setup_ns: Nanos,
    /// Time to touch it, from the first access of the first thread to the last access of the last one.
    pub touch_ns: Nanos,
    /// Time to give it back.
    pub teardown_ns: Nanos,
    /// CPU time of all threads for all three steps.
    pub cpu_ns: Nanos,
    /// Minor faults while the mapping was made. There are none if the kernel fills the mapping itself.
    pub setup_faults: u64,
    /// Minor faults while the mapping was touched.
    pub touch_faults: u64,
    /// Bytes of the mapping that were mapped before the first touch.
    pub resident_bytes: Fact<Bytes>,
}

impl MemoryBenchSample {
    /// The time of a part.
    #[must_use]
    pub fn time(&self, part: MemoryBenchPhase) -> Nanos {
        match part {
            MemoryBenchPhase::Setup => self.setup_ns,
            MemoryBenchPhase::Touch => self.touch_ns,
            MemoryBenchPhase::Teardown => self.teardown_ns,
            MemoryBenchPhase::Whole => self.setup_ns + self.touch_ns + self.teardown_ns,
        }
    }
}

/// One way, used by a number of threads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryBenchPoint {
    pub way: MemoryBenchWay,
    /// One base page in this many is used.
    pub every_pages: u64,
    /// Number of threads that touch the mapping, each its own part.
    pub threads: u32,
    pub mapped_bytes: Bytes,
    /// Number of base pages that are used.
    pub used_pages: u64,
    /// Size of the pages that the kernel gave, as it reported.
    pub page_bytes: Fact<PageSize>,
    /// Faults that the touches must take, if that is known in advance.
    pub expected_faults: Fact<u64>,
    /// Samples in the order of their repeats.
    pub samples: Vec<MemoryBenchSample>,
    /// Why there are no samples, or fewer than requested.
    pub refused: Option<String>,
}

impl MemoryBenchPoint {
    /// Nanoseconds for each page used, over all mappings; none without samples.
    #[must_use]
    pub fn page_ns(&self, part: MemoryBenchPhase) -> Option<Measured> {
        self.page_times(part).measured()
    }

    /// Nanoseconds for each page used, of one mapping.
    #[must_use]
    pub fn page_ns_of(&self, sample: &MemoryBenchSample, part: MemoryBenchPhase) -> f64 {
        sample.time(part).0 as f64 / self.used_pages.max(1) as f64
    }

    /// Nanoseconds for each page used, of each mapping.
    #[must_use]
    pub fn page_times(&self, part: MemoryBenchPhase) -> RepeatSeries {
        self.samples.iter().map(|s| (s.repeat, self.page_ns_of(s, part))).collect()
    }

    /// CPU time of all threads for each page used.
    #[must_use]
    pub fn cpu_page_ns(&self) -> Option<f64> {
        let each =
            |sample: &MemoryBenchSample| sample.cpu_ns.0 as f64 / self.used_pages.max(1) as f64;
        median(&self.samples.iter().map(each).collect::<Vec<f64>>())
    }

    /// Faults of the touches, as the median over the mappings.
    #[must_use]
    pub fn touch_faults(&self) -> Option<u64> {
        median_count(self.samples.iter().map(|sample| sample.touch_faults))
    }

    /// Bytes mapped before the first touch, as the median over the mappings.
    #[must_use]
    pub fn resident_bytes(&self) -> Option<Bytes> {
        let known = self.samples.iter().filter_map(|sample| sample.resident_bytes.known());
        median_count(known.map(|bytes| bytes.0)).map(Bytes)
    }

    /// True if the kernel counted the expected number of faults; none if that number is not known.
    #[must_use]
    pub fn has_expected_faults(&self) -> Option<bool> {
        Some(Self::is_expected(self.touch_faults()?, *self.expected_faults.known()?))
    }

    /// True if this number of faults is as expected, apart from strays.
    #[must_use]
    pub const fn is_expected(found: u64, expected: u64) -> bool {
        found.abs_diff(expected) <= STRAY_FAULTS + expected / TOLERANCE
    }

    /// Bytes that are mapped and never used.
    #[must_use]
    pub fn wasted_bytes(&self, base: PageSize) -> Bytes {
        Bytes(self.mapped_bytes.0.saturating_sub(self.used_pages.saturating_mul(base.bytes())))
    }

    /// True if the point has this way, share of pages and number of threads.
    #[must_use]
    pub fn is(&self, way: MemoryBenchWay, every_pages: u64, threads: u32) -> bool {
        (self.way, self.every_pages, self.threads) == (way, every_pages, threads)
    }

    /// Label in reports: `map-populate 10%`, `thp x4`.
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
pub type Unavailable = MissingWay<MemoryBenchWay>;

/// Extra cost of a first touch if the host of a virtual machine must back the memory again. Such chunks are
/// met while memory is touched and freed before the timed mappings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostBackingCost {
    /// True if the chunks were touched on huge pages.
    pub is_huge: bool,
    pub chunk_bytes: Bytes,
    /// Number of chunks that were touched.
    pub chunks: u64,
    /// Number of chunks that cost more than memory that the host already backs.
    pub slow_chunks: u64,
    /// Extra cost of these chunks for each base page, in nanoseconds.
    pub extra_page_ns: Fact<f64>,
}

/// Huge pages that are split: one base page of each is made read-only and then writable again. The same calls
/// on base pages stand beside them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HugePageSplit {
    /// Number of huge pages in each repeat.
    pub huge_pages: u64,
    /// Memory on huge pages before the calls.
    pub before_bytes: Bytes,
    /// Memory on huge pages after the calls.
    pub after_bytes: Bytes,
    /// Time of the first call for each huge page, in nanoseconds. It splits the page.
    pub split_ns: Measured,
    /// Time of the second call, in nanoseconds. It restores the rights; the page stays split.
    pub mend_ns: Measured,
    /// Time of the first call on base pages, in nanoseconds.
    pub base_split_ns: Measured,
    /// Time of the second call on base pages, in nanoseconds.
    pub base_mend_ns: Measured,
}

/// One file on hugetlbfs, shared by two processes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SharedPool {
    /// Path at which hugetlbfs is mounted.
    pub mount: String,
    /// Number of pages that the first process filled.
    pub pages: u64,
    /// Number of pages in which the second process found the data of the first.
    pub seen_pages: u64,
    /// Faults of the second process, which maps the existing pages and gets none of its own.
    pub second_faults: u64,
    /// True if the file can be mapped for execution.
    pub executable: Fact<bool>,
}

/// A file that was mapped with `MAP_POPULATE` while it was not cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PopulatedFile {
    /// Time to map and fill it.
    pub setup_ns: Nanos,
    /// Bytes that were mapped when the call returned.
    pub resident_bytes: Bytes,
    /// Time to read each page once.
    pub touch_ns: Nanos,
    /// Faults of these reads that waited for the device.
    pub major_faults: u64,
}

/// The same file, populated by a process without a limit and by one whose cgroup limit is smaller than the
/// file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PopulatePressure {
    pub file_bytes: Bytes,
    /// Memory limit of the cgroup.
    pub limit_bytes: Bytes,
    /// The process without a limit.
    pub alone: PopulatedFile,
    pub limited: PopulatedFile,
}

/// All first touches of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryBenchReport {
    /// Seed of the order of the mappings.
    pub seed: u64,
    /// Number of fresh mappings requested for each point.
    pub repeats: u32,
    /// True for the short form (`--quick`).
    pub quick: bool,
    /// Numbers of the CPUs that the threads ran on, in the order of the threads.
    pub cpus: Vec<u32>,
    /// Size of each mapping.
    pub size_bytes: Bytes,
    /// Most memory that a mapping could use.
    pub most_bytes: Bytes,
    /// The reason for that bound.
    pub bound_by: String,
    pub base_page_bytes: PageSize,
    pub huge_page_bytes: PageSize,
    /// All points.
    pub points: Vec<MemoryBenchPoint>,
    /// Ways that are not available.
    pub unavailable: Vec<Unavailable>,
    /// The host's part of the cost.
    pub host: Vec<HostBackingCost>,
    /// Cost of splitting a huge page.
    pub split: Fact<HugePageSplit>,
    /// The pool, shared by two processes.
    pub shared_pool: Fact<SharedPool>,
    /// A file that is populated while memory is short.
    #[serde(default = "not_asked")]
    pub pressure: Fact<PopulatePressure>,
    /// Conclusions; none if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judgement: Option<MemoryBenchJudgement>,
}

/// For runs saved before this was measured.
fn not_asked() -> Fact<PopulatePressure> {
    Fact::missing("not requested")
}

impl MemoryBenchReport {
    /// The point of this way, share of pages and number of threads.
    #[must_use]
    pub fn find(
        &self,
        way: MemoryBenchWay,
        every_pages: u64,
        threads: u32,
    ) -> Option<&MemoryBenchPoint> {
        self.points.iter().find(|point| point.is(way, every_pages, threads))
    }

    /// The point with one thread that uses every page.
    #[must_use]
    pub fn plain(&self, way: MemoryBenchWay) -> Option<&MemoryBenchPoint> {
        self.find(way, 1, 1)
    }
}

/// One way compared with its baseline ([`MemoryBenchWay::baseline`]), with the same number of threads, over making,
/// touching and giving back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryBenchRatio {
    pub way: MemoryBenchWay,
    /// One base page in this many is used.
    pub every_pages: u64,
    /// Number of threads that touched the mapping.
    pub threads: u32,
    /// Time for each page used, divided by that of the baseline. Below 1 the way is faster.
    pub ratio: f64,
    /// 95% interval of the ratio; missing if there are fewer repeats than it needs.
    pub interval: Fact<(f64, f64)>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryBenchJudgement {
    /// Every way compared with its baseline.
    pub ratios: Vec<MemoryBenchRatio>,
    /// The claims about these calls, and whether they hold here.
    pub claims: Vec<BenchClaim>,
    /// Advice for this machine: three sentences.
    pub advice: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(setup: u64, touch: u64, teardown: u64, touch_faults: u64) -> MemoryBenchSample {
        MemoryBenchSample {
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

    fn point(samples: Vec<MemoryBenchSample>) -> MemoryBenchPoint {
        MemoryBenchPoint {
            way: MemoryBenchWay::MapPopulate,
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
        assert_eq!(
            [MemoryBenchPhase::Setup, MemoryBenchPhase::Touch, MemoryBenchPhase::Teardown].map(of),
            [20.0, 2.0, 2.0]
        );
        assert_eq!(of(MemoryBenchPhase::Whole), 24.0);
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
        let way = MemoryBenchWay::Mthp { page_bytes: PageSize::BASE_64K };
        let point = MemoryBenchPoint { way, ..point(vec![sample(1, 2, 3, 4)]) };
        let text = serde_json::to_string(&point).unwrap();
        for part in [r#""mthp":{"page_bytes":65536}"#, r#""touch_ns":2"#, r#""used_pages":100"#] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert_eq!(serde_json::from_str::<MemoryBenchPoint>(&text).unwrap(), point);
        let mut words: Vec<&str> = MemoryBenchWay::ALL.iter().map(|way| way.into_str()).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), MemoryBenchWay::ALL.len());
    }
}
