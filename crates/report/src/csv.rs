//! CSV (RFC 4180) for other tools: one line for each sample. Names end in the unit; an empty field was not
//! measured.

use crate::escape::escape;

/// The samples of a bench. `header` names the columns. A point holds the cells that its rows start with, and
/// the rest of each row. A point without samples gets one row.
pub(crate) fn samples(
    header: &str,
    points: impl Iterator<Item = (Vec<String>, Vec<Vec<String>>)>,
) -> String {
    let columns = header.split(',').count();
    let mut out = format!("{header}\n");
    for (lead, mut samples) in points {
        if samples.is_empty() {
            samples.push(vec![String::new(); columns.saturating_sub(lead.len())]);
        }
        for sample in &samples {
            let row = lead.iter().chain(sample).map(|cell| field(cell));
            out.push_str(&row.collect::<Vec<_>>().join(","));
            out.push('\n');
        }
    }
    out
}

/// A number, or an empty cell if it is unknown.
pub(crate) fn known<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// A cell of foreign text. A spreadsheet runs a cell that begins with one of [`FORMULA`] as a formula; a
/// leading apostrophe makes it text. Some treat a `;` as the end of a cell, even in quotes, so text after one
/// is handled the same way. A number stays unchanged.
pub(crate) fn field(text: &str) -> String {
    let text = escape(text);
    let safe = text.split(';').map(guarded).collect::<Vec<_>>().join(";");
    let is_quoted = safe != text || text.contains([',', '"', ';']);
    if is_quoted { format!("\"{}\"", safe.replace('"', "\"\"")) } else { safe }
}

/// Characters that begin a formula; the last four in some East Asian settings.
const FORMULA: [char; 8] = ['=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}'];

fn guarded(cell: &str) -> String {
    // Spreadsheets may skip leading spaces and quotes.
    let shown = cell.trim_start_matches(|c: char| c.is_whitespace() || c == '"');
    let is_formula = shown.starts_with(FORMULA) && !is_number(cell);
    if is_formula { format!("'{cell}") } else { cell.to_owned() }
}

/// Whether the text is a number as written here. `-inf` is not: spreadsheets treat it as a name.
fn is_number(cell: &str) -> bool {
    let is_part = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
    cell.chars().all(is_part) && cell.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cell_is_a_formula() {
        for (text, cell) in [
            ("=1+1", "\"'=1+1\""),
            ("=cmd|' /C calc'!A0", "\"'=cmd|' /C calc'!A0\""),
            ("@SUM(A1)", "\"'@SUM(A1)\""),
            ("+1-1", "\"'+1-1\""),
            ("-1+cmd|x", "\"'-1+cmd|x\""),
            ("--option", "\"'--option\""),
            ("-inf", "\"'-inf\""),
            ("  =1", "\"'  =1\""),
            ("\"=1", "\"'\"\"=1\""),
            ("a;=1;b", "\"a;'=1;b\""),
            ("=HYPERLINK(\"x\",\"y\")", "\"'=HYPERLINK(\"\"x\"\",\"\"y\"\")\""),
            ("\u{ff1d}1", "\"'\u{ff1d}1\""),
        ] {
            assert_eq!(field(text), cell, "{text:?}");
        }
    }

    #[test]
    fn what_a_spreadsheet_drops_is_escaped() {
        for text in ["\t=1", "\r=1", "\n=1", "\u{feff}=1", "\0=1"] {
            let cell = field(text);
            assert!(cell.starts_with('\\') && !cell.contains(['\t', '\r', '\n']), "{cell}");
        }
    }

    #[test]
    fn numbers_and_plain_text_stay_as_they_are() {
        for text in [
            "",
            "-3.1",
            "+7",
            "-1e-9",
            "1.5",
            "-",
            "plain",
            "pipe-grow=1M",
            "a b",
            "a=b",
            "x-y",
            "plain'",
        ] {
            let is_dash = text == "-";
            assert_eq!(field(text) == text, !is_dash, "{text}");
        }
        assert_eq!(field("a,b"), "\"a,b\"");
    }
}
