//! Handing over to a sleeper and sleeping oneself, ns per hand-over.
//!
//! Two threads send one byte to and fro over two pipes, each pinned; a hand-over is half of a round
//! trip: write, wake-up (across CPUs with an interrupt to a CPU that may idle, in a virtual machine
//! with the host's work for that), switch, read. That is the wall time which one voluntary switch
//! of a pipeline costs. Not seen: the switch of the address space between two processes (some tens
//! of ns with tagged TLBs), and deeper idle states after longer sleeps.

use crate::error::PriceError;
use crate::sample::{Probe, time, time_cpu};
use pagewise_kernel::{SysError, affinity, pipe};
use std::os::fd::OwnedFd;

/// Round trips of one repeat.
const TRIPS: u32 = 300;
/// Round trips before the clock starts.
const WARM: u32 = 20;

/// The probe: the calling thread stays where it is pinned, the partner runs on `partner`.
#[derive(Debug)]
pub(crate) struct Wakeup {
    partner: u32,
}

impl Wakeup {
    /// A partner on this CPU.
    pub(crate) fn with_partner_on(cpu: u32) -> Self {
        Self { partner: cpu }
    }
}

/// One hand-over with its two calls, nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HandOver {
    /// On the clock.
    pub(crate) wall_ns: f64,
    /// CPU time of both threads.
    pub(crate) cpu_ns: f64,
}

impl Wakeup {
    /// The mean of some hundred hand-overs.
    pub(crate) fn hand_over(&self) -> Result<HandOver, PriceError> {
        let (ping_out, ping_in) = pipe::pipe()?;
        let (pong_out, pong_in) = pipe::pipe()?;
        let partner = self.partner;
        std::thread::scope(|scope| {
            // The partner owns its ends: when either side fails, the other sees end of file or EPIPE.
            let echo = scope.spawn(move || echo_bytes(partner, &ping_out, &pong_in));
            let mine = (ping_in, pong_out);
            let made = make_trips(&mine.0, &mine.1);
            drop(mine);
            let echoed_ns = echo.join().map_err(|_| PriceError::ThreadLost)??;
            let (wall_ns, cpu_ns) = made?;
            let of_both = cpu_ns / f64::from(TRIPS) + echoed_ns / f64::from(WARM + TRIPS);
            Ok(HandOver { wall_ns: wall_ns / f64::from(2 * TRIPS), cpu_ns: of_both / 2.0 })
        })
    }
}

impl Probe for Wakeup {
    const NAME: &'static str = "the wake-up";

    fn measure_once(&mut self) -> Result<f64, PriceError> {
        Ok(self.hand_over()?.wall_ns)
    }
}

/// Sends a byte to and fro; time on the clock and CPU time of this thread.
fn make_trips(to: &OwnedFd, from: &OwnedFd) -> Result<(f64, f64), PriceError> {
    let make = |count: u32| {
        (0..count).try_for_each(|_| {
            send(to)?;
            receive(from).map(drop)
        })
    };
    make(WARM)?;
    let (cpu_ns, (wall_ns, done)) = time_cpu(|| time(|| make(TRIPS)));
    done.map(|()| (wall_ns, cpu_ns))
}

/// Sends back what comes until the end; CPU time of this thread.
fn echo_bytes(cpu: u32, from: &OwnedFd, to: &OwnedFd) -> Result<f64, PriceError> {
    affinity::set(0, &[cpu])?;
    let (cpu_ns, done) = time_cpu(|| -> Result<(), PriceError> {
        while receive(from)? {
            send(to)?;
        }
        Ok(())
    });
    done.map(|()| cpu_ns)
}

fn send(to: &OwnedFd) -> Result<(), PriceError> {
    rustix::io::write(to, &[1]).map(drop).map_err(|e| SysError::new("write", "a pipe", e).into())
}

/// Waits for a byte; false at the end.
fn receive(from: &OwnedFd) -> Result<bool, PriceError> {
    let got = rustix::io::read(from, &mut [0_u8; 1]);
    got.map(|n| n == 1).map_err(|e| SysError::new("read", "a pipe", e).into())
}
