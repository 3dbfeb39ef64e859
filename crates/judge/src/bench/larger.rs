//! What to advise of larger pages, whatever is done on them: loads and jumps have one answer.

use super::best::{Best, to_settle};
use crate::stats::{interval_text, is_below, less_text};
use pagewise_model::bench::tlb::Steadiness;
use pagewise_model::bench::{Figure, PageKind};
use pagewise_model::{Bytes, Fact};

/// From this gain on larger pages are worth asking for.
pub(crate) const WORTH: f64 = 0.97;

/// What is done on the pages.
pub(crate) struct Access {
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
pub(crate) struct Size<'a> {
    pub(crate) bytes: Bytes,
    pub(crate) pages: PageKind,
    pub(crate) ratio: f64,
    pub(crate) interval: &'a Fact<(f64, f64)>,
    pub(crate) steadiness: Steadiness,
}

/// Whether these sizes, each measured in `repeats` repeats, should be on larger pages.
pub(crate) fn page_advice(access: &Access, sizes: &[Size<'_>], repeats: u32) -> String {
    let Access { what, how, all, one } = access;
    let figure = |size: &Size<'_>| {
        Figure::new(size.ratio, size.interval.clone(), repeats.into()).below(WORTH)
    };
    match Best::smallest(sizes.iter().map(|size| (size, figure(size)))) {
        Best::Proven(best, _) => {
            let worth = sizes.iter().filter(|size| is_below(size.interval, WORTH));
            let first = worth.map(|size| size.bytes).min().unwrap_or_default();
            format!(
                "Put {what} on huge pages from {first} on ({}): at {}, {one} takes {}.",
                how(best.pages),
                best.bytes,
                less_text("", best.ratio, best.interval)
            )
        }
        Best::Open(best, figure) => format!(
            "Whether huge pages make {all} faster here: open. At {} on {}, {one} takes {:.2} times as long as on base pages{}{}{}.",
            best.bytes,
            best.pages.name(),
            best.ratio,
            interval_text(best.interval),
            to_settle(&figure),
            unsteady(best.steadiness)
        ),
        Best::No(_) => format!(
            "Do not expect huge pages to make {all} faster here: up to {} no size gains 3%.",
            sizes.iter().map(|size| size.bytes).max().unwrap_or_default()
        ),
        Best::Unmeasured => format!(
            "Whether huge pages make {all} faster here: not measured. Only one page size has figures."
        ),
    }
}

/// Why mappings differ, if that is known.
const fn unsteady(steadiness: Steadiness) -> &'static str {
    match steadiness {
        Steadiness::Steady => "",
        Steadiness::Placement => "; the placement of the pages decides",
        Steadiness::Disturbed => "; other programs disturbed it",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JUMPS: Access = Access {
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
            let size = |(at, interval): (usize, _)| Size {
                bytes: Bytes::mib(1 << at),
                pages: PageKind::Thp,
                ratio: found[at].0,
                interval,
                steadiness: Steadiness::Placement,
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
