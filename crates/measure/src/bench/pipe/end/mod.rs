//! One process of a pair: it receives its task, prepares, waits for the start message, moves bytes, and
//! reports.
//!
//! Standard output is its end of the pipe (reading or writing), standard error the socket that a consumer
//! forwards to. Everything that takes time beforehand (buffers, their pages, files) is prepared before the
//! start. If the ladder dies, the kernel ends this process (`PR_SET_PDEATHSIG`).

use crate::error::PriceError;
use crate::helper::{self, duplicate, end_with_starter};
use crate::kernels::fizzbuzz::FizzBuzzWriter;
use pagewise_kernel::own_usage;
use pagewise_kernel::{SysError, affinity};
use pagewise_lanes::pipe::Writer;
use pagewise_model::bench::pipe::{PipeConsumption, PipeEndUsage, PipeRung, RungPages};
use pagewise_model::{Bytes, Fact, Nanos, PageSize};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::RawFd;

mod sink;
pub(super) mod source;
pub(super) mod waiter;

/// A maker of errors of one call, for `map_err`.
pub(super) fn failed(call: &'static str) -> impl Fn(Errno) -> PriceError {
    move |errno| SysError::new(call, "a rung of the ladder", errno).into()
}

/// Serves the ladder at the other end of socket `fd` until the task is done.
///
/// # Errors
/// If this process was not started by a ladder: the socket is missing then. Errors of the task itself are
/// reported to the ladder.
pub fn serve_end(fd: RawFd) -> Result<(), SysError> {
    helper::serve(fd, |line, task: &PipeTask| {
        serve(line, task).map_err(|trouble| format!("{}: {trouble}", task.role.into_str()))
    })
}

/// Writes the first `bytes` bytes of FizzBuzz to standard output, or lines until nobody reads them.
///
/// # Errors
/// What `vmsplice(2)` and `write(2)` give, but EPIPE.
pub fn print_fizzbuzz(bytes: Option<Bytes>) -> io::Result<()> {
    let bytes = bytes.map_or(u64::MAX, |bytes| bytes.0);
    match FizzBuzzWriter::new(Writer::stdout()?)?.write_first(bytes) {
        // Whoever reads has had enough, as with yes(1).
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        ended => ended,
    }
}

/// Does the task. Returns `None` if the ladder has ended before the start.
fn serve(line: &Line, task: &PipeTask) -> Result<Option<PipeEndResult>, PriceError> {
    end_with_starter()?;
    if !task.cpus.is_empty() {
        affinity::set(0, &task.cpus)?;
    }
    let pipe = duplicate(io::stdout())?;
    match task.role {
        PipeRole::Producer => {
            let mut source = source::prepare(pipe, task)?;
            let period = source.period();
            let Some(_) = begin(line, period)? else { return Ok(None) };
            produce(&mut source, task).map(Some)
        }
        PipeRole::Consumer => {
            let mut sink = sink::prepare(pipe, duplicate(io::stderr())?, task)?;
            let Some(period) = begin(line, None)? else { return Ok(None) };
            sink::run(&mut sink, task, period).map(Some)
        }
        PipeRole::Drain => {
            let Some(_) = begin(line, None)? else { return Ok(None) };
            sink::drain(&pipe, task).map(Some)
        }
    }
}

/// Reports that everything is ready and waits for the start message. `None` if it will not come.
fn begin(line: &Line, period: Option<u64>) -> Result<Option<Option<u64>>, PriceError> {
    line.say(&Word::Ready { period })?;
    match line.hear()? {
        Some(Word::Go { period }) => Ok(Some(period)),
        _ => Ok(None),
    }
}

