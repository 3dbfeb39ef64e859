//! `arenas`: fewer arenas in glibc's malloc.
//!
//! Each thread of a program takes its own arena, up to eight per CPU (malloc/arena.c). Memory freed in one
//! arena cannot serve another, so a program with many threads holds several times what it uses. One tunable
//! limits the number of arenas (`glibc.malloc.arena_max`; `MALLOC_ARENA_MAX` for a glibc without tunables).
//! Cost: threads that allocate at the same time wait for each other, which the guard on time limits.
//!
//! Evidence that it took hold: the peak of the largest process, as kept by the kernel. It fits programs on
//! glibc with several threads, when memory is the goal.

use crate::heap_huge::tunable;
use crate::remedy::{Remedy, RemedyEvidence, RemedyMechanism};
use pagewise_model::look::{Allocator, TracedProcess};
use pagewise_model::machine::Machine;
use pagewise_model::plan::{ArmSettings, RemedyCandidate, RemedyDose};

/// Maximum number of arenas in a parameter.
const MOST: u32 = 64;
/// Numbers tried if none was typed.
const USUAL: [u32; 2] = [1, 2];

pub(crate) struct ArenasRemedy;

impl ArenasRemedy {
    fn limit(&self, arenas: u32) -> RemedyDose {
        let env = vec![tunable(vec![format!("glibc.malloc.arena_max={arenas}")])];
        self.with(&arenas.to_string(), ArmSettings { env, ..ArmSettings::default() })
    }
}

fn has_arenas(process: &TracedProcess) -> bool {
    process.allocator == Allocator::Glibc && process.threads > 1
}

impl Remedy for ArenasRemedy {
    fn name(&self) -> &'static str {
        "arenas"
    }
    fn sentence(&self) -> &'static str {
        "fewer arenas of glibc's malloc: threads share freed memory"
    }
    fn parameters(&self) -> &'static str {
        "how many, 1 to 64 (default 2)"
    }

    fn dose(&self, parameter: &str, _machine: &Machine) -> Result<RemedyDose, String> {
        if parameter.is_empty() {
            return Ok(self.limit(USUAL[1]));
        }
        let arenas = parameter.parse().ok().filter(|arenas| (1..=MOST).contains(arenas));
        let refused = || format!("`{parameter}` is no number of arenas: use 1 to {MOST}");
        arenas.map(|arenas| self.limit(arenas)).ok_or_else(refused)
    }

    fn fit(&self, _evidence: &RemedyEvidence<'_>) -> RemedyCandidate {
        self.unfit("it saves memory, not time (--goal memory)")
    }

    fn fit_for_memory(&self, evidence: &RemedyEvidence<'_>) -> RemedyCandidate {
        if evidence.traced().is_none() {
            return self.unfit("the memory of the program could not be examined");
        }
        let threaded = evidence.processes().iter().filter(|process| has_arenas(process));
        let Some(most) = threaded.max_by_key(|process| process.threads) else {
            return self.unfit("no process on glibc has more than one thread");
        };
        let why = format!("{} has up to {} threads on glibc's malloc", most.exe, most.threads);
        let fewer = USUAL.into_iter().filter(|arenas| *arenas < most.threads);
        let doses = fewer.map(|arenas| self.limit(arenas)).collect();
        self.fitting(why, evidence.heap_share(has_arenas), doses)
    }

    fn mechanism(&self, _dose: &RemedyDose) -> RemedyMechanism {
        RemedyMechanism::MemorySaved
    }

    fn notes(&self, _dose: &RemedyDose) -> Vec<String> {
        vec!["threads that allocate at the same moment wait for each other".to_owned()]
    }
}

#[cfg(test)]
mod tests {
    use crate::registry::tests_support::parse;

    #[test]
    fn a_number_of_arenas_is_a_tunable() {
        let dose = parse("arenas").unwrap().remove(0);
        assert_eq!(dose.spec(), "arenas=2");
        assert_eq!(dose.settings.env[0].entries, ["glibc.malloc.arena_max=2"]);
        for wrong in ["arenas=0", "arenas=65", "arenas=x"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
