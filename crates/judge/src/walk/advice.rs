//! What the machine should do: three sentences, on page size, on the size of what is used together, and
//! on scans.

use pagewise_model::Bytes;
use pagewise_model::walk::{Knee, Order, PageKind, Path, Ratio, Steadiness, Walks};

/// From this gain on a larger page is worth asking for.
const WORTH: f64 = 0.97;
/// Cores together this much faster than one are worth the threads.
const MORE: f64 = 1.3;

/// Three sentences, each a reason where nothing is known.
pub(super) fn advice(walks: &Walks, ratios: &[Ratio], knees: &[Knee]) -> Vec<String> {
    vec![pages(ratios), together(walks, knees), scans(walks)]
}

/// The list that the first sentence is about: random, one line to an element if that was walked.
fn usual(ratios: &[Ratio]) -> Option<Path> {
    let random = |r: &&Ratio| matches!(r.path, Path::List { order: Order::Random, .. });
    let distance = |path: &Path| path.pitch().0.abs_diff(pagewise_model::walk::LINE.0);
    ratios.iter().filter(random).map(|r| r.path).min_by_key(distance)
}

fn pages(ratios: &[Ratio]) -> String {
    let Some(path) = usual(ratios) else {
        return "Nothing was walked on two kinds of pages, so nothing is said about them."
            .to_owned();
    };
    let gains =
        |r: &&Ratio| r.path == path && r.interval.known().is_some_and(|(_, high)| *high < WORTH);
    let mut worth: Vec<&Ratio> = ratios.iter().filter(gains).collect();
    worth.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
    let Some(best) = worth.first() else {
        let unsteady = ratios.iter().any(|r| r.path == path && r.steadiness != Steadiness::Steady);
        let rest = if unsteady { "; where figures differ, placement or others decide" } else { "" };
        return format!(
            "Do not expect huge pages to make dependent random loads faster here: at no size is a gain \
             of 3% proven{rest}."
        );
    };
    let first = worth.iter().map(|r| r.set_bytes).min().unwrap_or_default();
    let kind = if best.pages == PageKind::Thp { "MADV_HUGEPAGE" } else { "the reserved pool" };
    format!(
        "Put what is read at random on huge pages from {first} on ({kind}): at {} a load takes {:.0}% \
         less.",
        best.set_bytes,
        (1.0 - best.ratio) * 100.0
    )
}

fn together(walks: &Walks, knees: &[Knee]) -> String {
    let base: Vec<&Knee> = knees.iter().filter(|k| k.pages == PageKind::Base).collect();
    let reach = |knee: &Knee| Bytes(knee.about_pages.saturating_mul(walks.base_page_bytes.bytes()));
    let cost = |knee: &Knee| format!("{:.1} ns", knee.to_ns - knee.from_ns);
    match base.as_slice() {
        [] => {
            "No number of base pages was found beyond which each load costs more: the size of what \
               is used together is a matter of caches here."
                .to_owned()
        }
        [one] => format!(
            "Keep what is used together on at most {} base pages ({}): beyond, each load on another \
             page costs {} more.",
            one.about_pages,
            reach(one),
            cost(one)
        ),
        [first, .., last] => format!(
            "Keep what is used together on at most {} base pages ({}), or {} ({}) at {} more for each \
             load on another page: beyond, it is {} more again.",
            first.about_pages,
            reach(first),
            last.about_pages,
            reach(last),
            cost(first),
            cost(last)
        ),
    }
}

fn scans(walks: &Walks) -> String {
    let (one, all) = (&walks.bandwidth.one.read_gib_per_s, &walks.bandwidth.all.read_gib_per_s);
    match (one.known(), all.known()) {
        (Some(one), Some(all)) if all.median > MORE * one.median => format!(
            "Split scans of memory over the {} cores: together they read {:.1} GiB/s, one alone {:.1}.",
            walks.bandwidth.cpus, all.median, one.median
        ),
        (Some(one), Some(all)) => format!(
            "Do not split scans of memory for speed: all {} cores read {:.1} GiB/s together, one alone \
             {:.1}.",
            walks.bandwidth.cpus, all.median, one.median
        ),
        (Some(one), None) => format!(
            "Take {:.1} GiB/s as the ceiling of whatever reads memory here: more than one core may not \
             be used.",
            one.median
        ),
        (None, _) => format!(
            "Nothing is said about scans: {}.",
            one.reason().unwrap_or("the bandwidth was not measured")
        ),
    }
}
