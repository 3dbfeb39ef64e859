//! The timed loop of a producer: hand over exactly so many bytes.

use super::source::Source;
use super::waiter::Waiter;
use super::{Done, Meter, Task, Trouble, length, plain};
use pagewise_model::ladder::EndUsage;
use pagewise_model::{Bytes, Nanos};

/// Sends what the task says. The page size is read afterwards, when all pages of the buffer have
/// been used.
pub(super) fn run(source: &mut Source, task: &Task) -> Result<Done, Trouble> {
    let mut waiter = Waiter::new(task.rung.wait);
    let total = length(task.bytes)?;
    let (mut sent, mut slots) = (0, 0);
    let meter = Meter::start()?;
    let mut own = Nanos(0);
    while sent < total {
        own += source.turn()?;
        let given = source.give(total - sent, &mut waiter)?;
        (sent, slots) = (sent + given.bytes, slots + given.slots);
    }
    let (waited, lane) = (waiter.counts(), source.waits());
    let counts = EndUsage {
        bytes: Bytes(sent as u64),
        slots,
        spins: waited.spins + lane.spins,
        spun_ns: waited.spun_ns.map(|spun| spun + Nanos::from(lane.spun)),
        own_ns: Some(own),
        blocks: waited.blocks + lane.sleeps,
        ..waited
    };
    let usage = meter.stop(counts)?;
    Ok(Done { page_bytes: source.prove_page_size(), ..plain(usage) })
}
