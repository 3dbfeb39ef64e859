//! Kernel samples over both processes of each rung by reference, in runs of their own: an observed
//! repeat is no timed one.
//!
//! The events are attached to this process and switched on by exec, so that they count in the ends of
//! the pipe, which are its children, and not in what it does itself. One repeat of each rung, with
//! the small one that goes before it.

use crate::failure::Failure;
use pagewise_measure::ladder::Plan;
use pagewise_model::Fact;
use pagewise_model::ladder::{Consumption, Ladder};
use pagewise_model::look::Samples;
use pagewise_tracee::perf::Sampling;

/// Samples by index of the point in `measured`; `repeat` runs a plan. Where none may be taken, the
/// reason is a warning.
pub(super) fn take(
    measured: &Ladder,
    plan: &Plan,
    repeat: &mut dyn FnMut(&Plan) -> Result<Ladder, Failure>,
    warnings: &mut Vec<String>,
) -> Result<Vec<(usize, Samples)>, Failure> {
    let mut taken = Vec::new();
    for (at, point) in measured.points.iter().enumerate() {
        if point.consumption != Consumption::Untouched || point.samples.is_empty() {
            continue;
        }
        let points = vec![(point.rung.clone(), point.consumption)];
        let one = Plan { points, repeats: 1, sweep: false, ..plan.clone() };
        let sampling = match Sampling::attach(std::process::id().cast_signed()) {
            Fact::Known(sampling) => sampling,
            Fact::Missing(why) => {
                warnings.push(format!("no kernel samples: {why}"));
                return Ok(taken);
            }
        };
        repeat(&one)?;
        match sampling.finish() {
            Fact::Known(samples) if samples.kernel_total() > 0 => taken.push((at, samples)),
            Fact::Known(_) => warnings.push(format!("{}: no sample fell", point.rung.name)),
            Fact::Missing(why) => warnings.push(format!("{}: {why}", point.rung.name)),
        }
    }
    Ok(taken)
}
