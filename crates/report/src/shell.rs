//! Quoting for a POSIX shell, so that a printed command equals the command that was run.
//!
//! Plain words stay bare; others go in single quotes. Characters that must not reach a terminal are written
//! as `"$(printf '\033')"`, which every shell since POSIX.2 understands. Command substitution removes
//! newlines at its end, so a newline takes the next character along. At the end of a word, a newline stands
//! in quotes. NUL cannot occur in an argument.

use crate::escape::is_hostile;
use crate::history::kind_label;
use pagewise_model::run::SavedRun;
use std::fmt::Write as _;

/// Words with a special meaning in the position of a command name.
const RESERVED: [&str; 20] = [
    "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "foreach", "function",
    "if", "in", "repeat", "select", "then", "time", "until", "while", "end",
];

fn is_bare(word: &str) -> bool {
    !word.is_empty()
        && !word.starts_with('=')
        && word.chars().all(|c| c.is_ascii_alphanumeric() || "@%+=:,./-_".contains(c))
}

/// One argument as a word for the shell.
#[must_use]
pub fn quote(word: &str) -> String {
    if is_bare(word) { word.to_owned() } else { quote_always(word) }
}

/// One argument of any bytes as a word for the shell; printf also writes invalid UTF-8.
#[must_use]
pub fn quote_bytes(word: &[u8]) -> String {
    if let Ok(text) = std::str::from_utf8(word) {
        return quote(text);
    }
    let mut out = String::new();
    for chunk in word.utf8_chunks() {
        if !chunk.valid().is_empty() {
            out.push_str(&quote_always(chunk.valid()));
        }
        push_printf(&mut out, chunk.invalid());
    }
    out
}

/// A whole command line; its first word cannot be taken for an assignment or a keyword.
#[must_use]
pub fn command_line<S: AsRef<str>>(argv: &[S]) -> String {
    let words = argv.iter().enumerate().map(|(i, word)| {
        let word = word.as_ref();
        let special = i == 0 && (word.contains('=') || RESERVED.contains(&word));
        if special { quote_always(word) } else { quote(word) }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The command line of a run's program, with its input.
#[must_use]
pub fn start_line(run: &SavedRun) -> String {
    let input = run.input.as_ref().map_or(String::new(), |file| format!(" < {}", quote(file)));
    command_line(&run.command) + &input
}

/// The command line that started the session of a run, for typing it again. Runs of older versions lack the
/// options.
pub(crate) fn session_line(run: &SavedRun) -> String {
    let kind = kind_label(run.kind);
    match (run.asked.as_slice(), run.asked_service()) {
        ([], Some(service)) => {
            command_line(&["pagewise", kind, "--serve", &service.serve, "--load", &service.load])
        }
        ([], None) => format!("pagewise {kind} -- {}", start_line(run)),
        (words, _) => format!(
            "pagewise {}",
            words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ")
        ),
    }
}

fn quote_always(word: &str) -> String {
    let mut out = String::new();
    let mut rest = word;
    while !rest.is_empty() {
        let plain = rest.find(is_hostile).unwrap_or(rest.len());
        push_single(&mut out, &rest[..plain]);
        rest = &rest[plain..];
        let raw = raw_run(rest);
        push_printf(&mut out, &rest.as_bytes()[..raw]);
        rest = &rest[raw..];
        if rest.chars().all(|c| c == '\n') {
            push_single(&mut out, rest);
            rest = "";
        }
    }
    if out.is_empty() { "''".to_owned() } else { out }
}

/// Length of the prefix of `text` that printf writes: hostile characters, and one more if the prefix would
/// end in a newline. Excludes newlines at the end of the word.
fn raw_run(text: &str) -> usize {
    let body = text.trim_end_matches('\n');
    let run = body.find(|c| !is_hostile(c)).unwrap_or(body.len());
    match body[run..].chars().next() {
        Some(next) if body[..run].ends_with('\n') => run + next.len_utf8(),
        _ => run,
    }
}

fn push_single(out: &mut String, text: &str) {
    if !text.is_empty() {
        out.push('\'');
        out.push_str(&text.replace('\'', "'\\''"));
        out.push('\'');
    }
}

fn push_printf(out: &mut String, bytes: &[u8]) {
    if !bytes.is_empty() {
        out.push_str("\"$(printf '");
        for byte in bytes {
            // Writing to a String cannot fail.
            let _ = write!(out, "\\{byte:03o}");
        }
        out.push_str("')\"");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::process::Command;

    fn through_shell(line: &str) -> Vec<u8> {
        let script = format!("printf '%s\\0' {line}");
        Command::new("sh").arg("-c").arg(script).output().unwrap().stdout
    }

    #[test]
    fn ordinary_words_stay_bare() {
        assert_eq!(quote("--with=heap-huge"), "--with=heap-huge");
        assert_eq!(quote("a b"), "'a b'");
        assert_eq!(quote(""), "''");
        assert_eq!(quote("it's"), "'it'\\''s'");
        assert_eq!(quote("a\x1bb"), "'a'\"$(printf '\\033')\"'b'");
        assert_eq!(command_line(&["if", "=x", "A=b"]), "'if' '=x' A=b");
        assert_eq!(command_line(&["A=b"]), "'A=b'");
    }

    #[test]
    fn newlines_survive() {
        for word in ["\n", "a\n", "a\n\nb", "\n\n\x1b\n\n", "\x1b\n", "\nx\n", "\n'", "é\né"] {
            let mut want = word.as_bytes().to_vec();
            want.push(0);
            assert_eq!(through_shell(&quote(word)), want, "{word:?} as {}", quote(word));
        }
    }

    #[test]
    fn bytes_that_are_not_utf8_survive() {
        assert_eq!(quote_bytes(b"caf\xe9"), "'caf'\"$(printf '\\351')\"");
        for word in [&b"\xe9"[..], b"\xff\n", b"\n\xff \xfe'", b"a b", b"", b"\x1b\xe9\n\n"] {
            let mut want = word.to_vec();
            want.push(0);
            assert_eq!(through_shell(&quote_bytes(word)), want, "{word:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn round_trip_through_sh(words in prop::collection::vec("[^\0]{0,12}", 1..8)) {
            let line: Vec<String> = words.iter().map(|w| quote(w)).collect();
            let mut want = Vec::new();
            for word in &words {
                want.extend_from_slice(word.as_bytes());
                want.push(0);
            }
            prop_assert_eq!(through_shell(&line.join(" ")), want);
        }

        #[test]
        fn only_newline_is_left_raw(word in any::<String>()) {
            prop_assert!(!quote(&word).chars().any(|c| c != '\n' && is_hostile(c)));
        }
    }
}
