//! One page with everything: charts, table, claims, explanation with its calls, machine, command.
//!
//! What opens does so by `details`. Text of others is escaped by [`escape_markup`].

use super::calls::Tree;
use super::explanation::{consumption, pace, rung_name, share_of_change, signed, told};
use super::{consumption_label, picture, rungs, settings, yardsticks};
use crate::chart::escape_markup;
use crate::number::{UNKNOWN, count, range_text, three_digits, whole_size};
use crate::{advice, claims};
use pagewise_model::ladder::{Account, Consumption, Judgement, Ladder, Point, Sample, Step};
use pagewise_model::{Fact, Nanos};

/// What stands on the page of a run between its headline and how it was measured.
pub(crate) fn body(ladder: &Ladder, caption: &str) -> String {
    let mut out = String::new();
    out.push_str(&format!("<figure>{}</figure>\n", picture::svg(ladder, caption)));
    out.push_str(&table(ladder));
    out.push_str(&yardstick_list(ladder));
    let heading = "What is said of pipes, and what this machine says";
    out.push_str(&claims::html(heading, &ladder.claims));
    if let Some(judgement) = &ladder.judgement {
        out.push_str(&explanation(ladder, judgement));
        out.push_str(&sizes(judgement));
        if !judgement.sentences.is_empty() {
            out.push_str(&advice::html(&judgement.sentences));
        }
    }
    out
}

/// How the points were taken.
pub(crate) fn protocol(ladder: &Ladder) -> String {
    format!(
        "{} repeats of each point, each a fresh pair of processes, in an order shuffled with seed {}.",
        ladder.repeats, ladder.seed
    )
}

fn table(ladder: &Ladder) -> String {
    let mut out = String::from(
        "<h2>Every rung</h2>\n<div class=\"wide\"><table>\n<thead><tr><th></th><th>GiB/s</th>\
         <th>spread</th><th>CPU s/GiB</th><th>wake-ups/GiB</th><th>ns/slot</th><th>pages</th>\
         </tr></thead>\n",
    );
    for points in rungs(ladder) {
        out.push_str("<tbody>\n");
        if let Some(first) = points.first() {
            out.push_str(&format!(
                "<tr><th colspan=\"7\">{} <span class=\"faint\">{}</span></th></tr>\n",
                escape_markup(&first.rung.name),
                escape_markup(&settings(first))
            ));
        }
        points.iter().for_each(|point| out.push_str(&row(ladder, point)));
        out.push_str("</tbody>\n");
    }
    out + "</table></div>\n"
}

fn row(ladder: &Ladder, point: &Point) -> String {
    let label = consumption_label(point.consumption);
    let Some(rate) = point.rate() else {
        let why = escape_markup(point.refused.as_deref().unwrap_or("no repeat"));
        return format!(
            "<tr><td>{label}</td><td colspan=\"6\" class=\"faint\">not measured: {why}</td></tr>\n"
        );
    };
    let figure = |of: fn(&Sample) -> Option<f64>, places: usize| {
        let value = point.measured(of);
        value.map_or_else(|| UNKNOWN.to_owned(), |m| format!("{:.places$}", m.median))
    };
    let wakeups = point.measured(Sample::wakeups_per_gib);
    let wakeups =
        wakeups.map_or_else(|| UNKNOWN.to_owned(), |m| count(m.median.round().max(0.0) as u64));
    let page = match &point.page_bytes {
        Fact::Known(page) => page.to_string(),
        Fact::Missing(why) => format!("<span title=\"{}\">?</span>", escape_markup(why)),
    };
    let mut flags = String::new();
    if ladder.yardsticks.is_implausible(point) {
        flags.push_str(" <b class=\"bad\">implausible</b>");
    }
    if point.verified == Fact::Known(false) {
        flags.push_str(" <b class=\"bad\">wrong bytes</b>");
    }
    format!(
        "<tr><td>{label}{flags}</td><td><b>{}</b></td><td class=\"faint\">{}</td><td>{}</td>\
         <td>{wakeups}</td><td>{}</td><td>{page}</td></tr>\n",
        three_digits(rate.median),
        range_text(&rate),
        figure(Sample::cpu_s_per_gib, 3),
        figure(Sample::ns_per_slot, 1),
    )
}

