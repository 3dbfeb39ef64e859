//! The recorder's side: drains the rings until the front says that the program has ended.
//!
//! Rings that are a quarter full wake it; the others it looks at after a pause. Code that has no file
//! (a compiler at run time makes it) can be read while its program lives, and no longer: with such a
//! program the pause stays short. It begins short, since many a program ends soon.

use super::{Conclusion, FAULTS_A_MESSAGE, MakeSink, Request, Response, Sink};
use crate::perf::faults::FaultRings;
use crate::wait;
use pagewise_kernel::{SysError, helper};
use pagewise_model::Nanos;
use pagewise_model::fault::Ending;
use pagewise_model::fault::event::{Event, Map, What};
use rustix::event::{PollFd, PollFlags};
use std::io;
use std::os::fd::RawFd;

/// How long rings that are not a quarter full are left alone: at first, and with a program that
/// makes code; doubled each time up to the longest.
const SHORT_PAUSE: Nanos = Nanos::millis(5);
const LONG_PAUSE: Nanos = Nanos::millis(100);

/// Serves the front at the other end of socket `fd`, a descriptor number this process was started
/// with and that nothing else in it uses. Returns when the front is gone or has all it asked for.
///
/// # Errors
/// When `fd` is no socket, or the front speaks out of turn.
pub fn serve(fd: RawFd, make: MakeSink<'_>) -> Result<(), SysError> {
    let line = Line::adopt(fd)?;
    helper::leave_signals_to_starter();
    helper::ended(talk(&line, make))
}

type Line = helper::Line<Response, Request>;

fn talk(line: &Line, make: MakeSink<'_>) -> io::Result<()> {
    let (wanted, opened) = match line.receive()? {
        Some(Request::Attach { pid, wanted }) => (wanted, FaultRings::open(pid, &wanted)),
        Some(Request::AttachRunning { pid, wanted }) => (wanted, FaultRings::attach(pid, &wanted)),
        Some(_) => return Err(io::ErrorKind::InvalidData.into()),
        None => return Ok(()),
    };
    let mut rings = match opened {
        Ok(rings) => rings,
        Err(refusal) => return line.send(&Response::Refused(refusal)),
    };
    let mut sink = make(wanted, rings.sees());
    line.send(&Response::Attached(rings.before()))?;
    match record(line, &mut rings, sink.as_mut())? {
        Some(Asked::Conclusion(ending)) => tell(line, sink.conclude(&ending)),
        Some(Asked::Sites) => line.send(&Response::Sites(Box::new(sink.memory_sites()))),
        None => Ok(()),
    }
}

/// What is asked at the end.
enum Asked {
    Conclusion(Box<Ending>),
    Sites,
}

/// Empties the rings into `sink` until the front asks what came of it; `None` when it is gone.
fn record(line: &Line, rings: &mut FaultRings, sink: &mut dyn Sink) -> io::Result<Option<Asked>> {
    let mut pace = Pace::default();
    let mut events = Vec::new();
    loop {
        let mut fds = vec![PollFd::new(line, PollFlags::IN)];
        fds.extend(rings.descriptors().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        wait::sleep(&mut fds, Some(pace.pause));
        let spoke = fds.first().is_some_and(|fd| !fd.revents().is_empty());
        drop(fds);
        if spoke {
            let asked = match line.receive()? {
                Some(Request::Conclude(ending)) => Asked::Conclusion(ending),
                Some(Request::Sites) => Asked::Sites,
                Some(Request::Moved(moved)) => {
                    rings.add_move(moved);
                    line.send(&Response::Taken)?;
                    continue;
                }
                Some(Request::Hold(resident)) => {
                    // What is older than the round before can be taken.
                    for _ in 0..2 {
                        rings.drain();
                        give(rings, &mut events, &mut |events| sink.take(events));
                    }
                    sink.hold(&resident);
                    line.send(&Response::Taken)?;
                    continue;
                }
                Some(_) => return Err(io::ErrorKind::InvalidData.into()),
                None => return Ok(None),
            };
            let until = match &asked {
                Asked::Conclusion(ending) => ending.until_ns,
                Asked::Sites => None,
            };
            let until = until.unwrap_or(Nanos(u64::MAX));
            rings.finish();
            give(rings, &mut events, &mut |events| {
                events.retain(|event| event.at_ns <= until);
                sink.take(events);
            });
            return Ok(Some(asked));
        }
        rings.drain();
        give(rings, &mut events, &mut |events| {
            pace.saw(events);
            sink.take(events);
        });
        pace.slow_down();
    }
}

/// Gives what can be taken from `rings` to `take`, by way of `events`.
fn give(rings: &mut FaultRings, events: &mut Vec<Event>, take: &mut dyn FnMut(&mut Vec<Event>)) {
    loop {
        rings.take(events);
        if events.is_empty() {
            return;
        }
        take(events);
    }
}

/// How soon the rings are looked at again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pace {
    pause: Nanos,
    makes_code: bool,
}

impl Default for Pace {
    fn default() -> Self {
        Self { pause: SHORT_PAUSE, makes_code: false }
    }
}

impl Pace {
    fn saw(&mut self, events: &[Event]) {
        let makes_code = |event: &Event| matches!(&event.what, What::Map(map) if is_made(map));
        self.makes_code = self.makes_code || events.iter().any(makes_code);
    }

    /// After a round.
    fn slow_down(&mut self) {
        self.pause = match self.makes_code {
            true => SHORT_PAUSE,
            false => Nanos(self.pause.0.saturating_mul(2)).min(LONG_PAUSE),
        };
    }
}

/// Whether a mapping holds code that has no file: private memory, or a memory file.
fn is_made(map: &Map) -> bool {
    let path = map.path.as_str();
    let has_no_file =
        ["", "//anon"].contains(&path) || path.starts_with("[anon") || path.starts_with("/memfd:");
    map.is_executable && has_no_file
}

fn tell(line: &Line, conclusion: Conclusion) -> io::Result<()> {
    let Conclusion { report, names, faults } = conclusion;
    line.send(&Response::Report { report: Box::new(report), names })?;
    for part in faults.chunks(FAULTS_A_MESSAGE) {
        line.send(&Response::Faults(part.to_vec()))?;
    }
    line.send(&Response::End)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::Bytes;

    fn map(is_executable: bool, path: &str) -> Event {
        let map = Map {
            pid: 1,
            start_address: 0x1000,
            size_bytes: Bytes(0x1000),
            offset_bytes: Bytes(0),
            is_executable,
            is_shared: false,
            path: path.to_owned(),
            file: None,
        };
        Event { at_ns: Nanos(0), what: What::Map(map) }
    }

    #[test]
    fn pauses_grow_until_the_program_makes_code() {
        let mut pace = Pace::default();
        let pauses: Vec<u64> = (0..7)
            .map(|_| {
                pace.saw(&[map(true, "/lib/libc.so.6"), map(false, "//anon"), map(true, "[vdso]")]);
                pace.slow_down();
                pace.pause.0 / 1_000_000
            })
            .collect();
        assert_eq!(pauses, [10, 20, 40, 80, 100, 100, 100]);
        for path in ["", "//anon", "[anon:code]", "/memfd:code (deleted)"] {
            let mut pace = pace;
            pace.saw(&[map(true, path)]);
            pace.slow_down();
            assert_eq!(pace.pause, SHORT_PAUSE, "{path}");
            pace.slow_down();
            assert_eq!(pace.pause, SHORT_PAUSE, "{path}");
        }
    }
}
