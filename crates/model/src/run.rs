//! The saved run: one JSON document for each `tune`, `ab`, `profile`, `faults`, `doctor`, `bench`, `cache`,
//! `choose` or `text`.
//!
//! `schema` is raised when a reader of the former version would misread a file. Readers refuse newer schemas
//! by number and accept unknown keys.

use crate::body::{self, RunBody};
use crate::bounded::BoundedDocument;
use crate::conditions::FileMark;
use crate::diagnosis::Diagnosis;
use crate::former;
use crate::look::LookFindings;
use crate::machine::Machine;
use crate::measured::Fact;
use crate::memory_account::MemoryAccount;
use crate::plan::{RemedyCandidate, RemedyDose, RemedyReceipt};
use crate::pool::HugePool;
use crate::prediction::GainPrediction;
use crate::price::SessionPrices;
use crate::schema::JsonSchema;
use crate::service::TunedService;
use crate::spec::{ServiceSpec, SessionSpec, StdoutTarget};
use crate::trial::Experiment;
use crate::units::{Bytes, Nanos};
use crate::usage::ProgramUsage;
use serde::{Deserialize, Serialize};

/// Version of the saved format.
pub const SCHEMA: u32 = 6;
/// The first version that saves what was asked as `spec` and `files`.
const SCHEMA_WITH_SPEC: u32 = 5;

/// The command that made the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RunKind {
    /// `pagewise tune`.
    Tune,
    /// `pagewise ab`.
    Ab,
    /// `pagewise profile`.
    Profile,
    /// `pagewise doctor`.
    Doctor,
    /// `pagewise faults`.
    Faults,
    /// `pagewise bench`.
    Bench,
    /// `pagewise cache`.
    Cache,
    /// `pagewise text`.
    Text,
    /// `pagewise choose`.
    Choose,
}

/// Result of the comparison of outputs for one arm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutputCheck {
    pub arm: String,
    /// True if everything that was compared is equal.
    pub equal: bool,
    /// Differences, and outputs left out because plain runs differ in them too.
    pub notes: Vec<String>,
}

/// The outcome of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum SessionOutcome {
    /// At least one remedy is proven.
    Proven {
        /// Arms to keep, best first.
        #[serde(deserialize_with = "crate::name::arms")]
        keep: Vec<String>,
    },
    /// No remedy is proven, but at least one is likely.
    Likely {
        /// Likely arms, best first.
        #[serde(deserialize_with = "crate::name::arms")]
        arms: Vec<String>,
    },
    /// No arm gains more than this share.
    NoGain {
        /// Share of time, from 0.02 to 0.05.
        above_share: f64,
    },
    /// Arms were tried, but none is worth keeping: those that were not rejected are slower.
    NothingKept,
    /// The ceiling is below the smallest gain worth a try, or no remedy fits.
    NothingToGain { why: String },
    /// Stopped before any trial, as requested.
    AdviceOnly,
    /// The machine did not allow a verdict.
    CannotTell { why: String },
    /// Stopped by the user.
    Interrupted,
}

impl SessionOutcome {
    /// The best arm that is proven or likely.
    #[must_use]
    pub fn best(&self) -> Option<&str> {
        match self {
            Self::Proven { keep: arms } | Self::Likely { arms } => arms.first().map(String::as_str),
            _ => None,
        }
    }
}

