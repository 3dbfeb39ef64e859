//! `heap-huge`: the heap on transparent huge pages.
//!
//! Two ways, chosen by the allocator that was found:
//! - `tunable`: the allocator's own switch. glibc 2.35 and later: `glibc.malloc.hugetlb=1`
//!   (madvise on each new piece of heap, static programs too); jemalloc: `thp:always`; mimalloc:
//!   `MIMALLOC_ALLOW_LARGE_OS_PAGES=1`. Nothing of ours stays beside the program.
//! - `inject`: for allocators without a switch (Go, musl, own ones): one
//!   `madvise(MADV_HUGEPAGE)` is made by the program itself, from outside, on each new private
//!   anonymous mapping of 8 MiB or more soon after its birth (polling finds it). Heaps that grow
//!   in small steps gain nothing by this: they do not fit.
//!
//! One fault then fills 2 MiB instead of 4 KiB, and one TLB entry covers it. Cost: memory is
//! rounded up to huge pages; fork copies 2 MiB at a time; a program that touches its memory
//! sparsely gets slower, which is why it is only kept after proof.

use crate::registry::{Evidence, Mechanism, Remedy};
use pagewise_model::Bytes;
use pagewise_model::diagnosis::CostKind;
use pagewise_model::look::{Allocator, ProcessSeen};
use pagewise_model::machine::Machine;
use pagewise_model::plan::{Candidate, Dose, EnvMerge, Settings, Watch};

/// A mapping below this is not worth one stop of the program.
const INJECT_MIN: Bytes = Bytes::mib(8);
/// Resident anonymous memory below this cannot gain by pages of 2 MiB.
const WORTH: Bytes = Bytes::mib(4);
/// Name under which the watcher reports.
pub(crate) const WATCH: &str = "advise-huge";

/// The remedy.
pub(crate) struct HeapHuge;

fn entry(name: &str, separator: Option<char>, entry: &str) -> EnvMerge {
    EnvMerge { name: name.to_owned(), separator, entries: vec![entry.to_owned()] }
}

impl HeapHuge {
    fn tunable(&self, allocators: &[Allocator]) -> Dose {
        let mut env = Vec::new();
        for allocator in allocators {
            match allocator {
                Allocator::Glibc => {
                    env.push(entry("GLIBC_TUNABLES", Some(':'), "glibc.malloc.hugetlb=1"));
                }
                Allocator::Jemalloc => {
                    env.push(entry("MALLOC_CONF", Some(','), "thp:always"));
                    env.push(entry("_RJEM_MALLOC_CONF", Some(','), "thp:always"));
                }
                Allocator::Mimalloc => {
                    env.push(entry("MIMALLOC_ALLOW_LARGE_OS_PAGES", None, "1"));
                }
                Allocator::Tcmalloc | Allocator::Musl | Allocator::Go | Allocator::Unknown => {}
            }
        }
        self.with("tunable", Settings { env, ..Settings::default() })
    }

    fn inject(&self, machine: &Machine) -> Dose {
        // A quarter of the machine: beyond it the tree is large enough that rounding every
        // mapping up to huge pages could push the machine into reclaim.
        let growth_limit_bytes = Bytes(machine.memory_bytes.0 / 4);
        let watches = vec![Watch::AdviseHuge { min_bytes: INJECT_MIN, growth_limit_bytes }];
        self.with("inject", Settings { watches, ..Settings::default() })
    }

