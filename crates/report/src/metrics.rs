//! A sample of a host and its receipts in Prometheus' text format, for the textfile collector of node_exporter.
//!
//! Writes at most [`MOST_SERIES`] series. Beyond that, processes lose their last rows first, then receipts.

use pagewise_model::applied::AppliedChange;
use pagewise_model::recheck::{GainRecheck, GainStanding};
use pagewise_model::top::{TopProcess, TopSample};

/// Largest number of series in one file.
pub const MOST_SERIES: usize = 200;
/// Series of the host.
const OF_HOST: usize = 12;
/// Series of one process.
const OF_PROCESS: usize = 6;
/// Series of one receipt.
const OF_RECEIPT: usize = 4;

/// The text being written.
#[derive(Default)]
struct MetricsText {
    out: String,
}

impl MetricsText {
    /// Adds a metric family with its samples; nothing without samples.
    fn family(&mut self, name: &str, kind: &str, help: &str, samples: &[(String, Option<f64>)]) {
        let known: Vec<String> = samples
            .iter()
            .filter_map(|(labels, value)| Some(format!("pagewise_{name}{labels} {}\n", (*value)?)))
            .collect();
        if !known.is_empty() {
            self.out.push_str(&format!("# HELP pagewise_{name} {help}\n"));
            self.out.push_str(&format!("# TYPE pagewise_{name} {kind}\n"));
            self.out.extend(known);
        }
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: Option<f64>) {
        self.family(name, kind, help, &[(String::new(), value)]);
    }
}

/// A label's value, escaped for the format.
fn label(text: &str) -> String {
    crate::escape::escape(text).replace('\\', "\\\\").replace('"', "\\\"")
}

/// The sample as text. `now` is in seconds since 1970; `rechecks` are the results for applied gains.
#[must_use]
pub fn metrics(
    top: &TopSample,
    applied: &[AppliedChange],
    rechecks: &[GainRecheck],
    now: u64,
) -> String {
    let receipts = applied.len().min((MOST_SERIES - OF_HOST) / 2 / OF_RECEIPT);
    let rows = top.rows.len().min((MOST_SERIES - OF_HOST - receipts * OF_RECEIPT) / OF_PROCESS);
    let mut text = MetricsText::default();
    host(&mut text, top, now);
    processes(&mut text, &top.rows[..rows]);
    // If there is too little room, the newest receipts stay.
    self::receipts(&mut text, &applied[applied.len() - receipts..], rechecks);
    text.out
}

fn host(text: &mut MetricsText, top: &TopSample, now: u64) {
    let host = &top.host;
    let counts = &host.counts;
    let number = |n: Option<u64>| n.map(|n| n as f64);
    let bytes = |n: Option<pagewise_model::Bytes>| n.map(|n| n.0 as f64);
    text.one("sample_timestamp_seconds", "gauge", "When this file was written.", Some(now as f64));
    text.one(
        "sample_cpu_seconds",
        "gauge",
        "CPU time that the sample took.",
        Some(top.own_cpu_ns.as_secs()),
    );
    for (name, help, value) in [
        ("page_faults_total", "Page faults since boot.", counts.faults),
        ("major_faults_total", "Page faults with I/O since boot.", counts.major),
        ("huge_faults_total", "Huge pages given out at faults since boot.", counts.huge),
        (
            "huge_fault_fallbacks_total",
            "Faults that found no free huge page since boot.",
            counts.huge_refused,
        ),
    ] {
        text.one(name, "counter", help, number(value));
    }
    for (name, help, value) in [
        ("page_table_bytes", "Page tables of all processes.", bytes(host.table_bytes)),
        ("memory_bytes", "Installed memory.", bytes(host.memory_bytes)),
        ("available_bytes", "Memory that programs can get.", bytes(host.available_bytes)),
        (
            "memory_pressure_ratio",
            "Share of the last 10 s in which a task waited for memory.",
            host.pressure_percent.map(|percent| percent / 100.0),
        ),
        ("processes", "Processes.", Some(f64::from(top.processes))),
    ] {
        text.one(name, "gauge", help, value);
    }
}

fn processes(text: &mut MetricsText, rows: &[TopProcess]) {
    type Value = fn(&TopProcess) -> Option<f64>;
    let bytes: [(&str, &str, Value); OF_PROCESS] = [
        ("cpus", "CPU time per second.", |row| Some(row.cpus)),
        ("faults_per_second", "Page faults without I/O.", |row| Some(row.minor_per_second)),
        ("major_faults_per_second", "Page faults with I/O.", |row| Some(row.major_per_second)),
        ("resident_bytes", "Resident set.", |row| Some(row.resident_bytes?.0 as f64)),
        ("page_table_bytes", "Page tables.", |row| Some(row.table_bytes?.0 as f64)),
        ("huge_ratio", "Share of anonymous memory on huge pages.", TopProcess::huge_share),
    ];
    for (name, help, value) in bytes {
        let samples: Vec<(String, Option<f64>)> = rows
            .iter()
            .map(|row| {
                (format!("{{pid=\"{}\",name=\"{}\"}}", row.pid, label(&row.name)), value(row))
            })
            .collect();
        text.family(&format!("process_{name}"), "gauge", help, &samples);
    }
}