/// A saved run. Read it with [`SavedRun::from_json`]; other readers leave out its body.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SavedRun {
    /// Version of this format.
    pub schema: u32,
    /// Version of pagewise that made the run.
    pub pagewise: String,
    /// The command that made the run.
    pub kind: RunKind,
    /// Name of the run in `history` and `show`, which is a plain file name.
    #[serde(deserialize_with = "crate::name::identifier")]
    pub id: String,
    /// Time of the start, in nanoseconds since 1970.
    pub started_unix_ns: u64,
    /// Duration of the whole session.
    pub took_ns: Nanos,
    /// The command that was examined.
    pub command: Vec<String>,
    /// Words that began the session, without the name of pagewise; empty in runs of older versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<String>,
    /// File of the program's standard input; none without `--input`.
    pub input: Option<String>,
    /// Environment variables of a fixed list that were set (GLIBC_TUNABLES, MALLOC_CONF, ...).
    pub environment: Vec<(String, String)>,
    pub machine: Option<Machine>,
    /// Unit prices of the session.
    pub prices: Option<SessionPrices>,
    /// The pool of reserved huge pages by which remedies were chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<Fact<HugePool>>,
    pub look: Option<LookFindings>,
    pub diagnosis: Option<Diagnosis>,
    /// All remedies, whether they fit or not.
    pub candidates: Vec<RemedyCandidate>,
    /// What the remedies that fit will probably gain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub predictions: Vec<GainPrediction>,
    /// Comparisons of outputs.
    pub output_checks: Vec<OutputCheck>,
    /// The doses of each arm that was run.
    #[serde(deserialize_with = "crate::name::by_arm")]
    pub doses: Vec<(String, Vec<RemedyDose>)>,
    pub experiment: Option<Experiment>,
    /// The service that was tuned under its load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<TunedService>,
    /// Instructions to keep the proven remedy.
    pub receipt: Option<RemedyReceipt>,
    /// The part of the result that depends on the command.
    #[serde(flatten, skip_deserializing)]
    #[schemars(!skip_deserializing)]
    pub body: Option<RunBody>,
    /// Memory of the program, from `profile --memory`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryAccount>,
    /// The user's request to `tune`, `ab` or `bench text -- COMMAND`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<SessionSpec>,
    /// The program's files, its input and the files that its arguments name. Files that changed during the
    /// session are left out, because the program writes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileMark>,
    /// Outcome of the session.
    pub outcome: Option<SessionOutcome>,
    /// Warnings that the reader must know.
    pub warnings: Vec<String>,
}

/// Why a text is not a saved run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The text is not JSON.
    #[error("not a saved run: it is not JSON")]
    NotJson,
    /// The JSON does not have the form of a run.
    #[error("not a saved run: {0}")]
    Form(#[from] serde_json::Error),
    /// A newer pagewise made the run.
    #[error("saved by a newer pagewise (schema {found}, this one reads up to {SCHEMA})")]
    Newer {
        /// The schema of the run.
        found: u32,
    },
    /// An older pagewise made the run, in a form that would be misread.
    #[error("saved in an older format (schema {found}, now {SCHEMA}): run the command again")]
    Older {
        /// The schema of the run.
        found: u32,
    },
}

impl SavedRun {
    /// An empty run of `kind`.
    #[must_use]
    pub fn new(kind: RunKind, id: String, started_unix_ns: u64, command: Vec<String>) -> Self {
        Self {
            schema: SCHEMA,
            pagewise: env!("CARGO_PKG_VERSION").to_owned(),
            kind,
            id,
            started_unix_ns,
            took_ns: Nanos(0),
            command,
            asked: Vec::new(),
            input: None,
            environment: Vec::new(),
            machine: None,
            prices: None,
            pool: None,
            look: None,
            diagnosis: None,
            candidates: Vec::new(),
            predictions: Vec::new(),
            output_checks: Vec::new(),
            doses: Vec::new(),
            experiment: None,
            service: None,
            receipt: None,
            body: None,
            memory: None,
            spec: None,
            files: Vec::new(),
            outcome: None,
            warnings: Vec::new(),
        }
    }

    /// Runs of the program without remedies, one at a time: those of the experiment if there were enough,
    /// else also those of the look.
    #[must_use]
    pub fn plain_runs(&self) -> Vec<ProgramUsage> {
        let raced = self.experiment.iter().flat_map(|e| e.points_in(&e.design.control, false));
        let raced: Vec<ProgramUsage> = raced.map(|point| point.usage.clone()).collect();
        let is_at_once = self.experiment.iter().any(|e| e.is_at_once(&e.design.control));
        match &self.look {
            Some(look) if raced.is_empty() || is_at_once => {
                look.runs.iter().cloned().chain(raced).collect()
            }
            _ => raced,
        }
    }

