//! sysbench from 1.0 on. With `--rate` its latency counts from when an event was due. It prints one
//! percentile, that of `--percentile` (95).

use super::output::{GeneratorOutput, number};
use pagewise_model::service::{LoadReport, RequestLatency};

pub(super) fn read(output: &GeneratorOutput<'_>) -> Result<LoadReport, String> {
    const END: &str = "Threads fairness:";
    let requests = output.count("total number of events:")?;
    output.after(END).ok_or_else(|| output.lacks(END))?;
    let seconds = ["total time:", "time elapsed:"].into_iter().find_map(|key| output.after(key));
    let seconds = seconds.and_then(super::output::seconds);
    let ms = |key: &str| output.number(key).map(|ms| ms / 1e3);
    let percentile = |wanted: &str| {
        let line = output
            .lines()
            .find_map(|line| line.strip_prefix(wanted)?.strip_prefix("th percentile:"));
        line.and_then(|value| number(value.trim())).map(|ms| ms / 1e3)
    };
    Ok(LoadReport {
        requests,
        seconds,
        rate: seconds.map(|seconds| requests / seconds),
        errors: output.number("ignored errors:"),
        latency: RequestLatency {
            mean: ms("avg:"),
            p50: percentile("50"),
            p95: percentile("95"),
            p99: percentile("99"),
            max: ms("max:"),
        },
        open_loop: Some(output.after("Target transaction rate:").is_some()),
    })
}
