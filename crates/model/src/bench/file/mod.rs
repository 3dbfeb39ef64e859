//! Measured ways to read a file: calls that copy, and mappings, by block size, order and residency, from the
//! first call to the last.
//!
//! A [`FilePoint`] is one [`FileCell`], and a [`FileSample`] is one fresh process. Times are wall time, with set-up,
//! passes and tear-down apart. The [`ReadLedger`] of each sample holds what was really read. The saved run around
//! it (`run::SavedRun`) holds machine and version.

mod cell;
mod copies;
mod judgement;
mod pace;
mod sample;

pub use cell::{BenchmarkFlaw, BlockStore, CacheResidency, FileBenchPart, FileCell, ReadWay};
pub use copies::{CopyRates, CopyRow, CopyWay};
pub use judgement::{
    FileJudgement, FileRatio, FileTimeAccount, FileWork, FileWorkPart, RefusedCell,
};
pub use pace::UndisturbedPace;
pub use sample::{CacheProof, ExpectedChecksum, FileSample, ReadLedger};

use crate::bench::RepeatSeries;
use crate::cache::FolioClass;
use crate::measured::{Fact, Measured};
use crate::schema::JsonSchema;
use crate::units::{Bytes, PageSize};
use serde::{Deserialize, Serialize};

/// One cell with its samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FilePoint {
    /// The way to read, with all its settings.
    pub cell: FileCell,
    /// Samples in the order of their repeats.
    pub samples: Vec<FileSample>,
    /// The undisturbed time of the cell; none without processes of one thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<UndisturbedPace>,
    /// Why there are no samples, or fewer than requested.
    pub refused: Option<String>,
}

impl FilePoint {
    /// A cell that was not read yet.
    #[must_use]
    pub const fn new(cell: FileCell) -> Self {
        Self { cell, samples: Vec::new(), pace: None, refused: None }
    }

    /// Adds a process, with its pace if it had one thread.
    pub fn add(&mut self, sample: FileSample, pace: Option<UndisturbedPace>) {
        self.samples.push(sample);
        match (&mut self.pace, pace) {
            (Some(least), Some(pace)) => least.keep_least(&pace),
            (least, pace) => *least = least.take().or(pace),
        }
    }

    /// Rate in GiB/s from the first call to the last; none without samples.
    #[must_use]
    pub fn rate_gib_per_s(&self) -> Option<Measured> {
        let bytes = self.cell.total_bytes();
        self.series(|s| rate(bytes, s.total_ns().0 as f64)).measured()
    }

    /// One figure of each process.
    #[must_use]
    pub fn series(&self, figure: impl Fn(&FileSample) -> f64) -> RepeatSeries {
        self.samples.iter().map(|s| (s.repeat, figure(s))).collect()
    }

    /// Milliseconds for each GiB of the time that `time` selects, as the median over the processes.
    #[must_use]
    pub fn ms_per_gib(&self, time: impl Fn(&FileSample) -> f64) -> Option<f64> {
        let gib = self.cell.total_bytes().0 as f64 / Bytes::gib(1).0 as f64;
        self.series(|s| time(s) / 1e6 / gib).measured().map(|measured| measured.median)
    }

    /// Rate in GiB/s of the pass with this number, from 0, without set-up and tear-down.
    #[must_use]
    pub fn pass_gib_per_s(&self, pass: usize) -> Option<Measured> {
        let of =
            |s: &FileSample| s.pass_ns.get(pass).map(|ns| rate(self.cell.span_bytes, ns.0 as f64));
        Measured::from_values(&self.samples.iter().filter_map(of).collect::<Vec<f64>>())
    }
}

/// GiB/s for this number of bytes and nanoseconds.
fn rate(bytes: Bytes, ns: f64) -> f64 {
    bytes.0 as f64 / Bytes::gib(1).0 as f64 / (ns.max(1.0) / 1e9)
}

/// The file that was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileSource {
    /// Path of the file as given; none for a temporary file, which has no name.
    pub path: Option<String>,
    pub size_bytes: Bytes,
    /// Directory of the temporary file.
    pub directory: Option<String>,
    /// Bytes of each write that made the temporary file. They decide which folios hold it.
    pub written_in_bytes: Option<Bytes>,
    /// The reason for the size of the file.
    pub bound_by: String,
}

