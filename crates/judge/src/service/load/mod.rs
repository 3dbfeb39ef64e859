//! Reads what load generators print, strictly.
//!
//! Each generator has a reader for the summary at the end of its output. A reader requires the lines that its
//! generator prints last. If the output contains a number twice, both must agree. So truncated output is an
//! error, not a smaller count. Times become seconds. The command of the load is used if the output does not
//! say enough: `redis-benchmark --csv` prints no number of requests, and a fixed rate often appears only in
//! the options.
//!
//! Not seen: what a generator writes to files or to standard error, and errors that it does not count.

mod ab;
mod fio;
mod hey;
mod k6;
mod memtier;
mod output;
mod pattern;
mod pgbench;
mod redis;
mod sysbench;
#[cfg(test)]
mod tests;
mod wrk;

use output::{GeneratorOutput, ParsedLoadCommand};
use pagewise_model::service::{LoadReport, RequestLatency};
use pattern::{JsonPaths, MetricPattern};
use std::fmt;
use std::str::FromStr;

/// How to read what a load generator prints.
#[derive(Debug, Clone)]
pub enum LoadMetric {
    /// PostgreSQL's pgbench.
    Pgbench,
    /// sysbench 1.0 and later.
    Sysbench,
    /// redis-benchmark: as a table, with `-q`, with `--csv`.
    RedisBenchmark,
    /// memtier_benchmark.
    Memtier,
    Wrk,
    /// wrk2, whose program is also called wrk.
    Wrk2,
    /// ApacheBench.
    Ab,
    Hey,
    /// Grafana k6: the summary at the end.
    K6,
    /// oha: as text or as JSON.
    Oha,
    /// fio with `--output-format=json`.
    Fio,
    /// Any text, by a regular expression.
    Regex(MetricPattern),
    /// Any JSON, by paths.
    Json(JsonPaths),
}

/// Names of the generators, and the programs that bear them.
const GENERATORS: [(&str, &str, LoadMetric); 11] = [
    ("pgbench", "pgbench", LoadMetric::Pgbench),
    ("sysbench", "sysbench", LoadMetric::Sysbench),
    ("redis-benchmark", "redis-benchmark", LoadMetric::RedisBenchmark),
    ("memtier", "memtier_benchmark", LoadMetric::Memtier),
    ("wrk", "wrk", LoadMetric::Wrk),
    ("wrk2", "wrk2", LoadMetric::Wrk2),
    ("ab", "ab", LoadMetric::Ab),
    ("hey", "hey", LoadMetric::Hey),
    ("k6", "k6", LoadMetric::K6),
    ("oha", "oha", LoadMetric::Oha),
    ("fio", "fio", LoadMetric::Fio),
];

impl FromStr for LoadMetric {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(pattern) = text.strip_prefix("regex:") {
            return MetricPattern::new(pattern).map(Self::Regex);
        }
        if let Some(paths) = text.strip_prefix("json:") {
            return JsonPaths::new(paths).map(Self::Json);
        }
        let known =
            GENERATORS.into_iter().find(|(name, program, _)| [*name, *program].contains(&text));
        known.map(|(_, _, metric)| metric).ok_or_else(|| {
            let names = GENERATORS.map(|(name, _, _)| name).join(", ");
            format!("unknown metric {text:?}: give one of {names}, regex:PATTERN or json:PATH")
        })
    }
}

impl fmt::Display for LoadMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Regex(pattern) => write!(f, "regex:{pattern}"),
            Self::Json(paths) => write!(f, "json:{paths}"),
            generator => f.write_str(generator.name()),
        }
    }
}

impl LoadMetric {
    /// The generator that `command` starts, if it is one with a reader.
    #[must_use]
    pub fn guess(command: &str) -> Option<Self> {
        let command = ParsedLoadCommand::new(command);
        let known = |word| GENERATORS.into_iter().find(|(_, program, _)| *program == word);
        let (_, program, metric) = command.programs().find_map(known)?;
        let has_rate =
            |of: output::GeneratorArguments<'_>| of.value("-R").or(of.value("--rate")).is_some();
        let is_wrk2 =
            matches!(metric, Self::Wrk) && command.arguments(program).is_some_and(has_rate);
        Some(if is_wrk2 { Self::Wrk2 } else { metric })
    }

