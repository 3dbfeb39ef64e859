//! Every process as CSV (RFC 4180), one line each. Names end in the unit; an empty field was not measured.
//! A cell without samples has one line with the reason. `refused_why` also holds what a ledger shows.

use crate::csv::field;
use pagewise_model::file::{Point, Readings, Sample};

const HEADER: &str = "part,arm,block_bytes,order,residency,passes,fresh,offset_bytes,threads,span_bytes,\
refused_why,repeat,place,total_ns,set_up_ns,use_ns,last_pass_ns,tear_down_ns,user_ns,sys_ns,calls,\
minor_faults,major_faults,device_bytes,read_bytes,blocks,distinct_blocks,checksum,mapped_before_bytes,\
file_pages,before_pages,after_pages,proof_ns\n";
/// Fields of one process.
const OF_SAMPLE: usize = 22;

/// All processes of `readings`.
#[must_use]
pub fn csv(readings: &Readings) -> String {
    let mut out = HEADER.to_owned();
    for (at, point) in readings.points.iter().enumerate() {
        let refusal = readings.judgement.as_ref().and_then(|judgement| judgement.refusal(at));
        let lead = lead(point, refusal);
        if point.samples.is_empty() {
            out.push_str(&format!("{lead}{}\n", ",".repeat(OF_SAMPLE)));
        }
        for sample in &point.samples {
            out.push_str(&format!("{lead},{}\n", numbers(sample).join(",")));
        }
    }
    out
}

fn lead(point: &Point, refusal: Option<&str>) -> String {
    let cell = &point.cell;
    let fields = [
        cell.part.label().to_owned(),
        cell.arm.label().to_owned(),
        cell.block_bytes.0.to_string(),
        cell.order.label().to_owned(),
        cell.residency.label().to_owned(),
        cell.passes.to_string(),
        u8::from(cell.fresh).to_string(),
        cell.offset_bytes.0.to_string(),
        cell.threads.to_string(),
        cell.span_bytes.0.to_string(),
        field(refusal.or(point.refused.as_deref()).unwrap_or("")),
    ];
    fields.join(",")
}

fn numbers(sample: &Sample) -> [String; OF_SAMPLE] {
    let (ledger, proof) = (&sample.ledger, &sample.proof);
    let number = |n: u64| n.to_string();
    [
        sample.repeat.to_string(),
        sample.place.to_string(),
        number(sample.total_ns().0),
        number(sample.set_up_ns.0),
        number(sample.use_ns().0),
        sample.pass_ns.last().map_or_else(String::new, |ns| ns.0.to_string()),
        number(sample.tear_down_ns.0),
        number(sample.user_ns.0),
        number(sample.sys_ns.0),
        number(sample.calls),
        number(sample.minor_faults),
        number(sample.major_faults),
        sample.device_bytes.known().map_or_else(String::new, |bytes| bytes.0.to_string()),
        number(ledger.bytes.0),
        number(ledger.blocks),
        number(ledger.distinct_blocks),
        number(ledger.checksum),
        number(ledger.mapped_before_bytes.0),
        number(proof.file_pages),
        number(proof.before_pages),
        number(proof.after_pages),
        number(proof.took_ns.0),
    ]
}
