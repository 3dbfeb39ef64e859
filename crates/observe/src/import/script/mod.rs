//! The text of `perf script`: one line for each sample, or a header and its frames, the innermost first.
//!
//! ```text
//! awk 4711/4711 [001] 12.345678:    250000 cpu-clock:
//!         ffffffff81000000 clear_page_erms+0x7 ([kernel.kallsyms])
//!             55d4c0a01234 main+0x24 (/usr/bin/mawk)
//!
//!             awk    4711 12.345678:    250000 cpu-clock:      55d4c0a01234 main+0x24 (/usr/bin/mawk)
//! ```
//!
//! Which fields there are is up to `-F` (perf-script(1); their order is fixed in tools/perf/builtin-script.c):
//!
//! ```text
//! header = [COMM] [PID[/TID]] ["[" CPU "]"] [MISC] [DATE CLOCK] [TIME ":"] [PERIOD] [EVENT ":"] [TRACE] [ADDR] [frame]
//! frame  = IP [SYM["+0x" OFFSET]] ["(" DSO ")"]
//! record = the same up to TIME, then "PERF_RECORD_" KIND ...
//! ```
//!
//! Names of processes may hold blanks, so a header is found by its time or, without one, by its event. Lines of
//! source, registers and branches between frames are passed over, records of other kinds too.

use super::stacks::{CountedUnit, FrameCache, ImportedFrame, ImportedStack, ImportedStacks};

/// Bits of user-mode and kernel-mode words of the field `misc`.
const MISC: &str = "KUHGgMESp";
/// What begins the records that are no samples (`--show-task-events` and its like).
const RECORD: &str = "PERF_RECORD_";
/// Columns of an address.
const ADDRESS_WIDTH: usize = 16;

/// One sample while its lines are read, and what is missing so far.
#[derive(Debug, Default)]
pub(super) struct PerfScriptReader {
    /// The sample under way, if its header has come.
    stack: ImportedStack,
    is_open: bool,
    /// It has an address without a function.
    is_bare: bool,
    /// By the lines without their addresses. `None` if such a line is no frame.
    frames: FrameCache<Option<PerfScriptFrame>>,
    samples: u64,
    with_frames: u64,
    bare: u64,
    /// Headers without a name.
    nameless: u64,
    /// Samples whose name is a number, like that of a thread.
    numbered: u64,
    /// Lines of perf script that no header precedes.
    orphans: u64,
}

/// A frame by its number.
#[derive(Debug, Clone, Copy)]
enum PerfScriptFrame {
    Kernel(u32),
    User(u32),
    /// A frame without a file: its text and its frame. The address decides which.
    Either(u32, u32),
}

/// What a line that is not a frame begins.
#[derive(Debug, PartialEq, Eq)]
enum PerfScriptLine<'a> {
    Sample(PerfScriptHeader<'a>),
    /// A record of another kind.
    Other,
}

/// The content of a header.
#[derive(Debug, PartialEq, Eq)]
struct PerfScriptHeader<'a> {
    /// Empty if the header does not say it.
    process: &'a str,
    counts: CountedUnit,
    /// Period of an event that counts nanoseconds.
    nanos: Option<u64>,
    /// What follows the event.
    rest: &'a str,
}

/// Whether this line is one of `perf script`, maybe with fields left out that are needed.
pub(super) fn is_like(line: &str) -> bool {
    let is_address = |(at, word): (usize, &str)| {
        let before = line[..at].len() - line[..at].trim_end().len();
        is_hex(word) && word.len() > 3 && before + word.len() >= ADDRESS_WIDTH
    };
    line_of(line).is_some() || (line.starts_with([' ', '\t']) && words(line).any(is_address))
}

/// The words of a text and their offsets.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split_ascii_whitespace()
        .map(move |word| (word.as_ptr() as usize - text.as_ptr() as usize, word))
}

/// The text without its last word, and the last word.
fn last_word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_ascii_end();
    let at = text.rfind([' ', '\t']).map_or(0, |at| at + 1);
    (at < text.len()).then(|| text.split_at(at))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_pid(text: &str) -> bool {
    text.split('/').all(|part| is_number(part.strip_prefix('-').unwrap_or(part)))
}

