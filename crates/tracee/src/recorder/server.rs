//! The recorder's side: drains the rings until the front says that the program has ended.

use super::{Conclusion, FAULTS_A_MESSAGE, MakeSink, Request, Response, Sink};
use crate::perf::faults::FaultRings;
use crate::run;
use crate::supervise::server::{adopt, leave_signals_to_front};
use crate::supervise::wire;
use pagewise_kernel::SysError;
use pagewise_model::Nanos;
use pagewise_model::fault::Ending;
use rustix::event::{PollFd, PollFlags};
use std::io;
use std::os::fd::RawFd;
use std::os::unix::net::UnixStream;

/// How often the rings are emptied although none is a quarter full.
const DRAIN_EVERY: Nanos = Nanos::millis(100);
/// After how many events the rings of the faults are emptied again: stacks take long to walk, 10 us
/// each and some milliseconds where a file is new.
const EVENTS_AT_ONCE: usize = 64;

/// Serves the front at the other end of socket `fd`, a descriptor number this process was started
/// with and that nothing else in it uses. Returns when the front is gone or has all it asked for.
///
/// # Errors
/// When `fd` is no socket, or the front speaks out of turn.
pub fn serve(fd: RawFd, make: MakeSink<'_>) -> Result<(), SysError> {
    let socket = adopt(fd)?;
    leave_signals_to_front();
    match talk(&socket, make) {
        Err(error) if !wire::is_end(&error) => {
            Err(SysError::new("recv", "the front's socket", error))
        }
        _ => Ok(()),
    }
}

fn talk(socket: &UnixStream, make: MakeSink<'_>) -> io::Result<()> {
    let (wanted, opened) = match wire::receive(socket)? {
        Some(Request::Attach { pid, wanted }) => {
            (wanted, FaultRings::open(pid, wanted.latency, wanted.stacks))
        }
        Some(Request::AttachRunning { pid, wanted }) => {
            (wanted, FaultRings::attach(pid, wanted.latency, wanted.stacks))
        }
        Some(Request::Conclude(_)) => return Err(io::ErrorKind::InvalidData.into()),
        None => return Ok(()),
    };
    let mut rings = match opened {
        Ok(rings) => rings,
        Err(refusal) => return wire::send(socket, &Response::Refused(refusal)),
    };
    let mut sink = make(wanted, rings.sees());
    wire::send(socket, &Response::Attached(rings.before()))?;
    match record(socket, &mut rings, sink.as_mut())? {
        Some(ending) => tell(socket, sink.conclude(&ending)),
        None => Ok(()),
    }
}

/// Empties the rings into `sink` until the front speaks; `None` when it is gone.
fn record(
    socket: &UnixStream,
    rings: &mut FaultRings,
    sink: &mut dyn Sink,
) -> io::Result<Option<Ending>> {
    loop {
        let mut fds = vec![PollFd::new(socket, PollFlags::IN)];
        fds.extend(rings.descriptors().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        run::sleep(&mut fds, Some(DRAIN_EVERY));
        let spoke = fds.first().is_some_and(|fd| !fd.revents().is_empty());
        drop(fds);
        if spoke {
            let request = wire::receive::<Request>(socket)?;
            let ending = match request {
                Some(Request::Conclude(ending)) => *ending,
                Some(_) => return Err(io::ErrorKind::InvalidData.into()),
                None => return Ok(None),
            };
            let mut last = rings.finish();
            let until = ending.until_ns.unwrap_or(Nanos(u64::MAX));
            last.retain(|event| event.at_ns <= until);
            sink.take(last);
            return Ok(Some(ending));
        }
        let mut events = rings.drain().into_iter().peekable();
        while events.peek().is_some() {
            sink.take(events.by_ref().take(EVENTS_AT_ONCE).collect());
            rings.make_room();
        }
    }
}

fn tell(socket: &UnixStream, conclusion: Conclusion) -> io::Result<()> {
    let Conclusion { report, names, faults } = conclusion;
    wire::send(socket, &Response::Report { report: Box::new(report), names })?;
    for part in faults.chunks(FAULTS_A_MESSAGE) {
        wire::send(socket, &Response::Faults(part.to_vec()))?;
    }
    wire::send(socket, &Response::End)
}
