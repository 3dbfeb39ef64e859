//! Every mapping as CSV (RFC 4180), one line each. Names end in the unit; an empty field does not apply or
//! was not measured. A point without samples has one line with the reason.

use crate::csv::field;
use pagewise_model::walk::{Path, Point, Walks};

const HEADER: &str = "path,order,npad,apart_bytes,pages,elements,set_bytes,page_bytes,refused,repeat,\
place,load_ns,within_share\n";

/// All mappings of `walks`.
#[must_use]
pub fn csv(walks: &Walks) -> String {
    let mut out = HEADER.to_owned();
    for point in &walks.points {
        let lead = lead(point);
        if point.samples.is_empty() {
            out.push_str(&format!("{lead},,,,\n"));
        }
        for s in &point.samples {
            let (repeat, place, share) = (s.repeat, s.place, s.within_share);
            out.push_str(&format!("{lead},{repeat},{place},{:.4},{share:.4}\n", s.load_ns));
        }
    }
    out
}

fn lead(point: &Point) -> String {
    let (path, order, npad, apart) = match point.path {
        Path::List { order, npad } => ("list", order.label(), npad.to_string(), String::new()),
        Path::Lines { apart_bytes } => {
            ("lines", "random", String::new(), apart_bytes.0.to_string())
        }
    };
    let page = point.page_bytes.known().map_or_else(String::new, |page| page.bytes().to_string());
    let fields = [
        path.to_owned(),
        order.to_owned(),
        npad,
        apart,
        point.pages.label().to_owned(),
        point.elements.to_string(),
        point.set_bytes().0.to_string(),
        page,
        field(point.refused.as_deref().unwrap_or("")),
    ];
    fields.join(",")
}
