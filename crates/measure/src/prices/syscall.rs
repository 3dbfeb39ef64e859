//! Entering and leaving the kernel, ns per call.
//!
//! getppid(2), which libraries do not answer by themselves and which does next to nothing. Not seen:
//! what larger calls evict from the caches, and the filter of a sandbox beyond this call's.

use crate::error::PriceError;
use crate::sample::{Probe, time_cpu};

/// Calls of one repeat.
const CALLS: u32 = 10_000;

/// The probe.
#[derive(Debug)]
pub(crate) struct Syscall;

impl Probe for Syscall {
    const NAME: &'static str = "the system call";

    fn measure_once(&mut self) -> Result<f64, PriceError> {
        let (ns, ()) = time_cpu(|| {
            for _ in 0..CALLS {
                std::hint::black_box(rustix::process::getppid());
            }
        });
        Ok(ns / f64::from(CALLS))
    }
}
