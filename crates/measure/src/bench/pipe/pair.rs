//! One fresh pair of processes around one pipe (and a third behind a socket, if bytes are forwarded to one):
//! started, made ready, released together, and awaited until a deadline.
//!
//! Nothing remains on any exit path: dropping its guard kills and reaps a process that has not ended. A pair
//! that stops moving bytes (a deadlock, a stopped process) runs into the deadline. Starting a pair costs some
//! 3 ms, none of it inside the clock.

use super::end::{Done, Role, Task, Word};
use super::plan::Seats;
use crate::error::PriceError;
use crate::helper::{Helper, Launcher, Patience, wait_any};
use pagewise_kernel::{SysError, pipe};
use pagewise_model::bench::pipe::{Consumption, Rung, Sample};
use pagewise_model::{Bytes, Fact, Nanos, PageSize};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::io;
use std::os::fd::OwnedFd;

/// The message if a pair has not ended in time.
const LATE: &str = "the two processes stopped moving data, or were too slow";

/// What a pair must do.
#[derive(Debug, Clone, Copy)]
pub(super) struct Job<'a> {
    pub(super) rung: &'a Rung,
    pub(super) consumption: Consumption,
    pub(super) bytes: Bytes,
    pub(super) seats: Seats,
}

/// The result of a pair.
#[derive(Debug, Clone)]
pub(super) struct Outcome {
    /// The sample, its numbers still to be given.
    pub(super) sample: Sample,
    pub(super) pipe_bytes: Bytes,
    pub(super) page_bytes: Fact<PageSize>,
    pub(super) verified: Option<bool>,
    pub(super) seats: Seats,
}

/// Runs one pair.
pub(super) fn run(
    launcher: &Launcher,
    job: &Job<'_>,
    (within, stop): (Nanos, &dyn Fn() -> bool),
) -> Result<Outcome, PriceError> {
    let (read_end, write_end) = pipe::pipe()?;
    let pipe_bytes = match job.rung.pipe_bytes {
        Some(wanted) => pipe::set_capacity(&write_end, wanted)
            .map_err(|error| PriceError::Unavailable(error.to_string()))?,
        None => pipe::capacity(&write_end)?,
    };
    let patience = Patience::begin(within, LATE, stop);
    let mut crew = Crew { members: Vec::new(), patience };
    let mut socket = None;
    if job.consumption == Consumption::ForwardedSocket {
        let (near, far) = stream_pair()?;
        socket = Some(near);
        crew.start(launcher, job, Role::Drain, far, None)?;
    }
    crew.start(launcher, job, Role::Consumer, read_end, socket)?;
    crew.start(launcher, job, Role::Producer, write_end, None)?;
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
    job: &Job<'_>,
    pipe_bytes: Bytes,
    done: Vec<(Role, Done)>,
) -> Result<Outcome, PriceError> {
    for (role, done) in &done {
        if done.usage.bytes != job.bytes {
            let (moved, asked) = (done.usage.bytes.0, job.bytes.0);
            let who = role.into_str();
            return Err(PriceError::Unavailable(format!(
                "the {who} moved {moved} of {asked} bytes"
            )));
        }
    }
    let of = |role: Role| done.iter().find(|(r, _)| *r == role).map(|(_, done)| done);
    let (Some(writer), Some(reader)) = (of(Role::Producer), of(Role::Consumer)) else {
        return Err(PriceError::Unavailable("a process gave no result".to_owned()));
    };
    Ok(Outcome {
        sample: Sample {
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
struct Member {
    role: Role,
    helper: Helper<Word>,
}

struct Crew<'a> {
    members: Vec<Member>,
    patience: Patience<'a>,
}

impl Crew<'_> {
    fn start(
        &mut self,
        launcher: &Launcher,
        job: &Job<'_>,
        role: Role,
        end: OwnedFd,
        socket: Option<OwnedFd>,
    ) -> Result<(), PriceError> {
        let helper = Helper::start(launcher, end, socket)?;
        let cpus = match role {
            Role::Producer => job.seats.writer.into_iter().collect(),
            Role::Consumer => job.seats.reader.into_iter().collect(),
            Role::Drain => [job.seats.writer, job.seats.reader].into_iter().flatten().collect(),
        };
        let task = Task {
            role,
            rung: job.rung.clone(),
            consumption: job.consumption,
            bytes: job.bytes,
            cpus,
        };
        helper.line.say(&Word::Task(Box::new(task)))?;
        self.members.push(Member { role, helper });
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
    fn hear_done(&self) -> Result<Vec<(Role, Done)>, PriceError> {
        let mut done = Vec::with_capacity(self.members.len());
        let mut open: Vec<&Member> = self.members.iter().collect();
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
    fn cause(&self, open: &[&Member], why: String) -> PriceError {
        let others: Vec<String> = open
            .iter()
            .filter_map(|member| match member.helper.line.hear_now() {
                Some(Word::Refused(other)) => Some(other),
                _ => None,
            })
            .collect();
        PriceError::Unavailable([vec![why], others].concat().join("; "))
    }

    fn hear(&self, member: &Member) -> Result<Word, PriceError> {
        self.wait_any(&[member])?;
        member.helper.line.hear()?.ok_or_else(|| lost(member.role))
    }

    /// Waits until one of `members` says something or ends; its index.
    fn wait_any(&self, members: &[&Member]) -> Result<usize, PriceError> {
        let lines: Vec<_> = members.iter().map(|member| &member.helper.line).collect();
        wait_any(&lines, self.patience)
    }
}

fn lost(role: Role) -> PriceError {
    let ended = io::Error::other("it ended without a reply");
    SysError::new("recv", format!("the {}", role.into_str()), ended).into()
}
