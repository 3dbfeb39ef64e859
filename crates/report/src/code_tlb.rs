//! Misses of the TLB for code, and how many pages of code samples hit, in sentences.

use crate::number::count;
use pagewise_model::Fact;
use pagewise_model::code_tlb::{CodeMissCounts, CodeMissEstimate, MissRate, SampledCodePages};
use pagewise_model::profile::ProfileReport;
use pagewise_model::run::SavedRun;
use pagewise_model::text_trial::TextTrial;

/// Misses before and after: counted, and estimated from single steps.
pub(crate) fn of_trial(trial: &TextTrial) -> String {
    let counted = match (&trial.off_misses, &trial.on_misses) {
        (Fact::Known(off), Fact::Known(on)) => {
            format!("counted: {} off, {} on", off.text(), on.text())
        }
        (Fact::Missing(why), _) | (_, Fact::Missing(why)) => format!("not counted: {why}"),
    };
    match &trial.estimate {
        Fact::Known(estimate) => format!("{}; {counted}", estimated(estimate)),
        Fact::Missing(why) => format!("{counted}; not estimated from single steps: {why}"),
    }
}

fn estimated(found: &CodeMissEstimate) -> String {
    let rate =
        |rate: &MissRate| format!("{:.2} ({:.2}..{:.2})", rate.per_1000, rate.low, rate.high);
    let assumed = if found.tlb.is_assumed { ", assumed" } else { "" };
    format!(
        "{} misses in 1000 instructions on base pages, {} with all code on {} pages: estimate from {} single steps, for {} entries{assumed}",
        rate(&found.base),
        rate(&found.huge),
        found.huge_bytes,
        count(found.instructions),
        found.tlb.base_entries,
    )
}

/// What a profile shows of the TLB for code; `None` if neither samples nor counters show anything.
pub(crate) fn of_profile(profile: &ProfileReport, run: &SavedRun) -> Option<String> {
    let counts = run.look.as_ref().and_then(|look| look.code_misses.known());
    let counts = counts.map(CodeMissCounts::text);
    let pages = profile.code_pages.as_ref().map(sampled);
    match (pages, counts) {
        (Some(pages), Some(counts)) => Some(format!("{counts}; {pages}")),
        (Some(pages), None) => {
            Some(format!("{pages}; `pagewise bench text -- CMD` estimates misses"))
        }
        (None, counts) => counts,
    }
}

fn sampled(found: &SampledCodePages) -> String {
    let entries =
        found.entries.map_or_else(String::new, |n| format!(" (the iTLB has {n} entries)"));
    format!(
        "{} base pages of code in {} samples, {:.0} in any 1000; {} hold 90%{entries}",
        count(found.pages),
        count(found.samples),
        found.pages_in_1000.round(),
        count(found.pages_of_most)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_stand_beside_the_entries() {
        let found = SampledCodePages {
            samples: 2000,
            pages: 150,
            pages_in_1000: 120.4,
            pages_of_most: 61,
            entries: Some(64),
        };
        let text = sampled(&found);
        assert!(text.contains("150 base pages") && text.contains("120 in any 1000"), "{text}");
        assert!(text.contains("61 hold 90% (the iTLB has 64 entries)"), "{text}");
    }
}
