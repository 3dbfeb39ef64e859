//! pgbench. With `-R` its latency counts from when a transaction was due. Its percentiles are in the files
//! of `--log` only. Transactions skipped by `--latency-limit` were due and never sent.

use super::output::GeneratorOutput;
use pagewise_model::service::{LoadReport, RequestLatency};

pub(super) fn read(output: &GeneratorOutput<'_>) -> Result<LoadReport, String> {
    const COUNT: &str = "number of transactions actually processed:";
    let processed = output.after(COUNT).ok_or_else(|| output.lacks(COUNT))?;
    let done = processed.split('/').next().and_then(|count| count.trim().parse().ok());
    let requests: f64 = done.ok_or_else(|| output.lacks(COUNT))?;
    let rate = output.after("tps =").filter(|rate| rate.ends_with(')'));
    let rate = rate.and_then(|rate| rate.split_whitespace().next()?.parse().ok());
    let rate: f64 = rate.ok_or_else(|| output.lacks("tps ="))?;
    let failed = output.number("number of failed transactions:");
    let skipped = output.number("number of transactions skipped:");
    let missed =
        processed.split_once('/').and_then(|(_, wanted)| wanted.trim().parse::<f64>().ok());
    let missed = missed.map(|wanted| (wanted - requests).max(0.0));
    let errors = failed.or(missed).map(|errors| errors + skipped.unwrap_or(0.0)).or(skipped);
    let mean = output.number("latency average =").map(|ms| ms / 1e3);
    Ok(LoadReport {
        requests,
        seconds: Some(requests / rate),
        rate: Some(rate),
        errors,
        latency: RequestLatency { mean, ..RequestLatency::default() },
        open_loop: Some(output.after("rate limit schedule lag:").is_some()),
    })
}
