//! hey and oha, whose reports look alike. Both limit their rate but do not count latency from when a request
//! was due; oha does with `--latency-correction` and `-q`. Requests that oha gave up when its time was over
//! (`aborted due to deadline`) are neither done nor errors.

use super::output::{GeneratorArguments, GeneratorOutput, number, seconds};
use pagewise_model::service::{LoadReport, RequestLatency};
use serde_json::Value;

const STATUSES: &str = "Status code distribution:";
const ERRORS: &str = "Error distribution:";
const GIVEN_UP: &str = "aborted due to deadline";

/// hey keeps status and latency of at most this many responses.
const HEY_KEEPS: f64 = 1_000_000.0;

/// How far off a time may be that is printed with four decimals. From a minute on oha's is in minutes.
const DECIMALS: f64 = 0.000_051;

pub(super) fn read_oha(
    arguments: Option<GeneratorArguments<'_>>,
    output: &GeneratorOutput<'_>,
) -> Result<LoadReport, String> {
    let is_json = output.text().trim_start().starts_with('{');
    let load = if is_json { json(output)? } else { read(output)? };
    let open_loop =
        arguments.map(|words| words.has("--latency-correction") && words.value("-q").is_some());
    Ok(LoadReport { open_loop, ..load })
}

/// The report as text.
pub(super) fn read(output: &GeneratorOutput<'_>) -> Result<LoadReport, String> {
    let total = output.after("Total:").and_then(seconds).ok_or_else(|| output.lacks("Total:"))?;
    let rate = output.count("Requests/sec:")?;
    let statuses = section(output, STATUSES).ok_or_else(|| output.lacks(STATUSES))?;
    let (mut requests, mut errors, mut given_up) = (0.0, 0.0, 0.0);
    for line in statuses {
        let (status, count) = line.split_once(']').ok_or_else(|| output.lacks("responses"))?;
        let count = count.trim().strip_suffix(" responses").and_then(number);
        let count = count.ok_or_else(|| output.lacks("responses"))?;
        requests += count;
        errors += if is_error(status.trim_start_matches('[')) { count } else { 0.0 };
    }
    let mut unanswered = 0.0;
    for line in section(output, ERRORS).unwrap_or_default() {
        let (count, what) = line.split_once(']').ok_or_else(|| output.lacks(ERRORS))?;
        let count = number(count.trim_start_matches('[')).ok_or_else(|| output.lacks(ERRORS))?;
        *if what.trim() == GIVEN_UP { &mut given_up } else { &mut unanswered } += count;
    }
    errors += unanswered;
    // The rate is of all requests, however they ended.
    let (printed, counted) = (rate * total, requests + unanswered + given_up);
    let unit = if total < 60.0 { 1.0 } else { 60.0 };
    if printed - counted > 1.0 + rate * DECIMALS * unit {
        return Err(too_few(output.generator, printed, counted, requests));
    }
    let time = |key: &str| output.after(key).and_then(seconds);
    let percentile = |percent: u32| {
        // hey prints two percent signs, oha two decimals.
        let begins = [format!("{percent}%"), format!("{percent}.00%")];
        let rest = output
            .lines()
            .find_map(|line| begins.iter().find_map(|begin| line.strip_prefix(begin)));
        rest.and_then(|rest| seconds(rest.trim_start_matches('%').trim().strip_prefix("in ")?))
    };
    let latency = RequestLatency {
        mean: time("Average:"),
        p50: percentile(50),
        p95: percentile(95),
        p99: percentile(99),
        max: time("Slowest:"),
    };
    Ok(LoadReport {
        requests,
        seconds: Some(total),
        rate: Some(rate),
        errors: Some(errors),
        latency,
        open_loop: Some(false),
    })
}

/// Why there are fewer requests by status codes than by the rate.
fn too_few(generator: &str, printed: f64, counted: f64, answers: f64) -> String {
    if generator == "hey" && answers == HEY_KEEPS {
        return format!(
            "hey reports at most 1M answers, and this load had {printed:.0}: use a shorter load"
        );
    }
    format!(
        "{generator} did {printed:.0} requests by its rate and {counted:.0} by its status codes: its output is cut"
    )
}

/// The bracketed lines after a heading.
fn section<'a>(output: &GeneratorOutput<'a>, heading: &str) -> Option<Vec<&'a str>> {
    let mut lines = output.lines().skip_while(|line| *line != heading);
    lines.next()?;
    Some(lines.take_while(|line| line.starts_with('[')).collect())
}

fn is_error(status: &str) -> bool {
    !status.trim().starts_with(['2', '3'])
}

fn json(output: &GeneratorOutput<'_>) -> Result<LoadReport, String> {
    let all = output.json()?;
    let counts = |name: &str| all.get(name).and_then(Value::as_object);
    let statuses =
        counts("statusCodeDistribution").ok_or_else(|| output.lacks("statusCodeDistribution"))?;
    let sum = |of: &serde_json::Map<String, Value>, wanted: fn(&str) -> bool| {
        let wanted = of.iter().filter(|(name, _)| wanted(name));
        wanted.filter_map(|(_, count)| count.as_f64()).sum::<f64>()
    };
    let failed =
        counts("errorDistribution").map_or(0.0, |errors| sum(errors, |name| name != GIVEN_UP));
    let summary = |name: &str| all.get("summary")?.get(name)?.as_f64();
    let percentile = |name: &str| all.get("latencyPercentiles")?.get(name)?.as_f64();
    Ok(LoadReport {
        requests: sum(statuses, |_| true),
        seconds: summary("total"),
        rate: summary("requestsPerSec"),
        errors: Some(failed + sum(statuses, is_error)),
        latency: RequestLatency {
            mean: summary("average"),
            p50: percentile("p50"),
            p95: percentile("p95"),
            p99: percentile("p99"),
            max: summary("slowest"),
        },
        open_loop: None,
    })
}