/// All readings of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileBenchReport {
    /// Seed of all random orders.
    pub seed: u64,
    /// Number of processes requested for each warm cell.
    pub repeats: u32,
    /// Number of processes requested for each cold cell.
    pub cold_repeats: u32,
    /// True for the short form (`--quick`).
    pub quick: bool,
    /// True if the program also sums all bytes of each copied block (`--sum`).
    pub summed: bool,
    /// Errors of the published benchmark that were repeated (`--repeat-error`).
    pub slips: Vec<BenchmarkFlaw>,
    pub source: FileSource,
    /// Numbers of the CPUs that read.
    pub cpus: Vec<u32>,
    pub base_page_bytes: PageSize,
    /// The checksum of each kind of pass.
    pub truths: Vec<ExpectedChecksum>,
    /// How often the file was read into the cache again before a warm cell, because the cache had lost part
    /// of it.
    pub refills: u32,
    /// Time to enter and leave the kernel, in nanoseconds per call, measured before all cells.
    pub entry_ns: Fact<Measured>,
    /// Cells over another temporary file, read before all others. The prices come from them.
    pub prices: Vec<FilePoint>,
    /// Folios in which the cache held that file; none without prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_folios: Option<FolioClass>,
    /// All cells.
    pub points: Vec<FilePoint>,
    /// The kernel's copy compared with others; none if it was not requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<CopyRates>,
    /// Conclusions; none if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judgement: Option<FileJudgement>,
}

impl FileBenchReport {
    /// True if the blocks were written (`--write`), by every cell or by none.
    #[must_use]
    pub fn is_written(&self) -> bool {
        self.points.iter().any(|point| point.cell.store.is_some())
    }

    /// The point of this cell, with its number.
    #[must_use]
    pub fn find(&self, cell: &FileCell) -> Option<(usize, &FilePoint)> {
        self.points.iter().enumerate().find(|(_, point)| point.cell == *cell)
    }

    /// The points of one part, with their numbers.
    pub fn part(&self, part: FileBenchPart) -> impl Iterator<Item = (usize, &FilePoint)> {
        self.points.iter().enumerate().filter(move |(_, point)| point.cell.part == part)
    }

    /// The work that a cell requests; none if its checksum is not known.
    #[must_use]
    pub fn asked(&self, cell: &FileCell) -> Option<ReadLedger> {
        let fits = |t: &&ExpectedChecksum| {
            t.block_bytes == cell.block_bytes && t.span_bytes == cell.span_bytes
        };
        self.truths.iter().find(fits).map(|truth| ReadLedger::asked(cell, truth.checksum))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tlb::AccessOrder;
    use crate::units::Nanos;

    fn cell() -> FileCell {
        let plain =
            FileCell::plain(FileBenchPart::Blocks, ReadWay::Read, Bytes::kib(4), Bytes::mib(512));
        FileCell { order: AccessOrder::Random, passes: 2, ..plain }
    }

    fn sample(total_ms: u64) -> FileSample {
        FileSample {
            repeat: 0,
            place: 0,
            set_up_ns: Nanos::millis(1),
            pass_ns: vec![Nanos::millis(total_ms - 3), Nanos::millis(1)],
            pass_faults: Vec::new(),
            tear_down_ns: Nanos::millis(1),
            user_ns: Nanos(0),
            sys_ns: Nanos(0),
            calls: 0,
            minor_faults: 0,
            major_faults: 0,
            device_bytes: Fact::missing("not asked"),
            ledger: ReadLedger::default(),
            proof: CacheProof { file_pages: 1, before_pages: 1, after_pages: 1, took_ns: Nanos(0) },
        }
    }

    #[test]
    fn rates_count_set_up_and_tear_down() {
        let mut point = FilePoint::new(cell());
        assert_eq!(point.rate_gib_per_s(), None);
        point.samples = vec![sample(500), sample(250), sample(1000)];
        assert_eq!(point.rate_gib_per_s().map(|rate| (rate.median, rate.max)), Some((2.0, 4.0)));
        assert_eq!(point.ms_per_gib(|s| s.set_up_ns.0 as f64), Some(1.0));
        assert_eq!(point.pass_gib_per_s(1).map(|rate| rate.median), Some(500.0));
        assert_eq!(point.pass_gib_per_s(2), None);
    }

    #[test]
    fn the_work_asked_for_grows_with_the_passes() {
        let asked = ReadLedger::asked(&cell(), u64::MAX);
        assert_eq!((asked.bytes, asked.blocks), (Bytes::gib(1), 2 * 131_072));
        assert_eq!((asked.distinct_blocks, asked.checksum), (131_072, u64::MAX - 1));
        assert_eq!(FileCell { block_bytes: Bytes(0), ..cell() }.blocks(), 0);
    }

    #[test]
    fn keys_end_in_their_unit() {
        let text = serde_json::to_string(&FilePoint::new(cell())).unwrap();
        for part in [r#""arm":"read""#, r#""block_bytes":4096"#, r#""residency":"warm""#] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert_eq!(serde_json::from_str::<FilePoint>(&text).unwrap(), FilePoint::new(cell()));
    }

    #[test]
    fn every_slip_changes_what_it_is_about() {
        let changed = |cell: FileCell| BenchmarkFlaw::ALL.map(|slip| slip.changes(&cell));
        assert_eq!(changed(cell()), [false, true, false]);
        let mapped =
            FileCell { arm: ReadWay::PlacePopulate, order: AccessOrder::Sequential, ..cell() };
        assert_eq!(changed(mapped), [true, false, true]);
    }
}
