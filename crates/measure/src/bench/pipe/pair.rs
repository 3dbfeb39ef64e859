//! One fresh pair of processes around one pipe (and a third behind a socket, if bytes are forwarded to one):
//! started, made ready, released together, and awaited until a deadline.
//!
//! Nothing remains on any exit path: dropping its guard kills and reaps a process that has not ended. A pair
//! that stops moving bytes (a deadlock, a stopped process) runs into the deadline. Starting a pair costs some
//! 3 ms, none of it inside the clock.

use super::end::{PipeEndResult, PipeRole, PipeTask, Word};
use super::plan::PipeSeats;
use crate::error::PriceError;
use crate::helper::{BenchDeadline, BenchProcess, HelperLauncher, wait_any};
use pagewise_kernel::{SysError, pipe};
use pagewise_model::bench::pipe::{PipeConsumption, PipeRung, PipeSample};
use pagewise_model::{Bytes, Fact, Nanos, PageSize};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::io;
use std::os::fd::OwnedFd;

/// The message if a pair has not ended in time.
const LATE: &str = "the two processes stopped moving data, or were too slow";

/// What a pair must do.
#[derive(Debug, Clone, Copy)]
pub(super) struct PipeJob<'a> {
    pub(super) rung: &'a PipeRung,
    pub(super) consumption: PipeConsumption,
    pub(super) bytes: Bytes,
    pub(super) seats: PipeSeats,
}

/// The result of a pair.
#[derive(Debug, Clone)]
pub(super) struct PipeOutcome {
    /// The sample, its numbers still to be given.
    pub(super) sample: PipeSample,
    pub(super) pipe_bytes: Bytes,
    pub(super) page_bytes: Fact<PageSize>,
    pub(super) verified: Option<bool>,
    pub(super) seats: PipeSeats,
}

/// Runs one pair.
pub(super) fn run(
    launcher: &HelperLauncher,
    job: &PipeJob<'_>,
    (within, stop): (Nanos, &dyn Fn() -> bool),
) -> Result<PipeOutcome, PriceError> {
    let (read_end, write_end) = pipe::pipe()?;
    let pipe_bytes = match job.rung.pipe_bytes {
        Some(wanted) => pipe::set_capacity(&write_end, wanted)
            .map_err(|error| PriceError::Unavailable(error.to_string()))?,
        None => pipe::capacity(&write_end)?,
    };
    let patience = BenchDeadline::begin(within, LATE, stop);
    let mut crew = PairCrew { members: Vec::new(), patience };
    let mut socket = None;
    if job.consumption == PipeConsumption::ForwardedSocket {
        let (near, far) = stream_pair()?;
        socket = Some(near);
        crew.start(launcher, job, PipeRole::Drain, far, None)?;
    }
    crew.start(launcher, job, PipeRole::Consumer, read_end, socket)?;
    crew.start(launcher, job, PipeRole::Producer, write_end, None)?;
    let period = crew.hear_ready()?;
    // The consumer first: it is there when the first bytes come.
    for member in &crew.members {
        member.helper.line.say(&Word::Go { period })?;
    }
    let done = crew.hear_done()?;
    outcome(job, pipe_bytes, done)
}

fn stream_pair() -> Result<(OwnedFd, OwnedFd), SysError> {
    let (kind, flags) = (SocketType::STREAM, SocketFlags::CLOEXEC);
    rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None)
        .map_err(|e| SysError::new("socketpair", "a socket to forward to", e))
}

