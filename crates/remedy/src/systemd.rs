//! Quoting for systemd, which parses its command lines by its own rules (systemd.service(5), "Command lines";
//! systemd.unit(5), "Specifiers").
//!
//! Inside double quotes a backslash escapes as in C, `$` starts a variable (in command lines, not in
//! `Environment=`), and `%` a specifier. Settings that contain a path are not unquoted at all. Control
//! characters and invalid UTF-8 have no form that all versions read alike: they are refused.

use std::ffi::OsStr;

/// Why something cannot be written in a drop-in, as a phrase after its name.
pub(crate) type Refusal = &'static str;

fn text(value: &OsStr) -> Result<&str, Refusal> {
    let text = value.to_str().ok_or("is not UTF-8")?;
    if text.chars().any(char::is_control) {
        return Err("holds a control character");
    }
    Ok(text)
}

fn escaped(text: &str, dollar: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '\\' | '"' => out.extend(['\\', c]),
            '%' => out.push_str("%%"),
            '$' => out.push_str(dollar),
            c => out.push(c),
        }
    }
    out
}

/// One argument of an `ExecStart=` line.
pub(crate) fn argument(word: &OsStr) -> Result<String, Refusal> {
    let text = text(word)?;
    let is_safe = |c: char| c.is_ascii_alphanumeric() || "@+=:,./-_".contains(c);
    if !text.is_empty() && text.chars().all(is_safe) {
        return Ok(text.to_owned());
    }
    Ok(format!("\"{}\"", escaped(text, "$$")))
}

/// The program of an `ExecStart=` line: an absolute path, in which variables are not expanded.
pub(crate) fn program(path: &OsStr) -> Result<String, Refusal> {
    if text(path)?.contains('$') {
        return Err("holds a `$`, which a program name cannot contain");
    }
    argument(path)
}

/// An assignment of an `Environment=` line.
pub(crate) fn assignment(name: &str, value: &OsStr) -> Result<String, Refusal> {
    Ok(format!("\"{name}={}\"", escaped(text(value)?, "$")))
}

/// A path alone after the `=` of a setting: it ends with the line.
pub(crate) fn path(path: &OsStr) -> Result<String, Refusal> {
    let text = text(path)?;
    if !text.starts_with('/') {
        // `~` and `-` have special meanings.
        return Err("is no absolute path");
    }
    if text.ends_with(|c: char| c == '\\' || c.is_whitespace()) {
        return Err("ends in a space or a backslash");
    }
    Ok(text.replace('%', "%%"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_written_as_systemd_reads_them() {
        let word = |text: &str| argument(OsStr::new(text));
        assert_eq!(word("--with=heap-huge").as_deref(), Ok("--with=heap-huge"));
        assert_eq!(word("").as_deref(), Ok("\"\""));
        assert_eq!(word("it's").as_deref(), Ok("\"it's\""));
        assert_eq!(word(r"a\tb").as_deref(), Ok(r#""a\\tb""#));
        assert_eq!(word(r#"say "${HOME}" $$ 5%"#).as_deref(), Ok(r#""say \"$${HOME}\" $$$$ 5%%""#));
        assert_eq!(word(";").as_deref(), Ok("\";\""));
    }

    #[test]
    fn what_has_no_form_is_refused() {
        assert!(argument(OsStr::new("a\nb")).unwrap_err().contains("control"));
        let odd: &OsStr = std::os::unix::ffi::OsStrExt::from_bytes(b"\xe9");
        assert!(argument(odd).unwrap_err().contains("UTF-8"));
        assert!(program(OsStr::new("/opt/$x/y")).is_err());
        assert!(path(OsStr::new("/in/a ")).is_err());
        assert!(["~", "-/in", "in"].iter().all(|odd| path(OsStr::new(odd)).is_err()));
        assert_eq!(path(OsStr::new("/in/a b%")).as_deref(), Ok("/in/a b%%"));
        let env = assignment("A", OsStr::new(r#"x$y%"\"#));
        assert_eq!(env.as_deref(), Ok(r#""A=x$y%%\"\\""#));
    }
}