fn receipts(text: &mut MetricsText, applied: &[AppliedChange], rechecks: &[GainRecheck]) {
    type Value = fn(&AppliedChange, Option<&GainRecheck>) -> Option<f64>;
    let families: [(&str, &str, Value); OF_RECEIPT] = [
        ("applied_timestamp_seconds", "When the receipt was applied.", |applied, _| {
            Some(applied.at_unix_ns as f64 / 1e9)
        }),
        ("checked_timestamp_seconds", "When its gain was measured again.", |_, again| {
            Some(again?.at_unix_ns as f64 / 1e9)
        }),
        ("gain_ratio", "Its gain when it was measured last: 0.1 is 10% less.", |_, again| {
            Some(1.0 - again?.now?.ratio)
        }),
        (
            "holds",
            "1 the gain holds, 0 it has vanished; absent where that is not known.",
            |_, again| match again?.standing {
                GainStanding::Holds => Some(1.0),
                GainStanding::Vanished => Some(0.0),
                GainStanding::CannotTell => None,
            },
        ),
    ];
    for (name, help, value) in families {
        let samples: Vec<(String, Option<f64>)> = applied
            .iter()
            .map(|one| {
                let again = rechecks.iter().find(|again| again.run == one.change.run);
                let (run, arm) = (label(&one.change.run), label(&one.change.arm));
                let labels = format!("{{change=\"{}\",run=\"{run}\",arm=\"{arm}\"}}", one.number);
                (labels, value(one, again))
            })
            .collect();
        text.family(&format!("receipt_{name}"), "gauge", help, &samples);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::applied::FileChange;
    use pagewise_model::recheck::ArmGain;
    use pagewise_model::top::{HostCounts, TopHost};
    use pagewise_model::{Bytes, Nanos};

    fn top(rows: usize) -> TopSample {
        let row = |pid: usize| TopProcess {
            pid: pid as i32,
            name: "a \"quoted\\name".into(),
            cpus: 0.5,
            minor_per_second: 10.0,
            major_per_second: 0.0,
            fault_cpus: 0.0,
            resident_bytes: Some(Bytes::mib(1)),
            anonymous_bytes: Some(Bytes::mib(1)),
            table_bytes: Some(Bytes::kib(8)),
            huge_bytes: Some(Bytes(0)),
            prediction: None,
        };
        let counts =
            HostCounts { faults: Some(1), major: Some(2), huge: Some(3), huge_refused: Some(4) };
        let host = TopHost {
            counts,
            memory_bytes: Some(Bytes::gib(1)),
            available_bytes: Some(Bytes::gib(1)),
            table_bytes: Some(Bytes::mib(1)),
            pressure_percent: Some(2.5),
            ..TopHost::default()
        };
        TopSample {
            interval_ns: Nanos::secs(1),
            processes: 9,
            host,
            rows: (1..=rows).map(row).collect(),
            own_cpu_ns: Nanos::millis(3),
        }
    }

    fn applied(number: u32) -> AppliedChange {
        let change = FileChange {
            run: format!("run-{number}"),
            arm: "place".into(),
            file: String::new(),
            content: String::new(),
            mode: 0,
            next: Vec::new(),
            next_after_undo: Vec::new(),
            warnings: Vec::new(),
        };
        AppliedChange {
            number,
            at_unix_ns: 5_000_000_000,
            change,
            before: None,
            directories: Vec::new(),
        }
    }

    fn recheck(run: &str, standing: GainStanding) -> GainRecheck {
        GainRecheck {
            run: run.into(),
            command: Vec::new(),
            arm: "place".into(),
            then: None,
            now: Some(ArmGain { ratio: 0.75, low: 0.7, high: 0.8 }),
            standing,
            change: None,
            new_run: None,
            problem: None,
            at_unix_ns: 9_000_000_000,
        }
    }

    #[test]
    fn the_number_of_series_is_bounded() {
        let all: Vec<AppliedChange> = (1..=100).map(applied).collect();
        let checks: Vec<GainRecheck> =
            all.iter().map(|one| recheck(&one.change.run, GainStanding::Holds)).collect();
        for (rows, receipts) in [(500, 0), (500, 3), (500, 100), (0, 100)] {
            let text = metrics(&top(rows), &all[..receipts], &checks, 7);
            let series = text.lines().filter(|line| !line.starts_with('#')).count();
            assert!(series <= MOST_SERIES, "{rows} rows, {receipts} receipts: {series}");
        }
    }

    #[test]
    fn names_are_escaped_and_receipts_say_what_became_of_them() {
        let checks =
            [recheck("run-1", GainStanding::Vanished), recheck("run-2", GainStanding::CannotTell)];
        let text = metrics(&top(1), &[applied(1), applied(2)], &checks, 7);
        for line in [
            "pagewise_sample_timestamp_seconds 7\n",
            "# TYPE pagewise_page_faults_total counter\npagewise_page_faults_total 1\n",
            "pagewise_memory_pressure_ratio 0.025\n",
            "pagewise_process_cpus{pid=\"1\",name=\"a \\\"quoted\\\\name\"} 0.5\n",
            "pagewise_receipt_holds{change=\"1\",run=\"run-1\",arm=\"place\"} 0\n",
            "pagewise_receipt_gain_ratio{change=\"1\",run=\"run-1\",arm=\"place\"} 0.25\n",
            "pagewise_receipt_applied_timestamp_seconds{change=\"2\",run=\"run-2\",arm=\"place\"} 5\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(!text.contains("pagewise_receipt_holds{change=\"2\""), "{text}");
    }
}
