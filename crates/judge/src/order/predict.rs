//! What a start touches of a program's code, in any layout.
//!
//! A called function counts whole, unless it is known which of its pages the run touched. Then the parts on
//! other pages do not count, and a part that would cross a page end counts by chance. Functions in the order
//! lie one after the other from the first function's address, each aligned as today up to [`MOST_ALIGNED`].
//! The others follow in today's order: lld and the scripts of `order emit` lay them out this way. Code
//! outside functions (PLT, `.init`) counts where it lies today. Functions of one name, such as the clones of
//! a template in several files, move together, because linkers identify them by name.
//!
//! The caller counts faults, because it has the file and its folios. If it cannot, a fault is assumed to map
//! the fault-around window of its page, by virtual address. The number of windows then depends on the load
//! address, so it is averaged over all page offsets.

use super::arrange::{WINDOW, arrange, first_calls, pages, windows};
use super::touched::SIZES;
use pagewise_model::pieces::{
    BuildSymbol, LayoutForecast, OrderForecast, SizeForecast, TouchedCode, Workload,
};
use pagewise_model::{Bytes, PageSize};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Functions of the compiler that each start runs, whether an order names them or not.
const START: [&str; 5] = [
    "_start",
    "frame_dummy",
    "register_tm_clones",
    "deregister_tm_clones",
    "__do_global_dtors_aux",
];
/// Functions are aligned to this where their address happens to be rounder.
const MOST_ALIGNED: u64 = 16;

/// What one fault may map: a window, or the folios that it touches.
const WIDTHS: [Bytes; 3] = [WINDOW, Bytes::kib(128), Bytes::kib(256)];

/// Points that a run touches of a part of a page by chance: fitted to five programs in C, C++ and Rust.
const POINTS: i32 = 2;

/// Another build of the program, with the workloads by place in its functions.
#[derive(Debug, Clone)]
pub struct ProgramBuild {
    /// What it is called.
    pub name: String,
    /// Its functions by address.
    pub functions: Vec<BuildSymbol>,
    /// Code outside of functions that each start runs.
    pub frame: Vec<Range<u64>>,
    /// The same workloads as of the program.
    pub workloads: Vec<Workload>,
}

/// Counts the faults of a start of a build that touches pages at these addresses, in this order. `None` if
/// they cannot be counted.
pub type CountFaults<'a> = dyn Fn(&ProgramBuild, &[u64]) -> Option<f64> + 'a;

/// What `program` touches today, in its first-call order, in the best order, and what others touch.
#[must_use]
pub fn forecast(
    program: &ProgramBuild,
    others: &[ProgramBuild],
    count: &CountFaults<'_>,
) -> OrderForecast {
    let workloads = &program.workloads;
    let best = best(program, count);
    let calls = first_calls(workloads);
    let mut layouts = vec![layout("as linked", program, None, count)];
    if workloads.len() > 1 {
        layouts.push(layout("first-call order", program, Some(&calls), count));
    }
    layouts.push(layout("ordered", program, Some(&best), count));
    for other in others {
        layouts.push(layout(&other.name, other, None, count));
        let best = self::best(other, count);
        layouts.push(layout(&format!("{}, ordered", other.name), other, Some(&best), count));
    }
    OrderForecast {
        workloads: workloads.iter().map(|one| one.name.clone()).collect(),
        weights: workloads.iter().map(|one| one.weight).collect(),
        layouts,
        sizes: sizes(program, &best),
    }
}

/// The order of all called functions with the fewest weighted faults. What one fault maps depends on folios,
/// so several orders are laid out and their faults counted.
#[must_use]
pub fn best(build: &ProgramBuild, count: &CountFaults<'_>) -> Vec<usize> {
    let ProgramBuild { functions, workloads, .. } = build;
    if let [one] = &workloads[..] {
        return one.calls.clone();
    }
    // `order emit` does not know the touched pages and must find the same order.
    let untouched = |one: &Workload| Workload { touched: Vec::new(), ..one.clone() };
    let plain =
        ProgramBuild { workloads: workloads.iter().map(untouched).collect(), ..build.clone() };
    let arranged = WIDTHS.map(|window| arrange(functions, workloads, window));
    let orders = arranged.into_iter().chain([first_calls(workloads)]);
    let cost = |order: &Vec<usize>| -> f64 {
        let touched = layout("", &plain, Some(order), count).touched;
        touched.iter().zip(workloads).map(|(one, workload)| one.faults * workload.weight).sum()
    };
    // Of equals the first.
    let costs = orders.map(|order| (cost(&order), order));
    costs.min_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, order)| order).unwrap_or_default()
}

