//! Makes every page that a program touches a separate fault: its tree runs with fault-around off.
//!
//! On a read fault of a file page, the kernel maps up to 16 cached pages around it (mm/memory.c,
//! `do_fault_around`), and later touches of those cause no fault. It does not do so for a mapping that is
//! registered with a userfaultfd for write protection (`pagewise_kernel::userfault`). So each program of the
//! tree is stopped once, when its image exists and no instruction has run, and is made to call
//! userfaultfd(2). The descriptor is copied out (pidfd_getfd(2)) and closed in the program before it resumes,
//! so that the program's own descriptor numbers do not change. The copy then registers what is mapped from
//! files. A forked child does not inherit the registration, so the same is done to it when it starts. A
//! seccomp filter stops the tree at each later mmap(2) of a file and each mremap(2). The resulting mappings
//! are registered at the exit of the call, before any thread can touch them.
//!
//! The call goes through the `syscall` instruction of the vDSO. That page is read from outside before, and
//! its fault is the one that is missing.
//!
//! A file that is cached in folios of 2 MiB would still be mapped in such steps. So the starter of the tree
//! turns huge pages off for it (PR_SET_THP_DISABLE), which makes other memory come in page by page too.
//!
//! Not exact: shared mappings of files that are open for reading only (EPERM), 32-bit programs, and programs
//! with their own seccomp filter. Programs that trace others cannot be traced. Without privileges the filter
//! needs `no_new_privs`: a set-user-id program in the tree runs without its rights. Cost: 60-100 us per
//! program, 20-40 us per file mapping, and a fault for each page. Times of such a run mean nothing.

mod engine;
mod filter;
mod reads;
mod space;

pub(crate) use filter::filter;

use crate::follow;
use crate::perf::faults::RecordingRefusal;
use engine::TouchEngine;
use pagewise_kernel::error::SysError;
use pagewise_model::Fact;
use pagewise_model::fault::{ExactTouch, ExecCounts, WorkingSetRange};
use std::sync::mpsc::{Receiver, Sender};

/// Result for a tree.
#[derive(Debug)]
pub(crate) struct TouchOutcome {
    pub(crate) exact: ExactTouch,
    /// The kernel's counts right after the first program was executed.
    pub(crate) exec: Fact<ExecCounts>,
    /// Why the first program was ended before it could start.
    pub(crate) refusal: Option<RecordingRefusal>,
    /// Parts of files that were read, by path, if the filter stopped reads.
    pub(crate) reads: Vec<(String, Vec<WorkingSetRange>)>,
}

/// Traces the tree of the child `root`, which carries [`filter`], as [`follow::follow`] does.
///
/// # Errors
/// Those of [`follow::follow`].
pub(crate) fn serve(
    root: i32,
    seized: &Sender<Result<(), SysError>>,
    reaped: &Receiver<()>,
) -> Result<Option<TouchOutcome>, SysError> {
    let engine = follow::follow(root, seized, reaped, TouchEngine::new(root))?;
    Ok(engine.map(TouchEngine::finish))
}
