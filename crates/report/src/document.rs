//! The frame of a page of HTML: what stands above and below the facts of a run.
//!
//! A page needs nothing from outside and runs nothing: style and pictures are in it, and a content
//! policy forbids all else. It follows the reader's light or dark setting.

use crate::chart::escape_markup;
use crate::headline::headline;
use crate::number::{date, range_text, three_digits};
use crate::shell::start_line;
use pagewise_model::Measured;
use pagewise_model::run::Run;

const STYLE: &str = include_str!("page.css");

/// The page up to its headline and machine.
pub(crate) fn head(run: &Run) -> String {
    let title = escape_markup(&headline(run));
    let machine = run.machine.as_ref().map_or_else(String::new, |m| escape_markup(&m.line()));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <h1>{title}</h1>\n<p class=\"faint\">{machine}</p>\n"
    )
}

/// A paragraph.
pub(crate) fn para(text: &str) -> String {
    format!("<p>{}</p>\n", escape_markup(text))
}

/// A cell of a table with a figure; who points at it sees its range.
pub(crate) fn cell(figure: &Measured) -> String {
    format!("<td title=\"{}\">{}</td>", range_text(figure), three_digits(figure.median))
}

/// A cell for which there is no figure; who points at it sees why.
pub(crate) fn empty_cell(why: &str) -> String {
    format!("<td class=\"faint\" title=\"{}\">-</td>", escape_markup(why))
}

/// How it was measured (`protocol` is markup), warnings, and the end of the page.
pub(crate) fn foot(run: &Run, protocol: &str) -> String {
    let mut out = String::from("<h2>How it was measured</h2>\n");
    if !run.command.is_empty() {
        out.push_str(&format!("<pre>{}</pre>\n", escape_markup(&start_line(run))));
    }
    out.push_str(protocol);
    for warning in &run.warnings {
        out.push_str(&format!("<p class=\"warn\">{}</p>\n", escape_markup(warning)));
    }
    out.push_str(&format!(
        "<p class=\"faint\">pagewise {}, {} UTC, took {}</p>\n</main>\n</body>\n</html>\n",
        escape_markup(&run.pagewise),
        date(run.started_unix_ns),
        run.took_ns
    ));
    out
}
