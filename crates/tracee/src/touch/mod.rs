//! Every page that a program touches is a fault of its own: its tree runs with fault-around off.
//!
//! On a read fault of a file's page the kernel maps up to 16 cached pages around it (mm/memory.c,
//! `do_fault_around`), and those are touched without a fault. It does not do so where a mapping is
//! registered with a userfaultfd for write protection (`pagewise_kernel::userfault`). So each
//! program of the tree is stopped once, when its image is there and no instruction has run, and made
//! to call userfaultfd(2); the descriptor is copied out (pidfd_getfd(2)) and closed over there before
//! the program goes on, so that the numbers of its own descriptors are what they were. The copy
//! here then registers what is mapped from files; a forked child, which does not inherit that, has
//! the same done to it at its birth. A seccomp filter stops the tree at each later mmap(2) of a file
//! and each mremap(2), and what they made is registered at their exit, before anyone can touch it.
//!
//! The call goes through the `syscall` instruction of the vDSO: that page is looked at from outside
//! before, and its fault is the one that is missing.
//!
//! A file whose cache is in folios of 2 MiB would still be mapped by as much: whoever starts the tree
//! turns huge pages off for it (PR_SET_THP_DISABLE), so that other memory comes in page by page too.
//!
//! Not exact: shared mappings of files that are open for reading alone (EPERM), programs of 32 bits
//! and such as run under a seccomp filter of their own. Programs that trace others cannot be traced.
//! Without rights the filter needs `no_new_privs`: a set-user-id program in the tree runs without
//! its rights. Cost: 60-100 us a program, 20-40 us a mapping of a file, and a fault for each page;
//! times of such a run mean nothing.

mod engine;
mod filter;
mod reads;
mod space;

pub(crate) use filter::filter;

use crate::follow;
use crate::perf::faults::Refusal;
use engine::Engine;
use pagewise_kernel::error::SysError;
use pagewise_model::Fact;
use pagewise_model::fault::{ExactTouch, ExecCounts, WorkingRange};
use std::sync::mpsc::{Receiver, Sender};

/// What came of a tree.
#[derive(Debug)]
pub(crate) struct Touched {
    pub(crate) exact: ExactTouch,
    /// The kernel's counts when the first program had just been executed.
    pub(crate) exec: Fact<ExecCounts>,
    /// Why the first program has been ended before it had begun.
    pub(crate) refusal: Option<Refusal>,
    /// What was read of files, by path, where the filter stopped reads.
    pub(crate) reads: Vec<(String, Vec<WorkingRange>)>,
}

/// Traces the tree of our child `root`, which carries [`filter`], as [`follow::follow`] says.
///
/// # Errors
/// As there.
pub(crate) fn serve(
    root: i32,
    seized: &Sender<Result<(), SysError>>,
    reaped: &Receiver<()>,
) -> Result<Option<Touched>, SysError> {
    let engine = follow::follow(root, seized, reaped, Engine::new(root))?;
    Ok(engine.map(Engine::finish))
}
