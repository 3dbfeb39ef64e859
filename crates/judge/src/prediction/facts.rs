//! The facts of a look on which predictions rest: shares of CPU time, each named as in the table of the model.

use crate::diagnosis::translation;
use pagewise_model::Nanos;
use pagewise_model::diagnosis::{CostKind, Diagnosis};
use pagewise_model::look::{Allocator, LookFindings, TracedProcess};
use pagewise_model::machine::Machine;
use pagewise_model::plan::{RemedyCandidate, RemedyDose};
use pagewise_model::price::SessionPrices;
use pagewise_model::usage::typical;

/// Time that a process needs to load one more library, about.
const LIBRARY_LOAD: Nanos = Nanos::millis(1);

/// Evidence for a prediction: a look and what was concluded from it.
#[derive(Debug, Clone, Copy)]
pub struct PredictionEvidence<'a> {
    pub look: &'a LookFindings,
    pub diagnosis: &'a Diagnosis,
    pub prices: &'a SessionPrices,
    pub machine: &'a Machine,
    /// True for a process that serves requests. The model was fitted on programs, so it only guesses then.
    pub is_service: bool,
}

/// Facts by their names; a name that is not here counts as 0.
pub type LookFacts = Vec<(&'static str, f64)>;

impl PredictionEvidence<'_> {
    /// The facts that bear on one dose of a candidate. Empty if the look has no time to take shares of.
    #[must_use]
    pub fn facts(&self, candidate: &RemedyCandidate, dose: &RemedyDose) -> LookFacts {
        let cpu_ns = typical(&self.look.runs, |run| run.cpu_ns().0).unwrap_or(0.0);
        if cpu_ns <= 0.0 {
            return Vec::new();
        }
        let share = |kind| self.diagnosis.share(&[kind]);
        let faults = share(CostKind::AnonFaults) + share(CostKind::Zeroing);
        let translation =
            if translation::is_seen(self.look) { share(CostKind::AddressTranslation) } else { 0.0 };
        let reach = self.reach(dose);
        let starts = self.processes().len() as f64;
        vec![
            ("constant", 1.0),
            ("ceiling", candidate.ceiling_share),
            ("faults", faults),
            ("heap_faults", faults * reach.heap),
            ("mapped_faults", faults * reach.mapped),
            ("first_huge", starts * self.huge_ns() / cpu_ns),
            ("again", faults * self.again()),
            ("map_unmap", share(CostKind::MapUnmap)),
            ("translation", translation),
            ("heap_translation", translation * reach.heap),
            ("mapped_translation", translation * reach.mapped),
            ("malloc", share(CostKind::Malloc)),
            ("file_faults", share(CostKind::FileFaults)),
            ("file_copies", share(CostKind::FileCopies)),
            ("pipe_copies", share(CostKind::PipeCopies)),
            ("wakeups", share(CostKind::Wakeups)),
            ("library_loads", starts * LIBRARY_LOAD.0 as f64 / cpu_ns),
        ]
    }

    fn processes(&self) -> &[TracedProcess] {
        self.look.traced.known().map_or(&[], |traced| &traced.processes)
    }

    fn huge_ns(&self) -> f64 {
        self.prices.huge_fault_ns.known().map_or(0.0, |price| price.median)
    }

    /// Memory that the processes touched, page by page, refilled memory included.
    fn touched(&self) -> f64 {
        let faults: u64 = self.processes().iter().map(|process| process.minor_faults).sum();
        faults as f64 * self.machine.base_page_bytes.bytes() as f64
    }

    /// Share (0..1) of the touched memory that the program had given back before.
    fn again(&self) -> f64 {
        let given_back: u64 = self
            .processes()
            .iter()
            .map(|process| &process.churn)
            .map(|churn| (churn.munmap_bytes + churn.brk_shrink_bytes + churn.dontneed_bytes).0)
            .sum();
        let kept: u64 = self.processes().iter().map(|process| process.peak_rss_bytes.0).sum();
        let beyond_peak = (self.touched() - kept as f64).max(0.0);
        super::share(beyond_peak.min(given_back as f64), self.touched())
    }

    /// Which part of the memory a dose of `heap-huge` or its kin can put on huge pages.
    fn reach(&self, dose: &RemedyDose) -> HugeReach {
        let (mut heap, mut mapped, mut filled) = (0.0, 0.0, 0.0);
        for process in self.processes() {
            let own = process.minor_faults as f64 * self.machine.base_page_bytes.bytes() as f64;
            let (grown, large) = asked(process, dose);
            let in_heap = own.min(grown);
            heap += in_heap;
            mapped += (own - in_heap).min(large);
            filled += own;
        }
        HugeReach { heap: super::share(heap, filled), mapped: super::share(mapped, filled) }
    }
}

/// Bytes that a dose asks huge pages for: of the growing heap, and of mappings.
fn asked(process: &TracedProcess, dose: &RemedyDose) -> (f64, f64) {
    let churn = &process.churn;
    let has_calls = churn.mmap_calls > 0 || churn.brk_grow_calls > 0;
    match process.allocator {
        _ if process.huge_pages_off => (0.0, 0.0),
        // A process that ran before the look: its calls were not seen.
        _ if !has_calls => (f64::INFINITY, 0.0),
        _ if dose.parameter == "inject" => (0.0, churn.large_mmap_bytes.0 as f64),
        // The tunable acts on the heap and on single large blocks, not on the program's own mappings.
        Allocator::Glibc => (churn.brk_grow_bytes.0 as f64, churn.block_mmap_bytes.0 as f64),
        _ => (f64::INFINITY, 0.0),
    }
}

/// Memory that a dose can put on huge pages, as shares (0..1) of all memory that was touched.
struct HugeReach {
    /// Memory of the growing heap, or of an allocator's own chunks.
    heap: f64,
    /// Memory of single large blocks of malloc, or of all large mappings if each gets advice.
    mapped: f64,
}
