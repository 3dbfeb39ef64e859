//! wrk and wrk2. Without `--latency` they print no percentiles. wrk2 sends at a fixed rate and counts
//! latency from when a request was due.

use super::output::{GeneratorOutput, number, seconds};
use pagewise_model::service::{LoadReport, RequestLatency};

pub(super) fn read(output: &GeneratorOutput<'_>, is_wrk2: bool) -> Result<LoadReport, String> {
    let total = output.lines().find_map(total).ok_or_else(|| output.lacks("N requests in"))?;
    let rate = output.count("Requests/sec:")?;
    output.after("Transfer/sec:").ok_or_else(|| output.lacks("Transfer/sec:"))?;
    let refused = output.number("Non-2xx or 3xx responses:").unwrap_or(0.0);
    let broken = output.after("Socket errors:").map_or(Some(0.0), |errors| {
        errors.split(',').map(|each| number(each.split_whitespace().last()?)).sum::<Option<f64>>()
    });
    let broken = broken.ok_or_else(|| output.lacks("Socket errors:"))?;
    let column =
        |at: usize| output.after("Latency  ")?.split_whitespace().nth(at).and_then(seconds);
    let percentile = |key: &str| output.after(key).and_then(seconds);
    let recorded = output.text().contains("HdrHistogram");
    Ok(LoadReport {
        requests: total.0,
        seconds: Some(total.1),
        rate: Some(rate),
        errors: Some(refused + broken),
        latency: RequestLatency {
            mean: column(0),
            p50: percentile("50%").or_else(|| percentile("50.000%")),
            p95: spectrum(output, 0.95),
            p99: percentile("99%").or_else(|| percentile("99.000%")),
            max: percentile("100.000%").or_else(|| column(2)),
        },
        open_loop: Some(is_wrk2 || recorded),
    })
}

/// `85719 requests in 2.00s, 11.04MB read`.
fn total(line: &str) -> Option<(f64, f64)> {
    let (requests, rest) = line.split_once(" requests in ")?;
    Some((number(requests)?, seconds(rest.split_once(',')?.0)?))
}

/// The latency of a percentile in wrk2's spectrum: value in milliseconds, percentile, count.
fn spectrum(output: &GeneratorOutput<'_>, percentile: f64) -> Option<f64> {
    let mut rows =
        output.lines().skip_while(|line| !line.starts_with("Detailed Percentile spectrum:"));
    rows.find_map(|row| {
        let mut words = row.split_whitespace().map(number);
        let value = words.next()??;
        (words.next()?? == percentile).then_some(value / 1e3)
    })
}
