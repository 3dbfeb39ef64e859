//! The frame of a page of HTML: what stands above and below the facts of a run.
//!
//! A page needs nothing from outside and runs nothing: style and pictures are in it, and a content
//! policy forbids all else. It follows the reader's light or dark setting.

use crate::chart::escape_markup;
use crate::number::date;
use pagewise_model::run::Run;

const STYLE: &str = include_str!("page.css");

/// The page up to its title and the machine of `run`.
pub(crate) fn head(title: &str, run: &Run) -> String {
    let title = escape_markup(title);
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

/// The end of the page.
pub(crate) fn foot(run: &Run) -> String {
    format!(
        "<p class=\"faint\">pagewise {}, {} UTC, took {}</p>\n</main>\n</body>\n</html>\n",
        escape_markup(&run.pagewise),
        date(run.started_unix_ns),
        run.took_ns
    )
}
