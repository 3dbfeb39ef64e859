//! `place`: where the processes of a pipeline run.
//!
//! Passing data to another CPU costs an inter-processor interrupt and a cold cache; passing it on the same
//! CPU costs a context switch. Which one is cheaper depends on the machine and on how much both sides could
//! do in parallel, so both are tried. `one`: the whole tree on one CPU (by inherited affinity,
//! sched_setaffinity(2)). `apart`: producer and consumer alternate over two CPUs (set from outside when pipes
//! connect them). Cost: a program that would have used more CPUs cannot.

use crate::remedy::{Remedy, RemedyEvidence, RemedyMechanism};
use pagewise_model::diagnosis::CostKind;
use pagewise_model::machine::Machine;
use pagewise_model::plan::{ArmSettings, RemedyCandidate, RemedyDose, WatchAction};

/// With a smaller share of wake-ups, placement cannot be the cost.
const WORTH_SHARE: f64 = 0.02;
/// Name of the watcher in reports.
pub(crate) const WATCH: &str = "alternate-cpus";

pub(crate) struct PlaceRemedy;

impl PlaceRemedy {
    /// The last allowed CPU: on small machines, the first one usually serves interrupts.
    fn one(&self, machine: &Machine) -> Option<RemedyDose> {
        let cpu = *machine.cpus.last()?;
        Some(self.with("one", ArmSettings { cpus: Some(vec![cpu]), ..ArmSettings::default() }))
    }

    fn apart(&self, machine: &Machine) -> Option<RemedyDose> {
        let [first, second, ..] = machine.cpus.as_slice() else { return None };
        let watches = vec![WatchAction::AlternateCpus { cpus: vec![*first, *second] }];
        Some(self.with("apart", ArmSettings { watches, ..ArmSettings::default() }))
    }
}

impl Remedy for PlaceRemedy {
    fn name(&self) -> &'static str {
        "place"
    }
    fn sentence(&self) -> &'static str {
        "the whole program on one CPU, or producer and consumer on two"
    }
    fn parameters(&self) -> &'static str {
        "one (default) or apart"
    }

    fn dose(&self, parameter: &str, machine: &Machine) -> Result<RemedyDose, String> {
        let dose = match parameter {
            "" | "one" => self.one(machine),
            "apart" => self.apart(machine),
            other => return Err(format!("`{other}` is not `one` or `apart`")),
        };
        dose.ok_or_else(|| "it needs two CPUs, and this process may use only one".to_owned())
    }

    fn fit(&self, evidence: &RemedyEvidence<'_>) -> RemedyCandidate {
        let (Some(one), Some(apart)) = (self.one(evidence.machine), self.apart(evidence.machine))
        else {
            return self.unfit("only one CPU may be used");
        };
        let wakeups = evidence.share(CostKind::Wakeups);
        if wakeups < WORTH_SHARE {
            return self.unfit(format!("wake-ups are {:.1}% of its time", wakeups * 100.0));
        }
        let Some(traced) = evidence.traced() else {
            return self.unfit("its processes could not be examined");
        };
        let threads = traced.processes.iter().map(|p| p.threads).max().unwrap_or(1);
        if traced.most_processes < 2 && threads < 2 {
            return self.unfit("it runs only one thread at a time");
        }
        let piped = traced
            .pipes
            .iter()
            .any(|p| !p.inherited && p.writers.iter().any(|w| p.readers.iter().any(|r| r != w)));
        let doses = if piped { vec![one, apart] } else { vec![one] };
        self.fitting(format!("wake-ups are {:.0}% of its time", wakeups * 100.0), wakeups, doses)
    }

    fn mechanism(&self, dose: &RemedyDose) -> RemedyMechanism {
        if dose.parameter == "one" {
            RemedyMechanism::Affinity
        } else {
            RemedyMechanism::Watched(WATCH)
        }
    }

    fn notes(&self, dose: &RemedyDose) -> Vec<String> {
        if dose.parameter == "one" {
            vec!["the program cannot use more than one CPU at a time".to_owned()]
        } else {
            vec!["processes joined by pipes use only two CPUs, in turn".to_owned()]
        }
    }
}