/// Both ends counted the same number of bytes, and it is the requested one.
fn outcome(
    job: &PipeJob<'_>,
    pipe_bytes: Bytes,
    done: Vec<(PipeRole, PipeEndResult)>,
) -> Result<PipeOutcome, PriceError> {
    for (role, done) in &done {
        if done.usage.bytes != job.bytes {
            let (moved, asked) = (done.usage.bytes.0, job.bytes.0);
            let who = role.into_str();
            return Err(PriceError::Unavailable(format!(
                "the {who} moved {moved} of {asked} bytes"
            )));
        }
    }
    let of = |role: PipeRole| done.iter().find(|(r, _)| *r == role).map(|(_, done)| done);
    let (Some(writer), Some(reader)) = (of(PipeRole::Producer), of(PipeRole::Consumer)) else {
        return Err(PriceError::Unavailable("a process gave no result".to_owned()));
    };
    Ok(PipeOutcome {
        sample: PipeSample {
            repeat: 0,
            place: 0,
            bytes: job.bytes,
            timed_bytes: reader.timed_bytes,
            wall_ns: reader.wall_ns,
            writer: writer.usage,
            reader: reader.usage,
        },
        pipe_bytes,
        page_bytes: writer.page_bytes.clone(),
        verified: reader.verified,
        seats: job.seats,
    })
}

/// A process of the pair.
#[derive(Debug)]
struct PairMember {
    role: PipeRole,
    helper: BenchProcess<Word>,
}

struct PairCrew<'a> {
    members: Vec<PairMember>,
    patience: BenchDeadline<'a>,
}

impl PairCrew<'_> {
    fn start(
        &mut self,
        launcher: &HelperLauncher,
        job: &PipeJob<'_>,
        role: PipeRole,
        end: OwnedFd,
        socket: Option<OwnedFd>,
    ) -> Result<(), PriceError> {
        let helper = BenchProcess::start(launcher, end, socket)?;
        let cpus = match role {
            PipeRole::Producer => job.seats.writer.into_iter().collect(),
            PipeRole::Consumer => job.seats.reader.into_iter().collect(),
            PipeRole::Drain => [job.seats.writer, job.seats.reader].into_iter().flatten().collect(),
        };
        let task = PipeTask {
            role,
            rung: job.rung.clone(),
            consumption: job.consumption,
            bytes: job.bytes,
            cpus,
        };
        helper.line.say(&Word::Task(Box::new(task)))?;
        self.members.push(PairMember { role, helper });
        Ok(())
    }

    /// Waits until all are ready. Returns the period of the producer's stream.
    fn hear_ready(&self) -> Result<Option<u64>, PriceError> {
        let mut known = None;
        for member in &self.members {
            match self.hear(member)? {
                Word::Ready { period } => known = known.or(period),
                Word::Refused(why) => return Err(PriceError::Unavailable(why)),
                _ => return Err(lost(member.role)),
            }
        }
        Ok(known)
    }

    /// Waits until all are done. Whichever fails ends the wait: the others may wait for it.
    fn hear_done(&self) -> Result<Vec<(PipeRole, PipeEndResult)>, PriceError> {
        let mut done = Vec::with_capacity(self.members.len());
        let mut open: Vec<&PairMember> = self.members.iter().collect();
        while !open.is_empty() {
            let index = self.wait_any(&open)?;
            let member = open.swap_remove(index);
            match member.helper.line.hear()? {
                Some(Word::Done(account)) => done.push((member.role, *account)),
                Some(Word::Refused(why)) => return Err(self.cause(&open, why)),
                _ => return Err(lost(member.role)),
            }
        }
        Ok(done)
    }

    /// The cause of a failure. If one end failed first, the other only saw its pipe break.
    fn cause(&self, open: &[&PairMember], why: String) -> PriceError {
        let others: Vec<String> = open
            .iter()
            .filter_map(|member| match member.helper.line.hear_now() {
                Some(Word::Refused(other)) => Some(other),
                _ => None,
            })
            .collect();
        PriceError::Unavailable([vec![why], others].concat().join("; "))
    }

    fn hear(&self, member: &PairMember) -> Result<Word, PriceError> {
        self.wait_any(&[member])?;
        member.helper.line.hear()?.ok_or_else(|| lost(member.role))
    }

    /// Waits until one of `members` says something or ends; its index.
    fn wait_any(&self, members: &[&PairMember]) -> Result<usize, PriceError> {
        let lines: Vec<_> = members.iter().map(|member| &member.helper.line).collect();
        wait_any(&lines, self.patience)
    }
}

fn lost(role: PipeRole) -> PriceError {
    let ended = io::Error::other("it ended without a reply");
    SysError::new("recv", format!("the {}", role.into_str()), ended).into()
}
