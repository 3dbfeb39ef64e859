//! Whether a process is worth tuning, and by which command: a hint from what one sample shows.

use crate::prediction;
use pagewise_model::Bytes;
use pagewise_model::prediction::{GainPrediction, PredictionOffsets};
use pagewise_model::top::TopProcess;

/// Page tables beyond this share of the resident set give a hint.
const TABLES_SHARE: f64 = 0.05;
/// Less than this of page tables is not.
const LEAST_TABLES: Bytes = Bytes::mib(32);
/// A heap that could gain from huge pages.
const LARGE_HEAP: Bytes = Bytes::mib(256);
/// A process that computes: a share of one CPU.
const BUSY: f64 = 0.2;
/// A hint names faults when they cost more than this share of its CPU time.
const FAULTS_SHARE: f64 = 0.03;
/// Waits for the disk per second.
const MAJOR: f64 = 10.0;

/// What the figures suggest. `None` if page work costs the process little.
#[must_use]
pub fn hint(row: &TopProcess) -> Option<&'static str> {
    let tables = row.table_bytes.zip(row.resident_bytes);
    let has_large_tables = tables.is_some_and(|(tables, resident)| {
        tables >= LEAST_TABLES && tables.0 as f64 > resident.0 as f64 * TABLES_SHARE
    });
    let is_large = row.anonymous_bytes.is_some_and(|bytes| bytes >= LARGE_HEAP);
    let few_huge = row.huge_share().is_some_and(|share| share < 0.1);
    match row {
        _ if row.major_per_second >= MAJOR => Some("waits for the disk"),
        _ if faults_often(row) => Some("faults often"),
        _ if has_large_tables => Some("has large page tables"),
        _ if is_large && few_huge && row.cpus >= BUSY => Some("is busy and has no huge pages"),
        _ => None,
    }
}

fn faults_often(row: &TopProcess) -> bool {
    row.cpus > 0.0 && row.fault_cpus > row.cpus * FAULTS_SHARE && row.fault_cpus > 0.005
}

/// What huge pages for its heap will probably gain a process that faults often. `None` for others, and where most
/// of its memory is on huge pages.
#[must_use]
pub fn promise(row: &TopProcess, offsets: &PredictionOffsets) -> Option<GainPrediction> {
    let has_small = row.huge_share().is_none_or(|share| share < 0.5);
    (faults_often(row) && has_small)
        .then(|| prediction::of_faulting(row.fault_cpus / row.cpus, offsets))
}

/// The command that looks closer.
#[must_use]
pub const fn next_step() -> &'static str {
    "pagewise faults -p PID --for 5s, or pagewise profile -p PID --for 5s"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quiet() -> TopProcess {
        TopProcess {
            pid: 1,
            name: "x".into(),
            cpus: 0.5,
            minor_per_second: 0.0,
            major_per_second: 0.0,
            fault_cpus: 0.0,
            resident_bytes: Some(Bytes::mib(100)),
            anonymous_bytes: Some(Bytes::mib(50)),
            table_bytes: Some(Bytes::mib(1)),
            huge_bytes: Some(Bytes(0)),
            prediction: None,
        }
    }

    #[test]
    fn a_process_that_faults_often_has_a_promise() {
        let promise = |row: &TopProcess| promise(row, &PredictionOffsets::new());
        assert_eq!(promise(&quiet()), None);
        let faulting = TopProcess { fault_cpus: 0.1, ..quiet() };
        let found = promise(&faulting).unwrap();
        assert!((0.1..=0.2).contains(&found.gain_share) && found.is_guess(), "{found:?}");
        let on_huge = TopProcess { huge_bytes: faulting.anonymous_bytes, ..faulting };
        assert_eq!(promise(&on_huge), None);
    }

    #[test]
    fn each_figure_has_its_hint() {
        let with = |change: fn(&mut TopProcess)| {
            let mut row = quiet();
            change(&mut row);
            hint(&row)
        };
        assert_eq!(hint(&quiet()), None);
        assert_eq!(with(|row| row.major_per_second = 50.0), Some("waits for the disk"));
        assert_eq!(with(|row| row.fault_cpus = 0.05), Some("faults often"));
        assert_eq!(
            with(|row| row.table_bytes = Some(Bytes::mib(40))),
            Some("has large page tables")
        );
        let large = with(|row| row.anonymous_bytes = Some(Bytes::gib(1)));
        assert_eq!(large, Some("is busy and has no huge pages"));
    }
}
