//! ApacheBench. Its percentiles are whole milliseconds. An answer of another length than the first counts
//! as failed unless `-l` is given.

use super::output::GeneratorOutput;
use pagewise_model::service::{LoadReport, RequestLatency};

pub(super) fn read(output: &GeneratorOutput<'_>) -> Result<LoadReport, String> {
    let requests = output.count("Complete requests:")?;
    let failed = output.count("Failed requests:")?;
    let refused = output.number("Non-2xx responses:").unwrap_or(0.0);
    let longest = output.after("100%").filter(|rest| rest.ends_with("(longest request)"));
    longest.ok_or_else(|| output.lacks("100% (longest request)"))?;
    let ms = |key: &str| output.number(key).map(|ms| ms / 1e3);
    Ok(LoadReport {
        requests,
        seconds: output.number("Time taken for tests:"),
        rate: output.number("Requests per second:"),
        // A response refused for its length is counted in both.
        errors: Some(failed.max(refused)),
        latency: RequestLatency {
            mean: ms("Time per request:"),
            p50: ms("50%"),
            p95: ms("95%"),
            p99: ms("99%"),
            max: ms("100%"),
        },
        open_loop: Some(false),
    })
}
