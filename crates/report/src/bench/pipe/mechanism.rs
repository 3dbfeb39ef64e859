//! How a pipe works: the ring of a live one after each call, and what each part costs.

use crate::number::{UNKNOWN, count, three_digits, whole_size};
use crate::page::ReportDocument;
use crate::style::TextTone;
use crate::table::{ColumnAlignment, ReportTable, TableCell};
use pagewise_model::bench::pipe::{PipeFillStep, PipeMechanism, ReferencePrices};
use pagewise_model::{Fact, Measured};

/// The answer in one sentence.
pub(super) fn headline(mechanism: &PipeMechanism) -> String {
    format!(
        "a pipe: a ring of {} slots; a page costs {}, {} more if it is new, {} by reference",
        mechanism.slots,
        middle(&mechanism.kept_page_ns),
        middle(&mechanism.new_page_ns),
        middle(&mechanism.lent_page_ns)
    )
}

/// The section; `prices` are those of a slot.
pub(super) fn section(
    mechanism: &PipeMechanism,
    prices: Option<&ReferencePrices>,
) -> ReportDocument {
    let mut page = ReportDocument::default();
    let ring = format!(
        "A ring of {} slots of a page, {}. head counts filled slots, tail emptied ones; a write fills up the page \
         of the last slot if its odd bytes fit there:",
        mechanism.slots,
        whole_size(mechanism.capacity_bytes)
    );
    page.para(&ring, 0, TextTone::Plain);
    page.append(table(mechanism));
    for sentence in sentences(mechanism, prices) {
        page.bullet(&sentence, TextTone::Plain);
    }
    page
}

fn table(mechanism: &PipeMechanism) -> ReportTable {
    let right = ColumnAlignment::Right;
    let mut table = ReportTable::new(&[
        ("call", ColumnAlignment::Left),
        ("bytes", right),
        ("head", right),
        ("tail", right),
        ("slots", ColumnAlignment::Name),
    ]);
    for step in &mechanism.fill {
        table.row(vec![
            step.call.as_str().into(),
            count(step.held_bytes.0).into(),
            count(step.head).into(),
            count(step.tail).into(),
            TableCell::new(drawing(step, mechanism.slots), TextTone::Strong),
        ]);
    }
    table
}

/// The ring from slot 0 on: `.` free, `#` occupied. A saved file may hold any numbers.
fn drawing(step: &PipeFillStep, slots: u64) -> String {
    let slots = slots.clamp(1, 64);
    let occupied = |slot: u64| {
        let after_tail = (slot + slots - step.tail % slots) % slots;
        after_tail < step.head.saturating_sub(step.tail)
    };
    (0..slots).map(|slot| if occupied(slot) { '#' } else { '.' }).collect()
}

fn sentences(mechanism: &PipeMechanism, prices: Option<&ReferencePrices>) -> Vec<String> {
    let tags = match mechanism.has_pcid {
        Fact::Known(true) => "tagged (pcid), so that a switch need not flush it",
        Fact::Known(false) => "not tagged (no pcid), so that a switch flushes it",
        Fact::Missing(_) => "tagged or not, which the kernel does not show",
    };
    let ns = |of: fn(&ReferencePrices) -> &Fact<f64>| match prices.map(of) {
        Some(Fact::Known(ns)) => format!("{} ns", three_digits(*ns)),
        _ => UNKNOWN.to_owned(),
    };
    vec![
        format!(
            "Spare pages: a pipe keeps two pages that were read. To write and read one costs {}; a new page {} \
             more.",
            price(&mechanism.kept_page_ns),
            price(&mechanism.new_page_ns)
        ),
        format!(
            "Batches: vmsplice looks up 16 pages at a time. One costs {}; the 17th {} more.",
            price(&mechanism.lent_page_ns),
            price(&mechanism.batch_edge_ns)
        ),
        format!(
            "Folios: since Linux 5.17 a lookup holds the folio, not the page: {} for a base page, {} for a piece \
             of a huge page, beside {} for its slot.",
            ns(|p| &p.pin_base_ns),
            ns(|p| &p.pin_huge_ns),
            ns(|p| &p.slot_ns)
        ),
        format!(
            "Switches: on one CPU, to a thread {}, to a process {}. The TLB is {tags}. The first touch of a page: \
             {} after threads, {} after processes, {} after a flush.",
            price(&mechanism.thread_switch_ns),
            price(&mechanism.process_switch_ns),
            price(&mechanism.touch_ns),
            price(&mechanism.switched_touch_ns),
            price(&mechanism.flushed_touch_ns)
        ),
    ]
}

/// `34.1 ns (30.2 to 41.0)`: the median and the range of the rounds.
fn price(ns: &Fact<Measured>) -> String {
    match ns {
        Fact::Known(ns) => {
            let [low, high] = [ns.min, ns.max].map(three_digits);
            format!("{} ns ({low} to {high})", three_digits(ns.median))
        }
        Fact::Missing(why) => format!("{UNKNOWN} ({why})"),
    }
}

fn middle(ns: &Fact<Measured>) -> String {
    match ns {
        Fact::Known(ns) => format!("{} ns", three_digits(ns.median)),
        Fact::Missing(_) => UNKNOWN.to_owned(),
    }
}
