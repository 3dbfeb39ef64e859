//! Every mapping as CSV (RFC 4180), one line each. Names end in the unit; an empty field was not measured. A
//! point without samples has one line with the reason.

use crate::csv::field;
use pagewise_model::pin::{Pins, Point};

const HEADER: &str = "way,pages,size_bytes,page_bytes,refused,repeat,place,call_ns,release_ns,\
within_share\n";

/// All mappings of `pins`.
#[must_use]
pub fn csv(pins: &Pins) -> String {
    let mut out = HEADER.to_owned();
    for point in &pins.points {
        let lead = lead(point);
        if point.samples.is_empty() {
            out.push_str(&format!("{lead},,,,,\n"));
        }
        for s in &point.samples {
            out.push_str(&format!(
                "{lead},{},{},{:.3},{:.3},{:.4}\n",
                s.repeat, s.place, s.call_ns, s.release_ns, s.within_share
            ));
        }
    }
    out
}

fn lead(point: &Point) -> String {
    let page = point.page_bytes.known().map_or_else(String::new, |page| page.bytes().to_string());
    let refused = field(point.refused.as_deref().unwrap_or(""));
    let (way, pages) = (point.way.label(), point.pages.label());
    format!("{way},{pages},{},{page},{refused}", point.size_bytes.0)
}