fn is_cpu(text: &str) -> bool {
    text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).is_some_and(is_number)
}

fn is_time(word: &str) -> bool {
    let parts = word.strip_suffix(':').and_then(|time| time.split_once('.'));
    parts.is_some_and(|(seconds, rest)| is_number(seconds) && is_number(rest))
}

/// An address: not one of the words that happen to have the letters of one.
fn is_hex(word: &str) -> bool {
    let has_digit = || word.bytes().any(|byte| byte.is_ascii_digit());
    word.bytes().all(|byte| byte.is_ascii_hexdigit()) && (word.len() >= 8 || has_digit())
}

/// The header or record of a line.
fn line_of(line: &str) -> Option<PerfScriptLine<'_>> {
    let mut timed = words(line).filter(|(_, word)| is_time(word));
    let found = timed.find_map(|(at, word)| {
        let (start, tail) = (&line[..at], line[at + word.len()..].trim_ascii_start());
        if tail.starts_with(RECORD) {
            return Some(PerfScriptLine::Other);
        }
        let (period, tail) = match tail.split_once(' ') {
            Some((first, rest)) if is_number(first) && event(rest.trim_ascii_start()).is_some() => {
                (first.parse().ok(), rest.trim_ascii_start())
            }
            _ if is_number(tail) => (None, ""),
            _ => (None, tail),
        };
        match event(tail) {
            Some((name, rest)) => Some(sample(start, Some(name), period, rest)),
            None if tail.is_empty() || frame(tail).is_some() => {
                Some(sample(start, None, None, tail))
            }
            None => None,
        }
    });
    found.or_else(|| without_time(line))
}

/// A header that its event shows.
fn without_time(line: &str) -> Option<PerfScriptLine<'_>> {
    if words(line).any(|(at, word)| at > 0 && word.starts_with(RECORD)) {
        return Some(PerfScriptLine::Other);
    }
    let found = words(line).filter(|(at, _)| *at > 0).find_map(|(at, _)| {
        let (name, rest) = event(&line[at..])?;
        let is_header = rest.trim_ascii().is_empty() || frame(rest).is_some();
        is_header.then_some((&line[..at], name, rest))
    });
    let (start, name, rest) = found?;
    // A number before it is the period if another number (that of the thread) or the CPU precedes it.
    let with_period = last_word(start).filter(|(before, word)| {
        is_number(word) && last_word(before).is_some_and(|(_, word)| is_pid(word) || is_cpu(word))
    });
    Some(match with_period {
        Some((before, word)) => sample(before, Some(name), word.parse().ok(), rest),
        None => sample(start, Some(name), None, rest),
    })
}

/// The event that a text begins with, and what follows it.
fn event(text: &str) -> Option<(&str, &str)> {
    let end = text.find([' ', '\t']).unwrap_or(text.len());
    let name = text[..end].strip_suffix(':').filter(|name| !name.is_empty())?;
    Some((name, &text[end..]))
}

fn sample<'a>(
    start: &'a str,
    event: Option<&str>,
    period: Option<u64>,
    rest: &'a str,
) -> PerfScriptLine<'a> {
    let counts = event.map_or(CountedUnit::Time, counts);
    let nanos = period.filter(|_| event.is_some() && counts == CountedUnit::Time);
    PerfScriptLine::Sample(PerfScriptHeader {
        process: process(start),
        counts,
        nanos,
        rest: rest.trim_ascii_end(),
    })
}

/// What the event of this name counts.
fn counts(event: &str) -> CountedUnit {
    let mut words = event.split([':', '/', ',']);
    match words.find(|word| !word.is_empty() && !word.starts_with("cpu_") && *word != "cpu") {
        Some("cpu-clock" | "task-clock") => CountedUnit::Time,
        Some("cycles" | "cpu-cycles") => CountedUnit::Cycles,
        _ => CountedUnit::Other,
    }
}

