//! Which functions a tree of programs calls, in the order of the first call, by breakpoints set from outside.
//!
//! The first byte of each function becomes a breakpoint (`int3`). The thread that meets one stops
//! (ptrace(2)); the byte comes back, the thread is set back to it and goes on, so that a function costs one
//! stop however often it is called. Breakpoints are written through `/proc/PID/mem`, which gives the program
//! private copies of those pages: no file and no other process has them. When a program is there and has not
//! begun, what is mapped gets them; a seccomp filter stops the tree where more code is mapped (the loader,
//! dlopen(3)), which gets them at the exit of that call. A forked child has a copy of the memory and so of
//! the breakpoints; one that shares memory (vfork, threads) shares them; an exec drops them.
//!
//! A breakpoint that is not ours is delivered to the program. Functions that begin with such a byte are left
//! out, and so are those that unwinders read (returns from signal handlers).
//!
//! Not seen: functions that were inlined; those of a byte or two (`ret`), of which a program's copy could not be told; programs of 32 bits; code that the program makes or unpacks
//! itself. A program that reads its own code (a checksum over it) reads breakpoints. Programs that trace
//! others cannot. Without rights the filter needs `no_new_privs`: a set-user-id program in the tree runs
//! without its rights. Cost: a stop for each function, one for each mapping of code; times of such a run
//! mean nothing, nor do its page faults.

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
use work::Recorder;

/// A file from which a program has mapped code.
#[derive(Debug)]
pub struct Mapped<'a> {
    pub file: &'a File,
    /// Its path, as the program sees it.
    pub path: &'a Path,
    /// It is the executable of its process.
    pub is_executable: bool,
    /// Its process runs what was started: it is the first one, or was forked by it and has executed
    /// nothing else.
    pub is_first: bool,
}

/// Says where in a file functions begin: offsets in the file, rising. `None` where its functions are not
/// wanted.
pub type FindStarts<'a> = dyn FnMut(&Mapped<'_>) -> Option<Vec<u64>> + Send + 'a;

/// The first call of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstCall {
    /// Place in [`FirstCalls::objects`].
    pub object: usize,
    /// Where the function begins in the file.
    pub offset: u64,
    /// Since the first program began.
    pub at_ns: Nanos,
    pub pid: i32,
}

/// The first calls of a tree, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FirstCalls {
    /// Files whose functions were watched: path, and how many functions.
    pub objects: Vec<(PathBuf, usize)>,
    pub calls: Vec<FirstCall>,
}

/// Traces the tree of our child `root`, which carries [`filter`], as [`follow::follow`] says.
///
/// # Errors
/// As there.
pub(crate) fn serve(
    root: i32,
    seized: &Sender<Result<(), SysError>>,
    reaped: &Receiver<()>,
    starts: &mut FindStarts<'_>,
) -> Result<Option<FirstCalls>, SysError> {
    let recorder = follow::follow(root, seized, reaped, Recorder::new(root, starts))?;
    Ok(recorder.map(Recorder::finish))
}