    /// What `stdout` of the load `command` reports, or one line that says what is missing.
    pub fn read(&self, command: &str, stdout: &str) -> Result<LoadReport, String> {
        let output = GeneratorOutput::new(self.name(), stdout);
        if stdout.trim().is_empty() {
            return Err(format!("{} printed nothing", self.name()));
        }
        let command = ParsedLoadCommand::new(command);
        let load = match self {
            Self::Pgbench => pgbench::read(&output),
            Self::Sysbench => sysbench::read(&output),
            Self::RedisBenchmark => redis::read(command.arguments("redis-benchmark"), &output),
            Self::Memtier => memtier::read(&output),
            Self::Wrk => wrk::read(&output, false),
            Self::Wrk2 => wrk::read(&output, true),
            Self::Ab => ab::read(&output),
            Self::Hey => hey::read(&output),
            Self::K6 => k6::read(&output),
            Self::Oha => hey::read_oha(command.arguments("oha"), &output),
            Self::Fio => fio::read(&output),
            Self::Regex(pattern) => pattern.read(&output),
            Self::Json(paths) => paths.read(&output),
        }?;
        checked(load, &output)
    }

    /// What the load `command` counts as a failed request even if the server responded correctly.
    #[must_use]
    pub fn strictness(&self, command: &str) -> Option<&'static str> {
        let command = ParsedLoadCommand::new(command);
        let is_lenient = |of: output::GeneratorArguments<'_>| of.value("-l").is_some();
        let is_strict =
            matches!(self, Self::Ab) && !command.arguments("ab").is_some_and(is_lenient);
        is_strict.then_some(
            "ab counts an answer of another length than the first as failed, unless it is given -l",
        )
    }

    fn name(&self) -> &'static str {
        let same = |other: &Self| std::mem::discriminant(self) == std::mem::discriminant(other);
        let known = GENERATORS.iter().find(|(_, _, metric)| same(metric));
        known.map_or("the load", |(name, _, _)| name)
    }
}

/// The load without values that are not times, if it contains any request.
fn checked(load: LoadReport, output: &GeneratorOutput<'_>) -> Result<LoadReport, String> {
    if load.requests <= 0.0 || !load.requests.is_finite() {
        let failed = load.errors.filter(|errors| *errors > 0.0);
        let failed = failed.map_or(String::new(), |errors| format!(", {errors} failed"));
        return Err(format!("{} did no request{failed}; {}", output.generator, output.beginning()));
    }
    let real = |value: Option<f64>| value.filter(|value| value.is_finite() && *value > 0.0);
    let RequestLatency { mean, p50, p95, p99, max } = load.latency;
    Ok(LoadReport {
        seconds: real(load.seconds),
        rate: real(load.rate),
        errors: load.errors.filter(|errors| errors.is_finite()),
        latency: RequestLatency {
            mean: real(mean),
            p50: real(p50),
            p95: real(p95),
            p99: real(p99),
            max: real(max),
        },
        ..load
    })
}

/// Combines several tests that ran one after the other. Requests, times and errors are added up, means
/// weighted by requests; of other latencies the worst counts. A value missing in one test is missing in the
/// sum.
fn add_up(tests: &[LoadReport]) -> LoadReport {
    let requests = tests.iter().map(|test| test.requests).sum();
    let sum = |of: fn(&LoadReport) -> Option<f64>| tests.iter().map(of).sum::<Option<f64>>();
    let worst = |of: fn(&RequestLatency) -> Option<f64>| {
        tests.iter().map(|test| of(&test.latency)).reduce(|a, b| Some(a?.max(b?))).flatten()
    };
    let seconds = sum(|test| test.seconds.or_else(|| Some(test.requests / test.rate?)));
    let mean = sum(|test| Some(test.latency.mean? * test.requests)).map(|all| all / requests);
    let open_loop = tests.first().and_then(|test| test.open_loop);
    LoadReport {
        requests,
        seconds,
        rate: seconds.map(|seconds| requests / seconds),
        errors: sum(|test| test.errors),
        latency: RequestLatency {
            mean,
            p50: worst(|l| l.p50),
            p95: worst(|l| l.p95),
            p99: worst(|l| l.p99),
            max: worst(|l| l.max),
        },
        open_loop,
    }
}