fn layout(
    name: &str,
    build: &ProgramBuild,
    order: Option<&[usize]>,
    count: &CountFaults<'_>,
) -> LayoutForecast {
    let placed = placed(&build.functions, order);
    let seen = |workload: &Workload| {
        let called = workload.calls.iter().filter_map(|at| placed.get(*at));
        let parts = parts(build, workload, &placed);
        let chances = match order {
            None if !workload.touched.is_empty() => as_seen(&workload.touched),
            _ => chances(&parts),
        };
        let likely: Vec<u64> =
            chances.iter().filter(|(_, chance)| *chance >= 0.5).map(|(page, _)| *page).collect();
        let counted = count(build, &likely);
        let ranges = likely.iter().map(|page| *page..page + PageSize::BASE_4K.bytes());
        let touched = TouchedCode {
            called_bytes: Bytes(called.map(|range| range.end - range.start).sum()),
            pages: chances.iter().map(|(_, chance)| chance).sum::<f64>().round() as u64,
            faults: counted.unwrap_or_else(|| windows(ranges, WINDOW)),
            is_counted: counted.is_some(),
        };
        (touched, likely)
    };
    let (touched, pages) = build.workloads.iter().map(seen).unzip();
    let start = placed.iter().map(|range| range.start).min().unwrap_or_default();
    let end = placed.iter().map(|range| range.end).max().unwrap_or(start);
    LayoutForecast { layout: name.to_owned(), touched, code: start..end, pages }
}

/// A part of a function, or of code outside of functions, of which something is touched.
#[derive(Debug)]
struct FunctionPart {
    range: Range<u64>,
    /// All of it counts: the touched pages are not known.
    is_whole: bool,
    /// The function begins there.
    is_entry: bool,
    /// When it is touched at the earliest: the place among the touches of today.
    at: usize,
}

/// What a workload touches where the functions lie at `placed`, about in the order of first touches: a part
/// comes no earlier than the page that it is on today, nor than the call of its function, which comes no
/// earlier than the calls before it.
fn parts(build: &ProgramBuild, workload: &Workload, placed: &[Range<u64>]) -> Vec<FunctionPart> {
    let is_start = |at: &usize| START.contains(&build.functions[*at].name.as_str());
    let start = (0..placed.len()).filter(is_start);
    let of_function = |at: usize| {
        let (today, now) = (today(&build.functions[at]), placed[at].start);
        let mut parts = touched_of(&today, &workload.touched);
        if parts.is_empty() {
            parts.push(FunctionPart::whole(&today));
        }
        let moved = move |at: u64| at - today.start + now;
        parts.into_iter().map(move |part| FunctionPart {
            range: moved(part.range.start)..moved(part.range.end),
            ..part
        })
    };
    let frame = build.frame.iter().flat_map(|part| touched_of(part, &workload.touched));
    let calls = workload.calls.iter().copied().filter(|at| *at < placed.len());
    let mut called = 0;
    let called = calls.flat_map(|at| {
        let parts: Vec<FunctionPart> = of_function(at).collect();
        let entry = parts.iter().filter(|part| part.is_entry).map(|part| part.at).max();
        called = called.max(entry.unwrap_or_default());
        parts.into_iter().map(move |part| FunctionPart { at: part.at.max(called), ..part })
    });
    let mut all: Vec<FunctionPart> =
        start.flat_map(of_function).chain(frame).chain(called).collect();
    all.sort_by_key(|part| part.at);
    all
}

impl FunctionPart {
    /// All of `range`, whose touched pages are not known.
    fn whole(range: &Range<u64>) -> Self {
        Self { range: range.clone(), is_whole: true, is_entry: true, at: 0 }
    }
}

/// The parts of `range` on these pages, page by page. All of it if the pages are not known.
fn touched_of(range: &Range<u64>, touched: &[Range<u64>]) -> Vec<FunctionPart> {
    if touched.is_empty() {
        return vec![FunctionPart::whole(range)];
    }
    let page = PageSize::BASE_4K.bytes();
    let common = |(at, part): (usize, &Range<u64>)| {
        (at, part.start.max(range.start)..part.end.min(range.end))
    };
    let pieces = touched.iter().enumerate().map(common).filter(|(_, part)| part.start < part.end);
    let by_page = pieces.flat_map(|(at, part)| {
        let first = part.start / page;
        (first..part.end.div_ceil(page)).map(move |number| {
            (at, (number * page).max(part.start)..((number + 1) * page).min(part.end))
        })
    });
    by_page
        .map(|(at, part)| {
            let is_entry = part.start == range.start;
            FunctionPart { range: part, is_whole: false, is_entry, at }
        })
        .collect()
}

