//! Standard input, output and error of a program: their sources, destinations, and the reader of a pipe.

use crate::child::StandardDescriptor;
use crate::drain::OutputDrain;
use crate::input;
use crate::launch::{LaunchError, ProgramLaunch};
use pagewise_kernel::start;
use pagewise_model::os_text;
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Destination of an output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputSink {
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
pub(crate) fn open(
    launch: &ProgramLaunch,
) -> Result<([StandardDescriptor; 3], Vec<OutputDrain>), LaunchError> {
    let mut drains = Vec::new();
    let input = input::open_input(&launch.stdin)?
        .map_or(StandardDescriptor::AsGiven, StandardDescriptor::Is);
    let output = open_sink(&launch.stdout, &mut drains)?;
    let error = match (&launch.stderr, &output) {
        // A single open file, so that neither output overwrites the other.
        (OutputSink::File(path), StandardDescriptor::Is(same))
            if launch.stdout == OutputSink::File(path.clone()) =>
        {
            let copy = same.try_clone();
            StandardDescriptor::Is(
                copy.map_err(|e| LaunchError::call("dup", "standard error", &e))?,
            )
        }
        (sink, _) => open_sink(sink, &mut drains)?,
    };
    Ok(([input, output, error], drains))
}

fn open_sink(
    sink: &OutputSink,
    drains: &mut Vec<OutputDrain>,
) -> Result<StandardDescriptor, LaunchError> {
    let opened = match sink {
        OutputSink::Inherit => return Ok(StandardDescriptor::AsGiven),
        OutputSink::Stderr if start::was_closed(2) => return Ok(StandardDescriptor::Closed),
        OutputSink::Stderr => {
            let copy = std::io::stderr().as_fd().try_clone_to_owned();
            copy.map_err(|e| LaunchError::call("dup", "standard error", &e))
        }
        OutputSink::Null => null(),
        OutputSink::File(path) => emptied(path),
        OutputSink::Pipe => null().and_then(|null| drained(&null, drains)),
        OutputSink::PipeTo(path) => emptied(path).and_then(|file| drained(&file, drains)),
    };
    opened.map(StandardDescriptor::Is)
}

/// The writing end of a pipe whose new drain writes to `file`.
fn drained(file: &OwnedFd, drains: &mut Vec<OutputDrain>) -> Result<OwnedFd, LaunchError> {
    let (drain, end) = OutputDrain::start(file)?;
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
