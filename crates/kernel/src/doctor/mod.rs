//! What this machine, kernel and account permit, and what disturbs measurements here.
//!
//! Every capability is found by trying it on this process or on a tiny child; no kernel version is compared.
//! A probe answers yes, no with the reason, or unknown with the error, and says what would unlock the
//! capability. Nothing on the system changes: the probes use and release their own memory, pipes and
//! children.
//!
//! Overhead: under 150 ms in total. Most of that is for two probes with their own time limit: CPU time of
//! other processes (a 30 ms sleep) and memory that the host takes back (up to 45 ms).

mod answer;
mod crowd;
mod events;
mod facts;
mod groups;
mod host;
mod keys;
mod memory;
mod pipes;
mod process;
mod spoilers;

pub use answer::{answer_from, answer_of};
pub use keys::ftok_keys;
pub use spoilers::pressure_accounting;

use pagewise_model::capability::DoctorReport;

/// Everything found on this machine, now.
#[must_use]
pub fn checkup() -> DoctorReport {
    let machine = crate::machine::machine();
    // Must come first, before this process has touched any of the free memory.
    let backing = host::first_touch_ratio();
    let mut capabilities = events::probe();
    capabilities.extend(process::probe());
    capabilities.extend(memory::probe());
    capabilities.extend(pipes::probe());
    capabilities.push(groups::delegation());
    let mut traits = facts::collect();
    traits.extend(process::yama());
    traits.push(host::backing_trait(&backing));
    let spoilers = spoilers::collect(&machine, &capabilities, &backing);
    DoctorReport { machine, traits, capabilities, spoilers, keys: Vec::new() }
}
