//! One page with everything: curves, prices, calls by size, shares, published figures, what is missing,
//! advice, machine, command.

use super::{kinds, meaning, picture, ratio, sizes};
use crate::chart::escape_markup;
use crate::document;
use crate::number::{percent, whole_size};
use crate::{advice, claims, lacking};
use pagewise_model::pin::{Judgement, Pins, Share, Way};
use pagewise_model::{Fact, Measured};

/// What stands on the page of a run between its headline and how it was measured.
pub(crate) fn body(pins: &Pins, caption: &str) -> String {
    let mut out = String::new();
    if let Some(judgement) = &pins.judgement {
        out.push_str(&advice::html(&judgement.advice));
    }
    out.push_str(&format!("<figure>{}</figure>\n", picture::svg(pins, caption)));
    if let Some(judgement) = &pins.judgement {
        out.push_str(&prices(judgement));
        out.push_str(&shares(&judgement.shares));
        out.push_str(&claims::html("What has been published, and this machine", &judgement.claims));
    }
    Way::ALL.into_iter().for_each(|way| out.push_str(&calls(pins, way)));
    out.push_str(&lacking::html("What is not to be had here", &super::lacking(pins)));
    out
}

/// A figure with its range to point at, or a dash with the reason.
fn cell(fact: &Fact<Measured>) -> String {
    match fact {
        Fact::Known(known) => document::cell(known),
        Fact::Missing(why) => document::empty_cell(why),
    }
}

fn share_cell(fact: &Fact<f64>) -> String {
    match fact {
        Fact::Known(share) => format!("<td>{}</td>", percent(*share)),
        Fact::Missing(why) => document::empty_cell(why),
    }
}

fn prices(judgement: &Judgement) -> String {
    let mut out =
        "<h2>Prices</h2>\n<table>\n<thead><tr><th>way</th><th>pages</th><th>a page, ns</th>\
                   <th>whole, of base</th><th>a call, ns</th><th></th></tr></thead>\n"
            .to_owned();
    for price in &judgement.prices {
        out.push_str(&format!(
            "<tr><td>{}</td><td>{}</td>{}<td>{}</td>{}<td class=\"faint\">{}</td></tr>\n",
            price.way.label(),
            price.pages.label(),
            cell(&price.page_ns),
            ratio(judgement, price),
            cell(&price.call_ns),
            meaning(price.way)
        ));
    }
    out + "</table>\n"
}

fn shares(shares: &[Share]) -> String {
    if shares.is_empty() {
        return String::new();
    }
    let mut out =
        "<h2>How much of a transfer by vmsplice and splice is pinning</h2>\n<table>\n<thead><tr>\
                   <th>pages</th><th>size</th><th>of the call</th><th>of the transfer</th>\
                   <th>GiB/s, one thread</th></tr></thead>\n"
            .to_owned();
    for share in shares {
        out.push_str(&format!(
            "<tr><td>{}</td><td>{}</td>{}{}{}</tr>\n",
            share.pages.label(),
            whole_size(share.size_bytes),
            share_cell(&share.of_call_share),
            share_cell(&share.of_transfer_share),
            cell(&share.transfer_gib_per_s)
        ));
    }
    out + "</table>\n"
}

fn calls(pins: &Pins, way: Way) -> String {
    let kinds = kinds(pins, way);
    if kinds.is_empty() {
        return String::new();
    }
    let heads = kinds.iter().map(|kind| format!("<th>{}, ns</th>", kind.label()));
    let mut out = format!(
        "<details><summary>{}</summary>\n<div class=\"wide\"><table>\n<thead><tr><th>size</th>{}</tr>\
         </thead>\n",
        escape_markup(way.name()),
        heads.collect::<String>()
    );
    for size in sizes(pins, way) {
        out.push_str(&format!("<tr><td>{}</td>", whole_size(size)));
        for kind in &kinds {
            let point = pins.find(way, *kind, size);
            let whole = point.and_then(|point| point.whole_ns());
            let why = point.and_then(|point| point.refused.as_deref()).unwrap_or("not measured");
            out.push_str(&cell(&whole.map_or_else(|| Fact::missing(why), Fact::Known)));
        }
        out.push_str("</tr>\n");
    }
    out + "</table></div></details>\n"
}
