//! `trim`: makes glibc return freed memory to the kernel early.
//!
//! By default both thresholds of glibc's malloc grow with use (malloc/malloc.c, "Tunables" in its manual).
//! Then blocks of up to 32 MiB come from the heap instead of their own mappings, and up to 64 MiB of free
//! memory stays at its top. Setting a threshold stops that growth: `free` unmaps large blocks, and the heap
//! shrinks once that much of its top is free. It is the reverse of `malloc-keep`. Cost: memory that is
//! allocated again is faulted in and zeroed again, which the guard on time limits.
//!
//! Evidence that it took hold: the peak of the largest process, as kept by the kernel. Not seen: free blocks
//! below the top of a heap, which only `malloc_trim` or a restart returns.

use crate::heap_huge::tunable;
use crate::remedy::{Remedy, RemedyEvidence, RemedyMechanism};
use pagewise_model::Bytes;
use pagewise_model::look::{Allocator, TracedProcess};
use pagewise_model::machine::Machine;
use pagewise_model::plan::{ArmSettings, RemedyCandidate, RemedyDose};

/// glibc's initial value, and the value tried.
const USUAL: Bytes = Bytes::kib(128);
/// The largest threshold for mappings that glibc accepts.
const LARGEST: Bytes = Bytes::mib(32);

pub(crate) struct TrimRemedy;

impl TrimRemedy {
    fn at(&self, threshold: Bytes) -> RemedyDose {
        let entries = vec![
            format!("glibc.malloc.mmap_threshold={}", threshold.0),
            format!("glibc.malloc.trim_threshold={}", threshold.0),
            "glibc.malloc.top_pad=0".to_owned(),
        ];
        let parameter = format!("{}K", threshold.0 >> 10);
        self.with(&parameter, ArmSettings { env: vec![tunable(entries)], ..ArmSettings::default() })
    }
}

fn is_on_glibc(process: &TracedProcess) -> bool {
    process.allocator == Allocator::Glibc
}

impl Remedy for TrimRemedy {
    fn name(&self) -> &'static str {
        "trim"
    }
    fn sentence(&self) -> &'static str {
        "glibc hands freed memory back early instead of keeping up to 64 MiB"
    }
    fn parameters(&self) -> &'static str {
        "the free memory from which on it does, 128K (default) to 32M"
    }

    fn dose(&self, parameter: &str, _machine: &Machine) -> Result<RemedyDose, String> {
        let threshold: Bytes = if parameter.is_empty() {
            USUAL
        } else {
            parameter.parse().map_err(|e| format!("{e}"))?
        };
        if (USUAL..=LARGEST).contains(&threshold) {
            Ok(self.at(threshold))
        } else {
            Err(format!("the threshold must be between {USUAL} and {LARGEST}"))
        }
    }

    fn conflicts(&self) -> &'static [&'static str] {
        &["malloc-keep"]
    }

    fn fit(&self, _evidence: &RemedyEvidence<'_>) -> RemedyCandidate {
        self.unfit("it saves memory, not time (--goal memory)")
    }

    fn fit_for_memory(&self, evidence: &RemedyEvidence<'_>) -> RemedyCandidate {
        if evidence.traced().is_none() {
            return self.unfit("the memory of the program could not be examined");
        }
        let heaps = evidence.processes().iter().filter(|process| is_on_glibc(process));
        let Some(largest) = heaps.max_by_key(|process| process.peak_rss_bytes) else {
            return self.unfit("no process uses glibc's malloc");
        };
        let why =
            format!("{} at the peak of {}, on glibc's malloc", largest.peak_rss_bytes, largest.exe);
        self.fitting(why, evidence.heap_share(is_on_glibc), vec![self.at(USUAL)])
    }

    fn mechanism(&self, _dose: &RemedyDose) -> RemedyMechanism {
        RemedyMechanism::MemorySaved
    }

    fn notes(&self, _dose: &RemedyDose) -> Vec<String> {
        vec!["memory that the program takes again is faulted in and zeroed again".to_owned()]
    }
}

#[cfg(test)]
mod tests {
    use crate::registry::tests_support::parse;

    #[test]
    fn all_thresholds_are_set_so_that_none_grows() {
        let dose = parse("trim").unwrap().remove(0);
        assert_eq!(dose.spec(), "trim=128K");
        assert_eq!(dose.settings.env[0].entries.len(), 3);
        assert!(
            parse("trim=64K").is_err() && parse("trim=64M").is_err() && parse("trim=x").is_err()
        );
    }
}
