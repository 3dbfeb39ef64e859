//! Messages of the tools, worded as in the C library: scripts compare them.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;

/// Prints a line with the tool's name on standard error.
pub(super) fn tell(tool: &str, text: &str) {
    // A failed message is no reason to stop.
    let _heard = writeln!(io::stderr(), "{tool}: {text}");
}

/// The text of `strerror(3)`, without the number that the standard library adds.
pub(super) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match error.raw_os_error() {
        Some(code) => text.trim_end_matches(&format!(" (os error {code})")).to_owned(),
        None => text,
    }
}

/// A name as GNU's tools show it: plain if a shell needs no quotes, else quoted for a shell. Control bytes
/// and invalid UTF-8 become `$'\\nnn'`.
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
}
