//! The common interface of remedies: name, fit, doses, and how success is read.

use crate::target::TargetProgram;
use pagewise_model::Fact;
use pagewise_model::diagnosis::{CostKind, Diagnosis};
use pagewise_model::look::{LookFindings, TracedLook, TracedProcess};
use pagewise_model::machine::Machine;
use pagewise_model::memory_account::MemoryAccount;
use pagewise_model::plan::{ArmSettings, RemedyCandidate, RemedyDose};
use pagewise_model::pool::HugePool;
use pagewise_model::price::SessionPrices;

/// Evidence for the judgement of a remedy: facts, and the diagnosis based on them.
#[derive(Debug, Clone, Copy)]
pub struct RemedyEvidence<'a> {
    /// The look at the program.
    pub look: &'a LookFindings,
    pub diagnosis: &'a Diagnosis,
    pub machine: &'a Machine,
    /// Unit prices.
    pub prices: &'a SessionPrices,
    /// The pool of reserved huge pages.
    pub pool: &'a Fact<HugePool>,
    /// Its memory at the peak, if that was examined.
    pub memory: Option<&'a MemoryAccount>,
    /// Its standard error is a log, where one more line does no harm.
    pub has_log: bool,
}

impl<'a> RemedyEvidence<'a> {
    /// The traced look; `None` without one.
    pub(crate) fn traced(&self) -> Option<&'a TracedLook> {
        self.look.traced.known()
    }
    /// Process images of the traced look; empty without one.
    pub(crate) fn processes(&self) -> &'a [TracedProcess] {
        self.traced().map_or(&[], |t| &t.processes)
    }
    /// Anonymous memory of the processes that `are` selects, as a share of the peak of the largest run. A
    /// remedy for their allocator could save at most this share.
    pub(crate) fn heap_share(&self, are: impl Fn(&TracedProcess) -> bool) -> f64 {
        let heaps = self.processes().iter().filter(|process| are(process));
        let heaps: u64 = heaps
            .map(|process| process.peak_rss_bytes.0.saturating_sub(process.file_bytes.0))
            .sum();
        let all: u64 = self.processes().iter().map(|process| process.peak_rss_bytes.0).sum();
        heaps as f64 / all.max(1) as f64
    }
    /// Share (0..1) of time of one kind of cost.
    pub(crate) fn share(&self, kind: CostKind) -> f64 {
        self.diagnosis.share(&[kind])
    }
}

/// The figure of a finished run that shows that a remedy took hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemedyMechanism {
    /// Transparent huge pages allocated by faults (`thp_fault_alloc` in /proc/vmstat).
    HugeFaults,
    /// Folios of 64 KiB allocated by faults (`anon_fault_alloc` of that size).
    FolioFaults,
    /// Fewer minor faults than in a plain run.
    FaultsSaved,
    /// The peak of the largest process is lower than in a plain run.
    MemorySaved,
    /// More minor faults than in a plain run: huge pages no longer serve many pages at once.
    FaultsAdded,
    /// Fewer major faults than in a plain run.
    MajorFaultsSaved,
    /// The kernel saw the files opened that the settings make the program open: the tools file, and preloaded
    /// libraries.
    FilesOpened,
    /// The figure that this watcher read back from the kernel.
    Watched(&'static str),
    /// The arm's code files are in huge folios, unlike after a plain start, and the kernel mapped file pages
    /// by one huge-page entry meanwhile.
    TextHuge,
    /// The arm's other files are in huge folios, unlike after a plain start.
    FilesHuge,
    /// The affinity that the kernel reports at the program's end is the requested one.
    Affinity,
}

pub trait Remedy: Sync {
    /// Its name on the command line.
    fn name(&self) -> &'static str;
    /// What it does, in one sentence.
    fn sentence(&self) -> &'static str;
    /// What may follow `=`, for messages.
    fn parameters(&self) -> &'static str;
    /// The dose for a parameter as typed; an empty parameter is the default.
    ///
    /// # Errors
    /// A sentence that says what the parameter must be.
    fn dose(&self, parameter: &str, machine: &Machine) -> Result<RemedyDose, String>;
    /// The default parameter for a program of which only its file is known; empty for the remedy's own
    /// default.
    fn parameter_for(&self, _target: &dyn Fn() -> TargetProgram) -> String {
        String::new()
    }
    /// Why a program of which only its file is known would fail with it; `None` if it would not.
    fn misfit(&self, _target: &TargetProgram) -> Option<String> {
        None
    }
    /// Whether it fits, with the doses to try.
    fn fit(&self, evidence: &RemedyEvidence<'_>) -> RemedyCandidate;
    /// Whether it fits when memory is the goal. Its ceiling is a share of the memory.
    fn fit_for_memory(&self, _evidence: &RemedyEvidence<'_>) -> RemedyCandidate {
        self.refusal("it saves no memory".to_owned())
    }
    /// Figure that shows success.
    fn mechanism(&self, dose: &RemedyDose) -> RemedyMechanism;
    /// Names of other remedies that undo the effect of this one. It is enough if one of the two names the
    /// other.
    fn conflicts(&self) -> &'static [&'static str] {
        &[]
    }
    /// A warning before the start: what could harm a program and cannot be detected.
    fn unseen(&self) -> Option<&'static str> {
        None
    }
    /// Its costs, and notes for the user.
    fn notes(&self, dose: &RemedyDose) -> Vec<String>;

    /// A candidate with nothing to try.
    fn refusal(&self, why: String) -> RemedyCandidate {
        RemedyCandidate {
            remedy: self.name().to_owned(),
            sentence: self.sentence().to_owned(),
            why,
            ceiling_share: 0.0,
            doses: Vec::new(),
        }
    }
    /// Like [`Self::refusal`], for any text type.
    fn unfit(&self, why: impl Into<String>) -> RemedyCandidate
    where
        Self: Sized,
    {
        self.refusal(why.into())
    }
    /// A candidate to try.
    fn fitting(&self, why: String, ceiling_share: f64, doses: Vec<RemedyDose>) -> RemedyCandidate
    where
        Self: Sized,
    {
        RemedyCandidate {
            remedy: self.name().to_owned(),
            sentence: self.sentence().to_owned(),
            why,
            ceiling_share: ceiling_share.clamp(0.0, 1.0),
            doses,
        }
    }
    /// A dose of this remedy.
    fn with(&self, parameter: &str, settings: ArmSettings) -> RemedyDose
    where
        Self: Sized,
    {
        RemedyDose { remedy: self.name().to_owned(), parameter: parameter.to_owned(), settings }
    }
}
