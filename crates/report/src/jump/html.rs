//! One page with everything: curves, a table of each order, claims, misses, advice, machine, command.

use super::{best_ratio, describe, kinds, misses_text, numbers, picture, unsteady};
use crate::chart::escape_markup;
use crate::document;
use crate::number::{ratio_text, whole_size};
use crate::{advice, claims, lacking};
use pagewise_model::Bytes;
use pagewise_model::jump::{Jumps, Order, Point};

/// What stands on the page of a run between its headline and how it was measured.
pub(crate) fn body(jumps: &Jumps, caption: &str) -> String {
    let mut out = String::new();
    if let Some(judgement) = &jumps.judgement {
        out.push_str(&advice::html(&judgement.advice));
    }
    out.push_str(&format!("<figure>{}</figure>\n", picture::svg(jumps, caption)));
    Order::ALL.into_iter().for_each(|order| out.push_str(&by_size(jumps, order)));
    out.push_str(&lacking::html("Pages that are not to be had here", &super::lacking(jumps)));
    if let Some(judgement) = &jumps.judgement {
        let heading =
            "What the processor claims of its TLBs for code, and where jumps begin to cost more";
        out.push_str(&claims::html(heading, &judgement.claims));
    }
    out + &document::para(&(misses_text(jumps) + "."))
}

fn by_size(jumps: &Jumps, order: Order) -> String {
    let kinds = kinds(jumps, order);
    if kinds.is_empty() {
        return String::new();
    }
    let heads = kinds.iter().map(|kind| format!("<th>{}, ns</th>", kind.label()));
    let mut out = format!(
        "<details><summary>{}</summary>\n<div class=\"wide\"><table>\n<thead><tr><th>code</th>{}\
         <th>of base</th><th></th></tr></thead>\n",
        escape_markup(&describe(order)),
        heads.collect::<String>()
    );
    for number in numbers(jumps, order) {
        let size = Bytes(number.saturating_mul(jumps.dense().0));
        out.push_str(&format!("<tr><td>{}</td>", whole_size(size)));
        for kind in &kinds {
            out.push_str(&time(jumps.find(order, *kind, jumps.dense(), number)));
        }
        let ratio = best_ratio(jumps, order, size);
        let text = ratio.map_or_else(String::new, |r| ratio_text(r.ratio, &r.interval));
        let note = ratio.map_or("", unsteady);
        out.push_str(&format!("<td>{text}</td><td class=\"warn\">{note}</td></tr>\n"));
    }
    out + "</table></div></details>\n"
}

fn time(point: Option<&Point>) -> String {
    let Some(point) = point else { return "<td></td>".to_owned() };
    let why = || point.refused.as_deref().unwrap_or("not run");
    point.jump_ns().map_or_else(|| document::empty_cell(why()), |ns| document::cell(&ns))
}
