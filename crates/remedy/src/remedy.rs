//! What every remedy has: its name, whether it fits, its doses, how success is read.

use crate::target::Target;
use pagewise_model::Fact;
use pagewise_model::diagnosis::{CostKind, Diagnosis};
use pagewise_model::look::{Look, ProcessSeen, Traced};
use pagewise_model::machine::Machine;
use pagewise_model::memory_account::MemoryAccount;
use pagewise_model::plan::{Candidate, Dose, Settings};
use pagewise_model::pool::HugePool;
use pagewise_model::price::Prices;

/// What a remedy judges from: facts and the diagnosis made of them.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// The look at the program.
    pub look: &'a Look,
    pub diagnosis: &'a Diagnosis,
    pub machine: &'a Machine,
    /// Unit prices.
    pub prices: &'a Prices,
    /// The pool of reserved huge pages.
    pub pool: &'a Fact<HugePool>,
    /// What its memory is at its peak, where that was looked at.
    pub memory: Option<&'a MemoryAccount>,
    /// What it writes to standard error is a log, in which one more line does no harm.
    pub has_log: bool,
}

impl<'a> Evidence<'a> {
    /// The traced look, if there was one.
    pub(crate) fn traced(&self) -> Option<&'a Traced> {
        self.look.traced.known()
    }
    /// Process images of the traced look, none when it is missing.
    pub(crate) fn processes(&self) -> &'a [ProcessSeen] {
        self.traced().map_or(&[], |t| &t.processes)
    }
    /// Anonymous memory of the processes that `are` meant, as a share of what the largest run held: what a remedy
    /// for their allocator could give back at most.
    pub(crate) fn heap_share(&self, are: impl Fn(&ProcessSeen) -> bool) -> f64 {
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

/// Which number of a finished run shows that a remedy took hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// Transparent huge pages handed out at faults (`thp_fault_alloc` in /proc/vmstat).
    HugeFaults,
    /// Folios of 64 KiB handed out at faults (`anon_fault_alloc` of that size).
    FolioFaults,
    /// Minor faults below those of a plain run.
    FaultsSaved,
    /// The peak of the largest process below that of a plain run.
    MemorySaved,
    /// Minor faults above those of a plain run: huge pages no longer serve many at once.
    FaultsAdded,
    /// Major faults below those of a plain run.
    MajorFaultsSaved,
    /// The kernel saw the files opened that the settings make the program open: that of our tools, and a library
    /// that is preloaded.
    FilesOpened,
    /// What the watcher of this name read back from the kernel.
    Watched(&'static str),
    /// The arm's files with code lie in huge folios where a plain start leaves none, and the kernel
    /// mapped pages of files by one entry for a huge page meanwhile.
    TextHuge,
    /// The arm's other files lie in huge folios where a plain start leaves none.
    FilesHuge,
    /// The affinity that the kernel reports at the program's end is the one asked for.
    Affinity,
}

pub trait Remedy: Sync {
    /// Its name on the command line.
    fn name(&self) -> &'static str;
    /// What it does, in one sentence.
    fn sentence(&self) -> &'static str;
    /// What may follow `=`, for people.
    fn parameters(&self) -> &'static str;
    /// The dose for a parameter as typed; an empty parameter is the default.
    ///
    /// # Errors
    /// A sentence that says what the parameter must be.
    fn dose(&self, parameter: &str, machine: &Machine) -> Result<Dose, String>;
    /// The parameter to take for a program of which nothing but its file was seen, where none was
    /// typed; empty for the default.
    fn parameter_for(&self, _target: &dyn Fn() -> Target) -> String {
        String::new()
    }
    /// Why a program of which nothing but its file was seen would fail with it.
    fn misfit(&self, _target: &Target) -> Option<String> {
        None
    }
    /// Whether it fits, with the doses to try.
    fn fit(&self, evidence: &Evidence<'_>) -> Candidate;
    /// Whether it fits where memory decides; its ceiling is a share of the memory.
    fn fit_for_memory(&self, _evidence: &Evidence<'_>) -> Candidate {
        self.refusal("it saves no memory".to_owned())
    }
    /// How success is read.
    fn mechanism(&self, dose: &Dose) -> Mechanism;
    /// Other remedies that undo what this one does, by name; named by either of the two.
    fn conflicts(&self) -> &'static [&'static str] {
        &[]
    }
    /// What to know before the start: what could harm a program and cannot be seen.
    fn unseen(&self) -> Option<&'static str> {
        None
    }
    /// What it costs and what to know.
    fn notes(&self, dose: &Dose) -> Vec<String>;

    /// A candidate with nothing to try.
    fn refusal(&self, why: String) -> Candidate {
        Candidate {
            remedy: self.name().to_owned(),
            sentence: self.sentence().to_owned(),
            why,
            ceiling_share: 0.0,
            doses: Vec::new(),
        }
    }
    /// The same, of any text.
    fn unfit(&self, why: impl Into<String>) -> Candidate
    where
        Self: Sized,
    {
        self.refusal(why.into())
    }
    /// A candidate to try.
    fn fitting(&self, why: String, ceiling_share: f64, doses: Vec<Dose>) -> Candidate
    where
        Self: Sized,
    {
        Candidate {
            remedy: self.name().to_owned(),
            sentence: self.sentence().to_owned(),
            why,
            ceiling_share: ceiling_share.clamp(0.0, 1.0),
            doses,
        }
    }
    /// A dose of this remedy.
    fn with(&self, parameter: &str, settings: Settings) -> Dose
    where
        Self: Sized,
    {
        Dose { remedy: self.name().to_owned(), parameter: parameter.to_owned(), settings }
    }
}
