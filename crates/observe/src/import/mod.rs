//! Profiles of other tools and other machines: files of `perf record`, output of `perf script`, and folded
//! stacks.
//!
//! The results are samples as our own recorder takes them, so that they go into the same buckets and pages.
//! Kernel frames are recognised by their mark (`perf record`), by their file (`perf script`), by the mark
//! `_[k]` (folded by stackcollapse-perf), or by the function through which the kernel is entered. Of several
//! events, the one that counts time is used, otherwise cycles. Lines of another form are counted and
//! reported, not guessed at. Samples of idle CPUs are left out, because they are not time of any program.
//!
//! A text must be of a single form, or it is refused. Every line of folded stacks must be valid. Of the
//! output of `perf script` more than half of the lines must be.
//!
//! Cost: one pass over text, two over a file of `perf record`, which is copied first if it comes from a pipe.
//! Equal stacks are kept once. Memory is bounded whatever the input contains: at most 64 MiB and 4 times its
//! length ([`stacks`]). A profile whose stacks take more is refused.

mod folded;
mod perf_data;
mod script;
mod spool;
mod stacks;

use pagewise_model::Nanos;
use pagewise_model::profile::StackSamples;
use stacks::ImportedStacks;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};

/// The content of a profile that was read.
#[derive(Debug, Default)]
pub struct ImportedProfile {
    pub samples: StackSamples,
    /// Lines that are of no known form.
    pub unknown_lines: u64,
    /// The profile contained the time that a sample represents.
    pub has_period: bool,
    /// What is missing, for the user, one sentence each.
    pub notes: Vec<String>,
}

/// Why a profile is not read, and what to do.
#[derive(Debug, PartialEq, Eq)]
pub struct ImportRefusal {
    pub why: String,
    pub help: Option<&'static str>,
}

impl From<String> for ImportRefusal {
    fn from(why: String) -> Self {
        Self { why, help: None }
    }
}

/// The form of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ImportForm {
    /// What `perf script` prints.
    PerfScript,
    /// `process;root;...;leaf COUNT`.
    Folded,
}

/// Longest line that is read as one.
const LONGEST_LINE: u64 = 1 << 20;
/// Bytes read before the form is known, and bytes read in one call.
const HEAD: usize = 64 << 10;
const BUFFER: usize = 1 << 20;
/// The fields that are used, for perf script.
const FIELDS: &str = "perf script -F comm,tid,time,period,event,ip,sym,dso -i perf.data | pagewise profile --import - \
                      (leave out what perf says was not recorded)";
const ON_ITS_MACHINE: &str = "on its machine: perf script -i FILE | pagewise profile --import -";

/// Reads a profile of any form. `period` is the time that a sample represents if the profile does not say it.
///
/// # Errors
/// If it cannot be read, is of no known form, or is too large.
pub fn read(file: &File, period: Nanos) -> Result<ImportedProfile, ImportRefusal> {
    let mut head = Vec::new();
    let mut from = BufReader::with_capacity(BUFFER, file);
    let got = from.by_ref().take(HEAD as u64).read_to_end(&mut head);
    got.map_err(|error| error.to_string())?;
    if head.is_empty() {
        return Err("it is empty".to_owned().into());
    }
    if !is_perf_data(&head) {
        return read_text(&head[..], from, period);
    }
    let is_file = file.metadata().is_ok_and(|meta| meta.is_file());
    let refused = |why| ImportRefusal { why, help: Some(ON_ITS_MACHINE) };
    match is_file {
        true => perf_data::read(file, period).map_err(refused),
        false => perf_data::read(&spool::spool(head.chain(from))?, period).map_err(refused),
    }
}

/// Reads a text. `head` was read before.
fn read_text(
    head: &[u8],
    rest: impl BufRead,
    period: Nanos,
) -> Result<ImportedProfile, ImportRefusal> {
    let form = form(head).ok_or_else(|| ImportRefusal {
        why: "it is neither a file of perf record, nor output of perf script, nor folded stacks"
            .to_owned(),
        help: Some(FIELDS),
    })?;
    let mut from = head.chain(rest);
    let mut stacks = ImportedStacks::default();
    let mut line = Vec::new();
    let mut reader = ProfileReader::new(form);
    let (mut number, mut read) = (0_u64, 0_u64);
    loop {
        line.clear();
        let mut piece = from.by_ref().take(LONGEST_LINE);
        match piece.read_until(b'\n', &mut line).map_err(|error| error.to_string())? {
            0 => break,
            length => read += length as u64,
        }
        number += 1;
        reader.line(number, &String::from_utf8_lossy(line.trim_ascii_end()), &mut stacks)?;
        stacks::check(stacks.kept_bytes() + reader.kept_bytes(), read)?;
    }
    reader.finish(number, &mut stacks)?;
    Ok(stacks.finish(period))
}

/// `PERFILE2` begins the files of `perf record`, in the byte order of their machine.
const PERF_DATA: [&[u8]; 2] = [b"PERFILE2", b"2ELIFREP"];

/// Whether a profile is a file of `perf record`, of whatever byte order.
fn is_perf_data(head: &[u8]) -> bool {
    PERF_DATA.iter().any(|mark| head.starts_with(mark))
}

/// The form that the lines of a text have.
fn form(head: &[u8]) -> Option<ImportForm> {
    // The last line may be cut off.
    let whole = match head.iter().rposition(|byte| *byte == b'\n') {
        Some(end) if head.len() == HEAD => &head[..end],
        _ => head,
    };
    let text = String::from_utf8_lossy(whole);
    let mut lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let is_folded = |line: &str| folded::is_stack(line) && line.contains(';');
    let mut is_any_folded = false;
    if lines.clone().all(|line| {
        is_any_folded |= is_folded(line);
        folded::is_stack(line)
    }) && is_any_folded
    {
        return Some(ImportForm::Folded);
    }
    if lines.any(script::is_like) {
        return Some(ImportForm::PerfScript);
    }
    // A line that is not folded is refused later.
    text.lines().any(is_folded).then_some(ImportForm::Folded)
}

enum ProfileReader {
    Folded(folded::FoldedReader),
    Script(script::PerfScriptReader),
}

impl ProfileReader {
    fn new(form: ImportForm) -> Self {
        match form {
            ImportForm::Folded => Self::Folded(folded::FoldedReader::default()),
            ImportForm::PerfScript => Self::Script(script::PerfScriptReader::default()),
        }
    }

    fn line(
        &mut self,
        number: u64,
        line: &str,
        to: &mut ImportedStacks,
    ) -> Result<(), ImportRefusal> {
        match self {
            Self::Script(script) => script.line(line, to),
            Self::Folded(folded) => {
                if folded.line(line, to) {
                    return Ok(());
                }
                return Err(format!("line {number} is no folded stack, but others are").into());
            }
        }
        Ok(())
    }

    fn kept_bytes(&self) -> u64 {
        match self {
            Self::Script(script) => script.kept_bytes(),
            Self::Folded(folded) => folded.kept_bytes(),
        }
    }

    fn finish(&mut self, lines: u64, to: &mut ImportedStacks) -> Result<(), ImportRefusal> {
        let Self::Script(script) = self else { return Ok(()) };
        let refused = |why| ImportRefusal { why, help: Some(FIELDS) };
        script.finish(to).map_err(refused)?;
        match to.unknown_lines * 2 > lines {
            false => Ok(()),
            true => Err(refused(format!(
                "{} of its {lines} lines are not those of perf script",
                to.unknown_lines
            ))),
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
