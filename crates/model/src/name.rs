//! Names in saved files that pagewise writes elsewhere: as the name of a file, as a line of a script, or as a
//! string of YAML. They are checked when a file is read, so readers need no check of their own.

use serde::{Deserialize, Deserializer, de::Error};

/// Longest identifier of a run. Those that pagewise makes have up to 60 bytes.
const LONGEST: usize = 128;

/// True for an identifier of a run: a plain file name, or an empty text if the run was not kept.
#[must_use]
pub fn is_identifier(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    text.len() <= LONGEST && !text.starts_with('.') && text.chars().all(is_plain)
}

/// True if the text stays within one line, whatever prints it.
#[must_use]
pub fn is_in_line(text: &str) -> bool {
    !text.contains(breaks)
}

/// True for a character that some reader takes for the end of a line, or refuses in a text. YAML 1.1 ends
/// lines at U+0085, U+2028 and U+2029, and allows no byte order mark and no U+FFFE in the middle.
fn breaks(c: char) -> bool {
    c.is_control() || "\u{2028}\u{2029}\u{feff}\u{fffe}\u{ffff}".contains(c)
}

/// The text as a part of a comment, which ends with its line.
#[must_use]
pub fn in_comment(text: &str) -> String {
    text.chars().map(|c| if breaks(c) { escaped(c) } else { c.to_string() }).collect()
}

/// The text as a string of YAML in double quotes, whatever it would mean without them. The string is also
/// JSON.
#[must_use]
pub fn yaml_string(text: &str) -> String {
    let one = |c| match c {
        '"' | '\\' => format!("\\{c}"),
        c if breaks(c) => escaped(c),
        c => c.to_string(),
    };
    format!("\"{}\"", text.chars().map(one).collect::<String>())
}

/// An escape of YAML and JSON for a character that breaks a line. All have four digits at most.
fn escaped(c: char) -> String {
    match c {
        '\n' => "\\n".to_owned(),
        c => format!("\\u{:04x}", u32::from(c)),
    }
}

/// True for a label of DNS (RFC 1123), such as the names of containers in Kubernetes.
#[must_use]
pub fn is_label(name: &str) -> bool {
    name.len() <= 63 && is_part_of_domain(name)
}

/// True for a subdomain of DNS (RFC 1123), such as the names of most Kubernetes objects.
#[must_use]
pub fn is_subdomain(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(is_part_of_domain)
}

fn is_part_of_domain(part: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !part.is_empty() && !part.starts_with('-') && !part.ends_with('-') && part.chars().all(is_plain)
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

/// A map whose keys are names of arms.
pub(crate) fn by_arm<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Vec<(String, T)>, D::Error> {
    let all = Vec::<(String, T)>::deserialize(from)?;
    all.into_iter().map(|(name, what)| Ok((checked(name)?, what))).collect()
}

fn checked<E: Error>(name: String) -> Result<String, E> {
    in_line("the name of an arm", name)
}

/// The name of a remedy, or its parameter.
pub(crate) fn of_remedy<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    in_line("a remedy", String::deserialize(from)?)
}

fn in_line<E: Error>(what: &str, text: String) -> Result<String, E> {
    if is_in_line(&text) {
        return Ok(text);
    }
    Err(E::custom(format!("{what} holds a control character: {text:?}")))
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
        for bad in ["a\nb", "a\rb", "\u{1b}[m", "\u{85}", "\u{2028}", "\0", "\u{feff}"] {
            assert!(!is_in_line(bad), "{bad:?}");
            assert!(is_in_line(&in_comment(bad)), "{bad:?}");
            assert!(is_in_line(&yaml_string(bad)), "{bad:?}");
            let read: String = serde_json::from_str(&yaml_string(bad)).unwrap();
            assert_eq!(read, bad);
        }
        assert_eq!(in_comment("a \u{e9}\\n"), "a \u{e9}\\n");
        assert_eq!(yaml_string("yes\n\u{85}\"\\"), r#""yes\n\u0085\"\\""#);
    }

    #[test]
    fn names_of_kubernetes_are_those_of_dns() {
        for good in ["a", "123", "yes", "a-1", &"a".repeat(63)] {
            assert!(is_label(good) && is_subdomain(good), "{good}");
        }
        assert!(is_subdomain("a.b-c.9") && !is_label("a.b"));
        let long = "a".repeat(254);
        for bad in ["", "A", "-a", "a-", "a_b", "a b", "a\n", "a..b", ".a", "a.", "\u{e9}", &long] {
            assert!(!is_label(bad) && !is_subdomain(bad), "{bad:?}");
        }
    }
}
