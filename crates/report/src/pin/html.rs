//! One page with everything: curves, prices, calls by size, shares, published figures, what is missing,
//! advice, machine, command.

use super::{kinds, meaning, picture, protocol, ratio_of, ratio_text, sizes};
use crate::chart::escape_markup;
use crate::claims;
use crate::document;
use crate::number::{percent, range_text, three_digits, whole_size};
use pagewise_model::pin::{Judgement, Pins, Share, Way};
use pagewise_model::run::Run;
use pagewise_model::{Fact, Measured};

/// The page of a run that holds measurements of pinning; without them it says so.
#[must_use]
pub fn html(run: &Run) -> String {
    let mut out = document::head(run);
    if let Some(pins) = &run.pins {
        let caption = run.machine.as_ref().map_or_else(String::new, |m| m.line());
        if let Some(judgement) = &pins.judgement {
            out.push_str(&advice(judgement));
        }
        out.push_str(&format!("<figure>{}</figure>\n", picture::svg(pins, &caption)));
        if let Some(judgement) = &pins.judgement {
            out.push_str(&prices(judgement));
            out.push_str(&shares(&judgement.shares));
            out.push_str(&claims::html(
                "What has been published, and this machine",
                &judgement.claims,
            ));
        }
        Way::ALL.into_iter().for_each(|way| out.push_str(&calls(pins, way)));
        out.push_str(&missing(pins));
    }
    let told = |pins: &Pins| format!("<p>{}.</p>\n", escape_markup(&protocol(pins)));
    out.push_str(&document::foot(run, &run.pins.as_ref().map_or_else(String::new, told)));
    out
}

fn advice(judgement: &Judgement) -> String {
    let sentences = judgement.advice.iter().map(|s| format!("<li>{}</li>\n", escape_markup(s)));
    format!("<h2>What this machine should do</h2>\n<ul>\n{}</ul>\n", sentences.collect::<String>())
}

/// A figure with its range to point at, or a dash with the reason.
fn cell(fact: &Fact<Measured>) -> String {
    match fact {
        Fact::Known(known) => {
            format!("<td title=\"{}\">{}</td>", range_text(known), three_digits(known.median))
        }
        Fact::Missing(why) => {
            format!("<td class=\"faint\" title=\"{}\">-</td>", escape_markup(why))
        }
    }
}

fn share_cell(fact: &Fact<f64>) -> String {
    match fact {
        Fact::Known(share) => format!("<td>{}</td>", percent(*share)),
        Fact::Missing(why) => {
            format!("<td class=\"faint\" title=\"{}\">-</td>", escape_markup(why))
        }
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
            ratio_of(judgement, price).map_or_else(String::new, ratio_text),
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

fn missing(pins: &Pins) -> String {
    if pins.unavailable.is_empty() && pins.missing_ways.is_empty() {
        return String::new();
    }
    let ways = pins.missing_ways.iter().map(|m| (m.way.label(), &m.why, &m.next));
    let pages = pins.unavailable.iter().map(|m| (m.pages.label(), &m.why, &m.next));
    let one = |(label, why, next): (&str, &String, &String)| {
        format!(
            "<li><b>{label}</b>: {}<br><span class=\"faint\">next step: {}</span></li>\n",
            escape_markup(why),
            escape_markup(next)
        )
    };
    let all: String = ways.chain(pages).map(one).collect();
    format!("<h2>What is not to be had here</h2>\n<ul>\n{all}</ul>\n")
}
