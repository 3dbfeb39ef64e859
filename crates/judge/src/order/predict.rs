//! What a start touches of a program's code, in any layout.
//!
//! A function that is called counts whole; one measured against the instructions that ran, this is
//! within 4% of the pages touched in programs of short functions. Where functions are put in order,
//! they lie one after the other from the first function's address, each aligned as today up to
//! [`MOST_ALIGNED`], and the others follow in today's order: so lld and the scripts of `order emit` lay
//! them out. A fault maps the window of fault-around that its page is in, by virtual address, so the
//! number of windows depends on where the program is loaded: it is the mean over all page offsets.
//! Code outside functions (PLT, `.init`) counts whole, where it lies today. Pages that large folios map
//! along are not seen.

use super::arrange::{arrange, first_calls, pages, windows};
use pagewise_model::pieces::{
    Function, LayoutForecast, OrderForecast, SizeForecast, Touched, Workload,
};
use pagewise_model::{Bytes, PageSize};
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

/// Another build of the program, with the workloads by place in its functions.
#[derive(Debug, Clone)]
pub struct Build {
    /// What it is called.
    pub name: String,
    /// Its functions by address.
    pub functions: Vec<Function>,
    /// Code outside of functions that each start runs.
    pub frame: Vec<Range<u64>>,
    /// The same workloads as of the program.
    pub workloads: Vec<Workload>,
}

/// What `program` touches today, in its first-call order, in the best order, and what others touch.
#[must_use]
pub fn forecast(program: &Build, others: &[Build]) -> OrderForecast {
    let Build { functions, workloads, .. } = program;
    let best = arrange(functions, workloads);
    let calls = first_calls(workloads);
    let mut layouts = vec![layout("as linked", program, None)];
    if workloads.len() > 1 {
        layouts.push(layout("first-call order", program, Some(&calls)));
    }
    layouts.push(layout("ordered", program, Some(&best)));
    for other in others {
        layouts.push(layout(&other.name, other, None));
        let best = arrange(&other.functions, &other.workloads);
        layouts.push(layout(&format!("{}, ordered", other.name), other, Some(&best)));
    }
    OrderForecast {
        workloads: workloads.iter().map(|one| one.name.clone()).collect(),
        weights: workloads.iter().map(|one| one.weight).collect(),
        layouts,
        sizes: sizes(functions, &calls, &best),
    }
}

fn layout(name: &str, build: &Build, order: Option<&[usize]>) -> LayoutForecast {
    let placed = placed(&build.functions, order);
    let touched = |workload: &Workload| {
        let called = || workload.calls.iter().filter_map(|at| placed.get(*at)).cloned();
        let touched =
            || called().chain(start_code(build, &placed)).chain(build.frame.iter().cloned());
        Touched {
            called_bytes: Bytes(called().map(|range| range.end - range.start).sum()),
            pages: pages(touched(), PageSize::BASE_4K.bytes(), 0),
            faults: windows(touched()),
        }
    };
    LayoutForecast {
        layout: name.to_owned(),
        touched: build.workloads.iter().map(touched).collect(),
    }
}

/// Where the start-up code of the compiler lies, which runs before and after everything else.
fn start_code(build: &Build, placed: &[Range<u64>]) -> Vec<Range<u64>> {
    let is_start = |at: &usize| START.contains(&build.functions[*at].name.as_str());
    (0..placed.len()).filter(is_start).map(|at| placed[at].clone()).collect()
}

/// Where each function lies: as today, or with those of `order` first.
fn placed(functions: &[Function], order: Option<&[usize]>) -> Vec<Range<u64>> {
    let today = |function: &Function| function.address..function.address + function.bytes.0;
    let mut placed: Vec<Range<u64>> = functions.iter().map(today).collect();
    let Some(order) = order else { return placed };
    let mut is_ordered = vec![false; functions.len()];
    order.iter().for_each(|at| is_ordered[*at] = true);
    let rest = (0..functions.len()).filter(|at| !is_ordered[*at]);
    let mut end = functions.iter().map(|function| function.address).min().unwrap_or_default();
    for at in order.iter().copied().chain(rest) {
        let function = &functions[at];
        let align = (1 << function.address.trailing_zeros().min(63)).min(MOST_ALIGNED);
        let start = end.next_multiple_of(align);
        end = start + function.bytes.0;
        placed[at] = start..end;
    }
    placed
}

/// What the union of the workloads touches with other page sizes.
fn sizes(functions: &[Function], called: &[usize], best: &[usize]) -> Vec<SizeForecast> {
    let called_bytes: u64 = called.iter().map(|at| functions[*at].bytes.0).sum();
    let (today, ordered) = (placed(functions, None), placed(functions, Some(best)));
    let all = [PageSize::BASE_4K, PageSize::BASE_16K, PageSize::BASE_64K, PageSize::PMD_2M];
    let of = |size: PageSize| {
        let count = |placed: &[Range<u64>]| {
            pages(called.iter().map(|at| placed[*at].clone()), size.bytes(), 0)
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
    all.into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Functions of 1 KiB, one in each page.
    fn sparse(count: u64) -> Build {
        let page = PageSize::BASE_4K.bytes();
        let function = |at: u64| Function {
            name: at.to_string(),
            address: page * (at + 1),
            bytes: Bytes::kib(1),
            ..Function::default()
        };
        let calls = (0..count as usize).step_by(16).collect();
        Build {
            name: String::new(),
            functions: (0..count).map(function).collect(),
            frame: Vec::new(),
            workloads: vec![Workload { name: "start".into(), weight: 1.0, calls }],
        }
    }

    #[test]
    fn functions_that_are_called_come_together() {
        let forecast = forecast(&sparse(256), &[]);
        let [today, ordered] = [0, 1].map(|at| forecast.layouts[at].touched[0]);
        assert_eq!((today.pages, ordered.pages), (16, 4));
        assert_eq!(today.called_bytes, Bytes::kib(16));
        assert!((today.faults - 16.0).abs() < 1e-9, "{today:?}");
        // Four pages lie in one window, or over two in 3 of 16 places.
        assert!((ordered.faults - 1.1875).abs() < 1e-9, "{ordered:?}");
    }

    #[test]
    fn larger_pages_are_fewer_and_waste_more() {
        let sizes = forecast(&sparse(256), &[]).sizes;
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
