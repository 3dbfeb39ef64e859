//! Text for HTML and SVG.

use crate::escape::escape;

/// Reverses [`escape_markup`], except for spelled-out characters.
pub(crate) fn unescape_markup(markup: &str) -> String {
    let pairs = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
    pairs.iter().fold(markup.to_owned(), |text, (name, plain)| text.replace(name, plain))
}

/// Foreign text for HTML and SVG: no hostile characters ([`escape`]), no markup, and neither of the two
/// characters that XML forbids.
pub(crate) fn escape_markup(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in escape(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\u{fffe}' | '\u{ffff}' => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

/// A sentence as markup: text between backticks becomes code.
pub(crate) fn prose_markup(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, (code, after))) =
        rest.split_once('`').and_then(|(before, rest)| Some((before, rest.split_once('`')?)))
    {
        out += &escape_markup(before);
        out += &format!("<code>{}</code>", escape_markup(code));
        rest = after;
    }
    out + &escape_markup(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_of_others_is_text() {
        assert_eq!(
            escape_markup("a<b>&\"'\x1b\u{202e}\u{ffff}"),
            "a&lt;b&gt;&amp;&quot;&#39;\\x1b\\u{202e}\\u{ffff}"
        );
    }

    #[test]
    fn words_between_backticks_are_code() {
        assert_eq!(
            prose_markup("set `a<b>` and `c`"),
            "set <code>a&lt;b&gt;</code> and <code>c</code>"
        );
        assert_eq!(prose_markup("one ` alone & ``"), "one <code> alone &amp; </code>`");
        assert_eq!(prose_markup("5` <"), "5` &lt;");
    }
}
