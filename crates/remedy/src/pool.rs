//! `pool`: the heap on reserved huge pages.
//!
//! The kernel keeps a pool of huge pages that only explicit requests can use (`kernel::hugetlb`). With
//! `glibc.malloc.hugetlb=2`, glibc (2.35 and later, also in static programs) uses it for all its memory: a
//! mapping for each large block, and mappings in place of `brk` for the heap (malloc/malloc.c, `sysmalloc`).
//! Such a mapping takes its pages from the pool when it is created, so no touch of it can fail. If the pool
//! has too few pages, glibc continues with small pages. Unlike with `heap-huge`, a fault needs no search for
//! a free huge page and never falls back to small ones. There is no splitting and no swapping, and heaps that
//! grow in small steps benefit too.
//!
//! The arena of a thread takes four pages at once, touched or not (malloc/arena.c, `heap_max_size`).
//!
//! A touch can still fail by `SIGBUS` in one case. After `fork`, the first write to a page that parent and
//! child share takes one more page from the pool. If there is none, the child loses the page (mm/hugetlb.c,
//! `hugetlb_wp`). So forked processes in the look are counted in full.
//!
//! The remedy is not applied if the pool has fewer pages available at the start than requested
//! ([`crate::reservation`]). Units: bytes, and pages of the pool.
//!
//! Not seen: cgroup limits for huge pages, by which a touch may fail too; SysV shared memory, which a program
//! must request itself (`SHM_HUGETLB`).

use crate::heap_huge::{WORTH, ceiling, small_bytes, switch_works};
use crate::remedy::{Remedy, RemedyEvidence, RemedyMechanism};
use pagewise_model::look::{Allocator, TracedProcess};
use pagewise_model::machine::Machine;
use pagewise_model::plan::{
    ArmSettings, EnvMerge, PoolNeed, RemedyCandidate, RemedyDose, WatchAction,
};
use pagewise_model::pool::HugePool;
use pagewise_model::{Bytes, PageSize};

/// Its name, also used by the watcher in reports.
pub const NAME: &str = "pool";
/// The tunable that puts the heap on the pool.
const TUNABLE: &str = "glibc.malloc.hugetlb=2";
/// Pages in the arena of a thread; below, the maximum number of arenas per CPU.
const ARENA_PAGES: u64 = 4;
const ARENAS: u64 = 8;
/// Size requested if none was given.
const USUAL: Bytes = Bytes::mib(256);
/// Reserve beyond the peaks of the look, as one part in this many: runs differ.
const SPARE: u64 = 8;

pub(crate) struct PoolRemedy;

impl PoolRemedy {
    fn need(&self, bytes: Bytes, page_bytes: PageSize) -> RemedyDose {
        let env = EnvMerge {
            name: "GLIBC_TUNABLES".to_owned(),
            separator: Some(':'),
            entries: vec![TUNABLE.to_owned()],
        };
        let need = PoolNeed { bytes, page_bytes };
        let settings = ArmSettings {
            env: vec![env],
            watches: vec![WatchAction::CountPool { page_bytes }],
            pool: Some(PoolNeed { bytes: Bytes(need.pages() * page_bytes.bytes()), page_bytes }),
            ..ArmSettings::default()
        };
        let parameter = format!("{}M", (need.pages() * page_bytes.bytes()) >> 20);
        self.with(&parameter, settings)
    }

    /// Whether the pool holds `pages` or may be enlarged; otherwise why not.
    fn room(pool: &HugePool, pages: u64) -> Result<String, String> {
        let (available, size) = (pool.available_pages(), pool.size(pages));
        if available >= pages {
            return Ok(format!("the pool has {}", pool.available()));
        }
        let lacking = pages - available;
        if pool.addable_pages >= lacking {
            return Ok(format!("{} are reserved meanwhile", pool.size(lacking)));
        }
        let has = match available {
            0 => "the pool of huge pages is empty".to_owned(),
            _ => format!("the pool of huge pages has {} available", pool.available()),
        };
        let unlock = match pool.addable_pages {
            0 => "use --system as root to reserve them".to_owned(),
            more => format!("at most {} may be reserved", pool.size(more)),
        };
        Err(format!("{has}, its heaps need {size}: {unlock}"))
    }
}

/// Whether glibc's tunable reaches the heap of a process.
fn is_reached(process: &TracedProcess) -> bool {
    process.allocator == Allocator::Glibc
        && switch_works(process.allocator, process.glibc_huge_tunable)
}

/// Maximum number of pages that these processes take, all at the same time.
fn pages(processes: &[&TracedProcess], page: PageSize, cpus: usize) -> u64 {
    let most_arenas = ARENAS * cpus.max(1) as u64;
    let of_one = |process: &&TracedProcess| {
        let arenas = u64::from(process.threads.saturating_sub(1)).min(most_arenas);
        // Even a small heap takes one page.
        Bytes(small_bytes(process)).pages(page) + 1 + arenas * ARENA_PAGES
    };
    let all: u64 = processes.iter().map(of_one).sum();
    all + all.div_ceil(SPARE)
}

