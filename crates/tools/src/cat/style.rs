//! The options of `cat` that change its output: line numbers, ends, tabs, other bytes, squeezed lines.
//!
//! A state machine over chunks of any size: chunk boundaries must not affect the output. Line numbers and the
//! state of a line continue from file to file, as in POSIX's and GNU's cat.

use std::io::Write;

/// The options that change what is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CatStyle {
    /// `-n`, and `-b`: number lines.
    pub(super) number: bool,
    /// `-b`: number only non-empty lines.
    pub(super) nonblank: bool,
    /// `-s`: repeated empty lines are one.
    pub(super) squeeze: bool,
    /// `-E`: `$` at the end of lines.
    pub(super) ends: bool,
    /// `-T`: `^I` for a tab.
    pub(super) tabs: bool,
    /// `-v`: `^X` and `M-X` for non-printing bytes.
    pub(super) nonprinting: bool,
}

impl CatStyle {
    /// Whether bytes pass through unchanged.
    pub(super) fn is_plain(self) -> bool {
        self == Self::default()
    }
}

/// Position of the output within its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinePosition {
    /// At a line's start, after this number of empty lines (2 means two or more).
    Start(u8),
    /// Within a line.
    Within,
}

/// The state between chunks.
#[derive(Debug)]
pub(super) struct CatFormatter {
    style: CatStyle,
    at: LinePosition,
    line: u64,
    /// The last byte read was a carriage return, and the next one is not known yet.
    return_held: bool,
}

impl CatFormatter {
    /// At the start of the first file.
    pub(super) fn new(style: CatStyle) -> Self {
        Self { style, at: LinePosition::Start(0), line: 0, return_held: false }
    }

    /// Appends `chunk` to `out` in the requested style.
    pub(super) fn show(&mut self, chunk: &[u8], out: &mut Vec<u8>) {
        for &byte in chunk {
            if byte == b'\n' {
                self.end_line(out);
            } else {
                self.release(out);
                self.start_line(out);
                self.show_byte(byte, out);
            }
        }
    }

    /// Appends the byte that was held back; called after the last file.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        self.release(out);
    }

    fn release(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.return_held) {
            out.push(b'\r');
        }
    }

    fn end_line(&mut self, out: &mut Vec<u8>) {
        match self.at {
            LinePosition::Within => self.at = LinePosition::Start(0),
            LinePosition::Start(empty) => {
                self.at = LinePosition::Start((empty + 1).min(2));
                if self.style.squeeze && empty >= 1 {
                    return;
                }
                if self.style.number && !self.style.nonblank {
                    self.number(out);
                }
            }
        }
        if self.style.ends {
            if std::mem::take(&mut self.return_held) {
                out.extend_from_slice(b"^M");
            }
            out.push(b'$');
        }
        out.push(b'\n');
    }

    fn start_line(&mut self, out: &mut Vec<u8>) {
        if self.at != LinePosition::Within {
            self.at = LinePosition::Within;
            if self.style.number {
                self.number(out);
            }
        }
    }

    fn number(&mut self, out: &mut Vec<u8>) {
        self.line += 1;
        // Writing into a vector cannot fail.
        let _written = write!(out, "{:6}\t", self.line);
    }

    fn show_byte(&mut self, byte: u8, out: &mut Vec<u8>) {
        match byte {
            b'\t' if self.style.tabs => out.extend_from_slice(b"^I"),
            b'\t' => out.push(byte),
            _ if self.style.nonprinting => show_nonprinting(byte, out),
            b'\r' if self.style.ends => self.return_held = true,
            _ => out.push(byte),
        }
    }
}

fn show_nonprinting(byte: u8, out: &mut Vec<u8>) {
    let low = byte & 0x7f;
    if byte >= 0x80 {
        out.extend_from_slice(b"M-");
    }
    match low {
        0..=31 => out.extend_from_slice(&[b'^', low + 64]),
        127 => out.extend_from_slice(b"^?"),
        _ => out.push(low),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(style: CatStyle, chunks: &[&[u8]]) -> String {
        let (mut styled, mut out) = (CatFormatter::new(style), Vec::new());
        for chunk in chunks {
            styled.show(chunk, &mut out);
        }
        styled.finish(&mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn numbers_go_on_and_blank_lines_count_only_for_n() {
        let number = CatStyle { number: true, ..CatStyle::default() };
        assert_eq!(shown(number, &[b"a\n\nb"]), "     1\ta\n     2\t\n     3\tb");
        assert_eq!(shown(number, &[b"a", b"b\nc"]), "     1\tab\n     2\tc");
        let nonblank = CatStyle { nonblank: true, ..number };
        assert_eq!(shown(nonblank, &[b"a\n\nb"]), "     1\ta\n\n     2\tb");
    }

    #[test]
    fn squeezing_leaves_one_empty_line() {
        let squeeze = CatStyle { squeeze: true, ..CatStyle::default() };
        assert_eq!(shown(squeeze, &[b"\n\n\na\n", b"\n\n", b"\nb\n"]), "\na\n\nb\n");
    }

    #[test]
    fn a_return_before_the_end_shows_only_there() {
        let ends = CatStyle { ends: true, ..CatStyle::default() };
        assert_eq!(shown(ends, &[b"a\r", b"\nb\rc\n"]), "a^M$\nb\rc$\n");
        assert_eq!(shown(ends, &[b"a\r"]), "a\r");
    }

    #[test]
    fn all_bytes_have_their_signs() {
        let all = CatStyle { ends: true, tabs: true, nonprinting: true, ..CatStyle::default() };
        assert_eq!(
            shown(all, &[b"\0\t\x1f \x7f\x80\x9f\xa0\xfe\xff\n"]),
            "^@^I^_ ^?M-^@M-^_M- M-~M-^?$\n"
        );
    }
}
