//! `heap-huge`: the heap on transparent huge pages.
//!
//! The way depends on the allocator that was found (in the look, or in the program's file):
//! - `glibc`, `jemalloc`, `mimalloc`: the allocator's own switch (`tunable`: of all three). glibc 2.35 and later:
//!   `glibc.malloc.hugetlb=1` (madvise on each new piece of heap, also in static programs); jemalloc:
//!   `thp:always`; mimalloc: `MIMALLOC_ALLOW_LARGE_OS_PAGES=1`. No pagewise process stays beside the program.
//! - `java`: the option `-XX:+UseTransparentHugePages` (madvise on heap and code), as the first argument of
//!   `java`. A program that starts `java` gets it by `JAVA_TOOL_OPTIONS`, and the JVM then writes a line to
//!   standard error. So only services get it, where standard error is a log.
//! - `inject`: for allocators without a switch (Go, musl, custom ones, glibc before 2.35). The program is made
//!   to call `madvise(MADV_HUGEPAGE)`, from outside, once for each new private anonymous mapping of 8 MiB or
//!   more, soon after its creation (found by polling). Heaps that grow in small steps gain nothing: not fit.
//!
//! One fault then fills 2 MiB instead of 4 KiB, and one TLB entry covers it. Cost: memory is rounded up to
//! huge pages. After fork, the first write to a huge page splits it. A program that touches its memory
//! sparsely gets slower, so the remedy is only kept after proof.

use crate::remedy::{Remedy, RemedyEvidence, RemedyMechanism};
use crate::target::TargetProgram;
use pagewise_model::Bytes;
use pagewise_model::diagnosis::CostKind;
use pagewise_model::look::{Allocator, TracedProcess};
use pagewise_model::machine::Machine;
use pagewise_model::plan::{ArmSettings, EnvMerge, RemedyCandidate, RemedyDose, WatchAction};
use pagewise_tracee::jvm;
use std::path::Path;

/// Smaller mappings are not worth a stop of the program.
const INJECT_MIN: Bytes = Bytes::mib(8);
/// With less resident anonymous memory, 2 MiB pages cannot help.
pub(crate) const WORTH: Bytes = Bytes::mib(4);
/// Name of the watcher in reports.
pub(crate) const WATCH: &str = "advise-huge";

pub(crate) struct HeapHugeRemedy;

/// Entries of the variable that holds glibc's tunables.
pub(crate) fn tunable(entries: Vec<String>) -> EnvMerge {
    EnvMerge { name: "GLIBC_TUNABLES".to_owned(), separator: Some(':'), entries }
}

fn entry(name: &str, separator: Option<char>, entry: &str) -> EnvMerge {
    EnvMerge { name: name.to_owned(), separator, entries: vec![entry.to_owned()] }
}

/// The allocators with a switch, by their parameter name.
const SWITCHED: [(&str, Allocator); 4] = [
    ("glibc", Allocator::Glibc),
    ("jemalloc", Allocator::Jemalloc),
    ("mimalloc", Allocator::Mimalloc),
    (JAVA, Allocator::Hotspot),
];
/// Parameter for the option of Java programs; below, the option.
const JAVA: &str = "java";
const JAVA_OPTION: &str = "-XX:+UseTransparentHugePages";
/// Parameter for all switches except that of Java programs.
const ALL: &str = "tunable";
/// Parameter for advice from outside.
pub const INJECT: &str = "inject";
/// Name of the remedy.
pub const NAME: &str = "heap-huge";

/// The variables by which an allocator requests huge pages; empty if it has no such switch.
pub(crate) fn switch(allocator: Allocator) -> Vec<EnvMerge> {
    match allocator {
        Allocator::Glibc => vec![tunable(vec!["glibc.malloc.hugetlb=1".to_owned()])],
        // The second name is for the copies that Rust programs contain.
        Allocator::Jemalloc => vec![
            entry("MALLOC_CONF", Some(','), "thp:always"),
            entry("_RJEM_MALLOC_CONF", Some(','), "thp:always"),
        ],
        Allocator::Mimalloc => vec![entry("MIMALLOC_ALLOW_LARGE_OS_PAGES", None, "1")],
        Allocator::Tcmalloc
        | Allocator::Musl
        | Allocator::Go
        | Allocator::Hotspot
        | Allocator::Unknown => Vec::new(),
    }
}

impl HeapHugeRemedy {
    /// The switches of `allocators`, under the name `parameter`.
    fn switches(&self, parameter: &str, allocators: &[Allocator]) -> RemedyDose {
        let env = allocators.iter().copied().flat_map(switch).collect();
        let is_java = allocators.contains(&Allocator::Hotspot);
        let jvm_options = is_java.then(|| JAVA_OPTION.to_owned()).into_iter().collect();
        self.with(parameter, ArmSettings { env, jvm_options, ..ArmSettings::default() })
    }

