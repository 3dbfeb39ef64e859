//! When a tree of programs holds most, and which code mapped its memory.
//!
//! Memory shrinks when it is unmapped or given back, at the end of a heap, and when a process ends. So the tree is
//! traced, and before each of these (of 64 KiB and more) all resident sets are added up. Where the sum is the largest so
//! far, an account is taken while the thread that would give back stands still. Between two such moments memory only
//! grows, so no peak is missed but by small steps back.
//!
//! An account costs more than a look. After the first it is taken where the sum has grown by a tenth, or where
//! all accounts so far took less than half of the time; at the end of a process it is always taken. Pages that
//! processes share count in each of them here: the taker goes by proportional sizes and keeps the largest account.
//!
//! A stop at each mmap(2) of no file shows which code mapped it: the first caller outside the C library.
//!
//! Cost: 10-20 us for each such call, 30 us a process for a look; where first touches are recorded, 4-9 us and 40 bytes
//! for each page, and a stack of 4 KiB for one in seven. Times of such a run mean nothing. Not seen: memory
//! that reclaim takes back, that exec(2) drops, or that `MAP_FIXED` replaces; the end of a process whose first
//! thread ends before the others; programs of 32 bits. Programs that trace others cannot be traced. Without rights
//! the filter needs `no_new_privs`: a set-user-id program in the tree runs without its rights.

mod callers;
mod filter;
mod history;
mod work;

pub(crate) use filter::filter;
pub use history::MappedBy;

use crate::follow;
use crate::recorder::Recording;
use pagewise_kernel::error::SysError;
use pagewise_model::fault::ResidentPages;
use pagewise_model::memory_account::{Moment, Watched};
use std::sync::mpsc::{Receiver, Sender};
use work::Watching;

/// A process at the moment of an account.
#[derive(Debug, Clone, Copy)]
pub struct Held<'a> {
    pub pid: i32,
    /// What its code mapped, by address.
    pub history: &'a [MappedBy],
}

/// Takes an account of these processes, which stand where the moment says; gives their resident pages where they are
/// to be told apart by who touched them, in place of those given before.
pub type Take<'a> = dyn FnMut(&Moment, &[Held<'_>]) -> Option<Vec<ResidentPages>> + Send + 'a;

/// Traces the tree of our child `root`, which carries [`filter`] and whose faults `recording` takes down, as [`follow::follow`] says.
///
/// # Errors
/// As there.
pub(crate) fn serve(
    root: i32,
    seized: &Sender<Result<(), SysError>>,
    reaped: &Receiver<()>,
    recording: &mut Recording,
    take: &mut Take<'_>,
) -> Result<Option<Watched>, SysError> {
    let watching = follow::follow(root, seized, reaped, Watching::new(recording, take))?;
    Ok(watching.map(Watching::finish))
}
