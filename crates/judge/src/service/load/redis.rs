//! redis-benchmark, each test that it ran. With `-q` or `--csv` it prints no number of requests: each test
//! does as many as `-n` says. It counts no errors: from 7.0 on it ends at the first one.

use super::add_up;
use super::output::{GeneratorArguments, GeneratorOutput, number};
use pagewise_model::service::{LoadReport, RequestLatency};

/// Requests of a test without `-n`.
const REQUESTS: f64 = 100_000.0;
const RATE: &str = " requests per second";

pub(super) fn read(
    arguments: Option<GeneratorArguments<'_>>,
    output: &GeneratorOutput<'_>,
) -> Result<LoadReport, String> {
    let tests = if output.lines().any(|line| line.starts_with('"')) {
        csv(output, asked(arguments)?)?
    } else if output.lines().any(|line| line.starts_with("======")) {
        tables(output)?
    } else {
        quiet(output, asked(arguments)?)?
    };
    if tests.is_empty() {
        return Err(output.lacks("requests per second"));
    }
    let wanted = arguments
        .and_then(|arguments| arguments.value("-t"))
        .map_or(0, |names| names.split(',').count());
    if tests.len() < wanted {
        let found = tests.len();
        return Err(format!("redis-benchmark was to run {wanted} tests; its output has {found}"));
    }
    Ok(add_up(&tests))
}

/// Requests of each test by the command.
fn asked(arguments: Option<GeneratorArguments<'_>>) -> Result<f64, String> {
    let Some(arguments) = arguments else {
        return Err(
            "redis-benchmark printed no number of requests: leave out --csv and -q".to_owned()
        );
    };
    let count = arguments.value("-n");
    count.map_or(Ok(REQUESTS), |count| {
        number(count).ok_or_else(|| format!("redis-benchmark: -n {count:?} is not a number"))
    })
}

/// `"SET","13623.98","3.341",...`, from 6.2 on with a header.
fn csv(output: &GeneratorOutput<'_>, requests: f64) -> Result<Vec<LoadReport>, String> {
    let mut names: Vec<&str> = vec!["test", "rps"];
    let mut tests = Vec::new();
    for line in output.lines().filter(|line| line.starts_with('"')) {
        let fields: Vec<&str> = line.trim_matches('"').split("\",\"").collect();
        if fields[0] == "test" {
            names = fields;
            continue;
        }
        let value = |name: &str| number(fields.get(names.iter().position(|each| *each == name)?)?);
        let is_whole = line.ends_with('"') && fields.len() == names.len();
        let rate = value("rps").filter(|rate| is_whole && *rate > 0.0);
        let ms = |name: &str| value(name).map(|ms| ms / 1e3);
        let latency = RequestLatency {
            mean: ms("avg_latency_ms"),
            p50: ms("p50_latency_ms"),
            p95: ms("p95_latency_ms"),
            p99: ms("p99_latency_ms"),
            max: ms("max_latency_ms"),
        };
        tests.push(test(requests, rate.ok_or_else(|| output.lacks("\"rps\""))?, latency));
    }
    Ok(tests)
}

/// Tests with a heading, a histogram and a summary.
fn tables(output: &GeneratorOutput<'_>) -> Result<Vec<LoadReport>, String> {
    let mut tests = Vec::new();
    let mut lines = output.lines().skip_while(|line| !line.starts_with("======")).peekable();
    while lines.next().is_some() {
        let mut requests = None;
        let mut rate = None;
        let mut latency = RequestLatency::default();
        while let Some(line) = lines.next_if(|line| !line.starts_with("======")) {
            if let Some((count, _)) = line.split_once(" requests completed in ") {
                requests = number(count);
            } else if let Some(text) = line.strip_suffix(RATE) {
                rate = text.split_whitespace().last().and_then(number);
            } else if line.starts_with("avg ") {
                let row = lines.peek().map_or("", |row| *row);
                latency = summary(row).ok_or_else(|| output.lacks("latency summary (msec):"))?;
            }
        }
        let requests = requests.ok_or_else(|| output.lacks("requests completed in"))?;
        tests.push(test(requests, rate.ok_or_else(|| output.lacks(RATE.trim()))?, latency));
    }
    Ok(tests)
}

/// `avg min p50 p95 p99 max` in milliseconds.
fn summary(row: &str) -> Option<RequestLatency> {
    let row: Option<Vec<f64>> = row.split_whitespace().map(number).collect();
    let [mean, _, p50, p95, p99, max] = row?.try_into().ok()?;
    let ms = |ms: f64| Some(ms / 1e3);
    Some(RequestLatency { mean: ms(mean), p50: ms(p50), p95: ms(p95), p99: ms(p99), max: ms(max) })
}

/// `SET: 44345.90 requests per second, p50=0.495 msec`, from 6.2 on with the median.
fn quiet(output: &GeneratorOutput<'_>, requests: f64) -> Result<Vec<LoadReport>, String> {
    let tests = output.lines().filter_map(|line| line.split_once(RATE)).map(|(before, after)| {
        let rate =
            before.split_whitespace().last().and_then(number).ok_or_else(|| output.lacks(RATE))?;
        let median = after.trim_start_matches(',').trim().strip_prefix("p50=");
        let p50 = median.and_then(super::output::seconds);
        Ok(test(requests, rate, RequestLatency { p50, ..RequestLatency::default() }))
    });
    tests.collect()
}

fn test(requests: f64, rate: f64, latency: RequestLatency) -> LoadReport {
    let seconds = Some(requests / rate);
    LoadReport {
        requests,
        seconds,
        rate: Some(rate),
        errors: None,
        latency,
        open_loop: Some(false),
    }
}
