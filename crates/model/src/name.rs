//! Names in saved files that pagewise writes elsewhere: as a file of its own, as a line of a script. They are
//! checked where a file is read, so no reader has to.

use serde::{Deserialize, Deserializer, de::Error};

/// Longest identifier of a run; those that pagewise makes have up to 60 bytes.
const LONGEST: usize = 128;

/// Whether this is the identifier of a run: a plain name of a file, or nothing where the run was not kept.
#[must_use]
pub fn is_identifier(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    text.len() <= LONGEST && !text.starts_with('.') && text.chars().all(is_plain)
}

/// Whether this is part of one line, whatever prints it.
#[must_use]
pub fn is_in_line(text: &str) -> bool {
    !text.contains(|c: char| c.is_control() || "\u{2028}\u{2029}".contains(c))
}

/// The identifier of a run.
pub(crate) fn identifier<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let text = String::deserialize(from)?;
    if is_identifier(&text) {
        return Ok(text);
    }
    Err(D::Error::custom(format!("{text:?} is not the identifier of a run")))
}

/// The name of an arm.
pub(crate) fn arm<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    checked(String::deserialize(from)?)
}

/// Names of arms.
pub(crate) fn arms<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    Vec::<String>::deserialize(from)?.into_iter().map(checked).collect()
}

/// Arms by their names.
pub(crate) fn by_arm<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Vec<(String, T)>, D::Error> {
    let all = Vec::<(String, T)>::deserialize(from)?;
    all.into_iter().map(|(name, what)| Ok((checked(name)?, what))).collect()
}

fn checked<E: Error>(name: String) -> Result<String, E> {
    if is_in_line(&name) {
        return Ok(name);
    }
    Err(E::custom(format!("the name of an arm holds a control character: {name:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_is_the_plain_name_of_a_file() {
        for good in ["", "walk-tune", "1795849225000-77-a.out", "1_2"] {
            assert!(is_identifier(good), "{good}");
        }
        let long = "a".repeat(LONGEST + 1);
        for bad in ["../x", "a/b", ".hidden", "..", "a\nb", "a b", "\u{e9}", "a\0", &long] {
            assert!(!is_identifier(bad), "{bad}");
        }
    }

    #[test]
    fn a_line_has_no_control_character() {
        assert!(is_in_line("text-huge=/opt/a b/\u{e9}"));
        for bad in ["a\nb", "a\rb", "\u{1b}[m", "\u{85}", "\u{2028}", "\0"] {
            assert!(!is_in_line(bad), "{bad:?}");
        }
    }
}
