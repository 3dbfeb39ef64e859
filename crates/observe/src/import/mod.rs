//! Profiles of other tools and other machines: files of `perf record`, what `perf script` prints, and folded stacks.
//!
//! What comes out are samples as our own recorder takes them, so that the same buckets and pages are made of
//! them. Frames of the kernel are known by their mark (`perf record`), by their file (`perf script`), by the mark
//! `_[k]` (folded by stackcollapse-perf), or by the function through which the kernel is entered. Lines of another
//! form are counted and reported, not guessed at. Samples of idle CPUs are left out: nobody's time went there.
//! Cost: one pass over text, two over a file of `perf record`; equal stacks are kept once.

mod folded;
mod perf_data;
mod script;
mod stacks;

pub use perf_data::read_perf_data;

use pagewise_model::Nanos;
use pagewise_model::profile::StackSamples;
use stacks::Stacks;
use std::io::{BufRead, Read};

/// What a profile that was read holds.
#[derive(Debug, Default)]
pub struct Imported {
    pub samples: StackSamples,
    /// Lines that are of no known form.
    pub unknown_lines: u64,
    /// The time that a sample stands for was in the profile.
    pub has_period: bool,
    /// What the reader should know of what is missing, a sentence each.
    pub notes: Vec<String>,
}

/// The form of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// What `perf script` prints.
    PerfScript,
    /// `process;root;...;leaf COUNT`.
    Folded,
}

/// Longest line that is read as one.
const LONGEST_LINE: u64 = 1 << 20;

/// Reads the text of a profile; its first lines show its form. `period` is what a sample stands for where
/// the profile does not say it.
///
/// # Errors
/// A sentence: it cannot be read, or is of no known form.
pub fn read(mut from: impl BufRead, period: Nanos) -> Result<Imported, String> {
    let head = from.fill_buf().map_err(|e| e.to_string())?;
    let form = form(head).ok_or(
        "it is neither a file of perf record, nor output of perf script, nor folded stacks",
    )?;
    let mut stacks = Stacks::default();
    let mut line = Vec::new();
    let mut reader = Reader::new(form);
    loop {
        line.clear();
        let mut piece = from.by_ref().take(LONGEST_LINE);
        match piece.read_until(b'\n', &mut line).map_err(|e| e.to_string())? {
            0 => break,
            _ => reader.line(&String::from_utf8_lossy(line.trim_ascii_end()), &mut stacks),
        }
    }
    reader.end(&mut stacks);
    Ok(stacks.finish(period))
}

/// `PERFILE2` begins the files of `perf record`.
const PERF_DATA: &[u8] = b"PERFILE2";

fn form(head: &[u8]) -> Option<Form> {
    let text = String::from_utf8_lossy(&head[..head.len().min(64 << 10)]);
    let mut lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let first = lines.next()?;
    if folded::is_stack(first) {
        return Some(Form::Folded);
    }
    script::is_header(first).then_some(Form::PerfScript)
}

/// Whether a profile is a file of `perf record`, for [`read_perf_data`].
#[must_use]
pub fn is_perf_data(head: &[u8]) -> bool {
    head.starts_with(PERF_DATA)
}

enum Reader {
    Folded(folded::Folded),
    Script(script::Script),
}

impl Reader {
    fn new(form: Form) -> Self {
        match form {
            Form::Folded => Self::Folded(folded::Folded::default()),
            Form::PerfScript => Self::Script(script::Script::default()),
        }
    }

    fn line(&mut self, line: &str, to: &mut Stacks) {
        match self {
            Self::Script(script) => script.line(line, to),
            Self::Folded(folded) => folded.line(line, to),
        }
    }

    fn end(&mut self, to: &mut Stacks) {
        if let Self::Script(script) = self {
            script.end(to);
        }
    }
}

/// Functions through which x86-64 and arm64 enter the kernel, the outermost that a stack of it shows.
fn enters_kernel(function: &str) -> bool {
    const NAMES: [&str; 6] = [
        "entry_SYSCALL_64_after_hwframe",
        "entry_SYSCALL_64",
        "do_syscall_64",
        "ret_from_fork_asm",
        "ret_from_fork",
        "el0_sync",
    ];
    const STARTS: [&str; 5] = ["asm_exc_", "asm_sysvec_", "asm_common_", "el0t_64_", "el1h_64_"];
    NAMES.contains(&function) || STARTS.iter().any(|start| function.starts_with(start))
}

#[cfg(test)]
mod tests;
