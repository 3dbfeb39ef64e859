//! The timed loop of a consumer: take exactly so many bytes and do with them what is asked. The
//! clock runs from the arrival of the first bytes, which do not count, to the end of the last.

use super::sink::Sink;
use super::waiter::Waiter;
use super::{Done, Meter, Task, length, plain};
use crate::bench::pipe::sequence;
use crate::error::PriceError;
use pagewise_kernel::{SysError, clock};
use pagewise_model::bench::pipe::{Consumption, EndUsage};
use pagewise_model::{Bytes, Nanos};
use rustix::io::{Errno, retry_on_intr};
use std::io;
use std::os::fd::OwnedFd;

/// Bytes that the process behind the socket reads at once.
const DRAIN: usize = 256 << 10;

/// Takes what the task says.
pub(super) fn run(sink: &mut Sink, task: &Task, period: Option<u64>) -> Result<Done, PriceError> {
    let touches = task.consumption == Consumption::Touched;
    let mut waiter = Waiter::new(task.rung.wait);
    let total = length(task.bytes)?;
    let (mut whole, mut own) = (true, Nanos(0));
    let meter = Meter::start()?;
    let mut taken = sink.take(total, &mut waiter)?;
    let (start, first) = (clock::now(), taken);
    let mut fresh = taken;
    loop {
        if fresh == 0 {
            return Err(ended_early(taken, total));
        }
        if touches {
            let start = clock::now();
            whole &= sequence::is_whole(sink.bytes(fresh), (taken - fresh) as u64, period);
            own += Nanos(clock::now().0.saturating_sub(start.0));
        }
        sink.pass_on(fresh)?;
        if taken >= total {
            break;
        }
        fresh = sink.take(total - taken, &mut waiter)?;
        taken += fresh;
    }
    let end = clock::now();
    let (bytes, own_ns) = (Bytes(taken as u64), Some(own));
    let usage = meter.stop(EndUsage { bytes, own_ns, ..waiter.counts() })?;
    Ok(Done {
        timed_bytes: Bytes((taken - first) as u64),
        wall_ns: Nanos(end.0.saturating_sub(start.0)),
        verified: touches.then_some(whole),
        ..plain(usage)
    })
}

fn ended_early(taken: usize, total: usize) -> PriceError {
    let gone = io::Error::other(format!("the producer ended after {taken} of {total} bytes"));
    SysError::new("read", "the pipe", gone).into()
}

/// Empties the socket behind a forwarding consumer, and counts.
pub(super) fn drain(socket: &OwnedFd, task: &Task) -> Result<Done, PriceError> {
    let mut buffer = vec![0; DRAIN];
    let total = length(task.bytes)?;
    let mut taken = 0;
    let meter = Meter::start()?;
    while taken < total {
        let got = retry_on_intr(|| rustix::io::read(socket, &mut buffer[..]));
        match got.map_err(|e: Errno| SysError::new("read", "a socket", e))? {
            0 => return Err(ended_early(taken, total)),
            n => taken += n,
        }
    }
    meter.stop(EndUsage { bytes: Bytes(taken as u64), ..EndUsage::default() }).map(plain)
}