/// The name of the process in what comes before the time.
fn process(start: &str) -> &str {
    let mut left = start.trim_ascii_end();
    let clock = last_word(left).filter(|(_, clock)| clock.matches(':').count() == 2);
    let date = clock.and_then(|(before, _)| last_word(before));
    if let Some((before, _)) = date.filter(|(_, date)| date.matches('-').count() == 2) {
        left = before.trim_ascii_end();
    }
    let misc = last_word(left).filter(|(before, misc)| {
        let is_after = last_word(before).is_some_and(|(_, word)| is_pid(word) || is_cpu(word));
        is_after && misc.chars().all(|letter| MISC.contains(letter))
    });
    left = misc.map_or(left, |(before, _)| before);
    left = last_word(left).filter(|(_, word)| is_cpu(word)).map_or(left, |(before, _)| before);
    // The name itself may be a number, but it is not right-aligned as numbers are.
    let pid = last_word(left)
        .filter(|(before, word)| is_pid(word) && (!before.is_empty() || word.contains('/')));
    pid.map_or(left, |(before, _)| before).trim_ascii()
}

/// Address of a frame, and the text after it. Of several addresses the last, because a data address precedes
/// it.
fn frame(text: &str) -> Option<(&str, &str)> {
    let cut = |text: &str| text.find([' ', '\t']).unwrap_or(text.len());
    let text = text.trim_ascii_start();
    let (mut address, mut rest) = text.split_at(cut(text));
    if !is_hex(address) {
        return None;
    }
    loop {
        let next = rest.trim_ascii_start();
        let (word, after) = next.split_at(cut(next));
        if !is_hex(word) || rest.len() - next.len() + word.len() < ADDRESS_WIDTH {
            return (!next.is_empty()).then_some((address, next));
        }
        (address, rest) = (word, after);
    }
}

/// The kernel's own text, and its modules, whose names are also in brackets.
fn is_of_kernel(file: &str) -> bool {
    const OF_PROGRAMS: [&str; 5] = ["[vdso]", "[vsyscall]", "[unknown]", "[stack]", "[heap]"];
    let is_bracketed = file.starts_with('[') && file.ends_with(']');
    (is_bracketed && !OF_PROGRAMS.contains(&file))
        || file.contains("vmlinux")
        || file.ends_with(".ko")
}

impl PerfScriptReader {
    pub(super) fn line(&mut self, line: &str, to: &mut ImportedStacks) {
        if line.is_empty() {
            return self.end(to);
        }
        if line == "#" || line.starts_with("# ") {
            return;
        }
        let header = if line.starts_with('\t') { None } else { line_of(line) };
        match header {
            Some(PerfScriptLine::Other) => self.end(to),
            Some(PerfScriptLine::Sample(header)) => self.begin(&header, to),
            None if self.is_open && line.starts_with([' ', '\t']) => {
                to.unknown_lines += u64::from(!self.within(line, to));
            }
            None => {
                self.end(to);
                self.orphans += u64::from(is_like(line));
                to.unknown_lines += 1;
            }
        }
    }

    fn begin(&mut self, header: &PerfScriptHeader<'_>, to: &mut ImportedStacks) {
        self.end(to);
        if header.process.is_empty() {
            self.nameless += 1;
            to.unknown_lines += 1;
            return;
        }
        if let Some(nanos) = header.nanos {
            to.time(nanos);
        }
        self.stack.begin(to.texts.number(header.process));
        self.numbered += u64::from(is_pid(header.process));
        self.stack.counts = header.counts;
        (self.is_open, self.is_bare) = (true, is_hex(header.rest.trim_ascii()));
        self.frame(header.rest, to);
    }

    /// The sample is complete.
    fn end(&mut self, to: &mut ImportedStacks) {
        if std::mem::take(&mut self.is_open) {
            let is_empty = self.stack.kernel.is_empty() && self.stack.user.is_empty();
            self.samples += 1;
            self.with_frames += u64::from(!is_empty);
            self.bare += u64::from(is_empty && self.is_bare);
            to.add(&self.stack, 1);
        }
    }

    /// The text is complete.
    ///
    /// # Errors
    /// A sentence that names the fields that are missing.
    pub(super) fn finish(&mut self, to: &mut ImportedStacks) -> Result<(), String> {
        self.end(to);
        let missing = match self {
            Self { samples: 0, nameless: 1.., .. } => "comm",
            Self { samples: 0, orphans: 1.., .. } => "event",
            Self { samples, numbered, .. } if *samples > 0 && samples == numbered => "comm",
            Self { samples: 1.., with_frames: 0, bare: 1.., .. } => "sym, dso",
            Self { samples: 1.., with_frames: 0, .. } => "ip, sym, dso",
            _ => return Ok(()),
        };
        Err(format!("it is output of perf script without these fields: {missing}"))
    }

