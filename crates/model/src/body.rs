//! The part of a saved run that depends on its command: one of these, under its name.

use crate::bench::code::Jumps;
use crate::bench::file::Readings;
use crate::bench::fork::Forks;
use crate::bench::memory::FirstTouch;
use crate::bench::pin::Pins;
use crate::bench::pipe::Ladder;
use crate::bench::tlb::Walks;
use crate::bounded::Document;
use crate::cache::CacheReport;
use crate::cache_list::CacheRestore;
use crate::capability::Checkup;
use crate::choice::Choice;
use crate::fault::FaultReport;
use crate::profile::Profile;
use crate::text_report::TextReport;
use crate::text_trial::TextTrial;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The findings of one command.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    /// Findings of `doctor`.
    Checkup(Checkup),
    /// Page faults of `faults`.
    Faults(FaultReport),
    /// Buckets of CPU time of `profile`.
    Profile(Profile),
    /// The page cache of files, of `cache`.
    Cache(CacheReport),
    /// A saved page cache, restored by `cache restore`.
    CacheRestore(CacheRestore),
    /// The ways to read a file, of `choose`.
    Choice(Choice),
    /// Code on huge pages, of `text`.
    Text(TextReport),
    /// The arms of `bench text -- COMMAND`.
    TextTrial(TextTrial),
    /// The measurements of a bench.
    #[serde(untagged)]
    Bench(Bench),
}

/// The measurements of a bench.
#[allow(clippy::large_enum_variant, reason = "a program holds few runs")]
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Bench {
    /// The ladder of `bench pipe`.
    Ladder(Ladder),
    /// The walks of `bench tlb`.
    Walks(Walks),
    /// The first touches of `bench memory`.
    FirstTouch(FirstTouch),
    /// The readings of `bench file`.
    Readings(Readings),
    /// The cost of pinning, of `bench pin`.
    Pins(Pins),
    /// The cost of fork, of `bench fork`.
    Forks(Forks),
    /// The jumps through code of `bench text`.
    Jumps(Jumps),
}

/// The same in a file, each under its name. (The enum itself, read among the other keys of a run, would keep
/// a copy of all of them in memory.)
#[derive(Default, Deserialize)]
#[serde(default)]
struct Saved {
    checkup: Option<Checkup>,
    faults: Option<FaultReport>,
    profile: Option<Profile>,
    cache: Option<CacheReport>,
    cache_restore: Option<CacheRestore>,
    choice: Option<Choice>,
    text: Option<TextReport>,
    text_trial: Option<TextTrial>,
    ladder: Option<Ladder>,
    walks: Option<Walks>,
    first_touch: Option<FirstTouch>,
    readings: Option<Readings>,
    pins: Option<Pins>,
    forks: Option<Forks>,
    jumps: Option<Jumps>,
}

/// The body of a saved run; none if its command saves none.
///
/// # Errors
/// If it has another form.
pub(crate) fn of(run: &Document<'_>) -> Result<Option<Body>, serde_json::Error> {
    let saved: Saved = run.read()?;
    let bench = [
        saved.ladder.map(Bench::Ladder),
        saved.walks.map(Bench::Walks),
        saved.first_touch.map(Bench::FirstTouch),
        saved.readings.map(Bench::Readings),
        saved.pins.map(Bench::Pins),
        saved.forks.map(Bench::Forks),
        saved.jumps.map(Bench::Jumps),
    ];
    let bodies = [
        saved.checkup.map(Body::Checkup),
        saved.faults.map(Body::Faults),
        saved.profile.map(Body::Profile),
        saved.cache.map(Body::Cache),
        saved.cache_restore.map(Body::CacheRestore),
        saved.choice.map(Body::Choice),
        saved.text.map(Body::Text),
        saved.text_trial.map(Body::TextTrial),
        bench.into_iter().flatten().next().map(Body::Bench),
    ];
    Ok(bodies.into_iter().flatten().next())
}