/// The pages of these parts, each at its first place, with the chance that it is touched. What was touched
/// of a part may now lie on either of two pages: it is taken for two points of it by chance, and the entry
/// of a function for one that is certain.
fn chances(parts: &[FunctionPart]) -> Vec<(u64, f64)> {
    let page = PageSize::BASE_4K.bytes();
    let (mut found, mut places) = (Vec::new(), HashMap::new());
    for FunctionPart { range, is_whole, is_entry, .. } in parts {
        let (first, end) = (range.start / page, range.end.max(range.start + 1).div_ceil(page));
        let share = |number: u64| {
            let within = ((number + 1) * page).min(range.end) - (number * page).max(range.start);
            within as f64 / (range.end - range.start) as f64
        };
        for number in first..end {
            let chance = match (is_entry, end - first) {
                (_, 1) => 1.0,
                _ if *is_whole => 1.0,
                (true, _) if number == first => 1.0,
                _ => 1.0 - (1.0 - share(number)).powi(POINTS),
            };
            let place = *places.entry(number).or_insert_with(|| {
                found.push((number * page, 0.0));
                found.len() - 1
            });
            let (_, known) = &mut found[place];
            *known = 1.0 - (1.0 - *known) * (1.0 - chance);
        }
    }
    found
}

/// The pages that were touched, in their order.
fn as_seen(touched: &[Range<u64>]) -> Vec<(u64, f64)> {
    let page = PageSize::BASE_4K.bytes();
    let pages = |range: &Range<u64>| range.start / page..range.end.div_ceil(page);
    let mut seen = HashSet::new();
    let all = touched.iter().flat_map(pages).filter(|number| seen.insert(*number));
    all.map(|number| (number * page, 1.0)).collect()
}

fn today(function: &BuildSymbol) -> Range<u64> {
    function.address..function.address + function.bytes.0
}

/// Where each function lies: as today, or with those of `order` first.
fn placed(functions: &[BuildSymbol], order: Option<&[usize]>) -> Vec<Range<u64>> {
    let mut placed: Vec<Range<u64>> = functions.iter().map(today).collect();
    let Some(order) = order else { return placed };
    let mut by_name: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, function) in functions.iter().enumerate() {
        by_name.entry(&function.name).or_default().push(at);
    }
    // A linker moves all functions of a name to its first place.
    let named = order.iter().filter_map(|at| by_name.remove(functions[*at].name.as_str()));
    let ordered: Vec<usize> = named.flatten().collect();
    let mut is_ordered = vec![false; functions.len()];
    ordered.iter().for_each(|at| is_ordered[*at] = true);
    let rest = (0..functions.len()).filter(|at| !is_ordered[*at]);
    let mut end = functions.iter().map(|function| function.address).min().unwrap_or_default();
    for at in ordered.into_iter().chain(rest) {
        let function = &functions[at];
        let align = (1 << function.address.trailing_zeros().min(63)).min(MOST_ALIGNED);
        let start = end.next_multiple_of(align);
        end = start + function.bytes.0;
        placed[at] = start..end;
    }
    placed
}