impl Remedy for PoolRemedy {
    fn name(&self) -> &'static str {
        NAME
    }
    fn sentence(&self) -> &'static str {
        "the heap on huge pages reserved for it: never small, never split, never swapped"
    }
    fn parameters(&self) -> &'static str {
        "the memory that the pool must have available at the start (default 256M);\n    \
         run --system reserves what is missing"
    }

    fn dose(&self, parameter: &str, machine: &Machine) -> Result<RemedyDose, String> {
        let amount: Bytes = if parameter.is_empty() {
            USUAL
        } else {
            parameter.parse().map_err(|e| format!("{e}"))?
        };
        let page = machine.huge_page_bytes.known().ok_or("this machine has no huge pages")?;
        if amount > Bytes(0) && amount <= machine.memory_bytes {
            Ok(self.need(amount, *page))
        } else {
            Err(format!("give an amount of memory, at most {}", machine.memory_bytes))
        }
    }

    fn conflicts(&self) -> &'static [&'static str] {
        &["heap-huge"]
    }

    fn fit(&self, evidence: &RemedyEvidence<'_>) -> RemedyCandidate {
        if evidence.traced().is_none() {
            return self.unfit("the memory of the program could not be examined");
        }
        let reached: Vec<&TracedProcess> =
            evidence.processes().iter().filter(|p| is_reached(p)).collect();
        let largest = reached.iter().max_by_key(|p| small_bytes(p));
        let Some(largest) = largest.filter(|p| small_bytes(p) >= WORTH.0) else {
            return self.unfit(format!(
                "no process on glibc 2.35 or later has {WORTH} of anonymous memory on small pages"
            ));
        };
        let pool = match evidence.pool.known() {
            Some(pool) => pool,
            None => return self.unfit(evidence.pool.reason().unwrap_or_default()),
        };
        let pages = pages(&reached, pool.page_bytes, evidence.machine.cpus.len());
        match Self::room(pool, pages) {
            Err(why) => self.unfit(why),
            Ok(room) => {
                let why = format!(
                    "{} of anonymous memory on small pages in {}; {room}",
                    Bytes(small_bytes(largest)),
                    largest.exe
                );
                let dose = self.need(pool.size(pages), pool.page_bytes);
                self.fitting(why, ceiling(evidence), vec![dose])
            }
        }
    }

    fn mechanism(&self, _dose: &RemedyDose) -> RemedyMechanism {
        RemedyMechanism::Watched(NAME)
    }

    fn notes(&self, dose: &RemedyDose) -> Vec<String> {
        let mut notes = vec![
            "nothing else can use reserved pages; they count neither as resident memory nor against a cgroup's memory limit"
                .to_owned(),
            "after fork, each written page takes one more from the pool; if the pool is empty, the child dies by SIGBUS when it next touches that page"
                .to_owned(),
        ];
        if let Some(need) = dose.settings.pool {
            let pages = need.pages();
            notes.push(format!(
                "for starts without pagewise: GLIBC_TUNABLES={TUNABLE}; nothing then warns if the pool is too small"
            ));
            notes.push(format!(
                "to have {} in the pool for good: vm.nr_hugepages={pages} in a file of \
                 /etc/sysctl.d, or, before memory fragments, hugepages={pages} on the kernel's command line",
                need.bytes
            ));
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::tests_support::parse;
    use pagewise_model::constructed::{self, process};

    #[test]
    fn a_dose_asks_for_whole_pages_and_never_for_more_than_there_is() {
        let dose = &parse("pool=5M").unwrap()[0];
        assert_eq!(dose.spec(), "pool=6M");
        assert_eq!(dose.settings.pool.map(PoolNeed::pages), Some(3));
        assert_eq!(parse("pool").unwrap()[0].spec(), "pool=256M");
        for odd in ["pool=0", "pool=9G", "pool=x"] {
            assert!(parse(odd).unwrap_err().to_string().starts_with("remedy `pool`: "), "{odd}");
        }
    }

    #[test]
    fn every_heap_takes_a_page_and_runs_may_differ() {
        let of = |mib| TracedProcess { anon_bytes: Bytes::mib(mib), ..process() };
        let (none, large) = (of(0), of(9));
        let of = |processes: &[&TracedProcess]| pages(processes, PageSize::PMD_2M, 2);
        assert_eq!(of(&[&none]), 2);
        assert_eq!(of(&[&large, &large, &none]), 6 + 6 + 1 + 2);
        let with_threads = |threads| TracedProcess { threads, ..process() };
        assert_eq!(of(&[&with_threads(3)]), 9 + 2);
        assert_eq!(of(&[&with_threads(99)]), of(&[&with_threads(17)]), "8 arenas for each CPU");
    }

    #[test]
    fn what_is_missing_is_reserved_or_named() {
        let pool = HugePool { addable_pages: 3, ..constructed::pool(5) };
        let said = |pages| PoolRemedy::room(&pool, pages);
        assert_eq!(said(5), Ok("the pool has 10.0 MiB".to_owned()));
        assert_eq!(said(8), Ok("6.0 MiB are reserved meanwhile".to_owned()));
        assert!(said(9).unwrap_err().ends_with("at most 6.0 MiB may be reserved"));
        let empty = PoolRemedy::room(&constructed::pool(0), 1).unwrap_err();
        assert!(empty.starts_with("the pool of huge pages is empty"), "{empty}");
        assert!(empty.ends_with("use --system as root to reserve them"), "{empty}");
    }
}