/// Sends what the task requires. The page size is read afterwards, when all pages of the buffer have been
/// used.
fn produce(source: &mut source::PipeSource, task: &PipeTask) -> Result<PipeEndResult, PriceError> {
    let mut waiter = waiter::EndWaiter::new(task.rung.wait);
    let total = length(task.bytes)?;
    let (mut sent, mut slots) = (0, 0);
    let meter = UsageMeter::start()?;
    let mut own = Nanos(0);
    while sent < total {
        own += source.turn()?;
        let given = source.give(total - sent, &mut waiter)?;
        (sent, slots) = (sent + given.bytes, slots + given.slots);
    }
    let (waited, lane) = (waiter.counts(), source.waits());
    let counts = PipeEndUsage {
        bytes: Bytes(sent as u64),
        slots,
        spins: waited.spins + lane.spins,
        spun_ns: waited.spun_ns.map(|spun| spun + Nanos::from(lane.spun)),
        own_ns: Some(own),
        blocks: waited.blocks + lane.sleeps,
        ..waited
    };
    let usage = meter.stop(counts)?;
    Ok(PipeEndResult { page_bytes: source.prove_page_size(), ..plain(usage) })
}

/// Usage of this process since the meter was made, with counts to be filled in.
struct UsageMeter {
    before: own_usage::ProcessUsage,
}

impl UsageMeter {
    fn start() -> Result<Self, PriceError> {
        Ok(Self { before: own_usage::process().map_err(failed("getrusage"))? })
    }

    fn stop(&self, counts: PipeEndUsage) -> Result<PipeEndUsage, PriceError> {
        let now = own_usage::process().map_err(failed("getrusage"))?;
        let since = |now: Nanos, before: Nanos| Nanos(now.0.saturating_sub(before.0));
        let before = &self.before;
        Ok(PipeEndUsage {
            user_ns: since(now.user, before.user),
            sys_ns: since(now.sys, before.sys),
            voluntary_switches: now.voluntary_switches - before.voluntary_switches,
            involuntary_switches: now.involuntary_switches - before.involuntary_switches,
            minor_faults: now.minor_faults - before.minor_faults,
            ..counts
        })
    }
}

/// A result without the fields that only a consumer knows.
fn plain(usage: PipeEndUsage) -> PipeEndResult {
    PipeEndResult {
        usage,
        timed_bytes: Bytes(0),
        wall_ns: Nanos(0),
        verified: None,
        page_bytes: Fact::missing("not the producer"),
    }
}

/// A size as a length in memory.
pub(super) fn length(bytes: Bytes) -> Result<usize, PriceError> {
    let too_large =
        || PriceError::Unavailable(format!("{bytes} does not fit into this machine's memory"));
    usize::try_from(bytes.0).map_err(|_| too_large())
}

/// The pages of a rung, as the kernel crate names them.
const fn region_pages(rung: &PipeRung) -> pagewise_kernel::region::RegionPages {
    match rung.pages {
        RungPages::Base => pagewise_kernel::region::RegionPages::Base,
        RungPages::Huge => pagewise_kernel::region::RegionPages::Huge,
        RungPages::HugeTlb => pagewise_kernel::region::RegionPages::HugeTlb,
    }
}

// The messages between the ladder and its processes.

/// The role of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub(super) enum PipeRole {
    /// It puts bytes into the pipe.
    Producer,
    /// It takes them out.
    Consumer,
    /// It empties the socket that a consumer forwards to.
    #[strum(serialize = "process behind the socket")]
    Drain,
}

/// What a process must do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct PipeTask {
    pub(super) role: PipeRole,
    /// The technique.
    pub(super) rung: PipeRung,
    /// What happens to the bytes.
    pub(super) consumption: PipeConsumption,
    /// Bytes to move.
    pub(super) bytes: Bytes,
    /// Where to run; anywhere if empty.
    pub(super) cpus: Vec<u32>,
}

/// The result of a process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct PipeEndResult {
    /// What it moved and used.
    pub(super) usage: PipeEndUsage,
    /// Bytes that arrived while the clock ran, and that time (consumer).
    pub(super) timed_bytes: Bytes,
    pub(super) wall_ns: Nanos,
    /// Whether the sequence was intact, if it was checked (consumer).
    pub(super) verified: Option<bool>,
    /// Page size of the buffer (producer).
    pub(super) page_bytes: Fact<PageSize>,
}

pub(super) type Word = helper::BenchMessage<PipeTask, PipeEndResult>;

/// One end of the line between the ladder and a process.
pub(super) type Line = helper::BenchLine<Word>;
