//! The timed loop of a producer: hand over exactly so many bytes.

use super::source::Source;
use super::waiter::Waiter;
use super::{Done, Meter, Task, Trouble, length, plain};
use pagewise_model::Bytes;
use pagewise_model::ladder::EndUsage;

/// Sends what the task says. The page size is read afterwards, when all pages of the buffer have
/// been used.
pub(super) fn run(source: &mut Source, task: &Task) -> Result<Done, Trouble> {
    let mut waiter = Waiter::new(task.rung.wait);
    let total = length(task.bytes)?;
    let (mut sent, mut slots) = (0, 0);
    let meter = Meter::start()?;
    while sent < total {
        source.turn()?;
        let given = source.give(total - sent, &mut waiter)?;
        (sent, slots) = (sent + given.bytes, slots + given.slots);
    }
    let (own, lane) = (waiter.counts(), source.waits());
    let counts = EndUsage {
        bytes: Bytes(sent as u64),
        slots,
        spins: own.spins + lane.spins,
        blocks: own.blocks + lane.sleeps,
        ..own
    };
    let usage = meter.stop(counts)?;
    Ok(Done { page_bytes: source.prove_page_size(), ..plain(usage) })
}
