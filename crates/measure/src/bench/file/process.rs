//! One cell in one fresh process: started, readied, the cache brought into its state, set off, heard until a
//! deadline.

use super::reader::{Task, Word};
use super::state::Cache;
use crate::error::PriceError;
use crate::helper::{Helper, Launcher, Patience, wait_any};
use pagewise_kernel::{SysError, clock};
use pagewise_model::Nanos;
use pagewise_model::bench::file::{Pace, Proof, Residency, Sample};
use std::io;
use std::os::fd::AsFd;

/// A process that has not ended after this time is stuck.
const STUCK: Nanos = Nanos::secs(120);

/// The result of one process.
#[derive(Debug)]
pub(super) struct Outcome {
    /// The sample, its numbers still to be given.
    pub(super) sample: Sample,
    /// Its pace, with one thread.
    pub(super) pace: Option<Pace>,
    /// The cache had lost part of the file, which was read in again.
    pub(super) filled: bool,
}

/// Runs one process.
pub(super) fn run(
    launcher: &Launcher,
    cache: &Cache<'_>,
    task: Task,
    stop: &dyn Fn() -> bool,
) -> Result<Outcome, PriceError> {
    let residency = task.cell.residency;
    let file = cache.file.as_fd().try_clone_to_owned();
    let file = file.map_err(PriceError::sys("fcntl F_DUPFD", "the file"))?;
    let mut helper: Helper<Word> = Helper::start(launcher, file, None)?;
    helper.line.say(&Word::Task(Box::new(task)))?;
    let patience = Patience::begin(STUCK, "it hangs", stop);
    match hear(&mut helper, patience)? {
        Word::Ready { .. } => {}
        Word::Refused(why) => return Err(PriceError::Unavailable(why)),
        _ => return Err(lost("unexpected reply: expected `ready`")),
    }
    let look = clock::now();
    let reached = cache.bring(residency)?;
    let before_ns = since(look);
    helper.line.say(&Word::Go { period: None })?;
    let (mut sample, pace) = match hear(&mut helper, patience)? {
        Word::Done(done) => *done,
        Word::Refused(why) => return Err(PriceError::Unavailable(why)),
        _ => return Err(lost("unexpected reply: expected `done`")),
    };
    let look = clock::now();
    let after_pages = cache.count()?;
    sample.proof = Proof {
        file_pages: cache.all(),
        before_pages: reached.pages,
        after_pages,
        took_ns: before_ns + since(look),
    };
    Ok(Outcome { sample, pace, filled: reached.filled })
}

/// Whether a sample was read in the state that was asked for.
pub(super) fn is_proven(sample: &Sample, residency: Residency) -> bool {
    match residency {
        Residency::Warm => {
            sample.proof.after_pages >= sample.proof.file_pages && sample.major_faults == 0
        }
        Residency::Cold => sample.proof.before_pages == 0,
    }
}

fn since(begin: Nanos) -> Nanos {
    Nanos(clock::now().0.saturating_sub(begin.0))
}

fn hear(helper: &mut Helper<Word>, patience: Patience<'_>) -> Result<Word, PriceError> {
    wait_any(&[&helper.line], patience)?;
    match helper.line.hear()? {
        Some(word) => Ok(word),
        None => Err(match helper.ended_by() {
            Some(libc::SIGBUS) => PriceError::Unavailable(
                "SIGBUS: a mapped page was gone, the file was shortened meanwhile or cannot be read"
                    .to_owned(),
            ),
            Some(signal) => PriceError::Unavailable(format!("signal {signal} ended the reader")),
            None => lost("it ended without a reply"),
        }),
    }
}

fn lost(what: &'static str) -> PriceError {
    SysError::new("recv", "a process that reads", io::Error::other(what)).into()
}

/// A cell and a task for tests.
#[cfg(test)]
pub(super) mod example {
    use crate::bench::file::reader::Task;
    use pagewise_model::Bytes;
    use pagewise_model::bench::file::{Arm, Cell, Part};

    pub(in crate::bench::file) fn cell(arm: Arm) -> Cell {
        Cell::plain(Part::Blocks, arm, Bytes(512), Bytes(512 * 64))
    }

    pub(in crate::bench::file) fn task(cell: Cell) -> Task {
        Task { cell, slips: Vec::new(), summed: false, seed: 1, cpus: Vec::new() }
    }
}
