//! What jumps through code show: what larger pages are worth by the size of the code, from how many pages on
//! translations of code run out, which claims of the processor hold, and what to do on this machine.
//!
//! The entry is [`judge`]. It is pure, so saved runs are judged again with the same result. Samples of one
//! repeat were taken in the same round and are paired. Knees, noise and claims follow the rules for walks
//! ([`crate::bench::tlb`]). The cost of translation is the time of a jump on separate pages minus its time
//! when as many jumps lie on few huge pages.
//!
//! Not seen: translation that is hidden because the processor fetches ahead or has the decoded instructions.
//! So a missing knee refutes no claim.

use crate::bench::best::BestWay;
use crate::bench::larger::{AccessWording, SizeComparison, WORTH, page_advice as page_advice_of};
use crate::bench::tlb::JudgedRatio;
use crate::bench::tlb::claims::ProcessorClaims;
use crate::bench::tlb::knees::{TranslationCurve, find, is_thin, no_end};
use pagewise_model::Bytes;
use pagewise_model::bench::text::{
    JumpOrder, TextBenchJudgement, TextBenchPoint, TextBenchRatio, TextBenchReport,
};
use pagewise_model::bench::tlb::TlbKnee;
use pagewise_model::bench::{ClaimFigure, PageKind, RepeatSeries};

/// All conclusions from `jumps`.
#[must_use]
pub fn judge(jumps: &TextBenchReport) -> TextBenchJudgement {
    let ratios = ratios(jumps);
    let curves: Vec<TranslationCurve> =
        [PageKind::Base, PageKind::Thp].into_iter().filter_map(|kind| curve(jumps, kind)).collect();
    let knees: Vec<TlbKnee> = curves.iter().flat_map(find).collect();
    let claimed = |page| jumps.serving_code(page).collect::<Vec<_>>();
    let claims = ProcessorClaims {
        unit: "jump",
        is_hidden: true,
        pages: [jumps.base_page_bytes, jumps.huge_page_bytes],
        by_page: &claimed,
    }
    .beside(&curves, &knees);
    let advice = advice(jumps, &ratios, (&curves, &knees));
    TextBenchJudgement { ratios, knees, claims, advice }
}

/// Larger pages against base pages, by order and size.
fn ratios(jumps: &TextBenchReport) -> Vec<TextBenchRatio> {
    let mut found = Vec::new();
    for order in JumpOrder::ALL {
        for base in jumps.curve(order, PageKind::Base, jumps.dense()) {
            let on = |kind| jumps.find(order, kind, jumps.dense(), base.jumps);
            let larger = PageKind::LARGER.map(on).into_iter().flatten();
            found.extend(larger.filter_map(|larger| ratio(base, larger)));
        }
    }
    found
}

fn ratio(base: &TextBenchPoint, larger: &TextBenchPoint) -> Option<TextBenchRatio> {
    let samples = [base, larger].into_iter().flat_map(|p| &p.samples);
    let logs = larger.jump_times().log_ratios(&base.jump_times());
    let JudgedRatio { ratio, interval, steadiness } =
        JudgedRatio::from_logs(&logs, samples.map(|s| s.within_share))?;
    let (order, pages, set_bytes) = (base.order, larger.pages, base.set_bytes());
    Some(TextBenchRatio { order, pages, set_bytes, ratio, interval, steadiness })
}

/// What translation costs by the number of pages of a kind that have one element each.
fn curve(jumps: &TextBenchReport, pages: PageKind) -> Option<TranslationCurve> {
    let own = |p: &&TextBenchPoint| {
        let huge = jumps.huge_page_bytes.bytes();
        let is_apart = match pages {
            PageKind::Base => p.apart_bytes > jumps.dense(),
            _ => p.apart_bytes.0 >= huge,
        };
        p.order == JumpOrder::Changing && p.pages == pages && is_apart
    };
    let apart_bytes = jumps.points.iter().find(own)?.apart_bytes;
    let of = |pages, apart| -> Vec<(u64, RepeatSeries)> {
        let curve = jumps.curve(JumpOrder::Changing, pages, apart).into_iter();
        curve.map(|p| (p.jumps, p.jump_times())).collect()
    };
    let few = of(PageKind::Thp, jumps.dense());
    Some(TranslationCurve::from_points((pages, apart_bytes), &of(pages, apart_bytes), &few))
}