    /// Reads a saved run.
    ///
    /// # Errors
    /// [`RunError::Form`] for anything but a saved run, [`RunError::Newer`] and
    /// [`RunError::Older`] for another schema.
    pub fn from_json(text: &[u8]) -> Result<Self, RunError> {
        #[derive(Deserialize)]
        struct SavedRunHead {
            schema: u32,
            experiment: Option<serde::de::IgnoredAny>,
        }
        let head: SavedRunHead = serde_json::from_slice(text).map_err(|e| {
            if e.is_syntax() && (e.line(), e.column()) == (1, 1) {
                RunError::NotJson
            } else {
                e.into()
            }
        })?;
        if head.schema > SCHEMA {
            return Err(RunError::Newer { found: head.schema });
        }
        // Schema 4 changed the experiment alone, schema 5 the places of what was asked, schema 6 the keys of
        // benches.
        let is_readable = head.schema > 3 || (head.schema == 3 && head.experiment.is_none());
        if !is_readable {
            return Err(RunError::Older { found: head.schema });
        }
        let document = BoundedDocument::new(text);
        let mut run: Self = document.read()?;
        run.body = body::of(&document)?;
        if head.schema < SCHEMA_WITH_SPEC {
            (run.spec, run.files) = former::asked(&document)?;
        }
        run.schema = SCHEMA;
        Ok(run)
    }

    /// True if the session can be continued, as far as the run itself shows.
    #[must_use]
    pub fn can_continue(&self) -> bool {
        let is_repeatable = self.spec.as_ref().is_some_and(SessionSpec::is_repeatable);
        self.kind == RunKind::Tune && is_repeatable && !self.files.is_empty()
    }

    /// The service that the user requested.
    #[must_use]
    pub fn asked_service(&self) -> Option<&ServiceSpec> {
        self.spec.as_ref()?.service.as_ref()
    }

    /// Destination of standard output in timed runs; absent if it was that of the caller.
    #[must_use]
    pub fn stdout(&self) -> Option<StdoutTarget> {
        self.spec.as_ref().filter(|spec| spec.service.is_none()).map(|spec| spec.stdout)
    }

    /// The prediction for an arm.
    #[must_use]
    pub fn prediction(&self, arm: &str) -> Option<&GainPrediction> {
        self.predictions.iter().find(|one| one.arm == arm)
    }

    /// The best prediction among the doses of a remedy.
    #[must_use]
    pub fn best_prediction(&self, candidate: &RemedyCandidate) -> Option<&GainPrediction> {
        let doses = candidate.doses.iter().filter_map(|dose| self.prediction(&dose.spec()));
        doses.max_by(|a, b| a.gain_share.total_cmp(&b.gain_share))
    }

    /// Bytes that each run had read and written when it was stopped. `None` if runs went to their end.
    #[must_use]
    pub fn checkpoint_bytes(&self) -> Option<Bytes> {
        self.look.as_ref()?.traced.known()?.checkpoint_bytes
    }

    /// The remedies of an arm; none if the arm is a command of the user.
    #[must_use]
    pub fn doses_of(&self, arm: &str) -> Option<&[RemedyDose]> {
        self.doses.iter().find(|(name, _)| name == arm).map(|(_, doses)| &doses[..])
    }

    /// The run as a JSON document.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_else(|e| format!("{{\"error\":\"{e}\"}}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_newer_schema() {
        let run = SavedRun::new(RunKind::Tune, "x".into(), 1, vec!["true".into()]);
        assert_eq!(SavedRun::from_json(run.to_json().as_bytes()).unwrap(), run);
        let newer = run.to_json().replace(&format!("\"schema\": {SCHEMA}"), "\"schema\": 99");
        assert!(matches!(
            SavedRun::from_json(newer.as_bytes()),
            Err(RunError::Newer { found: 99 })
        ));
        for found in [1, 2] {
            let older = newer.replace("99", &found.to_string());
            let error = SavedRun::from_json(older.as_bytes()).unwrap_err();
            assert!(matches!(error, RunError::Older { found: f } if f == found), "{error}");
            assert!(error.to_string().contains("run the command again"), "{error}");
        }
        assert!(matches!(SavedRun::from_json(b"{}"), Err(RunError::Form(_))));
    }

    #[test]
    fn runs_of_schema_3_without_an_experiment_are_read() {
        let run = SavedRun::new(RunKind::Profile, "x".into(), 1, vec!["true".into()]);
        let former = run.to_json().replace(&format!("\"schema\": {SCHEMA}"), "\"schema\": 3");
        assert!(SavedRun::from_json(former.as_bytes()).is_ok());
        let tried = former.replace("\"experiment\": null", "\"experiment\": {}");
        assert!(matches!(SavedRun::from_json(tried.as_bytes()), Err(RunError::Older { found: 3 })));
    }
}
