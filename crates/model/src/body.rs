//! The part of a saved run that depends on its command: one of these, under its name.

use crate::bench::file::FileBenchReport;
use crate::bench::fork::ForkBenchReport;
use crate::bench::memory::MemoryBenchReport;
use crate::bench::pin::PinBenchReport;
use crate::bench::pipe::PipeBenchReport;
use crate::bench::text::TextBenchReport;
use crate::bench::text_load::TextLoadReport;
use crate::bench::tlb::TlbBenchReport;
use crate::bounded::BoundedDocument;
use crate::cache::CacheReport;
use crate::cache_list::CacheRestore;
use crate::capability::DoctorReport;
use crate::choice::ReadChoice;
use crate::fault::FaultReport;
use crate::profile::ProfileReport;
use crate::schema::JsonSchema;
use crate::text_report::TextReport;
use crate::text_trial::TextTrial;
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

/// The measurements of a bench, under the name of its command.
#[allow(clippy::large_enum_variant, reason = "a program holds few runs")]
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub enum BenchReport {
    /// Of `bench pipe`.
    #[serde(rename = "bench_pipe")]
    Pipe(PipeBenchReport),
    /// Of `bench tlb`.
    #[serde(rename = "bench_tlb")]
    Tlb(TlbBenchReport),
    /// Of `bench memory`.
    #[serde(rename = "bench_memory")]
    Memory(MemoryBenchReport),
    /// Of `bench file`.
    #[serde(rename = "bench_file")]
    File(FileBenchReport),
    /// Of `bench pin`.
    #[serde(rename = "bench_pin")]
    Pin(PinBenchReport),
    /// Of `bench fork`.
    #[serde(rename = "bench_fork")]
    Fork(ForkBenchReport),
    /// Of `bench text`.
    #[serde(rename = "bench_text")]
    Text(TextBenchReport),
    /// Of `bench text` with `--clients` or `--jobs`.
    #[serde(rename = "bench_text_load")]
    TextLoad(TextLoadReport),
}

/// The same in a file, each under its name. (The enum itself, read among the other keys of a run, would keep
/// a copy of all of them in memory.) An alias is the key of runs up to schema 5.
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
    #[serde(alias = "ladder")]
    bench_pipe: Option<PipeBenchReport>,
    #[serde(alias = "walks")]
    bench_tlb: Option<TlbBenchReport>,
    #[serde(alias = "first_touch")]
    bench_memory: Option<MemoryBenchReport>,
    #[serde(alias = "readings")]
    bench_file: Option<FileBenchReport>,
    #[serde(alias = "pins")]
    bench_pin: Option<PinBenchReport>,
    #[serde(alias = "forks")]
    bench_fork: Option<ForkBenchReport>,
    #[serde(alias = "jumps")]
    bench_text: Option<TextBenchReport>,
    bench_text_load: Option<TextLoadReport>,
}

/// The body of a saved run; none if its command saves none.
///
/// # Errors
/// If it has another form.
pub(crate) fn of(run: &BoundedDocument<'_>) -> Result<Option<RunBody>, serde_json::Error> {
    let saved: SavedBody = run.read()?;
    let bench = [
        saved.bench_pipe.map(BenchReport::Pipe),
        saved.bench_tlb.map(BenchReport::Tlb),
        saved.bench_memory.map(BenchReport::Memory),
        saved.bench_file.map(BenchReport::File),
        saved.bench_pin.map(BenchReport::Pin),
        saved.bench_fork.map(BenchReport::Fork),
        saved.bench_text.map(BenchReport::Text),
        saved.bench_text_load.map(BenchReport::TextLoad),
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