    pub(super) fn kept_bytes(&self) -> u64 {
        self.frames.kept_bytes()
    }

    /// Takes a line of the sample under way; whether it is of a known form.
    fn within(&mut self, line: &str, to: &mut ImportedStacks) -> bool {
        if self.frame(line, to) {
            return true;
        }
        let text = line.trim_ascii();
        self.is_bare |= is_hex(text);
        let is_source = line.starts_with("  ") && !line[2..].starts_with([' ', '\t']);
        let is_branch = || text.split(' ').any(|word| word.matches('/').count() > 3);
        is_hex(text)
            || is_source
            || text.starts_with(['|', ':'])
            || text.starts_with("ABI:")
            || is_branch()
    }

    /// Adds the frame of a line to the stack.
    fn frame(&mut self, line: &str, to: &mut ImportedStacks) -> bool {
        let Some((address, text)) = frame(line) else { return false };
        match self.frames.get(text, || part(text, to)) {
            Some(PerfScriptFrame::Kernel(function)) => self.stack.kernel.push(function),
            Some(PerfScriptFrame::Either(function, _)) if is_in_kernel(address) => {
                self.stack.kernel.push(function)
            }
            Some(PerfScriptFrame::User(frame) | PerfScriptFrame::Either(_, frame)) => {
                self.stack.user.push(frame)
            }
            // Its function is missing.
            None => self.is_bare = true,
        }
        true
    }
}

/// The upper half of the address space is the kernel's.
fn is_in_kernel(address: &str) -> bool {
    address.len() == ADDRESS_WIDTH && address.starts_with(['8', '9', 'a', 'b', 'c', 'd', 'e', 'f'])
}

/// A frame without its address, numbered.
fn part(text: &str, to: &mut ImportedStacks) -> Option<PerfScriptFrame> {
    let (name, file) = place(text)?;
    if file.is_some_and(is_of_kernel) {
        return Some(PerfScriptFrame::Kernel(to.texts.number(name)));
    }
    let function = (name != UNKNOWN).then(|| to.texts.number(name));
    let path = to.texts.number(file.unwrap_or_default());
    let frame = to.frame(ImportedFrame { path, function, offset: 0 });
    Some(match file {
        Some(_) => PerfScriptFrame::User(frame),
        None => PerfScriptFrame::Either(to.texts.number(name), frame),
    })
}

/// perf's name for an unknown function.
const UNKNOWN: &str = "[unknown]";

/// Function and file of `FUNCTION[+OFFSET] [(FILE)]`; the file may end in ` (deleted)`. What other fields
/// print behind them is left out.
fn place(text: &str) -> Option<(&str, Option<&str>)> {
    let mut shown = text;
    while let Some((before, _)) = last_word(shown).filter(|(_, word)| is_of_other_field(word)) {
        shown = before;
    }
    let rest = shown.trim_ascii_end();
    let file = rest.strip_suffix(')').and_then(|rest| {
        let whole = rest.strip_suffix(" (deleted)").unwrap_or(rest);
        let bracket = whole.rfind('(')?;
        Some((
            whole[..bracket].strip_suffix(' ').unwrap_or(&whole[..bracket]),
            &whole[bracket + 1..],
        ))
    });
    let (function, file) = match file {
        Some((function, file)) if !function.is_empty() => (function, Some(file)),
        Some(_) => return None,
        None => (rest, None),
    };
    let offset = function.rfind('+').filter(|at| function[*at..].starts_with("+0x"));
    let name = offset.map_or(function, |at| &function[..at]).trim_ascii();
    (!name.is_empty()).then_some((name, file))
}

/// A branch, a register, a size of a page.
fn is_of_other_field(word: &str) -> bool {
    word.matches('/').count() > 3 && word.contains("0x")
        || word.contains(":0x")
        || word.starts_with("ABI:")
        || ["4K", "64K", "2M", "1G"].contains(&word)
}

#[cfg(test)]
mod tests;
