//! What the machine should do: three sentences, on huge pages for code, on how much code is used together,
//! and on how a program is asked.

use super::size_of;
use pagewise_model::jump::{Jumps, Order, Ratio};
use pagewise_model::walk::{Knee, PageKind, Steadiness};

/// From this gain on huge pages are worth asking for.
const WORTH: f64 = 0.97;

/// Three sentences, each a reason where nothing is known.
pub(super) fn advice(jumps: &Jumps, ratios: &[Ratio], knees: &[Knee]) -> Vec<String> {
    vec![pages(ratios), together(jumps, knees), foreseen(ratios)]
}

/// The proven gains in one order, the largest first.
fn gains(ratios: &[Ratio], order: Order) -> Vec<&Ratio> {
    let is_gain =
        |r: &&Ratio| r.order == order && r.interval.known().is_some_and(|(_, high)| *high < WORTH);
    let mut gains: Vec<&Ratio> = ratios.iter().filter(is_gain).collect();
    gains.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
    gains
}

fn pages(ratios: &[Ratio]) -> String {
    if ratios.is_empty() {
        return "No code was run on two kinds of pages, so nothing is said about them.".to_owned();
    }
    let gains = gains(ratios, Order::Changing);
    let Some(best) = gains.first() else {
        let unsteady = ratios.iter().any(|r| r.steadiness != Steadiness::Steady);
        let rest = if unsteady { "; where figures differ, placement or others decide" } else { "" };
        return format!(
            "Do not expect huge pages for code to make jumps faster here: at no size is a gain of 3% \
             proven where nothing foresees them{rest}."
        );
    };
    let first = gains.iter().map(|r| r.set_bytes).min().unwrap_or_default();
    format!(
        "Put code that is used together on huge pages from {first} on (pagewise text warm): with {} a \
         jump that nothing foresees takes {:.0}% less.",
        best.set_bytes,
        (1.0 - best.ratio) * 100.0
    )
}

fn together(jumps: &Jumps, knees: &[Knee]) -> String {
    let base: Vec<&Knee> = knees.iter().filter(|k| k.pages == PageKind::Base).collect();
    let (Some(first), Some(last)) = (base.first(), base.last()) else {
        return "No number of base pages was found beyond which each jump costs more: how much code is \
                used together is a matter of caches and predictors here."
            .to_owned();
    };
    let cost = |knee: &Knee| format!("{:.1} ns", knee.to_ns - knee.from_ns);
    let reach = |knee: &Knee| {
        format!("{} base pages ({})", knee.about_pages, size_of(jumps, knee.about_pages))
    };
    let more = if base.len() > 1 {
        format!(", and beyond {} {} more again", reach(last), cost(last))
    } else {
        String::new()
    };
    format!(
        "Keep the code that is used together on at most {}: beyond, a jump to another page costs {} \
         more{more}.",
        reach(first),
        cost(first)
    )
}

fn foreseen(ratios: &[Ratio]) -> String {
    let best = |order| gains(ratios, order).first().map(|r| (1.0 - r.ratio) * 100.0);
    let ask = "ask for a program itself by pagewise bench text -- COMMAND";
    match (best(Order::Changing), best(Order::Repeated)) {
        (Some(changing), Some(repeated)) => format!(
            "Expect between {:.0}% and {:.0}% of the time of jumps at most, by how well they are \
             foreseen; {ask}.",
            repeated.min(changing),
            repeated.max(changing)
        ),
        (Some(changing), None) => format!(
            "Expect nothing where jumps are foreseen and up to {changing:.0}% of their time where \
             they are not; {ask}."
        ),
        (None, Some(repeated)) => {
            format!("Expect up to {repeated:.0}% of the time of jumps that are foreseen; {ask}.")
        }
        (None, None) => {
            format!("Do not conclude from generated code that no program gains; {ask}.")
        }
    }
}