    /// The switches of the allocators that these processes use; `None` without any.
    fn switches_for(
        &self,
        processes: &[&TracedProcess],
        evidence: &RemedyEvidence<'_>,
    ) -> Option<RemedyDose> {
        let used = |one: &&(&str, Allocator)| {
            processes.iter().any(|p| p.allocator == one.1 && has_switch(p, evidence))
        };
        let (names, found): (Vec<&str>, Vec<Allocator>) =
            SWITCHED.iter().filter(used).copied().unzip();
        (!found.is_empty()).then(|| self.switches(&names.join("+"), &found))
    }

    /// The variables of all allocators that have a switch in a variable.
    pub(crate) fn switches_of_all() -> Vec<EnvMerge> {
        SWITCHED.iter().flat_map(|(_, allocator)| switch(*allocator)).collect()
    }

    /// Whether one of those variables reaches this process.
    pub(crate) fn has_env_switch(process: &TracedProcess) -> bool {
        !switch(process.allocator).is_empty()
            && switch_works(process.allocator, process.glibc_huge_tunable)
    }

    fn inject(&self, machine: &Machine) -> RemedyDose {
        // A quarter of the machine. For a larger tree, rounding every mapping up to huge pages could push the
        // machine into reclaim.
        let growth_limit_bytes = Bytes(machine.memory_bytes.0 / 4);
        let watches = vec![WatchAction::AdviseHuge { min_bytes: INJECT_MIN, growth_limit_bytes }];
        self.with(INJECT, ArmSettings { watches, ..ArmSettings::default() })
    }

    /// The parameter for the allocator found in a program's file.
    pub(crate) fn parameter_for_file(&self, target: &TargetProgram) -> String {
        let works = switch_works(target.allocator(), target.glibc_huge_tunable());
        let parameter = match target.allocator() {
            Allocator::Hotspot if target.file().is_some_and(jvm::is_launcher_name) => JAVA,
            // Other programs on a JVM take no options, and the JVM reports the variable.
            Allocator::Hotspot => INJECT,
            // All switches, since programs that it starts may use another allocator.
            _ if works => ALL,
            _ => INJECT,
        };
        parameter.to_owned()
    }

    /// Why huge pages cannot help on this machine at all.
    pub(crate) fn refusal(machine: &Machine) -> Option<String> {
        match machine.thp_enabled.known().map(String::as_str) {
            Some("never") => Some("transparent huge pages are off (enabled=never)".to_owned()),
            Some("always") => {
                Some("transparent huge pages are already on (enabled=always)".to_owned())
            }
            Some(_) => None,
            None => Some("this kernel has no transparent huge pages".to_owned()),
        }
    }
}

/// Anonymous memory of a process that huge pages could serve but do not yet: the resident memory at its peak,
/// less mapped files.
pub(crate) fn small_bytes(process: &TracedProcess) -> u64 {
    let peak = process.peak_rss_bytes.0.saturating_sub(process.file_bytes.0);
    process.anon_bytes.0.max(peak).saturating_sub(process.anon_huge_bytes.0)
}

/// The part of that memory that advice can put on huge pages: none if the process switched them off for itself.
pub(crate) fn advisable_bytes(process: &TracedProcess) -> u64 {
    if process.huge_pages_off { 0 } else { small_bytes(process) }
}

/// Whether the allocator of a process has a switch. If that is unknown for a glibc, it is assumed: the arm's
/// counter will show it. The switch of Java programs counts only if it leaves the output unchanged.
fn has_switch(process: &TracedProcess, evidence: &RemedyEvidence<'_>) -> bool {
    let first = evidence.processes().first();
    let is_silent = || first.is_some_and(|p| jvm::is_launcher_name(Path::new(&p.exe)));
    let is_usable = process.allocator != Allocator::Hotspot || evidence.has_log || is_silent();
    is_usable && switch_works(process.allocator, process.glibc_huge_tunable)
}

pub(crate) fn switch_works(allocator: Allocator, glibc_huge_tunable: Option<bool>) -> bool {
    let old_glibc = allocator == Allocator::Glibc && glibc_huge_tunable == Some(false);
    !old_glibc && SWITCHED.iter().any(|(_, switched)| *switched == allocator)
}

