//! One cell in one fresh process: started, readied, the cache brought into its state, set off, heard until a
//! deadline.

use super::reader::{FileTask, Word};
use super::state::FilePageCache;
use crate::error::PriceError;
use crate::helper::{BenchDeadline, BenchProcess, HelperLauncher, wait_any};
use pagewise_kernel::{SysError, clock};
use pagewise_model::Nanos;
use pagewise_model::bench::file::{CacheProof, CacheResidency, FileSample, UndisturbedPace};
use std::io;
use std::os::fd::AsFd;

/// A process that has not ended after this time is stuck.
const STUCK: Nanos = Nanos::secs(120);

/// The result of one process.
#[derive(Debug)]
pub(super) struct FileOutcome {
    /// The sample, its numbers still to be given.
    pub(super) sample: FileSample,
    /// Its pace, with one thread.
    pub(super) pace: Option<UndisturbedPace>,
    /// The cache had lost part of the file, which was read in again.
    pub(super) filled: bool,
}

/// Runs one process.
pub(super) fn run(
    launcher: &HelperLauncher,
    cache: &FilePageCache<'_>,
    task: FileTask,
    stop: &dyn Fn() -> bool,
) -> Result<FileOutcome, PriceError> {
    let (residency, writes) = (task.cell.residency, task.cell.store.is_some());
    let file = cache.file.as_fd().try_clone_to_owned();
    let file = file.map_err(PriceError::sys("fcntl F_DUPFD", "the file"))?;
    let mut helper: BenchProcess<Word> = BenchProcess::start(launcher, file, None)?;
    helper.line.say(&Word::Task(Box::new(task)))?;
    let patience = BenchDeadline::begin(STUCK, "it hangs", stop);
    match hear(&mut helper, patience)? {
        Word::Ready { .. } => {}
        Word::Refused(why) => return Err(PriceError::Unavailable(why)),
        _ => return Err(lost("unexpected reply: expected `ready`")),
    }
    if writes {
        // Pages that another process left dirty would be flushed by this one.
        cache.file.sync_data().map_err(PriceError::sys("fdatasync", "the file"))?;
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
    sample.proof = CacheProof {
        file_pages: cache.all(),
        before_pages: reached.pages,
        after_pages,
        took_ns: before_ns + since(look),
    };
    Ok(FileOutcome { sample, pace, filled: reached.filled })
}

/// Whether a sample was read in the state that was asked for.
pub(super) fn is_proven(sample: &FileSample, residency: CacheResidency) -> bool {
    match residency {
        CacheResidency::Warm => {
            sample.proof.after_pages >= sample.proof.file_pages && sample.major_faults == 0
        }
        CacheResidency::Cold => sample.proof.before_pages == 0,
    }
}

fn since(begin: Nanos) -> Nanos {
    Nanos(clock::now().0.saturating_sub(begin.0))
}

fn hear(helper: &mut BenchProcess<Word>, patience: BenchDeadline<'_>) -> Result<Word, PriceError> {
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
    use crate::bench::file::reader::FileTask;
    use pagewise_model::Bytes;
    use pagewise_model::bench::file::{FileBenchPart, FileCell, ReadWay};

    pub(in crate::bench::file) fn cell(arm: ReadWay) -> FileCell {
        FileCell::plain(FileBenchPart::Blocks, arm, Bytes(512), Bytes(512 * 64))
    }

    pub(in crate::bench::file) fn task(cell: FileCell) -> FileTask {
        FileTask { cell, slips: Vec::new(), summed: false, seed: 1, cpus: Vec::new(), stamp: 0 }
    }
}
