//! Standard input, output and error of a program: their sources, destinations, and the reader of a pipe.

use crate::child::Descriptor;
use crate::drain::Drain;
use crate::input;
use crate::launch::{Launch, LaunchError};
use pagewise_kernel::start;
use pagewise_model::os_text;
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Destination of an output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sink {
    /// /dev/null.
    Null,
    /// A pipe whose reader discards everything.
    Pipe,
    /// A pipe whose reader writes everything to a file, which is truncated first.
    PipeTo(#[serde(with = "os_text")] PathBuf),
    /// A file, truncated first.
    File(#[serde(with = "os_text")] PathBuf),
    /// The same as this process.
    Inherit,
    /// Standard error of this process.
    Stderr,
}

/// Descriptors for a program, and the drains of its pipes.
pub(crate) fn open(launch: &Launch) -> Result<([Descriptor; 3], Vec<Drain>), LaunchError> {
    let mut drains = Vec::new();
    let input = input::open_input(&launch.stdin)?.map_or(Descriptor::AsGiven, Descriptor::Is);
    let output = open_sink(&launch.stdout, &mut drains)?;
    let error = match (&launch.stderr, &output) {
        // A single open file, so that neither output overwrites the other.
        (Sink::File(path), Descriptor::Is(same)) if launch.stdout == Sink::File(path.clone()) => {
            let copy = same.try_clone();
            Descriptor::Is(copy.map_err(|e| LaunchError::call("dup", "standard error", &e))?)
        }
        (sink, _) => open_sink(sink, &mut drains)?,
    };
    Ok(([input, output, error], drains))
}

fn open_sink(sink: &Sink, drains: &mut Vec<Drain>) -> Result<Descriptor, LaunchError> {
    let opened = match sink {
        Sink::Inherit => return Ok(Descriptor::AsGiven),
        Sink::Stderr if start::was_closed(2) => return Ok(Descriptor::Closed),
        Sink::Stderr => {
            let copy = std::io::stderr().as_fd().try_clone_to_owned();
            copy.map_err(|e| LaunchError::call("dup", "standard error", &e))
        }
        Sink::Null => null(),
        Sink::File(path) => emptied(path),
        Sink::Pipe => null().and_then(|null| drained(&null, drains)),
        Sink::PipeTo(path) => emptied(path).and_then(|file| drained(&file, drains)),
    };
    opened.map(Descriptor::Is)
}

/// The writing end of a pipe whose new drain writes to `file`.
fn drained(file: &OwnedFd, drains: &mut Vec<Drain>) -> Result<OwnedFd, LaunchError> {
    let (drain, end) = Drain::start(file)?;
    drains.push(drain);
    Ok(end)
}

fn null() -> Result<OwnedFd, LaunchError> {
    open_file(Path::new("/dev/null"), OFlags::WRONLY)
}

fn emptied(path: &Path) -> Result<OwnedFd, LaunchError> {
    open_file(path, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC)
}

fn open_file(path: &Path, flags: OFlags) -> Result<OwnedFd, LaunchError> {
    let mode = Mode::from_raw_mode(0o666);
    rustix::fs::open(path, flags | OFlags::CLOEXEC | OFlags::NOCTTY, mode)
        .map_err(|e| LaunchError::errno("open", path.to_string_lossy(), e))
}
