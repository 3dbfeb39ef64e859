//! The saved run: one JSON document per `tune`, `ab`, `profile`, `faults`, `doctor`, `bench`, `cache`,
//! `choose` or `text`.
//!
//! `schema` is raised whenever a reader of the former version would misread a file. Readers
//! refuse newer schemas by number and accept unknown keys.

use crate::body::{self, Body};
use crate::bounded::Document;
use crate::conditions::FileMark;
use crate::diagnosis::Diagnosis;
use crate::former;
use crate::look::Look;
use crate::machine::Machine;
use crate::measured::Fact;
use crate::memory_account::MemoryAccount;
use crate::plan::{Candidate, Dose, Receipt};
use crate::pool::HugePool;
use crate::price::Prices;
use crate::service::Service;
use crate::spec::{ServiceSpec, Spec, StdoutTo};
use crate::trial::Experiment;
use crate::units::Nanos;
use crate::usage::Usage;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of the saved form.
pub const SCHEMA: u32 = 5;

/// Which command made the run.
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

/// What a comparison of outputs found for one arm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutputCheck {
    pub arm: String,
    /// Equal in all that was compared.
    pub equal: bool,
    /// What differed, or what was left out because plain runs differ in it by themselves.
    pub notes: Vec<String>,
}

/// How a session ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// At least one remedy is proven.
    Proven {
        /// Arms to keep, best first.
        #[serde(deserialize_with = "crate::name::arms")]
        keep: Vec<String>,
    },
    /// No remedy is proven, but at least one is likely.
    Likely {
        /// These arms, best first.
        #[serde(deserialize_with = "crate::name::arms")]
        arms: Vec<String>,
    },
    /// None of the arms gains more than this.
    NoGain {
        /// The share of time, 0.02 to 0.05.
        above_share: f64,
    },
    /// Tried, nothing worth keeping: what was not refused is slower.
    NothingKept,
    /// The ceiling is below what is worth trying, or no remedy fits.
    NothingToGain { why: String },
    /// Stopped before trying, as asked.
    AdviceOnly,
    /// The machine did not allow a verdict.
    CannotTell { why: String },
    /// Stopped by the user.
    Interrupted,
}

impl Outcome {
    /// The best arm that is proven or likely.
    #[must_use]
    pub fn best(&self) -> Option<&str> {
        match self {
            Self::Proven { keep: arms } | Self::Likely { arms } => arms.first().map(String::as_str),
            _ => None,
        }
    }
}

/// A saved run. [`Run::from_json`] reads it; without that its body is left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// Version of this form.
    pub schema: u32,
    /// Version of the program that made it.
    pub pagewise: String,
    /// Which command.
    pub kind: RunKind,
    /// Name of this run in `history` and `show`: a plain name of a file.
    #[serde(deserialize_with = "crate::name::identifier")]
    pub id: String,
    /// Start, nanoseconds since 1970.
    pub started_unix_ns: u64,
    /// How long the whole session took.
    pub took_ns: Nanos,
    /// The command that was examined.
    pub command: Vec<String>,
    /// The words that began the session, without the name of pagewise; runs of older versions have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<String>,
    /// The file that was its standard input; none without `--input`.
    pub input: Option<String>,
    /// Environment variables of the listed set that were present (GLIBC_TUNABLES, MALLOC_CONF, ...).
    pub environment: Vec<(String, String)>,
    pub machine: Option<Machine>,
    /// Prices of the session.
    pub prices: Option<Prices>,
    /// The pool of reserved huge pages, as remedies were chosen by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<Fact<HugePool>>,
    pub look: Option<Look>,
    pub diagnosis: Option<Diagnosis>,
    /// Every remedy, fitting or not.
    pub candidates: Vec<Candidate>,
    /// Output comparisons.
    pub output_checks: Vec<OutputCheck>,
    /// The arms as they were run.
    #[serde(deserialize_with = "crate::name::by_arm")]
    pub doses: Vec<(String, Vec<Dose>)>,
    pub experiment: Option<Experiment>,
    /// The service that was tuned under its load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<Service>,
    /// How to keep what was proven.
    pub receipt: Option<Receipt>,
    /// What its command alone found.
    #[serde(flatten, skip_deserializing)]
    #[schemars(!skip_deserializing)]
    pub body: Option<Body>,
    /// What its memory is, of `profile --memory`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryAccount>,
    /// What was asked of `tune`, `ab` or `bench text -- COMMAND`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<Spec>,
    /// The program's files, its input and the files that its arguments name, less those that changed while the
    /// session lasted: these the program writes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileMark>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// Things the reader must know.
    pub warnings: Vec<String>,
}

