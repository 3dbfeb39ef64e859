//! Records which functions a tree of programs calls, in the order of the first call, with breakpoints set
//! from outside.
//!
//! The first byte of each function becomes a breakpoint (`int3`). A thread that hits one stops (ptrace(2)).
//! Then the byte is restored and the thread resumes at it, so a function costs one stop however often it is
//! called. Breakpoints are written through `/proc/PID/mem`, which gives the program private copies of those
//! pages: the file and other processes are not affected. When a new program image exists but has not run yet,
//! its mapped code gets breakpoints. A seccomp filter stops the tree where more code is mapped (the loader,
//! dlopen(3)); that code gets breakpoints at the exit of the call. A forked child has a copy of the memory
//! and therefore of the breakpoints. Threads and vfork children share them. An exec drops them.
//!
//! A breakpoint of the program itself is delivered to the program. Functions that already begin with this
//! byte are left out, and so are those that unwinders read (returns from signal handlers).
//!
//! Not seen: functions that were inlined; functions of one or two bytes (`ret`), whose copies could not be
//! identified; 32-bit programs; code that the program generates or unpacks itself.
//!
//! A program that reads its own code (a checksum over it) reads breakpoints. Programs that trace others
//! cannot. Without privileges the filter needs `no_new_privs`: a set-user-id program in the tree runs without
//! its rights. Cost: a stop for each function and for each mapping of code. Times and page faults of such a
//! run mean nothing.

mod code_x86_64;
mod filter;
mod object;
mod pins;
mod space;
mod trap;
mod work;

pub(crate) use filter::filter;

use crate::follow;
use pagewise_kernel::error::SysError;
use pagewise_model::Nanos;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender};
use work::FirstCallRecorder;

/// A file from which a program has mapped code.
#[derive(Debug)]
pub struct CodeFile<'a> {
    pub file: &'a File,
    /// Its path, as the program sees it.
    pub path: &'a Path,
    /// It is the executable of its process.
    pub is_executable: bool,
    /// Its process runs the program that was started: it is the first process, or a fork of it that has
    /// executed nothing else.
    pub is_first: bool,
}

/// Returns the file offsets at which functions begin, in rising order. `None` if the functions of this file
/// are not wanted.
pub type FindStarts<'a> = dyn FnMut(&CodeFile<'_>) -> Option<Vec<u64>> + Send + 'a;

/// The first call of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstCallHit {
    /// Index in [`FirstCalls::objects`].
    pub object: usize,
    /// File offset of the function.
    pub offset: u64,
    /// Time since the first program began.
    pub at_ns: Nanos,
    pub pid: i32,
}

/// The first calls in a tree, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FirstCalls {
    /// Files whose functions were watched: path and number of functions.
    pub objects: Vec<(PathBuf, usize)>,
    pub calls: Vec<FirstCallHit>,
}

/// Traces the tree of the child `root`, which carries [`filter`], as [`follow::follow`] does.
///
/// # Errors
/// Those of [`follow::follow`].
pub(crate) fn serve(
    root: i32,
    seized: &Sender<Result<(), SysError>>,
    reaped: &Receiver<()>,
    starts: &mut FindStarts<'_>,
) -> Result<Option<FirstCalls>, SysError> {
    let recorder = follow::follow(root, seized, reaped, FirstCallRecorder::new(root, starts))?;
    Ok(recorder.map(FirstCallRecorder::finish))
}
