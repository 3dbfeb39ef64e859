//! The text of `perf script`: a header for each sample, then its frames, the innermost first.
//!
//! ```text
//! awk 4711/4711 [001] 12.345678:    250000 cpu-clock:
//!         ffffffff81000000 clear_page_erms+0x7 ([kernel.kallsyms])
//!             55d4c0a01234 main+0x24 (/usr/bin/mawk)
//! ```

use super::{Key, Stacks};

/// One sample while its lines come.
#[derive(Debug, Default)]
pub(super) struct Script {
    /// None before the first header.
    current: Option<Key>,
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
            let is_taken = self.current.as_mut().is_some_and(|key| frame(line, key));
            to.unknown_lines += u64::from(!is_taken);
            return;
        }
        self.end(to);
        match header(line) {
            Some(header) => {
                if let Some(nanos) = header.nanos {
                    to.nanos = to.nanos.saturating_add(nanos);
                    to.timed += 1;
                }
                self.current = Some(Key { process: header.process, ..Key::default() });
            }
            None => to.unknown_lines += 1,
        }
    }

    /// The sample is complete.
    pub(super) fn end(&mut self, to: &mut Stacks) {
        if let Some(key) = self.current.take() {
            to.add(key, 1);
        }
    }
}

/// Adds `ADDRESS FUNCTION[+OFFSET] (FILE)` to the stack.
fn frame(line: &str, key: &mut Key) -> bool {
    let Some((_, rest)) = line.trim().split_once(' ') else { return false };
    let Some((function, file)) = rest.trim_end_matches(')').rsplit_once(" (") else { return false };
    let function = function.split_once("+0x").map_or(function, |(name, _)| name).trim();
    let function = if function == "[unknown]" { "" } else { function };
    if is_of_kernel(file) {
        key.kernel.push(function.to_owned());
    } else {
        key.user.push((file.to_owned(), function.to_owned()));
    }
    true
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
    fn the_kernel_is_known_by_the_file() {
        for kernel in ["[kernel.kallsyms]", "[ext4]", "/usr/lib/debug/vmlinux-6.1", "/x/nvme.ko"] {
            assert!(is_of_kernel(kernel), "{kernel}");
        }
        for program in ["[vdso]", "[unknown]", "/usr/bin/awk", "//anon", "inlined"] {
            assert!(!is_of_kernel(program), "{program}");
        }
    }
}
