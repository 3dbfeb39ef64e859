//! `heap-mthp`: the heap on folios of 64 KiB.
//!
//! A fault then fills 16 base pages, and some processors keep them in one TLB entry. Such folios need less
//! memory than 2 MiB pages if a heap is small or used in parts, and are available even if free memory is
//! fragmented. The advice is that of `heap-huge`: the switch of the allocator (glibc:
//! `glibc.malloc.hugetlb=1`, jemalloc, mimalloc), which also serves heaps that grow in small steps. The
//! kernel takes the largest enabled size, so 2 MiB must be off meanwhile ([`crate::folio_switches`]).
//!
//! Evidence that it took hold: `hugepages-64kB/stats/anon_fault_alloc` over the run, limited to the drop in
//! the run's own minor faults, because the kernel counts for the whole machine.
//!
//! Cost: memory is rounded up to 64 KiB, and a fault clears 16 pages.

use crate::folio_switches::{absent, is_as_wanted, unlock};
use crate::heap_huge::{HeapHugeRemedy, WORTH, advisable_bytes, ceiling_on};
use crate::remedy::{Remedy, RemedyEvidence, RemedyMechanism};
use pagewise_model::Bytes;
use pagewise_model::look::TracedProcess;
use pagewise_model::machine::{Machine, SmallFolios};
use pagewise_model::plan::{ArmSettings, RemedyCandidate, RemedyDose};

/// Its name, and the prefix of messages about its settings.
pub const NAME: &str = "heap-mthp";

pub(crate) struct HeapMthpRemedy;

impl HeapMthpRemedy {
    fn on_folios(&self) -> RemedyDose {
        let env = HeapHugeRemedy::switches_of_all();
        self.with(
            "",
            ArmSettings { env, folios: Some(SmallFolios::SIZE), ..ArmSettings::default() },
        )
    }

    /// Why the kernel cannot serve heaps with them; `None` if it can.
    fn refusal(machine: &Machine) -> Option<String> {
        let for_all = machine.thp_enabled.known().map(String::as_str);
        let size = SmallFolios::SIZE;
        match machine.small_folios.known() {
            None => Some(absent()),
            Some(now) if now.small == "always" => Some(format!("folios of {size} are on for all")),
            Some(now) if now.may_change || is_as_wanted(now, for_all) => None,
            Some(now) => Some(unlock(now)),
        }
    }
}

impl Remedy for HeapMthpRemedy {
    fn name(&self) -> &'static str {
        NAME
    }
    fn sentence(&self) -> &'static str {
        "the heap on folios of 64 KiB: one fault instead of 16, less memory than on 2 MiB"
    }
    fn parameters(&self) -> &'static str {
        "none; run --system changes the kernel's settings while the program runs"
    }

    fn dose(&self, parameter: &str, _machine: &Machine) -> Result<RemedyDose, String> {
        if parameter.is_empty() {
            Ok(self.on_folios())
        } else {
            Err("this remedy takes no parameter".to_owned())
        }
    }

    fn conflicts(&self) -> &'static [&'static str] {
        &["heap-huge", "heap-small", "pool", "allocator"]
    }

    fn fit(&self, evidence: &RemedyEvidence<'_>) -> RemedyCandidate {
        if let Some(why) =
            HeapHugeRemedy::refusal(evidence.machine).or_else(|| Self::refusal(evidence.machine))
        {
            return self.unfit(why);
        }
        if evidence.traced().is_none() {
            return self.unfit("the memory of the program could not be examined");
        }
        let has_switch = |p: &&TracedProcess| HeapHugeRemedy::has_env_switch(p);
        let wide = evidence.processes().iter().filter(|p| advisable_bytes(p) >= WORTH.0);
        let Some(largest) = wide.filter(has_switch).max_by_key(|p| advisable_bytes(p)) else {
            return self.unfit(format!(
                "no process with {WORTH} of anonymous memory on small pages has an allocator with a switch for it"
            ));
        };
        let why = format!(
            "{} of anonymous memory on small pages in {} (allocator: {})",
            Bytes(advisable_bytes(largest)),
            largest.exe,
            largest.allocator
        );
        let pages = SmallFolios::SIZE.bytes() / evidence.machine.base_page_bytes.bytes();
        self.fitting(why, ceiling_on(evidence, pages), vec![self.on_folios()])
    }

    fn mechanism(&self, _dose: &RemedyDose) -> RemedyMechanism {
        RemedyMechanism::FolioFaults
    }

    fn notes(&self, _dose: &RemedyDose) -> Vec<String> {
        vec![
            "while this runs, no program on the machine gets new 2 MiB pages for anonymous memory"
                .to_owned(),
            "for good, as root: echo madvise >/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled; \
             echo never >/sys/kernel/mm/transparent_hugepage/hugepages-2048kB/enabled"
                .to_owned(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::Fact;
    use pagewise_model::constructed;

    fn machine(small: &str, largest: &str, may_change: bool) -> Machine {
        let words = SmallFolios { small: small.into(), largest: largest.into(), may_change };
        Machine { small_folios: Fact::Known(words), ..constructed::machine() }
    }

    #[test]
    fn the_switches_decide_and_what_would_help_is_named() {
        let refusal = |small, largest, may| HeapMthpRemedy::refusal(&machine(small, largest, may));
        assert_eq!(refusal("madvise", "never", false), None);
        assert_eq!(refusal("never", "inherit", true), None);
        let off = refusal("never", "inherit", false).unwrap();
        assert!(off.contains("64 KiB") && off.contains("as root with --system"), "{off}");
        assert!(refusal("always", "never", true).unwrap().contains("on for all"));
        let none = HeapMthpRemedy::refusal(&constructed::machine()).unwrap();
        assert!(none.contains("Linux 6.8"), "{none}");
    }

    #[test]
    fn the_dose_asks_for_folios_by_the_allocators_switches() {
        let dose = HeapMthpRemedy.dose("", &constructed::machine()).unwrap();
        assert_eq!(dose.spec(), NAME);
        assert!(dose.settings.needs_machine());
        assert_eq!(dose.settings.env[0].entries, ["glibc.malloc.hugetlb=1"]);
        assert!(HeapMthpRemedy.dose("1", &constructed::machine()).is_err());
    }
}