impl Remedy for HeapHugeRemedy {
    fn name(&self) -> &'static str {
        NAME
    }
    fn sentence(&self) -> &'static str {
        "the heap on 2 MiB pages: one fault and one TLB entry instead of 512"
    }
    fn parameters(&self) -> &'static str {
        "glibc, jemalloc, mimalloc, java (joined by +), tunable (the first three), inject;\n    without one, tunable, java or inject by the program's allocator"
    }

    fn dose(&self, parameter: &str, machine: &Machine) -> Result<RemedyDose, String> {
        match parameter {
            "" | ALL => {
                let others = SWITCHED.iter().filter(|(name, _)| *name != JAVA);
                Ok(self.switches(ALL, &others.map(|(_, a)| *a).collect::<Vec<_>>()))
            }
            INJECT => Ok(self.inject(machine)),
            names => {
                let known =
                    |name| SWITCHED.iter().find(|(known, _)| *known == name).map(|(_, a)| *a);
                let found: Option<Vec<Allocator>> = names.split('+').map(known).collect();
                let found = found.ok_or_else(|| {
                    format!("`{names}` is not `tunable`, `inject`, or a list of glibc, jemalloc, mimalloc, java")
                })?;
                Ok(self.switches(names, &found))
            }
        }
    }

    fn parameter_for(&self, target: &dyn Fn() -> TargetProgram) -> String {
        self.parameter_for_file(&target())
    }

    fn fit(&self, evidence: &RemedyEvidence<'_>) -> RemedyCandidate {
        if let Some(why) = Self::refusal(evidence.machine) {
            return self.unfit(why);
        }
        if evidence.traced().is_none() {
            return self.unfit("the memory of the program could not be examined");
        }
        let all = evidence.processes().iter();
        let wide: Vec<&TracedProcess> =
            all.clone().filter(|p| advisable_bytes(p) >= WORTH.0).collect();
        let Some(largest) = wide.iter().max_by_key(|p| advisable_bytes(p)) else {
            if let Some(off) = all.clone().find(|p| small_bytes(p) >= WORTH.0) {
                return self.unfit(format!(
                    "{} switches huge pages off for itself (PR_SET_THP_DISABLE)",
                    off.exe
                ));
            }
            return self.unfit(format!(
                "no process has {WORTH} or more of anonymous memory on small pages"
            ));
        };
        let mut doses: Vec<RemedyDose> = self.switches_for(&wide, evidence).into_iter().collect();
        let injectable =
            wide.iter().any(|p| !has_switch(p, evidence) && p.churn.large_mmap_calls > 0);
        if injectable {
            doses.push(self.inject(evidence.machine));
        }
        if doses.is_empty() {
            return self.unfit(format!(
                "the heap of {} ({}) grows in steps below {INJECT_MIN}, and its allocator has no setting for huge pages",
                largest.exe, largest.allocator
            ));
        }
        let why = format!(
            "{} of anonymous memory on small pages in {} (allocator: {})",
            Bytes(small_bytes(largest)),
            largest.exe,
            largest.allocator
        );
        self.fitting(why, ceiling(evidence), doses)
    }

    fn mechanism(&self, _dose: &RemedyDose) -> RemedyMechanism {
        RemedyMechanism::HugeFaults
    }

    fn notes(&self, dose: &RemedyDose) -> Vec<String> {
        let mut notes = vec![
            "memory is rounded up to 2 MiB pages; programs that use it sparsely need more"
                .to_owned(),
            "after fork, the first write to each huge page splits it into small pages".to_owned(),
        ];
        if dose.settings.env.iter().any(|merge| merge.name == "GLIBC_TUNABLES") {
            notes.push(
                "glibc 2.36 applies this tunable in most starts, not in all (it reads the THP mode without a terminator); the gain is the average over all starts"
                    .to_owned(),
            );
        }
        if !dose.settings.jvm_options.is_empty() {
            notes.push(format!(
                "`java {}` is silent; given by {}, each JVM reports it in a line on its standard error",
                dose.settings.jvm_options.join(" "),
                jvm::VARIABLE
            ));
        }
        if dose.parameter == INJECT {
            notes.push(
                "pagewise stays beside the program and stops it for a fraction of a millisecond \
                 at each new large mapping; another tracer cannot attach at that moment"
                    .to_owned(),
            );
        }
        notes
    }
}

/// Share of time that huge pages could save at most: faults at the difference in price, copies of page tables
/// by forks, and all address translation.
pub(crate) fn ceiling(evidence: &RemedyEvidence<'_>) -> f64 {
    let huge_page = evidence.machine.huge_page_bytes.known().map_or(1, |p| p.bytes());
    let pages = (huge_page / evidence.machine.base_page_bytes.bytes()).max(1);
    let prices = evidence.prices;
    let small = prices.anon_fault_ns.median;
    let left = match prices.huge_fault_ns.known() {
        Some(huge) if small > 0.0 => (huge.median / pages as f64 / small).clamp(0.0, 1.0),
        _ => 0.0,
    };
    let faults = evidence.share(CostKind::AnonFaults) + evidence.share(CostKind::Zeroing);
    let fork = evidence.share(CostKind::Fork) * (1.0 - 1.0 / pages as f64);
    faults * (1.0 - left) + fork + evidence.share(CostKind::AddressTranslation)
}

/// Like [`ceiling`], for folios of `pages` base pages. Their price is unknown, so it assumes that everything
/// except clearing and one fault per folio is saved.
pub(crate) fn ceiling_on(evidence: &RemedyEvidence<'_>, pages: u64) -> f64 {
    let saved = 1.0 - 1.0 / pages.max(1) as f64;
    let kinds = [CostKind::AnonFaults, CostKind::AddressTranslation];
    evidence.diagnosis.share(&kinds) * saved
}
