//! Which remedies can be switched on a running service, and whether they fit it.
//!
//! The others act only when a program starts (`malloc-keep`, `heap-small`, `pool`, `working-set`,
//! `pipe-tools`), or cannot be switched off again. Files leave huge folios only when no process maps them
//! (`text-huge`, `file-huge`). A pipe shrinks only while it is nearly empty, and programs may have read its
//! size by then (`pipe-grow`).

use super::{LiveChange, heap};
use crate::heap_huge::{self, HeapHugeRemedy, WORTH};
use crate::place::PlaceRemedy;
use crate::remedy::{Remedy, RemedyEvidence};
use crate::target::TargetProgram;
use pagewise_kernel::{SysError, affinity};
use pagewise_model::Bytes;
use pagewise_model::machine::Machine;
use pagewise_model::plan::RemedyCandidate;
use pagewise_tracee::collapse::CollapseTarget;

/// A service that uses more CPUs than this is not put on one.
const FITS_ONE: f64 = 0.8;

/// A running service.
#[derive(Debug, Clone, Copy)]
pub struct RunningService<'a> {
    /// Its first process.
    pub root: i32,
    /// All of its processes.
    pub pids: &'a [i32],
    /// CPU time under load over wall time.
    pub cpus_used: f64,
    /// The file that it runs.
    pub program: &'a TargetProgram,
}

/// A remedy, and the change to switch it, if that is possible.
#[derive(Debug, Clone)]
pub struct LiveOffer {
    pub candidate: RemedyCandidate,
    pub change: Option<LiveChange>,
}

/// The remedies that can be switched, and whether each fits.
#[must_use]
pub fn offers(evidence: &RemedyEvidence<'_>, running: &RunningService<'_>) -> Vec<LiveOffer> {
    let machine = evidence.machine;
    let heap = heap_huge_offer(evidence, running);
    let place = place_offer(machine, running);
    let unfit = |remedy: &dyn Fn(String) -> RemedyCandidate, why| LiveOffer {
        candidate: remedy(why),
        change: None,
    };
    vec![
        heap.unwrap_or_else(|why| unfit(&|why| HeapHugeRemedy.unfit(why), why)),
        place.unwrap_or_else(|why| unfit(&|why| PlaceRemedy.unfit(why), why)),
    ]
}

fn heap_huge_offer(
    evidence: &RemedyEvidence<'_>,
    running: &RunningService<'_>,
) -> Result<LiveOffer, String> {
    let machine = evidence.machine;
    if let Some(why) = HeapHugeRemedy::refusal(machine) {
        return Err(why);
    }
    CollapseTarget::open(running.root)
        .and_then(|subject| subject.permits())
        .map_err(|e| lacks(&e))?;
    let heaps = heap::find_all(running.pids)?;
    let size = heaps.iter().fold(Bytes(0), |sum, heap| sum + heap.size());
    if size < WORTH {
        return Err(format!("only {size} of its heap could be on huge pages"));
    }
    let parameter = HeapHugeRemedy.parameter_for_file(running.program);
    let dose = HeapHugeRemedy.dose(&parameter, machine)?;
    let why = format!("{size} of its heap on small pages could be on huge ones");
    let ceiling = heap_huge::ceiling(evidence);
    let candidate = HeapHugeRemedy.fitting(why, ceiling, vec![dose]);
    Ok(LiveOffer { candidate, change: Some(LiveChange::HeapHuge) })
}

/// What is missing to switch a heap.
fn lacks(error: &SysError) -> String {
    match error.errno().map(rustix::io::Errno::from_raw_os_error) {
        Some(rustix::io::Errno::PERM) => {
            "switching the pages of another process takes CAP_SYS_NICE (process_madvise): run pagewise as root"
                .to_owned()
        }
        Some(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
            "this kernel cannot switch the pages of another process (MADV_COLLAPSE, Linux 6.1)".to_owned()
        }
        _ => error.to_string(),
    }
}

fn place_offer(machine: &Machine, running: &RunningService<'_>) -> Result<LiveOffer, String> {
    let cpus = affinity::get(running.root).map_err(|error| error.to_string())?;
    if cpus.len() < 2 {
        return Err("it may use one CPU only".to_owned());
    }
    if running.cpus_used > FITS_ONE {
        return Err(format!("it needs {:.1} CPUs under this load", running.cpus_used));
    }
    let dose = PlaceRemedy.dose("one", &Machine { cpus, ..machine.clone() })?;
    let change = dose.settings.cpus.clone().map(|cpus| LiveChange::Cpus { cpus });
    let why = format!("it needs {:.2} CPUs under this load: one is enough", running.cpus_used);
    Ok(LiveOffer { candidate: PlaceRemedy.fitting(why, 1.0, vec![dose]), change })
}
