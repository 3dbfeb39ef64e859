//! fio's JSON: reads, writes and trims of all jobs. Jobs run side by side: of latencies it is the worst. A
//! rate limit does not make fio count latency from when an operation was due.

use super::output::GeneratorOutput;
use pagewise_model::service::{LoadReport, RequestLatency};
use serde_json::Value;

pub(super) fn read(output: &GeneratorOutput<'_>) -> Result<LoadReport, String> {
    if !output.text().contains("\"jobs\"") {
        return Err(format!(
            "fio printed no JSON: add --output-format=json; {}",
            output.beginning()
        ));
    }
    // All but the last hold fewer requests, and nothing shows that the last one is there.
    if output.text().lines().filter(|line| *line == "{").count() > 1 {
        return Err("fio printed its figures several times: leave out --status-interval".to_owned());
    }
    let all = output.json()?;
    let jobs = all.get("jobs").and_then(Value::as_array).ok_or_else(|| output.lacks("jobs"))?;
    let mut directions = Vec::new();
    let mut errors = 0.0;
    for job in jobs {
        let name = job.get("jobname").and_then(Value::as_str).unwrap_or_default();
        match (figure(job, "total_err"), figure(job, "error")) {
            (Some(count), _) => errors += count,
            (None, Some(0.0)) => {}
            (None, code) => {
                return Err(format!("fio's job {name:?} ended by error {}", code.unwrap_or(-1.0)));
            }
        }
        directions.extend(["read", "write", "trim"].into_iter().filter_map(|way| job.get(way)));
    }
    let count = |way: &&Value| figure(way, "total_ios").unwrap_or_default();
    let requests: f64 = directions.iter().map(count).sum();
    let longest =
        directions.iter().filter_map(|way| figure(way, "runtime")).fold(0.0, f64::max) / 1e3;
    directions.retain(|way| count(way) > 0.0);
    let mean = directions.iter().map(|way| Some(count(way) * ns(way, "lat_ns", "mean")?));
    let worst = |of: &dyn Fn(&Value) -> Option<f64>| {
        directions.iter().map(|way| of(way)).reduce(|a, b| Some(a?.max(b?))).flatten()
    };
    let percentile = |name| worst(&move |way| ns(way.get("clat_ns")?, "percentile", name));
    Ok(LoadReport {
        requests,
        seconds: Some(longest),
        rate: Some(requests / longest),
        errors: Some(errors),
        latency: RequestLatency {
            mean: mean.sum::<Option<f64>>().map(|all| all / requests),
            p50: percentile("50.000000"),
            p95: percentile("95.000000"),
            p99: percentile("99.000000"),
            max: worst(&|way| ns(way, "lat_ns", "max")),
        },
        open_loop: Some(false),
    })
}

fn figure(of: &Value, name: &str) -> Option<f64> {
    of.get(name)?.as_f64()
}

/// Nanoseconds in an object of `of`, as seconds.
fn ns(of: &Value, object: &str, name: &str) -> Option<f64> {
    Some(figure(of.get(object)?, name)? / 1e9)
}
