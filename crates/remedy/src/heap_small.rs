//! `heap-small`: no transparent huge pages for the program and its children.
//!
//! `prctl(PR_SET_THP_DISABLE)`, inherited over fork and exec (prctl(2)). It helps programs that touch a
//! little of many huge pages, fork with large heaps, or wait for compaction. That happens if the system gives
//! huge pages to all programs (`enabled=always`) or the program requests them. Cost: every fault fills one
//! small page again, and files lose their 2 MiB mappings too.

use crate::remedy::{Remedy, RemedyEvidence, RemedyMechanism};
use pagewise_model::Bytes;
use pagewise_model::diagnosis::CostKind;
use pagewise_model::machine::Machine;
use pagewise_model::plan::{ArmSettings, RemedyCandidate, RemedyDose, ThpRestriction};

pub(crate) struct HeapSmallRemedy;

impl HeapSmallRemedy {
    fn off(&self) -> RemedyDose {
        self.with("", ArmSettings { thp: Some(ThpRestriction::Off), ..ArmSettings::default() })
    }
}

/// Anonymous memory on huge pages at the end of the processes.
fn at_end(evidence: &RemedyEvidence<'_>) -> u64 {
    evidence.processes().iter().map(|process| process.anon_huge_bytes.0).sum()
}

/// Anonymous memory on huge pages when the program held most. A look at its end misses what it has freed
/// since.
fn at_peak(evidence: &RemedyEvidence<'_>) -> u64 {
    let processes = evidence.memory.iter().flat_map(|memory| &memory.processes);
    processes.filter_map(|process| Some(process.half_used.known()?.huge_bytes.0)).sum()
}

impl Remedy for HeapSmallRemedy {
    fn name(&self) -> &'static str {
        "heap-small"
    }
    fn sentence(&self) -> &'static str {
        "no transparent huge pages for the program and its children"
    }
    fn parameters(&self) -> &'static str {
        "none"
    }

    fn dose(&self, parameter: &str, _machine: &Machine) -> Result<RemedyDose, String> {
        if parameter.is_empty() {
            Ok(self.off())
        } else {
            Err("this remedy takes no parameter".to_owned())
        }
    }

    fn conflicts(&self) -> &'static [&'static str] {
        &["heap-huge"]
    }

    fn fit(&self, evidence: &RemedyEvidence<'_>) -> RemedyCandidate {
        if evidence.traced().is_none() {
            return self.unfit("the memory of the program could not be examined");
        }
        let huge = at_end(evidence);
        if huge == 0 {
            return self.unfit("no anonymous memory of the program is on huge pages");
        }
        let ceiling = evidence.diagnosis.share(&[
            CostKind::AnonFaults,
            CostKind::Zeroing,
            CostKind::CowFaults,
            CostKind::Reclaim,
        ]);
        self.fitting(format!("{} on huge pages already", Bytes(huge)), ceiling, vec![self.off()])
    }

    fn fit_for_memory(&self, evidence: &RemedyEvidence<'_>) -> RemedyCandidate {
        let huge = at_end(evidence).max(at_peak(evidence));
        let all: u64 = evidence.processes().iter().map(|p| p.peak_rss_bytes.0).sum();
        if huge == 0 {
            return self.unfit("no anonymous memory of the program is on huge pages");
        }
        let why = format!("{} on huge pages, perhaps used in part", Bytes(huge));
        self.fitting(why, huge as f64 / all.max(1) as f64, vec![self.off()])
    }

    fn mechanism(&self, _dose: &RemedyDose) -> RemedyMechanism {
        RemedyMechanism::FaultsAdded
    }

    fn notes(&self, _dose: &RemedyDose) -> Vec<String> {
        vec!["2 MiB mappings of files (program text) are refused too".to_owned()]
    }
}
