//! Grafana k6's summary, `--summary-mode` compact, full or legacy, and that of versions before 1.0. A test
//! without HTTP counts iterations. Its p99 is there only with `summaryTrendStats`. Executors with an arrival
//! rate are open loops; iterations that they dropped were due and never sent.

use super::output::{GeneratorOutput, number, seconds};
use pagewise_model::service::{LoadReport, RequestLatency};

pub(super) fn read(output: &GeneratorOutput<'_>) -> Result<LoadReport, String> {
    let iterations =
        counter(output, "iterations").ok_or_else(|| output.lacks("iterations...: N R/s"))?;
    let requests = if metric(output, "http_reqs").is_some() {
        counter(output, "http_reqs").ok_or_else(|| output.lacks("http_reqs...: N R/s"))?
    } else {
        iterations
    };
    let failed = metric(output, "http_req_failed").map(|rest| {
        let failed = failures(rest).ok_or_else(|| output.lacks("http_req_failed...: N out of M"));
        failed.map(|failed| {
            failed + counter(output, "dropped_iterations").map_or(0.0, |(count, _)| count)
        })
    });
    let times =
        metric(output, "http_req_duration").or_else(|| metric(output, "iteration_duration"));
    let times = times.unwrap_or_default();
    let time = |key: &str| {
        let word = times.split_whitespace().find_map(|word| word.strip_prefix(key));
        word.and_then(seconds)
    };
    Ok(LoadReport {
        requests: requests.0,
        seconds: Some(requests.0 / requests.1),
        rate: Some(requests.1),
        errors: failed.transpose()?,
        latency: RequestLatency {
            mean: time("avg="),
            p50: time("med="),
            p95: time("p(95)="),
            p99: time("p(99)="),
            max: time("max="),
        },
        open_loop: scenario(output),
    })
}

/// What follows `name.....:`. Before it, a metric with a threshold has a mark.
fn metric<'a>(output: &GeneratorOutput<'a>, name: &str) -> Option<&'a str> {
    output.lines().find_map(|line| {
        let marked = line.strip_prefix("\u{2713} ").or_else(|| line.strip_prefix("\u{2717} "));
        let rest = marked.unwrap_or(line).strip_prefix(name)?;
        rest.strip_prefix('.')?.trim_start_matches('.').strip_prefix(':').map(str::trim)
    })
}

/// Count and rate of a counter: `34580  17287.618864/s`.
fn counter(output: &GeneratorOutput<'_>, name: &str) -> Option<(f64, f64)> {
    let mut words = metric(output, name)?.split_whitespace();
    Some((number(words.next()?)?, number(words.next()?.strip_suffix("/s")?)?))
}

/// `34.58% 138 out of 399`, or before 1.0 `34.58% ✓ 138 ✗ 261`.
fn failures(rest: &str) -> Option<f64> {
    let words: Vec<&str> = rest.split_whitespace().collect();
    match words[..] {
        [_, failed, "out", "of", _] | [_, "\u{2713}", failed, "\u{2717}", _] => number(failed),
        _ => None,
    }
}

/// `* steady: 200.00 iterations/s for 2s (...)` is an open loop, with `Up to` before the rate, too; others loop.
fn scenario(output: &GeneratorOutput<'_>) -> Option<bool> {
    let mut scenarios = output.lines().filter(|line| line.starts_with("* ")).peekable();
    scenarios.peek()?;
    Some(scenarios.all(|line| line.contains(" iterations/s for ")))
}
