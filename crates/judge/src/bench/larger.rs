//! What to advise of larger pages, whatever is done on them: loads and jumps have one answer.

use super::best::{BestWay, to_settle};
use crate::stats::{interval_text, is_below, less_text};
use pagewise_model::bench::tlb::RatioSteadiness;
use pagewise_model::bench::{ClaimFigure, PageKind};
use pagewise_model::{Bytes, Fact};

/// From this gain on larger pages are worth asking for.
pub(crate) const WORTH: f64 = 0.97;

/// What is done on the pages.
pub(crate) struct AccessWording {
    /// What should be put on larger pages.
    pub(crate) what: &'static str,
    /// How it gets there.
    pub(crate) how: fn(PageKind) -> &'static str,
    /// What should become faster.
    pub(crate) all: &'static str,
    /// One of that.
    pub(crate) one: &'static str,
}

/// A size on larger pages, compared with the same size on base pages.
pub(crate) struct SizeComparison<'a> {
    pub(crate) bytes: Bytes,
    pub(crate) pages: PageKind,
    pub(crate) ratio: f64,
    pub(crate) interval: &'a Fact<(f64, f64)>,
    pub(crate) steadiness: RatioSteadiness,
}

/// Whether these sizes, each measured in `repeats` repeats, should be on larger pages.
pub(crate) fn page_advice(
    access: &AccessWording,
    sizes: &[SizeComparison<'_>],
    repeats: u32,
) -> String {
    let AccessWording { what, how, all, one } = access;
    let figure = |size: &SizeComparison<'_>| {
        ClaimFigure::new(size.ratio, size.interval.clone(), repeats.into()).below(WORTH)
    };
    match BestWay::smallest(sizes.iter().map(|size| (size, figure(size)))) {
        BestWay::Proven(best, _) => {
            let worth = sizes.iter().filter(|size| is_below(size.interval, WORTH));
            let first = worth.map(|size| size.bytes).min().unwrap_or_default();
            format!(
                "Put {what} on huge pages from {first} on ({}): at {}, {one} takes {}.",
                how(best.pages),
                best.bytes,
                less_text("", best.ratio, best.interval)
            )
        }
        BestWay::Open(best, figure) => format!(
            "Whether huge pages make {all} faster here: open. At {} on {}, {one} takes {:.2} times as long as on base pages{}{}{}.",
            best.bytes,
            best.pages.name(),
            best.ratio,
            interval_text(best.interval),
            to_settle(&figure),
            unsteady(best.steadiness)
        ),
        BestWay::No(_) => format!(
            "Do not expect huge pages to make {all} faster here: up to {} no size gains 3%.",
            sizes.iter().map(|size| size.bytes).max().unwrap_or_default()
        ),
        BestWay::Unmeasured => format!(
            "Whether huge pages make {all} faster here: not measured. Only one page size has figures."
        ),
    }
}

/// Why mappings differ, if that is known.
const fn unsteady(steadiness: RatioSteadiness) -> &'static str {
    match steadiness {
        RatioSteadiness::Steady => "",
        RatioSteadiness::Placement => "; the placement of the pages decides",
        RatioSteadiness::Disturbed => "; other programs disturbed it",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JUMPS: AccessWording = AccessWording {
        what: "code",
        how: |_| "pagewise text warm",
        all: "unpredictable jumps",
        one: "such a jump",
    };

    #[test]
    fn loads_and_jumps_are_advised_in_the_same_words() {
        let said = |found: &[(f64, f64)]| {
            let interval = |&(ratio, off): &(f64, f64)| Fact::Known((ratio - off, ratio + off));
            let intervals: Vec<Fact<(f64, f64)>> = found.iter().map(interval).collect();
            let size = |(at, interval): (usize, _)| SizeComparison {
                bytes: Bytes::mib(1 << at),
                pages: PageKind::Thp,
                ratio: found[at].0,
                interval,
                steadiness: RatioSteadiness::Placement,
            };
            page_advice(&JUMPS, &intervals.iter().enumerate().map(size).collect::<Vec<_>>(), 9)
        };
        let proven = said(&[(1.0, 0.1), (0.9, 0.01), (0.8, 0.02)]);
        assert_eq!(
            proven,
            "Put code on huge pages from 2.0 MiB on (pagewise text warm): at 4.0 MiB, such a jump takes 20% less \
             (18..22%)."
        );
        let open = said(&[(0.9, 0.2)]);
        assert!(open.contains(": open. At 1.0 MiB") && open.contains("placement"), "{open}");
        assert!(said(&[(1.1, 0.01)]).contains("up to 1.0 MiB no size gains 3%"));
        assert!(said(&[]).contains(": not measured. "));
    }
}