    /// Why huge pages cannot help on this machine at all.
    fn refusal(machine: &Machine) -> Option<String> {
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

/// Anonymous memory of a process that huge pages could serve and do not yet: at its peak, which
/// is what was resident less the files it had mapped.
fn small_bytes(process: &ProcessSeen) -> u64 {
    let peak = process.peak_rss_bytes.0.saturating_sub(process.file_bytes.0);
    process.anon_bytes.0.max(peak).saturating_sub(process.anon_huge_bytes.0)
}

const fn has_tunable(allocator: Allocator) -> bool {
    matches!(allocator, Allocator::Glibc | Allocator::Jemalloc | Allocator::Mimalloc)
}

impl Remedy for HeapHuge {
    fn name(&self) -> &'static str {
        "heap-huge"
    }
    fn sentence(&self) -> &'static str {
        "the heap on 2 MiB pages: one fault and one TLB entry instead of 512"
    }
    fn parameters(&self) -> &'static str {
        "tunable (default: the switch of glibc, jemalloc and mimalloc) or inject (any allocator)"
    }

    fn dose(&self, parameter: &str, machine: &Machine) -> Result<Dose, String> {
        match parameter {
            "" | "tunable" => {
                Ok(self.tunable(&[Allocator::Glibc, Allocator::Jemalloc, Allocator::Mimalloc]))
            }
            "inject" => Ok(self.inject(machine)),
            other => Err(format!("`{other}` is not `tunable` or `inject`")),
        }
    }

    fn fit(&self, evidence: &Evidence<'_>) -> Candidate {
        if let Some(why) = Self::refusal(evidence.machine) {
            return self.unfit(why);
        }
        if evidence.traced().is_none() {
            return self.unfit("the memory of the program could not be looked at");
        }
        let wide: Vec<&ProcessSeen> =
            evidence.processes().iter().filter(|p| small_bytes(p) >= WORTH.0).collect();
        let Some(largest) = wide.iter().max_by_key(|p| small_bytes(p)) else {
            return self
                .unfit(format!("no process has {WORTH} of anonymous memory on small pages"));
        };
        let mut doses = Vec::new();
        if wide.iter().any(|p| has_tunable(p.allocator)) {
            doses
                .push(self.dose("tunable", evidence.machine).unwrap_or_else(|_| self.tunable(&[])));
        }
        let injectable =
            wide.iter().any(|p| !has_tunable(p.allocator) && p.churn.large_mmap_calls > 0);
        if injectable {
            doses.push(self.inject(evidence.machine));
        }
        if doses.is_empty() {
            return self.unfit(format!(
                "the heap of {} ({}) grows in steps below {INJECT_MIN} and its allocator has no switch",
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

    fn mechanism(&self, _dose: &Dose) -> Mechanism {
        Mechanism::HugeFaults
    }

    fn notes(&self, dose: &Dose) -> Vec<String> {
        let mut notes = vec![
            "memory is rounded up to 2 MiB pages; sparse use takes more of it".to_owned(),
            "after fork, the first write to a page copies 2 MiB instead of 4 KiB".to_owned(),
        ];
        if dose.parameter == "tunable" {
            notes.push(
                "glibc 2.36 takes this tunable in most starts and not in all (it reads the THP \
                 mode without a terminator); the gain shown is the average over all starts"
                    .to_owned(),
            );
        }
        if dose.parameter == "inject" {
            notes.push(
                "pagewise stays beside the program and stops it for a fraction of a millisecond \
                 at each new large mapping; another tracer cannot attach at that moment"
                    .to_owned(),
            );
        }
        notes
    }
}

/// Share of time that huge pages could give: faults at the difference of prices, and all of the
/// address translation.
fn ceiling(evidence: &Evidence<'_>) -> f64 {
    let prices = evidence.prices;
    let small = prices.anon_fault_ns.median;
    let huge_page = evidence.machine.huge_page_bytes.known().map_or(1, |p| p.bytes());
    let pages = (huge_page / evidence.machine.base_page_bytes.bytes()).max(1) as f64;
    let left = match prices.huge_fault_ns.known() {
        Some(huge) if small > 0.0 => (huge.median / pages / small).clamp(0.0, 1.0),
        _ => 0.0,
    };
    let faults = evidence.share(CostKind::AnonFaults) + evidence.share(CostKind::Zeroing);
    faults * (1.0 - left) + evidence.share(CostKind::AddressTranslation)
}
