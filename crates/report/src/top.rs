//! The processes that pay for page work, as a table.

use crate::number::{count, percent};
use crate::page::ReportDocument;
use crate::prediction::likeliest;
use crate::style::TextTone;
use crate::table::{ColumnAlignment, ReportTable, TableCell};
use pagewise_model::Bytes;
use pagewise_model::top::{TopProcess, TopSample};

/// Largest number of processes that get a hint.
const MOST_HINTS: usize = 5;

/// A sample; `hints` has an entry for each row, `None` without a hint.
#[must_use]
pub fn top_page(
    top: &TopSample,
    hints: &[Option<&'static str>],
    next_step: &str,
) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.para(&host(top), 0, TextTone::Plain);
    let mut table = ReportTable::new(&[
        ("pid", ColumnAlignment::Right),
        ("program", ColumnAlignment::Text),
        ("CPU", ColumnAlignment::Right),
        ("faults/s", ColumnAlignment::Right),
        ("major/s", ColumnAlignment::Right),
        ("cost", ColumnAlignment::Right),
        ("memory", ColumnAlignment::Right),
        ("tables", ColumnAlignment::Right),
        ("huge", ColumnAlignment::Right),
    ]);
    for row in &top.rows {
        table.row(cells(row));
    }
    page.section(table);
    let mut hinted =
        top.rows.iter().zip(hints).filter_map(|(row, hint)| Some((row, (*hint)?))).peekable();
    if hinted.peek().is_some() {
        page.blank();
        for (row, hint) in hinted.take(MOST_HINTS) {
            let promise = row.prediction.as_ref().map_or_else(String::new, likeliest);
            page.bullet(&format!("{} ({}) {hint}{promise}", row.name, row.pid), TextTone::Warn);
        }
        page.para(&format!("look closer: {next_step}"), 0, TextTone::Faint);
    }
    page
}

fn cells(row: &TopProcess) -> Vec<TableCell> {
    let size = |bytes: Option<Bytes>| TableCell::from(bytes.map_or("-".to_owned(), short));
    let huge =
        row.huge_share().map_or_else(|| "-".to_owned(), |share| format!("{:.0}%", share * 100.0));
    vec![
        row.pid.to_string().into(),
        row.name.clone().into(),
        percent(row.cpus).into(),
        rate(row.minor_per_second).into(),
        rate(row.major_per_second).into(),
        percent(row.fault_cpus).into(),
        size(row.resident_bytes),
        size(row.table_bytes),
        huge.into(),
    ]
}

fn rate(per_second: f64) -> String {
    count(per_second.round() as u64)
}

/// A size in four cells: `12K`, `345M`, `1.2G`.
fn short(bytes: Bytes) -> String {
    let kib = bytes.0 as f64 / 1024.0;
    let (value, unit) = [(kib / 1_048_576.0, "G"), (kib / 1024.0, "M")]
        .into_iter()
        .find(|(value, _)| *value >= 1.0)
        .unwrap_or((kib, "K"));
    if value < 9.95 { format!("{value:.1}{unit}") } else { format!("{value:.0}{unit}") }
}

/// The host in one line.
fn host(top: &TopSample) -> String {
    let host = &top.host;
    let mut parts = vec![format!("{} processes in {}", top.processes, top.interval_ns)];
    if let (Some(faults), Some(major)) = (host.faults_per_second, host.major_per_second) {
        parts.push(format!("{} faults/s, {} major", rate(faults), rate(major)));
    }
    if let (Some(available), Some(all)) = (host.available_bytes, host.memory_bytes) {
        parts.push(format!("{} of {} available", short(available), short(all)));
    }
    if let Some(tables) = host.table_bytes {
        parts.push(format!("page tables {}", short(tables)));
    }
    if let Some(pressure) = host.pressure_percent {
        parts.push(format!("memory pressure {pressure:.1}%"));
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::TerminalStyle;
    use pagewise_model::Nanos;
    use pagewise_model::prediction::GainPrediction;
    use pagewise_model::top::TopHost;

    #[test]
    fn a_sample_fits_eighty_columns() {
        let row = TopProcess {
            pid: 1_234_567,
            name: "a-program-with-a-long-name".into(),
            cpus: 1.5,
            minor_per_second: 123_456.0,
            major_per_second: 12.0,
            fault_cpus: 0.06,
            resident_bytes: Some(Bytes::gib(12)),
            anonymous_bytes: Some(Bytes::gib(10)),
            table_bytes: Some(Bytes::mib(25)),
            huge_bytes: Some(Bytes::gib(5)),
            prediction: Some(GainPrediction {
                arm: "heap-huge".into(),
                gain_share: 0.05,
                low_share: 0.01,
                high_share: 0.09,
                offset_share: 0.0,
                programs: 0,
            }),
        };
        let host = TopHost { pressure_percent: Some(1.5), ..TopHost::default() };
        let top = TopSample {
            interval_ns: Nanos::secs(2),
            processes: 1,
            host,
            rows: vec![row],
            own_cpu_ns: Nanos::millis(1),
        };
        let style = TerminalStyle { colour: false, width: 80, unicode: false };
        let text = top_page(&top, &[Some("faults often")], "do this").text(&style);
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        for part in
            ["123,456", "12G", "25M", "50%", "(1234567) faults often", "do this", "pressure 1.5%"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            words.contains(
                "often; heap-huge will probably take 5.0% less time (1.0..9.0%, a guess)"
            ),
            "{text}"
        );
    }
}
