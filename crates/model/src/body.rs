//! The part of a saved run that depends on its command: one of these, under its name.

use crate::bench::code::TextBenchReport;
use crate::bench::file::FileBenchReport;
use crate::bench::fork::ForkBenchReport;
use crate::bench::memory::MemoryBenchReport;
use crate::bench::pin::PinBenchReport;
use crate::bench::pipe::PipeBenchReport;
use crate::bench::tlb::TlbBenchReport;
use crate::bounded::BoundedDocument;
use crate::cache::CacheReport;
use crate::cache_list::CacheRestore;
use crate::capability::DoctorReport;
use crate::choice::ReadChoice;
use crate::fault::FaultReport;
use crate::profile::ProfileReport;
use crate::text_report::TextReport;
use crate::text_trial::TextTrial;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The findings of one command.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunBody {
    /// Findings of `doctor`.
    Checkup(DoctorReport),
    /// Page faults of `faults`.
    Faults(FaultReport),
    /// Buckets of CPU time of `profile`.
    Profile(ProfileReport),
    /// The page cache of files, of `cache`.
    Cache(CacheReport),
    /// A saved page cache, restored by `cache restore`.
    CacheRestore(CacheRestore),
    /// The ways to read a file, of `choose`.
    Choice(ReadChoice),
    /// Code on huge pages, of `text`.
    Text(TextReport),
    /// The arms of `bench text -- COMMAND`.
    TextTrial(TextTrial),
    /// The measurements of a bench.
    #[serde(untagged)]
    Bench(BenchReport),
}

/// The measurements of a bench.
#[allow(clippy::large_enum_variant, reason = "a program holds few runs")]
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BenchReport {
    /// The ladder of `bench pipe`.
    Ladder(PipeBenchReport),
    /// The walks of `bench tlb`.
    Walks(TlbBenchReport),
    /// The first touches of `bench memory`.
    FirstTouch(MemoryBenchReport),
    /// The readings of `bench file`.
    Readings(FileBenchReport),
    /// The cost of pinning, of `bench pin`.
    Pins(PinBenchReport),
    /// The cost of fork, of `bench fork`.
    Forks(ForkBenchReport),
    /// The jumps through code of `bench text`.
    Jumps(TextBenchReport),
}

/// The same in a file, each under its name. (The enum itself, read among the other keys of a run, would keep
/// a copy of all of them in memory.)
#[derive(Default, Deserialize)]
#[serde(default)]
struct SavedBody {
    checkup: Option<DoctorReport>,
    faults: Option<FaultReport>,
    profile: Option<ProfileReport>,
    cache: Option<CacheReport>,
    cache_restore: Option<CacheRestore>,
    choice: Option<ReadChoice>,
    text: Option<TextReport>,
    text_trial: Option<TextTrial>,
    ladder: Option<PipeBenchReport>,
    walks: Option<TlbBenchReport>,
    first_touch: Option<MemoryBenchReport>,
    readings: Option<FileBenchReport>,
    pins: Option<PinBenchReport>,
    forks: Option<ForkBenchReport>,
    jumps: Option<TextBenchReport>,
}

/// The body of a saved run; none if its command saves none.
///
/// # Errors
/// If it has another form.
pub(crate) fn of(run: &BoundedDocument<'_>) -> Result<Option<RunBody>, serde_json::Error> {
    let saved: SavedBody = run.read()?;
    let bench = [
        saved.ladder.map(BenchReport::Ladder),
        saved.walks.map(BenchReport::Walks),
        saved.first_touch.map(BenchReport::FirstTouch),
        saved.readings.map(BenchReport::Readings),
        saved.pins.map(BenchReport::Pins),
        saved.forks.map(BenchReport::Forks),
        saved.jumps.map(BenchReport::Jumps),
    ];
    let bodies = [
        saved.checkup.map(RunBody::Checkup),
        saved.faults.map(RunBody::Faults),
        saved.profile.map(RunBody::Profile),
        saved.cache.map(RunBody::Cache),
        saved.cache_restore.map(RunBody::CacheRestore),
        saved.choice.map(RunBody::Choice),
        saved.text.map(RunBody::Text),
        saved.text_trial.map(RunBody::TextTrial),
        bench.into_iter().flatten().next().map(RunBody::Bench),
    ];
    Ok(bodies.into_iter().flatten().next())
}
