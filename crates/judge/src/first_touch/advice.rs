//! What the machine should do: three sentences, on the size of pages, on filling ahead, and on threads and
//! the host.

use super::ratios::{at_most, find};
use pagewise_model::first_touch::{FirstTouch, Host, Part, Point, Ratio, Way};

/// Below this ratio a way is worth asking for.
const WORTH: f64 = 0.97;
/// Threads together that take at most this share of one thread's time are worth it.
const FASTER: f64 = 0.8;
/// Chunks in a hundred that the host had to back from which on it is worth a word.
const OFTEN: u64 = 5;

/// Three sentences, each a reason where nothing is known.
pub(super) fn advice(touches: &FirstTouch, ratios: &[Ratio]) -> Vec<String> {
    vec![pages(touches, ratios), ahead(touches, ratios), together(touches)]
}

/// Nanoseconds for each page used of a way by one thread, all of it.
fn page_ns(touches: &FirstTouch, way: Way, every_pages: u64) -> Option<f64> {
    touches.find(way, every_pages, 1)?.page_ns(Part::Whole).map(|ns| ns.median)
}

/// Whether there are such ratios, and none has an interval: nothing can be proven.
fn lacks_proof(ratios: &[Ratio], of: impl Fn(&Ratio) -> bool) -> bool {
    let mut all = ratios.iter().filter(|r| of(r));
    all.all(|r| at_most(r).is_none())
}

/// The smallest of these ratios that is proven to be worth it.
fn best(ratios: &[Ratio], of: impl Fn(&Ratio) -> bool) -> Option<&Ratio> {
    let single = |r: &&Ratio| r.threads == 1 && r.every_pages == 1 && of(r);
    let worth = |r: &&Ratio| at_most(r).is_some_and(|high| high < WORTH);
    let proven = ratios.iter().filter(single).filter(worth);
    proven.min_by(|a, b| a.ratio.total_cmp(&b.ratio))
}

fn is_larger(way: Way) -> bool {
    matches!(way, Way::Thp | Way::Mthp { .. }) || way.is_pool()
}

fn pages(touches: &FirstTouch, ratios: &[Ratio]) -> String {
    if !ratios.iter().any(|r| is_larger(r.way)) {
        return "Nothing was touched on larger pages and on base pages, so nothing is said about their \
                size."
            .to_owned();
    }
    if lacks_proof(ratios, |r| is_larger(r.way)) {
        return "Nothing is said about larger pages: too few mappings were made to prove anything."
            .to_owned();
    }
    let Some(best) = best(ratios, |r| is_larger(r.way)) else {
        return "Do not expect larger pages to make memory ready faster here: a gain of 3% is proven for \
                none."
            .to_owned();
    };
    let how = match best.way {
        Way::Thp => "MADV_HUGEPAGE".to_owned(),
        Way::Mthp { page_bytes } => format!("MADV_HUGEPAGE with pages of {page_bytes} enabled"),
        _ => "the reserved pool".to_owned(),
    };
    format!(
        "Put memory that is used whole on larger pages ({how}): until each {} of it can be used takes \
         {:.0}% less time than on base pages.",
        touches.base_page_bytes,
        (1.0 - best.ratio) * 100.0
    )
}

fn ahead(touches: &FirstTouch, ratios: &[Ratio]) -> String {
    let is_ahead =
        |r: &Ratio| matches!(r.way, Way::MapPopulate | Way::PopulateWrite | Way::PopulatePieces);
    if !ratios.iter().any(is_ahead) {
        return "Nothing is said about filling memory ahead: it was not measured beside faults."
            .to_owned();
    }
    let advised = match best(ratios, is_ahead) {
        Some(best) => format!(
            "Fill base pages ahead ({}) where all of them will be used: {:.0}% less than by faults",
            best.way.word(),
            (1.0 - best.ratio) * 100.0
        ),
        None if lacks_proof(ratios, is_ahead) => {
            "Nothing is said about filling base pages ahead: too few mappings were made to prove anything"
                .to_owned()
        }
        None => "Do not fill base pages ahead to save time: a gain of 3% is proven for no way"
            .to_owned(),
    };
    format!("{advised}{}.", waste(touches, ratios).unwrap_or_default())
}

/// What it costs that most of a populated mapping is not used.
fn waste(touches: &FirstTouch, ratios: &[Ratio]) -> Option<String> {
    let point = touches.points.iter().find(|p| p.way == Way::MapPopulate && p.every_pages > 1)?;
    let (used, demand) =
        (page_ns(touches, point.way, point.every_pages)?, page_ns(touches, Way::OnDemand, 1)?);
    let ratio = find(ratios, point.way, point.every_pages)?;
    Some(format!(
        "; with one page in {} used, MAP_POPULATE costs {used:.0} ns for each of those ({:.1} times the {demand:.0} \
         ns of a fault) and holds {} for nothing",
        point.every_pages,
        ratio.ratio,
        point.wasted_bytes(touches.base_page_bytes)
    ))
}

fn together(touches: &FirstTouch) -> String {
    let host = touches.host.iter().find_map(host);
    match (threads(touches), host) {
        (Some(threads), Some(host)) => format!("{threads}; {host}."),
        (Some(threads), None) => format!("{threads}."),
        (None, Some(host)) => format!("Touch memory once before you measure: {host}."),
        (None, None) => {
            "Nothing is said about threads: only one touched, or may run here.".to_owned()
        }
    }
}

fn threads(touches: &FirstTouch) -> Option<String> {
    let of_way = |p: &&Point| p.way == Way::OnDemand && !p.samples.is_empty();
    let most = touches.points.iter().filter(of_way).max_by_key(|p| p.threads)?;
    let alone = page_ns(touches, Way::OnDemand, 1)?;
    let together = most.page_ns(Part::Whole)?.median;
    if most.threads < 2 {
        return None;
    }
    let advised = if together < FASTER * alone { "Touch" } else { "Do not touch" };
    let for_speed = if together < FASTER * alone { "" } else { " for speed" };
    Some(format!(
        "{advised} large memory first with several threads{for_speed}: {} of them take {together:.0} ns for each \
         page together, one takes {alone:.0}",
        most.threads
    ))
}

fn host(host: &Host) -> Option<String> {
    let extra = host.extra_page_ns.known()?;
    let is_often = host.slow_chunks * 100 >= OFTEN * host.chunks;
    is_often.then(|| {
        format!(
            "a page that the host of this virtual machine must back anew costs {extra:.0} ns more ({} of {} \
             chunks touched beforehand were such)",
            host.slow_chunks, host.chunks
        )
    })
}
