//! The text of `perf script`: a header for each sample, then its frames, the innermost first.
//!
//! ```text
//! awk 4711/4711 [001] 12.345678:    250000 cpu-clock:
//!         ffffffff81000000 clear_page_erms+0x7 ([kernel.kallsyms])
//!             55d4c0a01234 main+0x24 (/usr/bin/mawk)
//! ```

use super::stacks::{Frame, Seen, Stack, Stacks};

/// One sample while its lines come.
#[derive(Debug, Default)]
pub(super) struct Script {
    /// The sample under way, if its header has come.
    stack: Stack,
    is_open: bool,
    /// By the lines without their addresses; none where such a line is no frame.
    frames: Seen<Option<Part>>,
}

/// A frame by its number.
#[derive(Debug, Clone, Copy)]
enum Part {
    Kernel(u32),
    User(u32),
}

/// What a header says.
#[derive(Debug, PartialEq, Eq)]
struct Header {
    process: String,
    /// Period of an event that counts nanoseconds.
    nanos: Option<u64>,
}

/// Whether this line begins a sample.
pub(super) fn is_header(line: &str) -> bool {
    header(line).is_some()
}

/// `COMM PID[/TID] [CPU] TIME: [PERIOD] EVENT:`, where COMM may hold blanks and CPU may be left out.
fn header(line: &str) -> Option<Header> {
    if line.starts_with(char::is_whitespace) {
        return None;
    }
    let mut rest = line;
    let mut process = String::new();
    loop {
        let (word, after) = rest.split_once(' ')?;
        let is_pid = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let has_pid = word.split('/').all(is_pid) && !process.is_empty();
        rest = after.trim_start();
        if has_pid && is_time(rest) {
            break;
        }
        if !process.is_empty() {
            process.push(' ');
        }
        process.push_str(word);
    }
    let (_, event) = rest.split_once(": ")?;
    let mut words = event.split_whitespace();
    let (first, second) = (words.next()?, words.next());
    let nanos = match (first.parse(), second) {
        (Ok(period), Some(name)) if name.contains("clock") => Some(period),
        _ => None,
    };
    Some(Header { process, nanos })
}

/// `[CPU] TIME:` or `TIME:`.
fn is_time(text: &str) -> bool {
    let text = match text.strip_prefix('[') {
        Some(cpu) => cpu.split_once(']').map_or("", |(_, rest)| rest.trim_start()),
        None => text,
    };
    let time = text.split(':').next().unwrap_or_default();
    time.contains('.') && time.bytes().all(|b| b.is_ascii_digit() || b == b'.')
}

/// The kernel's own text, and its modules, whose names stand in brackets too.
fn is_of_kernel(file: &str) -> bool {
    const OF_PROGRAMS: [&str; 5] = ["[vdso]", "[vsyscall]", "[unknown]", "[stack]", "[heap]"];
    let is_bracketed = file.starts_with('[') && file.ends_with(']');
    (is_bracketed && !OF_PROGRAMS.contains(&file))
        || file.contains("vmlinux")
        || file.ends_with(".ko")
}

impl Script {
    pub(super) fn line(&mut self, line: &str, to: &mut Stacks) {
        if line.is_empty() {
            return self.end(to);
        }
        if line.starts_with('#') {
            return;
        }
        if line.starts_with(char::is_whitespace) {
            let is_taken = self.is_open && self.frame(line, to);
            to.unknown_lines += u64::from(!is_taken);
            return;
        }
        self.end(to);
        match header(line) {
            Some(header) => {
                if let Some(nanos) = header.nanos {
                    to.time(nanos);
                }
                self.stack.begin(to.texts.number(&header.process));
                self.is_open = true;
            }
            None => to.unknown_lines += 1,
        }
    }

    /// The sample is complete.
    pub(super) fn end(&mut self, to: &mut Stacks) {
        if std::mem::take(&mut self.is_open) {
            to.add(&self.stack, 1);
        }
    }

    /// Adds the frame of a line to the stack: `ADDRESS FUNCTION[+OFFSET] (FILE)`.
    fn frame(&mut self, line: &str, to: &mut Stacks) -> bool {
        let Some((_, text)) = line.trim_ascii_start().split_once(' ') else { return false };
        match self.frames.get(text, || part(text, to)) {
            Some(Part::Kernel(function)) => self.stack.kernel.push(function),
            Some(Part::User(frame)) => self.stack.user.push(frame),
            None => return false,
        }
        true
    }
}

/// A frame without its address, numbered.
fn part(text: &str, to: &mut Stacks) -> Option<Part> {
    let (function, file) = place(text)?;
    if is_of_kernel(file) {
        return Some(Part::Kernel(to.texts.number(function)));
    }
    let function = (function != UNKNOWN).then(|| to.texts.number(function));
    let path = to.texts.number(file);
    Some(Part::User(to.frame(Frame { path, function, offset: 0 })))
}

/// What perf calls a function that it does not know.
const UNKNOWN: &str = "[unknown]";

/// Function and file of `FUNCTION[+OFFSET] (FILE)`; the file may end in ` (deleted)`.
fn place(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_suffix(')').unwrap_or(text);
    let whole = rest.strip_suffix(" (deleted)").unwrap_or(rest);
    let bracket = whole.rfind('(').filter(|at| *at > 0 && whole.as_bytes()[at - 1] == b' ')?;
    let (function, file) = (&whole[..bracket - 1], &whole[bracket + 1..]);
    let offset = function.rfind('+').filter(|at| function[*at..].starts_with("+0x"));
    Some((offset.map_or(function, |at| &function[..at]).trim_ascii(), file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_all_forms_are_known() {
        let of = |line| header(line).map(|header| (header.process, header.nanos));
        let long = "tmux: server 4711/4712 [003] 12.345678:     250000 cpu-clock:pppH: ";
        assert_eq!(of(long), Some(("tmux: server".to_owned(), Some(250_000))));
        let short = "awk  4711 12.345678: cycles: ";
        assert_eq!(of(short), Some(("awk".to_owned(), None)));
        let counted = "sh 1 [000] 1.5:    1 cycles:";
        assert_eq!(of(counted), Some(("sh".to_owned(), None)));
        for other in ["", "awk", "awk 4711 x: cycles:", "\tffff f (x)", "a;b 3"] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn a_frame_is_a_function_in_a_file() {
        for (text, want) in [
            ("main+0x24 (/usr/bin/mawk)", Some(("main", "/usr/bin/mawk"))),
            ("[unknown] (/lib/libc.so.6)", Some(("[unknown]", "/lib/libc.so.6"))),
            ("f<int (*)(int)>+0x3 (/a b (deleted))", Some(("f<int (*)(int)>", "/a b"))),
            ("operator+ (/a)", Some(("operator+", "/a"))),
            (" (/a)", Some(("", "/a"))),
            ("main", None),
            ("(", None),
        ] {
            assert_eq!(place(text), want, "{text}");
        }
    }

    #[test]
    fn the_kernel_is_known_by_the_file() {
        for kernel in ["[kernel.kallsyms]", "[ext4]", "/usr/lib/debug/vmlinux-6.1", "/x/nvme.ko"] {
            assert!(is_of_kernel(kernel), "{kernel}");
        }
        for program in ["[vdso]", "[unknown]", "/usr/bin/awk", "//anon", "inlined"] {
            assert!(!is_of_kernel(program), "{program}");
        }
    }
}
