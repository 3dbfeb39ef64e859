//! memtier_benchmark. It prints its parameters and the rate, so the number of requests is their product.
//! Errors go to standard error. With several runs the last table is their average.

use super::output::{GeneratorOutput, number};
use pagewise_model::service::{LoadReport, RequestLatency};

pub(super) fn read(output: &GeneratorOutput<'_>) -> Result<LoadReport, String> {
    let amount = |name: &str| {
        let line = output.lines().find_map(|line| line.strip_suffix(name));
        line.and_then(|count| number(count.trim())).ok_or_else(|| output.lacks(name))
    };
    let clients = amount("Threads")? * amount("Connections per thread")?;
    let (runs, table) = summary(output).ok_or_else(|| output.lacks("ALL STATS"))?;
    let cells = |row: &str| table.iter().find_map(|line| line.strip_prefix(row));
    let header = cells("Type ").ok_or_else(|| output.lacks("Type"))?;
    // Words of one name are separated by a single space.
    let names: Vec<&str> =
        header.split("  ").map(str::trim).filter(|name| !name.is_empty()).collect();
    let row = cells("Totals ").ok_or_else(|| output.lacks("Totals"))?;
    let row: Vec<&str> = row.split_whitespace().collect();
    let column = |name: &str| number(row.get(names.iter().position(|each| *each == name)?)?);
    let rate = column("Ops/sec").filter(|_| row.len() == names.len());
    let rate = rate.ok_or_else(|| output.lacks("Totals"))?;
    let requests = match amount("Requests per client") {
        Ok(each) => clients * each * runs,
        Err(_) => rate * amount("Seconds")? * runs,
    };
    let ms = |name: &str| column(name).map(|ms| ms / 1e3);
    Ok(LoadReport {
        requests,
        seconds: Some(requests / rate),
        rate: Some(rate),
        errors: None,
        latency: RequestLatency {
            mean: ms("Avg. Latency"),
            p50: ms("p50 Latency"),
            p95: ms("p95 Latency"),
            p99: ms("p99 Latency"),
            max: None,
        },
        open_loop: Some(false),
    })
}

/// How many runs it sums up, and the lines of the table that does.
fn summary<'a>(output: &GeneratorOutput<'a>) -> Option<(f64, Vec<&'a str>)> {
    let runs = |line: &str| match line {
        "ALL STATS" => Some(1.0),
        several => {
            number(several.strip_prefix("AGGREGATED AVERAGE RESULTS (")?.strip_suffix(" runs)")?)
        }
    };
    let mut lines = output.lines();
    let runs = lines.find_map(runs)?;
    Some((runs, lines.collect()))
}