/// Three sentences of advice. A sentence gives the reason if there is no answer.
fn advice(
    jumps: &TextBenchReport,
    ratios: &[TextBenchRatio],
    (curves, knees): (&[TranslationCurve], &[TlbKnee]),
) -> Vec<String> {
    vec![page_advice(jumps, ratios), together(jumps, curves, knees), foreseen(jumps, ratios)]
}

/// The best of larger pages in one order.
fn best<'a>(
    jumps: &TextBenchReport,
    ratios: &'a [TextBenchRatio],
    order: JumpOrder,
) -> BestWay<&'a TextBenchRatio> {
    let of_order = ratios.iter().filter(|r| r.order == order);
    let repeats = u64::from(jumps.repeats);
    BestWay::smallest(
        of_order.map(|r| (r, ClaimFigure::new(r.ratio, r.interval.clone(), repeats).below(WORTH))),
    )
}

fn page_advice(jumps: &TextBenchReport, ratios: &[TextBenchRatio]) -> String {
    const JUMPS: AccessWording = AccessWording {
        what: "code that is used together",
        how: |_| "pagewise text warm",
        all: "unpredictable jumps",
        one: "such a jump",
    };
    let here = ratios.iter().filter(|r| r.order == JumpOrder::Changing).map(|r| SizeComparison {
        bytes: r.set_bytes,
        pages: r.pages,
        ratio: r.ratio,
        interval: &r.interval,
        steadiness: r.steadiness,
    });
    page_advice_of(&JUMPS, &here.collect::<Vec<_>>(), jumps.repeats)
}

fn together(jumps: &TextBenchReport, curves: &[TranslationCurve], knees: &[TlbKnee]) -> String {
    let base: Vec<&TlbKnee> = knees.iter().filter(|k| k.pages == PageKind::Base).collect();
    let (Some(first), Some(last), false) = (base.first(), base.last(), is_thin(curves)) else {
        return no_end(curves, "of code");
    };
    let cost = |knee: &TlbKnee| format!("{:.1} ns", knee.to_ns - knee.from_ns);
    let reach = |knee: &TlbKnee| {
        format!(
            "{} base pages ({})",
            knee.about_pages,
            Bytes(knee.about_pages.saturating_mul(jumps.dense().0))
        )
    };
    let more = if base.len() > 1 {
        format!(", and beyond {} another {} more", reach(last), cost(last))
    } else {
        String::new()
    };
    format!(
        "Keep code that is used together on at most {}: beyond that, a jump to another page costs {} more{more}.",
        reach(first),
        cost(first)
    )
}

fn foreseen(jumps: &TextBenchReport, ratios: &[TextBenchRatio]) -> String {
    let ask = "measure your own program with pagewise bench text -- COMMAND";
    let percent = |ratio: &TextBenchRatio| (1.0 - ratio.ratio) * 100.0;
    let of = |order| best(jumps, ratios, order);
    match (of(JumpOrder::Changing), of(JumpOrder::Repeated)) {
        (BestWay::Proven(changing, _), BestWay::Proven(repeated, _)) => {
            let (one, other) = (percent(changing), percent(repeated));
            format!(
                "Expect a gain of at most {:.0}% to {:.0}% of the time of jumps, depending on prediction; {ask}.",
                one.min(other),
                one.max(other)
            )
        }
        (BestWay::Proven(changing, _), BestWay::No(_)) => format!(
            "Expect no gain for predicted jumps, and up to {:.0}% of the time of unpredictable ones; {ask}.",
            percent(changing)
        ),
        (BestWay::Proven(changing, _), _) => format!(
            "Expect a gain of up to {:.0}% of the time of unpredictable jumps; for predicted ones it is open; {ask}.",
            percent(changing)
        ),
        (_, BestWay::Proven(repeated, _)) => format!(
            "Expect a gain of up to {:.0}% of the time of predicted jumps; {ask}.",
            percent(repeated)
        ),
        (BestWay::No(_), BestWay::No(_)) => {
            format!("This does not mean that no program gains; {ask}.")
        }
        _ => format!("What a program would gain is open; {ask}."),
    }
}

#[cfg(test)]
mod tests;