/// Why a text is not a saved run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Not JSON at all.
    #[error("not a saved run: it is not JSON")]
    NotJson,
    /// Not JSON of the right form.
    #[error("not a saved run: {0}")]
    Form(#[from] serde_json::Error),
    /// Made by a newer pagewise.
    #[error("saved by a newer pagewise (schema {found}, this one reads up to {SCHEMA})")]
    Newer {
        /// The schema found.
        found: u32,
    },
    /// Made by an older pagewise, in a form that would be misread.
    #[error("saved in an older format (schema {found}, now {SCHEMA}): run the command again")]
    Older {
        /// The schema found.
        found: u32,
    },
}

impl Run {
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

    /// Runs of the program as it is, one at a time: those of the experiment where there were enough, else those of
    /// the look too.
    #[must_use]
    pub fn plain_runs(&self) -> Vec<Usage> {
        let raced = self.experiment.iter().flat_map(|e| e.points_in(&e.design.control, false));
        let raced: Vec<Usage> = raced.map(|point| point.usage.clone()).collect();
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
        struct Head {
            schema: u32,
            experiment: Option<serde::de::IgnoredAny>,
        }
        let head: Head = serde_json::from_slice(text).map_err(|e| {
            if e.is_syntax() && (e.line(), e.column()) == (1, 1) {
                RunError::NotJson
            } else {
                e.into()
            }
        })?;
        if head.schema > SCHEMA {
            return Err(RunError::Newer { found: head.schema });
        }
        // Schema 4 changed the experiment alone, schema 5 the places of what was asked.
        let is_readable = head.schema > 3 || (head.schema == 3 && head.experiment.is_none());
        if !is_readable {
            return Err(RunError::Older { found: head.schema });
        }
        let document = Document::new(text);
        let mut run: Self = document.read()?;
        run.body = body::of(&document)?;
        if head.schema < SCHEMA {
            (run.spec, run.files) = former::asked(&document)?;
            run.schema = SCHEMA;
        }
        Ok(run)
    }

    /// Whether its session can be continued, as far as it is known here.
    #[must_use]
    pub fn can_continue(&self) -> bool {
        let is_repeatable = self.spec.as_ref().is_some_and(Spec::is_repeatable);
        self.kind == RunKind::Tune && is_repeatable && !self.files.is_empty()
    }

    /// The service that was asked for.
    #[must_use]
    pub fn asked_service(&self) -> Option<&ServiceSpec> {
        self.spec.as_ref()?.service.as_ref()
    }

    /// Where the standard output of timed runs went; absent where it went wherever the caller's goes.
    #[must_use]
    pub fn stdout(&self) -> Option<StdoutTo> {
        self.spec.as_ref().filter(|spec| spec.service.is_none()).map(|spec| spec.stdout)
    }

    /// The form of saved runs as a JSON Schema (draft 2020-12). Readers accept keys that it does not name.
    #[must_use]
    pub fn json_schema() -> String {
        let mut schema = schemars::schema_for!(Self);
        let address = format!("run-{SCHEMA}.json");
        schema.insert("$id".to_owned(), address.into());
        let text = serde_json::to_string_pretty(&schema);
        text.unwrap_or_else(|error| unreachable!("a schema is plain JSON: {error}")) + "\n"
    }

    /// The remedies of an arm; none where it is a command of the user's.
    #[must_use]
    pub fn doses_of(&self, arm: &str) -> Option<&[Dose]> {
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
        let run = Run::new(RunKind::Tune, "x".into(), 1, vec!["true".into()]);
        assert_eq!(Run::from_json(run.to_json().as_bytes()).unwrap(), run);
        let newer = run.to_json().replace(&format!("\"schema\": {SCHEMA}"), "\"schema\": 99");
        assert!(matches!(Run::from_json(newer.as_bytes()), Err(RunError::Newer { found: 99 })));
        for found in [1, 2] {
            let older = newer.replace("99", &found.to_string());
            let error = Run::from_json(older.as_bytes()).unwrap_err();
            assert!(matches!(error, RunError::Older { found: f } if f == found), "{error}");
            assert!(error.to_string().contains("run the command again"), "{error}");
        }
        assert!(matches!(Run::from_json(b"{}"), Err(RunError::Form(_))));
    }

    #[test]
    fn runs_of_schema_3_without_an_experiment_are_read() {
        let run = Run::new(RunKind::Profile, "x".into(), 1, vec!["true".into()]);
        let former = run.to_json().replace(&format!("\"schema\": {SCHEMA}"), "\"schema\": 3");
        assert!(Run::from_json(former.as_bytes()).is_ok());
        let tried = former.replace("\"experiment\": null", "\"experiment\": {}");
        assert!(matches!(Run::from_json(tried.as_bytes()), Err(RunError::Older { found: 3 })));
    }
}
