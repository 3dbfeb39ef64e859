//! Whether a cell did the work that it was asked for. Times of unequal work are not compared: the
//! published benchmark once walked half of its file and divided by the whole, drew random blocks with
//! replacement, and mapped the file before its clock started.

use pagewise_model::file::{Ledger, Point, Readings, Refusal};

/// Every point whose ledger is not that of its work, with what differs.
pub(crate) fn refusals(readings: &Readings) -> Vec<Refusal> {
    let refusal = |(point, it): (usize, &Point)| {
        let asked = readings.asked(&it.cell);
        let why = it.samples.iter().find_map(|sample| match asked {
            Some(asked) => difference(&asked, &sample.ledger),
            None => Some("what it should add up to is not known".to_owned()),
        })?;
        Some(Refusal { point, why })
    };
    readings.points.iter().enumerate().filter_map(refusal).collect()
}

/// What one ledger shows that the other does not; none where they are equal.
fn difference(asked: &Ledger, found: &Ledger) -> Option<String> {
    let of = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
    if found.bytes != asked.bytes || found.blocks != asked.blocks {
        let share = of(found.bytes.0, asked.bytes.0);
        return Some(format!("it read {} of {} ({share:.0}%)", found.bytes, asked.bytes));
    }
    if found.distinct_blocks != asked.distinct_blocks {
        let share = of(found.distinct_blocks, asked.distinct_blocks);
        let (seen, all) = (found.distinct_blocks, asked.distinct_blocks);
        return Some(format!(
            "it touched {seen} of {all} blocks ({share:.0}%), some more than once"
        ));
    }
    if found.checksum != asked.checksum {
        return Some(
            "what it read does not add up: blocks were not copied, or are others".to_owned(),
        );
    }
    (found.mapped_before_bytes != asked.mapped_before_bytes)
        .then(|| format!("{} were mapped before its clock started", found.mapped_before_bytes))
}
