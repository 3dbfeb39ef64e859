//! Foreign text, made harmless and measured in terminal cells.
//!
//! Escaped are control characters (C0, C1, DEL), and characters that are invisible or reorder others (bidi
//! overrides and isolates, zero-width, tags, variation selectors). Invalid UTF-8 bytes become `\xNN`. A
//! backslash stays unchanged, so the result is for reading, not for parsing back.

use std::fmt::Write as _;
use unicode_width::UnicodeWidthChar;

/// Non-control characters that hide, join or reorder text; inclusive ranges.
const DECEPTIVE: [(u32, u32); 18] = [
    (0xad, 0xad),
    (0x34f, 0x34f),
    (0x61c, 0x61c),
    (0x115f, 0x1160),
    (0x17b4, 0x17b5),
    (0x180b, 0x180f),
    (0x200b, 0x200f),
    (0x2028, 0x202e),
    (0x2060, 0x206f),
    (0x2800, 0x2800),
    (0x3164, 0x3164),
    (0xfe00, 0xfe0f),
    (0xfeff, 0xfeff),
    (0xffa0, 0xffa0),
    (0xfff0, 0xfffb),
    (0xfffe, 0xffff),
    (0x1d173, 0x1d17a),
    (0xe0000, 0xe0fff),
];

fn within(ranges: &[(u32, u32)], c: char) -> bool {
    let code = u32::from(c);
    ranges.iter().any(|&(first, last)| (first..=last).contains(&code))
}

/// True for characters that must not reach a terminal unescaped.
#[must_use]
pub fn is_hostile(c: char) -> bool {
    c.is_control() || within(&DECEPTIVE, c)
}

/// `text` with all hostile characters spelled out.
#[must_use]
pub fn escape(text: &str) -> String {
    escape_for(text, true)
}

/// As [`escape`], for a terminal that may lack characters: without `unicode`, also escapes everything beyond ASCII.
#[must_use]
pub fn escape_for(text: &str, unicode: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_ascii_control() => push_hex(&mut out, c as u8),
            c if is_hostile(c) || (!unicode && !c.is_ascii()) => {
                out.extend(c.escape_unicode());
            }
            c => out.push(c),
        }
    }
    out
}

fn push_hex(out: &mut String, byte: u8) {
    // Writing to a String cannot fail.
    let _ = write!(out, "\\x{byte:02x}");
}

fn char_cells(c: char) -> usize {
    c.width().unwrap_or(0)
}

/// Terminal cells that escaped `text` takes.
#[must_use]
pub fn cells(text: &str) -> usize {
    text.chars().map(char_cells).sum()
}

/// Byte length of the longest prefix of `text` that fits `width` cells.
pub(crate) fn fitting_start(text: &str, width: usize) -> usize {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += char_cells(c);
        if used > width {
            return at;
        }
    }
    text.len()
}

/// Byte offset of the longest suffix of `text` that fits `width` cells.
fn fitting_end(text: &str, width: usize) -> usize {
    let mut used = 0;
    let mut start = text.len();
    for (at, c) in text.char_indices().rev() {
        used += char_cells(c);
        if used > width {
            break;
        }
        start = at;
    }
    start
}

/// `text` cut in the middle to at most `width` cells: the ends of a path are the most useful. The mark of the
/// cut is `…`, or `...` without `unicode`.
#[must_use]
pub fn shorten(text: &str, width: usize, unicode: bool) -> String {
    cut(text, width, unicode, |room| room / 2)
}

/// `text` cut at its end to at most `width` cells, with the mark of [`shorten`].
pub(crate) fn cut_end(text: &str, width: usize, unicode: bool) -> String {
    cut(text, width, unicode, |_| 0)
}

/// `tail` returns how many of the cells beside the mark are for the end of the text.
fn cut(text: &str, width: usize, unicode: bool, tail: fn(usize) -> usize) -> String {
    if cells(text) <= width {
        return text.to_owned();
    }
    let mark = if unicode { "…" } else { "..." };
    let Some(room) = width.checked_sub(cells(mark)) else {
        return text[..fitting_start(text, width)].to_owned();
    };
    let head = &text[..fitting_start(text, room - tail(room))];
    let tail = &text[fitting_end(text, tail(room))..];
    format!("{head}{mark}{tail}")
}

/// Lines of escaped `text`, broken at spaces, at most `width` cells wide. A longer word is split into pieces
/// without loss.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(2);
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split(' ').filter(|w| !w.is_empty()) {
        let mut rest = word;
        if !line.is_empty() && cells(&line) + 1 + cells(rest) > width {
            lines.push(std::mem::take(&mut line));
        }
        // Each piece is measured once, so the time is linear in the length of the word.
        loop {
            let (piece, more) = rest.split_at(fitting_start(rest, width));
            if more.is_empty() {
                break;
            }
            lines.push(piece.to_owned());
            rest = more;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(rest);
    }
    if !line.is_empty() || lines.is_empty() {
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hostile_text_is_spelled_out() {
        assert_eq!(escape_for("a\x1b[31mb", true), "a\\x1b[31mb");
        assert_eq!(escape_for("x\u{9b}31m", true), "x\\u{9b}31m");
        assert_eq!(escape_for("exe\u{202e}cod", true), "exe\\u{202e}cod");
        assert_eq!(escape_for("a\nb\tc\rd\u{7f}", true), "a\\nb\\tc\\rd\\x7f");
        assert_eq!(escape_for("zero\u{200b}width\u{2066}", true), "zero\\u{200b}width\\u{2066}");
        assert_eq!(escape_for("naïve", true), "naïve");
        assert_eq!(escape_for("naïve", false), "na\\u{ef}ve");
    }

    #[test]
    fn shortened_in_the_middle() {
        assert_eq!(shorten("/usr/lib/program", 9, true), "/usr…gram");
        assert_eq!(shorten("/usr/lib/program", 9, false), "/us...ram");
        assert_eq!(shorten("short", 9, true), "short");
        assert_eq!(shorten("漢字漢字", 5, true), "漢…字");
        assert_eq!(shorten("abcdef", 2, false), "ab");
        assert_eq!(cut_end("sort --parallel=2 text", 9, true), "sort --p…");
        assert_eq!(cut_end("sort --parallel=2 text", 9, false), "sort -...");
    }

    #[test]
    fn wrapping_loses_nothing() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("abcdefghij kl", 4), ["abcd", "efgh", "ij", "kl"]);
        assert_eq!(wrap("", 4), [""]);
    }

    proptest! {
        #[test]
        fn nothing_hostile_survives(text in any::<String>(), unicode in any::<bool>()) {
            let escaped = escape_for(&text, unicode);
            prop_assert!(!escaped.chars().any(is_hostile));
            prop_assert!(unicode || escaped.is_ascii());
            prop_assert_eq!(escape_for(&escaped, unicode), escaped);
        }

        #[test]
        fn width_is_kept(text in "\\PC{0,80}", width in 2usize..60) {
            let escaped = escape_for(&text, true);
            prop_assert!(cells(&shorten(&escaped, width, true)) <= width);
            let lines = wrap(&escaped, width);
            prop_assert!(lines.iter().all(|l| cells(l) <= width));
            let kept: String = lines.concat().replace(' ', "");
            prop_assert_eq!(kept, escaped.replace(' ', ""));
        }
    }
}