fn yardstick_list(ladder: &Ladder) -> String {
    let mut out = String::from("<h2>The memory itself in the same minutes</h2>\n<ul>\n");
    for (name, fact) in yardsticks(&ladder.yardsticks) {
        let text = match fact {
            Fact::Known(rate) => {
                format!("{} GiB/s {}", three_digits(rate.median), range_text(rate))
            }
            Fact::Missing(why) => format!("not measured: {}", escape_markup(why)),
        };
        out.push_str(&format!("<li>{name}: {text}</li>\n"));
    }
    out + "</ul>\n"
}

fn explanation(ladder: &Ladder, judgement: &Judgement) -> String {
    let mut out = String::from("<h2>Why</h2>\n");
    for consumption in Consumption::ALL {
        if let Some(svg) = picture::accounts(ladder, judgement, consumption) {
            out.push_str(&format!("<figure>{svg}</figure>\n"));
        }
    }
    for step in &judgement.steps {
        out.push_str(&step_details(ladder, judgement, step));
    }
    out
}

fn step_details(ladder: &Ladder, judgement: &Judgement, step: &Step) -> String {
    let name = |at: usize| escape_markup(rung_name(ladder, at));
    let consumption = consumption(ladder, step).map_or(UNKNOWN, consumption_label);
    let mut out = format!(
        "<details><summary><b>{}</b> to <b>{}</b>, {}: {}, {} for each GiB</summary>\n<table>\n",
        name(step.from),
        name(step.to),
        consumption,
        pace(&step.comparison),
        signed(step.change_per_gib_ns)
    );
    let account = judgement.account(step.to);
    let mut row = |name: &str, ns: f64, what: &str| {
        out.push_str(&format!(
            "<tr><td>{name}</td><td>{}</td><td>{}</td><td class=\"text faint\">{}</td></tr>\n",
            signed(ns),
            share_of_change(step, ns),
            escape_markup(what)
        ));
    };
    let (large, rest) = told(step);
    for (name, ns) in large {
        let now = account.and_then(|a| a.parts.iter().find(|p| p.work.label() == name));
        row(name, ns, now.map_or("none now", |p| p.evidence.as_str()));
    }
    if rest != 0.0 {
        row("other parts", rest, "");
    }
    row("unexplained", step.unexplained_per_gib_ns, "");
    out.push_str("</table>\n");
    out.push_str(&account.map_or_else(String::new, account_notes));
    out + "</details>\n"
}

/// What has no price, what samples say, and the calls they show.
fn account_notes(account: &Account) -> String {
    let mut out = String::new();
    if !account.not_priced.is_empty() {
        let names: Vec<&str> = account.not_priced.iter().map(|work| work.label()).collect();
        out.push_str(&format!("<p class=\"faint\">no price for: {}</p>\n", names.join(", ")));
    }
    for disagreement in &account.disagreements {
        let text = escape_markup(disagreement);
        out.push_str(&format!("<p class=\"warn\">samples disagree: {text}</p>\n"));
    }
    match &account.samples {
        Fact::Known(samples) => {
            out.push_str(&format!("<div class=\"calls\">{}</div>\n", Tree::of(samples).html()));
        }
        Fact::Missing(why) => {
            let text = escape_markup(why);
            out.push_str(&format!("<p class=\"faint\">no calls to show: {text}</p>\n"));
        }
    }
    let took = Nanos::from_f64(account.per_gib_ns);
    out + &format!("<p class=\"faint\">{took} of both ends for each GiB</p>\n")
}

fn sizes(judgement: &Judgement) -> String {
    if judgement.advice.is_empty() {
        return String::new();
    }
    let mut out = String::from("<h2>Sizes that suit</h2>\n<ul>\n");
    for advice in &judgement.advice {
        out.push_str(&format!(
            "<li><b>{}, {}</b>: {} GiB/s with buffer {} and pipe {}; pipe {} is as good<br>\
             <span class=\"faint\">{}</span></li>\n",
            escape_markup(&advice.rung),
            consumption_label(advice.consumption),
            three_digits(advice.gib_per_s),
            whole_size(advice.buffer_bytes),
            whole_size(advice.pipe_bytes),
            whole_size(advice.enough_pipe_bytes),
            escape_markup(&advice.why)
        ));
    }
    out + "</ul>\n"
}
