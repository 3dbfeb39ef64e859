//! Every mapping as CSV (RFC 4180), one line each. Names end in the unit; an empty field was not measured. A
//! point without samples has one line with the reason.

use crate::csv::field;
use pagewise_model::jump::{Jumps, Point};

const HEADER: &str = "order,pages,apart_bytes,jumps,set_bytes,page_bytes,refused,repeat,place,\
jump_ns,within_share,misses_per_1000_instructions\n";

/// All mappings of `jumps`.
#[must_use]
pub fn csv(jumps: &Jumps) -> String {
    let mut out = HEADER.to_owned();
    for point in &jumps.points {
        let lead = lead(point);
        if point.samples.is_empty() {
            out.push_str(&format!("{lead},,,,,\n"));
        }
        for s in &point.samples {
            let misses = s.misses_per_1000_instructions;
            out.push_str(&format!(
                "{lead},{},{},{:.4},{:.4},{}\n",
                s.repeat,
                s.place,
                s.jump_ns,
                s.within_share,
                misses.map_or_else(String::new, |misses| format!("{misses:.4}"))
            ));
        }
    }
    out
}

fn lead(point: &Point) -> String {
    let page = point.page_bytes.known().map_or_else(String::new, |page| page.bytes().to_string());
    let refused = field(point.refused.as_deref().unwrap_or(""));
    let (order, pages) = (point.order.label(), point.pages.label());
    let (apart, jumps, set) = (point.apart_bytes.0, point.jumps, point.set_bytes().0);
    format!("{order},{pages},{apart},{jumps},{set},{page},{refused}")
}
