//! One page with everything: curves, a table of each list, claims, bandwidth, advice, machine, command.

use super::table::{best_ratio, kinds, sets};
use super::{backing_text, describe, picture, rate_text, unsteady};
use crate::chart::escape_markup;
use crate::document;
use crate::number::{ratio_text, whole_size};
use crate::{advice, claims, lacking};
use pagewise_model::walk::{Bandwidth, Judgement, Path, Point, Walks};
use pagewise_model::{Bytes, Fact};

/// What stands on the page of a run between its headline and how it was measured.
pub(crate) fn body(walks: &Walks, caption: &str) -> String {
    let mut out = String::new();
    if let Some(judgement) = &walks.judgement {
        out.push_str(&advice::html(&judgement.advice));
    }
    out.push_str(&format!("<figure>{}</figure>\n", picture::svg(walks, caption)));
    walks.lists().into_iter().for_each(|path| out.push_str(&list(walks, path)));
    out.push_str(&lacking::html("Pages that are not to be had here", &super::lacking(walks)));
    if let Some(judgement) = &walks.judgement {
        out.push_str(&translation(judgement));
    }
    out.push_str(&bandwidth(&walks.bandwidth));
    out
}

fn list(walks: &Walks, path: Path) -> String {
    let kinds = kinds(walks, path);
    let heads = kinds.iter().map(|kind| format!("<th>{}, ns</th>", kind.label()));
    let mut out = format!(
        "<details><summary>{}</summary>\n<div class=\"wide\"><table>\n<thead><tr><th>set</th>{}\
         <th>of base</th><th></th></tr></thead>\n",
        escape_markup(&describe(path)),
        heads.collect::<String>()
    );
    for set in sets(walks, path) {
        out.push_str(&format!("<tr><td>{}</td>", whole_size(set)));
        for kind in &kinds {
            out.push_str(&time(walks.find(path, *kind, set.0 / path.pitch().0)));
        }
        out.push_str(&worth(walks, path, set));
        out.push_str("</tr>\n");
    }
    out + "</table></div></details>\n"
}

fn time(point: Option<&Point>) -> String {
    let Some(point) = point else { return "<td></td>".to_owned() };
    let why = || point.refused.as_deref().unwrap_or("not walked");
    point.load_ns().map_or_else(|| document::empty_cell(why()), |ns| document::cell(&ns))
}

fn worth(walks: &Walks, path: Path, set: Bytes) -> String {
    best_ratio(walks, path, set).map_or_else(
        || "<td></td><td></td>".to_owned(),
        |ratio| {
            let text = ratio_text(ratio.ratio, &ratio.interval);
            format!("<td>{text}</td><td class=\"warn\">{}</td>", unsteady(ratio))
        },
    )
}

fn translation(judgement: &Judgement) -> String {
    let heading = "What the processor claims of its TLBs, and where loads begin to cost more";
    let backing = backing_text(&judgement.huge_translation_share);
    claims::html(heading, &judgement.claims) + &document::para(&(backing + "."))
}

fn bandwidth(found: &Bandwidth) -> String {
    let mut out = format!(
        "<h2>Bandwidth over buffers of {}</h2>\n<table>\n<thead><tr><th></th><th>one core, GiB/s</th>\
         <th>spread</th><th>all {}, GiB/s</th><th>spread</th></tr></thead>\n",
        found.buffer_bytes, found.cpus
    );
    for ((name, one), (_, all)) in found.one.named().into_iter().zip(found.all.named()) {
        let cell = |rate: &Fact<pagewise_model::Measured>| {
            let (value, range) = rate_text(rate);
            let why = rate.reason().map_or_else(String::new, escape_markup);
            format!("<td title=\"{why}\">{value}</td><td class=\"faint\">{range}</td>")
        };
        out.push_str(&format!("<tr><td>{name}</td>{}{}</tr>\n", cell(one), cell(all)));
    }
    out + "</table>\n"
}
