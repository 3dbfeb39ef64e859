//! One page with everything: advice, charts, a table of all ways, findings, claims, machine, command.

use super::{findings, groups, picture, ratio};
use crate::chart::escape_markup;
use crate::document;
use crate::number::count;
use crate::{advice, claims, lacking};
use pagewise_model::first_touch::{FirstTouch, Part, Point};

/// Columns of the table of ways.
const COLUMNS: usize = 9;

/// What stands on the page of a run between its headline and how it was measured.
pub(crate) fn body(touches: &FirstTouch, caption: &str) -> String {
    let mut out = String::new();
    if let Some(judgement) = &touches.judgement {
        out.push_str(&advice::html(&judgement.advice));
    }
    for drawn in [picture::svg(touches, caption), picture::parts(touches)] {
        out.push_str(&format!("<figure>{drawn}</figure>\n"));
    }
    out.push_str(&table(touches));
    out.push_str(&found(touches));
    out.push_str(&lacking::html("Ways that are not to be had here", &super::lacking(touches)));
    if let Some(judgement) = &touches.judgement {
        let heading = "What is said of these calls, and what the kernel counted";
        out.push_str(&claims::html(heading, &judgement.claims));
    }
    out
}

fn table(touches: &FirstTouch) -> String {
    let base = touches.base_page_bytes;
    let mut out = format!(
        "<h2>Every way, ns for each {base} used</h2>\n<div class=\"wide\"><table>\n<thead><tr><th></th>\
         <th>page</th><th>set-up</th><th>touch</th><th>tear-down</th><th>together</th><th>of the first</th>\
         <th>faults</th><th>expected</th></tr></thead>\n"
    );
    let several: Vec<&Point> = touches.points.iter().filter(|p| p.threads > 1).collect();
    let all = groups(touches).into_iter().chain([("by several threads", several)]);
    for (title, points) in all.filter(|(_, points)| !points.is_empty()) {
        out.push_str(&format!("<tbody>\n<tr><th colspan=\"{COLUMNS}\">{title}</th></tr>\n"));
        points.iter().for_each(|point| out.push_str(&row(touches, point)));
        out.push_str("</tbody>\n");
    }
    out + "</table></div>\n"
}

fn row(touches: &FirstTouch, point: &Point) -> String {
    let label = format!(
        "<td title=\"{}\">{}</td>",
        escape_markup(point.way.about()),
        escape_markup(&point.label())
    );
    if point.samples.is_empty() {
        let why = escape_markup(point.refused.as_deref().unwrap_or("not touched"));
        let rest = COLUMNS - 1;
        return format!("<tr>{label}<td class=\"faint text\" colspan=\"{rest}\">{why}</td></tr>\n");
    }
    let time = |part| point.page_ns(part).map_or_else(String::new, |ns| document::cell(&ns));
    let times: String = [Part::Setup, Part::Touch, Part::Teardown, Part::Whole].map(time).concat();
    let number = |n: Option<u64>| n.map_or_else(|| "-".to_owned(), count);
    let warn = if point.has_expected_faults() == Some(false) { " class=\"warn\"" } else { "" };
    format!(
        "<tr>{label}<td>{}</td>{times}<td>{}</td><td{warn}>{}</td><td>{}</td></tr>\n",
        point.page_bytes.known().map_or_else(|| "-".to_owned(), ToString::to_string),
        ratio(touches, point),
        number(point.touch_faults()),
        number(point.expected_faults.known().copied())
    )
}

fn found(touches: &FirstTouch) -> String {
    let one = |(label, text): (&str, String)| {
        format!("<li><b>{label}</b>: {}</li>\n", escape_markup(&text))
    };
    let all: String = findings::all(touches).into_iter().map(one).collect();
    format!("<h2>What else was found</h2>\n<ul>\n{all}</ul>\n")
}
