//! Profiles of other tools and other machines: what `perf script` prints, and folded stacks.
//!
//! What comes out are samples as our own recorder takes them, so that the same buckets and pages are made of
//! them. Frames of the kernel are known by their file (`perf script`), by the mark `_[k]`
//! (folded by stackcollapse-perf), or by the function through which the kernel is entered. Lines of another
//! form are counted and reported, not guessed at. Cost: one pass over the text; equal stacks are kept once.

mod folded;
mod script;

use pagewise_model::Nanos;
use pagewise_model::profile::{Clock, ProfiledStack, StackSamples};
use rustc_hash::FxHashMap;
use std::io::BufRead;

/// What a profile that was read holds.
#[derive(Debug, Default)]
pub struct Imported {
    pub samples: StackSamples,
    /// Lines that are of no known form.
    pub unknown_lines: u64,
    /// The time that a sample stands for was in the profile.
    pub has_period: bool,
}

/// The form of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// What `perf script` prints.
    PerfScript,
    /// `process;root;...;leaf COUNT`.
    Folded,
}

/// Reads a profile; its first lines show its form. `period` is what a sample stands for where the
/// profile does not say it.
///
/// # Errors
/// A sentence: it cannot be read, or is of no known form.
pub fn read(mut from: impl BufRead, period: Nanos) -> Result<Imported, String> {
    let head = from.fill_buf().map_err(|e| e.to_string())?;
    let form = form(head).ok_or("it is neither output of perf script nor folded stacks")?;
    let mut stacks = Stacks::default();
    let mut line = Vec::new();
    let mut reader = Reader::new(form);
    loop {
        line.clear();
        match from.read_until(b'\n', &mut line).map_err(|e| e.to_string())? {
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
    if head.starts_with(PERF_DATA) {
        return None;
    }
    let text = String::from_utf8_lossy(&head[..head.len().min(64 << 10)]);
    let mut lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let first = lines.next()?;
    if folded::parse(first).is_some() {
        return Some(Form::Folded);
    }
    script::is_header(first).then_some(Form::PerfScript)
}

/// Whether a profile is a file of `perf record`, which only `perf script` of its machine can name.
#[must_use]
pub fn is_perf_data(head: &[u8]) -> bool {
    head.starts_with(PERF_DATA)
}

enum Reader {
    Folded,
    Script(script::Script),
}

impl Reader {
    fn new(form: Form) -> Self {
        match form {
            Form::Folded => Self::Folded,
            Form::PerfScript => Self::Script(script::Script::default()),
        }
    }

    fn line(&mut self, line: &str, to: &mut Stacks) {
        match self {
            Self::Script(script) => script.line(line, to),
            Self::Folded if line.trim().is_empty() || line.starts_with('#') => {}
            Self::Folded => match folded::parse(line) {
                Some((stack, count)) => to.add(stack, count),
                None => to.unknown_lines += 1,
            },
        }
    }

    fn end(&mut self, to: &mut Stacks) {
        if let Self::Script(script) = self {
            script.end(to);
        }
    }
}

/// A stack without its count.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Key {
    process: String,
    /// Leaf first.
    kernel: Vec<String>,
    /// Innermost first: file and function.
    user: Vec<(String, String)>,
}

/// Stacks so far.
#[derive(Debug, Default)]
struct Stacks {
    counts: FxHashMap<Key, u64>,
    unknown_lines: u64,
    /// Of an event that counts nanoseconds: their sum, and its samples.
    nanos: u64,
    timed: u64,
}

impl Stacks {
    fn add(&mut self, key: Key, count: u64) {
        *self.counts.entry(key).or_default() += count;
    }

    fn finish(self, period: Nanos) -> Imported {
        let has_period = self.timed > 0;
        let period_ns = if has_period { Nanos(self.nanos / self.timed) } else { period };
        let frame = |(path, function): (String, String)| pagewise_model::profile::UserFrame {
            path,
            offset_bytes: pagewise_model::Bytes(0),
            function: (!function.is_empty()).then_some(function),
            maker: None,
        };
        let stack = |(key, count): (Key, u64)| ProfiledStack {
            process: key.process,
            kernel: key.kernel,
            user: key.user.into_iter().map(frame).collect(),
            count,
        };
        let mut stacks: Vec<ProfiledStack> = self.counts.into_iter().map(stack).collect();
        stacks.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.process.cmp(&b.process)));
        let why = "the profile was imported".to_owned();
        let samples =
            StackSamples { stacks, period_ns, clock: Clock::Tasks { why }, ..Default::default() };
        Imported { samples, unknown_lines: self.unknown_lines, has_period }
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
