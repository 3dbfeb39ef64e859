//! Messages of the tools, in the words of the C library: scripts compare them.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

/// A line on standard error that names the tool.
pub(super) fn tell(tool: &str, text: &str) {
    // A message that nobody can hear is no reason to stop.
    let _heard = writeln!(io::stderr(), "{tool}: {text}");
}

/// The words of `strerror(3)`, without the number that the standard library adds.
pub(super) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match error.raw_os_error() {
        Some(code) => text.trim_end_matches(&format!(" (os error {code})")).to_owned(),
        None => text,
    }
}

/// A name as GNU's tools show it: bare where a shell would take it so, else quoted for one, with
/// control bytes and what is not UTF-8 as `$'\\nnn'`.
pub(super) fn quoted(name: &OsStr) -> String {
    let bytes = name.as_bytes();
    let is_bare = |b: &u8| b.is_ascii_alphanumeric() || b"%+,-./:=@_".contains(b) || *b >= 0x80;
    let is_text = name.to_str().is_some_and(|text| !text.chars().any(char::is_control));
    if !bytes.is_empty() && is_text && bytes.iter().all(is_bare) {
        return name.to_string_lossy().into_owned();
    }
    if is_text && bytes.contains(&b'\'') && !bytes.iter().any(|b| b"\"$`\\!".contains(b)) {
        return format!("\"{}\"", name.to_string_lossy());
    }
    let mut text = String::from("'");
    let mut is_escaped = false;
    let mut turn = |text: &mut String, escaped: bool| {
        if is_escaped != escaped {
            text.push_str(if escaped { "'$'" } else { "''" });
            is_escaped = escaped;
        }
    };
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            let is_control = letter.is_control();
            turn(&mut text, is_control);
            match letter {
                '\'' => text.push_str("'\\''"),
                letter if is_control => {
                    let mut unit = [0; 4];
                    letter.encode_utf8(&mut unit).bytes().for_each(|byte| text += &escape(byte));
                }
                letter => text.push(letter),
            }
        }
        for byte in chunk.invalid() {
            turn(&mut text, true);
            text += &escape(*byte);
        }
    }
    text.push('\'');
    text
}

/// A byte within `$'...'`.
fn escape(byte: u8) -> String {
    match byte {
        b'\n' => "\\n".to_owned(),
        b'\t' => "\\t".to_owned(),
        b'\r' => "\\r".to_owned(),
        byte => format!("\\{byte:03o}"),
    }
}

/// The long option that `name` is, whole or as the beginning of one only.
pub(super) fn complete<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let mut beginning = known.iter().filter(|option| option.starts_with(name));
    let whole = known.iter().find(|option| **option == name);
    match (whole, beginning.next(), beginning.next()) {
        (Some(option), ..) | (None, Some(option), None) => Some(option),
        _ => None,
    }
}

/// A usage error, told.
pub(super) fn misused(tool: &str, what: &str) -> ExitCode {
    tell(tool, &format!("{what}\nTry 'pagewise {tool} --help' for more information."));
    ExitCode::FAILURE
}

/// Help or version, printed.
pub(super) fn print(tool: &str, text: &str) -> ExitCode {
    match io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tell(tool, &format!("write error: {}", reason(&error)));
            ExitCode::FAILURE
        }
    }
}

/// The line that `--version` prints.
pub(super) fn version(tool: &str) -> String {
    format!("{tool} (pagewise) {}\n", env!("CARGO_PKG_VERSION"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_where_a_shell_needs_it() {
        for (name, shown) in [
            ("plain-name_1.txt", "plain-name_1.txt"),
            ("a b", "'a b'"),
            ("it's", "\"it's\""),
            ("it's $5", "'it'\\''s $5'"),
            ("", "''"),
            ("a\nb", "'a'$'\\n''b'"),
            ("a\u{1b}[31mb", "'a'$'\\033''[31mb'"),
        ] {
            assert_eq!(quoted(OsStr::new(name)), shown);
        }
        assert_eq!(quoted(OsStr::from_bytes(b"a\xffb")), "'a'$'\\377''b'");
        assert_eq!(quoted(OsStr::new("a\n\n")), "'a'$'\\n\\n'");
    }

    #[test]
    fn an_option_may_be_cut_while_it_is_the_only_one() {
        let known = ["show-all", "show-ends", "squeeze-blank", "show"];
        assert_eq!(complete("sq", &known), Some("squeeze-blank"));
        assert_eq!(complete("show-e", &known), Some("show-ends"));
        assert_eq!(complete("show", &known), Some("show"));
        assert_eq!(complete("sho", &known), None);
        assert_eq!(complete("x", &known), None);
    }
}
