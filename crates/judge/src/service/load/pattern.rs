//! Loads without a reader: by a regular expression or by paths into JSON.
//!
//! Figures are `requests`, `rate`, `seconds`, `errors`, and the latencies `mean`, `p50`, `p95`, `p99`, `max`.
//! A latency needs its unit: in its name (`p99_us`, `p99_ms`, `p99_s`, `p99_ns`), or in its text (`1.5ms`).

use super::add_up;
use super::output::{GeneratorOutput, number, seconds, unit};
use pagewise_model::service::{LoadReport, RequestLatency};
use regex_lite::{Captures, Regex, RegexBuilder};
use serde_json::Value;
use std::fmt;

const COUNTS: [&str; 4] = ["requests", "rate", "seconds", "errors"];
const TIMES: [&str; 5] = ["mean", "p50", "p95", "p99", "max"];
/// Units that the name of a latency may bear.
const UNITS: [&str; 4] = ["ns", "us", "ms", "s"];
/// Bytes of a compiled expression at most.
const SIZE: usize = 1 << 20;

/// A regular expression with groups of those names, or with one group, which is the number of requests. `^`
/// and `$` match at line ends. Several matches are added up.
#[derive(Debug, Clone)]
pub struct MetricPattern {
    regex: Regex,
    has_names: bool,
}

impl MetricPattern {
    pub(super) fn new(text: &str) -> Result<Self, String> {
        let regex = RegexBuilder::new(text).multi_line(true).size_limit(SIZE).build();
        let regex = regex.map_err(|error| format!("regex:{text}: {error}").replace('\n', " "))?;
        let names: Vec<&str> = regex.capture_names().flatten().collect();
        for name in &names {
            known(name)?;
        }
        let groups = regex.captures_len() - 1;
        if names.is_empty() && groups != 1 {
            return Err(format!(
                "regex:{text}: it has {groups} groups: give one for the number of requests, or names as in (?P<requests>...)"
            ));
        }
        if !names.is_empty() {
            has_requests(&names)?;
        }
        Ok(Self { has_names: !names.is_empty(), regex })
    }

    pub(super) fn read(&self, output: &GeneratorOutput<'_>) -> Result<LoadReport, String> {
        let matches = self.regex.captures_iter(output.text());
        let loads = matches.map(|found| load(|name| self.group(&found, name)));
        let loads: Vec<LoadReport> = loads.collect::<Result<_, String>>()?;
        match loads.as_slice() {
            [] => Err(format!("regex:{self} matches nothing of the load; {}", output.beginning())),
            [one] => Ok(one.clone()),
            several => Ok(add_up(several)),
        }
    }

    fn group(&self, found: &Captures<'_>, name: &str) -> Option<String> {
        let group = match name {
            "requests" if !self.has_names => found.get(1),
            _ => found.name(name),
        };
        group.map(|group| group.as_str().trim().to_owned())
    }
}

impl fmt::Display for MetricPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.regex.as_str())
    }
}

/// Dotted paths into JSON: `a.b.0.c` for the number of requests, or `requests=a.b,errors=c`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonPaths {
    /// Name of the figure, path.
    all: Vec<(String, String)>,
}

impl JsonPaths {
    pub(super) fn new(text: &str) -> Result<Self, String> {
        let each = |part: &str| {
            let (name, path) = part.split_once('=').unwrap_or(("requests", part));
            if path.split('.').any(str::is_empty) {
                return Err(format!(
                    "json:{text}: {path:?} is not a path such as results.requests"
                ));
            }
            known(name).map(|()| (name.to_owned(), path.to_owned()))
        };
        let all: Vec<(String, String)> =
            text.split(',').map(each).collect::<Result<_, String>>()?;
        let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
        has_requests(&names)?;
        Ok(Self { all })
    }

    pub(super) fn read(&self, output: &GeneratorOutput<'_>) -> Result<LoadReport, String> {
        let json = output.json()?;
        for (_, path) in &self.all {
            if at(&json, path).is_none() {
                return Err(format!(
                    "the load printed JSON without a number at {path:?}; {}",
                    output.beginning()
                ));
            }
        }
        load(|name| {
            let (_, path) = self.all.iter().find(|(each, _)| each == name)?;
            at(&json, path)
        })
    }
}

impl fmt::Display for JsonPaths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> =
            self.all.iter().map(|(name, path)| format!("{name}={path}")).collect();
        f.write_str(&all.join(","))
    }
}

/// A number or a text at a dotted path.
fn at(json: &Value, path: &str) -> Option<String> {
    let found = path.split('.').try_fold(json, |value, key| match value {
        Value::Array(all) => all.get(key.parse::<usize>().ok()?),
        other => other.get(key),
    });
    match found? {
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) => Some(text.clone()),
        _ => None,
    }
}

fn known(name: &str) -> Result<(), String> {
    let parts = name.split_once('_').filter(|(_, unit)| UNITS.contains(unit));
    let time = parts.map_or(name, |(time, _)| time);
    if COUNTS.contains(&name) || TIMES.contains(&time) {
        return Ok(());
    }
    Err(format!(
        "unknown figure {name:?}: give requests, rate, seconds, errors, or a latency such as p99_us, p99_ms or p99_s"
    ))
}

/// The number of requests is named, or follows from rate and seconds.
fn has_requests(names: &[&str]) -> Result<(), String> {
    let has = |name| names.contains(&name);
    if has("requests") || has("rate") && has("seconds") {
        return Ok(());
    }
    Err("no number of requests: name requests, or rate and seconds".to_owned())
}

/// The load of figures by name, strictly.
fn load(text: impl Fn(&str) -> Option<String>) -> Result<LoadReport, String> {
    let figure = |name: &str| {
        let read = |text: String| {
            let plain = text.replace(',', "");
            number(&plain).ok_or_else(|| format!("{name} should be a number and is {text:?}"))
        };
        text(name).map(read).transpose()
    };
    let time = |name: &str| {
        for suffix in UNITS {
            if let Some(value) = figure(&format!("{name}_{suffix}"))? {
                return Ok(unit(suffix).map(|unit| value * unit));
            }
        }
        let with_unit = text(name).map(|text| {
            seconds(&text).ok_or_else(|| {
                format!("{name} has no unit in {text:?}: call it {name}_us, {name}_ms or {name}_s")
            })
        });
        with_unit.transpose()
    };
    let (rate, spent) = (figure("rate")?, figure("seconds")?);
    let by_rate = rate.zip(spent).map(|(rate, spent)| rate * spent);
    let requests =
        figure("requests")?.or(by_rate).ok_or("no number of requests in the load's output")?;
    Ok(LoadReport {
        requests,
        seconds: spent.or_else(|| rate.map(|rate| requests / rate)),
        rate: rate.or_else(|| spent.map(|spent| requests / spent)),
        errors: figure("errors")?,
        latency: RequestLatency {
            mean: time("mean")?,
            p50: time("p50")?,
            p95: time("p95")?,
            p99: time("p99")?,
            max: time("max")?,
        },
        open_loop: None,
    })
}
