//! Which remedies can be switched on a running service, and whether they fit it.
//!
//! The others act only when a program starts (`malloc-keep`, `heap-small`, `pool`, `working-set`,
//! `pipe-tools`), or cannot be switched off again. Files leave huge folios only when no process maps them
//! (`text-huge`, `file-huge`). A pipe shrinks only while it is nearly empty, and programs may have read its
//! size by then (`pipe-grow`).

use super::{Change, heap};
use crate::heap_huge::{self, HeapHuge, WORTH};
use crate::place::Place;
use crate::remedy::{Evidence, Remedy};
use crate::target::Target;
use pagewise_kernel::{SysError, affinity};
use pagewise_model::Bytes;
use pagewise_model::machine::Machine;
use pagewise_model::plan::Candidate;
use pagewise_tracee::collapse::Subject;

/// A service that uses more CPUs than this is not put on one.
const FITS_ONE: f64 = 0.8;

/// A running service.
#[derive(Debug, Clone, Copy)]
pub struct Running<'a> {
    /// Its first process.
    pub root: i32,
    /// All of its processes.
    pub pids: &'a [i32],
    /// CPU time under load over wall time.
    pub cpus_used: f64,
    /// The file that it runs.
    pub program: &'a Target,
}

/// A remedy, and the change to switch it, if that is possible.
#[derive(Debug, Clone)]
pub struct Offer {
    pub candidate: Candidate,
    pub change: Option<Change>,
}

/// The remedies that can be switched, and whether each fits.
#[must_use]
pub fn offers(evidence: &Evidence<'_>, running: &Running<'_>) -> Vec<Offer> {
    let machine = evidence.machine;
    let heap = heap_huge_offer(evidence, running);
    let place = place_offer(machine, running);
    let unfit =
        |remedy: &dyn Fn(String) -> Candidate, why| Offer { candidate: remedy(why), change: None };
    vec![
        heap.unwrap_or_else(|why| unfit(&|why| HeapHuge.unfit(why), why)),
        place.unwrap_or_else(|why| unfit(&|why| Place.unfit(why), why)),
    ]
}

fn heap_huge_offer(evidence: &Evidence<'_>, running: &Running<'_>) -> Result<Offer, String> {
    let machine = evidence.machine;
    if let Some(why) = HeapHuge::refusal(machine) {
        return Err(why);
    }
    Subject::open(running.root).and_then(|subject| subject.permits()).map_err(|e| lacks(&e))?;
    let heaps = heap::find_all(running.pids)?;
    let size = heaps.iter().fold(Bytes(0), |sum, heap| sum + heap.size());
    if size < WORTH {
        return Err(format!("only {size} of its heap could be on huge pages"));
    }
    let parameter = HeapHuge.parameter_for_file(running.program);
    let dose = HeapHuge.dose(&parameter, machine)?;
    let why = format!("{size} of its heap on small pages could be on huge ones");
    let ceiling = heap_huge::ceiling(evidence);
    let candidate = HeapHuge.fitting(why, ceiling, vec![dose]);
    Ok(Offer { candidate, change: Some(Change::HeapHuge) })
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

fn place_offer(machine: &Machine, running: &Running<'_>) -> Result<Offer, String> {
    let cpus = affinity::get(running.root).map_err(|error| error.to_string())?;
    if cpus.len() < 2 {
        return Err("it may use one CPU only".to_owned());
    }
    if running.cpus_used > FITS_ONE {
        return Err(format!("it needs {:.1} CPUs under this load", running.cpus_used));
    }
    let dose = Place.dose("one", &Machine { cpus, ..machine.clone() })?;
    let change = dose.settings.cpus.clone().map(|cpus| Change::Cpus { cpus });
    let why = format!("it needs {:.2} CPUs under this load: one is enough", running.cpus_used);
    Ok(Offer { candidate: Place.fitting(why, 1.0, vec![dose]), change })
}