/// What the union of the workloads touches with other page sizes.
fn sizes(program: &ProgramBuild, best: &[usize]) -> Vec<SizeForecast> {
    let functions = &program.functions;
    let union = Workload {
        calls: first_calls(&program.workloads),
        touched: program.workloads.iter().flat_map(|one| one.touched.iter().cloned()).collect(),
        ..Workload::default()
    };
    let called_bytes: u64 = union.calls.iter().map(|at| functions[*at].bytes.0).sum();
    let (today, ordered) = (placed(functions, None), placed(functions, Some(best)));
    let of = |size: PageSize| {
        let count = |placed: &[Range<u64>]| {
            let parts = parts(program, &union, placed);
            pages(parts.into_iter().map(|part| part.range), size.bytes(), 0)
        };
        let waste = |pages: u64| Bytes((pages * size.bytes()).saturating_sub(called_bytes));
        let (today, ordered) = (count(&today), count(&ordered));
        SizeForecast {
            page_bytes: Bytes(size.bytes()),
            today_pages: today,
            ordered_pages: ordered,
            today_waste_bytes: waste(today),
            ordered_waste_bytes: waste(ordered),
        }
    };
    SIZES.into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Functions of 1 KiB, one in each page.
    fn sparse(count: u64) -> ProgramBuild {
        let page = PageSize::BASE_4K.bytes();
        let function = |at: u64| BuildSymbol {
            name: at.to_string(),
            address: page * (at + 1),
            bytes: Bytes::kib(1),
            ..BuildSymbol::default()
        };
        let calls = (0..count as usize).step_by(16).collect();
        ProgramBuild {
            name: String::new(),
            functions: (0..count).map(function).collect(),
            frame: Vec::new(),
            workloads: vec![Workload {
                name: "start".into(),
                weight: 1.0,
                calls,
                touched: Vec::new(),
            }],
        }
    }

    #[test]
    fn functions_that_are_called_come_together() {
        let forecast = forecast(&sparse(256), &[], &|_, _| None);
        let [today, ordered] = [0, 1].map(|at| forecast.layouts[at].touched[0]);
        assert_eq!((today.pages, ordered.pages), (16, 4));
        assert_eq!(today.called_bytes, Bytes::kib(16));
        let page = PageSize::BASE_4K.bytes();
        let pages: Vec<u64> = (0..16).map(|window| page * (16 * window + 1)).collect();
        assert_eq!(
            (&forecast.layouts[0].pages[0], forecast.layouts[1].pages[0].len()),
            (&pages, 4)
        );
        assert_eq!(forecast.layouts[0].code.start, page);
        assert!((today.faults - 16.0).abs() < 1e-9, "{today:?}");
        // Four pages lie in one window, or in two for 3 of 16 places.
        assert!((ordered.faults - 1.1875).abs() < 1e-9, "{ordered:?}");
    }

    #[test]
    fn what_was_not_touched_of_a_function_counts_nowhere() {
        let page = PageSize::BASE_4K.bytes();
        let mut build = sparse(4);
        build.functions[3].bytes = Bytes(10 * page);
        build.workloads[0] = Workload {
            calls: vec![0, 3],
            touched: vec![page..2 * page, 4 * page..5 * page, 12 * page..13 * page],
            ..build.workloads[0].clone()
        };
        let seen = forecast(&build, &[], &|_, pages| Some(pages.len() as f64));
        let [today, ordered] = [0, 1].map(|at| seen.layouts[at].touched[0]);
        assert_eq!(today.pages, 3);
        // The second begins 1 KiB after the first: its entry is on their page, its later part on that or the next.
        assert_eq!(ordered.pages, 3, "{ordered:?}");
        assert!(ordered.is_counted && ordered.faults >= 2.0, "{ordered:?}");
        assert_eq!(seen.sizes[0].today_pages, 3);
    }

    #[test]
    fn pages_come_in_the_order_of_their_touches() {
        let page = PageSize::BASE_4K.bytes();
        let mut build = sparse(4);
        // The second page of the first function is touched after the second function is called.
        build.functions[0].bytes = Bytes(2 * page);
        build.functions[1].address = 3 * page;
        build.functions[1].bytes = Bytes(page);
        let touched = [page..2 * page, 3 * page..4 * page, 2 * page..3 * page].to_vec();
        build.workloads[0] = Workload { calls: vec![0, 1], touched, ..build.workloads[0].clone() };
        let seen = forecast(&build, &[], &|_, _| None);
        let [today, ordered] = [0, 1].map(|at| seen.layouts[at].pages[0].clone());
        assert_eq!(today, [page, 3 * page, 2 * page]);
        assert_eq!(ordered, [page, 3 * page, 2 * page]);
    }

    #[test]
    fn functions_of_one_name_move_together() {
        let mut functions = sparse(5).functions;
        functions[4].name = "1".into();
        let placed = placed(&functions, Some(&[3, 1]));
        let kib = |range: &Range<u64>| (range.start - PageSize::BASE_4K.bytes()) / 1024;
        assert_eq!(placed.iter().map(kib).collect::<Vec<_>>(), [3, 1, 4, 0, 2]);
    }

    #[test]
    fn larger_pages_are_fewer_and_waste_more() {
        let sizes = forecast(&sparse(256), &[], &|_, _| None).sizes;
        let pages: Vec<u64> = sizes.iter().map(|one| one.today_pages).collect();
        assert_eq!(pages, [16, 16, 16, 1]);
        assert!(sizes.windows(2).all(|two| two[0].today_waste_bytes <= two[1].today_waste_bytes));
        assert!(sizes.iter().all(|one| one.ordered_pages <= one.today_pages));
    }

    #[test]
    fn pages_that_ranges_share_count_once() {
        assert_eq!(pages([0..10, 5..4097, 4090..4100].into_iter(), 4096, 0), 2);
        assert_eq!(pages(std::iter::once(0..4096), 4096, 1), 2);
        assert_eq!(pages(std::iter::empty(), 4096, 0), 0);
    }
}
