//! Finds when a tree of programs holds the most memory, and which code mapped it.
//!
//! Memory shrinks when it is unmapped or released, at the end of a heap, and when a process ends. So the tree
//! is traced, and before each of these events (of 64 KiB and more) all resident sets are added up. If the sum
//! is the largest so far, an account is taken while the releasing thread is stopped. Between two such moments
//! memory only grows, so only peaks between small releases are missed.
//!
//! An account costs more than a look. After the first one, an account is taken only if the sum has grown by a
//! tenth, or if all accounts so far took less than half of the time. At the end of a process it is always
//! taken. Shared pages count once per process here; the code that takes the account uses proportional sizes
//! and keeps the largest account.
//!
//! A stop at each anonymous mmap(2) shows which code mapped it: the first caller outside the C library.
//!
//! Cost: 10-20 us per such call, 30 us per process for a look. With recorded first touches, each page takes
//! 4-9 us and 40 bytes, plus a stack of 4 KiB for one in seven. Times of such a run mean nothing.
//!
//! Not seen: memory that reclaim takes back, that exec(2) drops, or that `MAP_FIXED` replaces; the end of a
//! process whose first thread ends before the others; 32-bit programs. Programs that trace others cannot be
//! traced. Without privileges the filter needs `no_new_privs`: a set-user-id program in the tree runs without
//! its rights.

mod callers;
mod filter;
mod history;
mod work;

pub(crate) use filter::filter;
pub use history::AttributedMapping;

use crate::follow;
use crate::recorder::FaultRecording;
use pagewise_kernel::error::SysError;
use pagewise_model::fault::ResidentPages;
use pagewise_model::memory_account::{AccountMoment, PeakWatch};
use std::sync::mpsc::{Receiver, Sender};
use work::PeakRecorder;

/// A process at the moment of an account.
#[derive(Debug, Clone, Copy)]
pub struct PeakProcess<'a> {
    pub pid: i32,
    /// Mappings made by its code, by address.
    pub history: &'a [AttributedMapping],
}

/// Takes an account of these processes, which are stopped as the moment says. Returns their resident pages if
/// they are to be attributed to the code that touched them; they replace those of the previous account.
pub type Take<'a> =
    dyn FnMut(&AccountMoment, &[PeakProcess<'_>]) -> Option<Vec<ResidentPages>> + Send + 'a;

/// Traces the tree of the child `root`, which carries [`filter`] and whose faults `recording` records. Works
/// as [`follow::follow`].
///
/// # Errors
/// Those of [`follow::follow`].
pub(crate) fn serve(
    root: i32,
    seized: &Sender<Result<(), SysError>>,
    reaped: &Receiver<()>,
    recording: &mut FaultRecording,
    take: &mut Take<'_>,
) -> Result<Option<PeakWatch>, SysError> {
    let watching = follow::follow(root, seized, reaped, PeakRecorder::new(recording, take))?;
    Ok(watching.map(PeakRecorder::finish))
}
