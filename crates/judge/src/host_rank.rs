//! Hosts by what remedies will probably gain on them.

use pagewise_model::fleet::HostPromise;
use pagewise_model::prediction::GainPrediction;
use pagewise_model::top::TopSample;
use std::collections::BTreeMap;

/// CPUs that one program would save in all samples: the likeliest number and the ends of its interval.
#[derive(Debug, Default)]
struct SavedCpus<'a> {
    likely: f64,
    low: f64,
    high: f64,
    arm: &'a str,
}

impl<'a> SavedCpus<'a> {
    fn add(&mut self, cpus: f64, gain: &'a GainPrediction) {
        self.likely += cpus * gain.gain_share;
        self.low += cpus * gain.low_share;
        self.high += cpus * gain.high_share;
        self.arm = &gain.arm;
    }
}

/// What the processes in these samples of a host will probably gain together. Processes of one name count as one
/// program. Without samples nothing is busy.
#[must_use]
pub fn promise(host: &str, samples: &[TopSample]) -> HostPromise {
    let mut programs: BTreeMap<&str, SavedCpus<'_>> = BTreeMap::new();
    let rows = || samples.iter().flat_map(|sample| &sample.rows);
    for row in rows() {
        if let Some(gain) = &row.prediction {
            programs.entry(&row.name).or_default().add(row.cpus, gain);
        }
    }
    let mean = |sum: f64| sum / samples.len().max(1) as f64;
    let sum = |of: fn(&SavedCpus<'_>) -> f64| mean(programs.values().map(of).sum());
    let best = programs.iter().max_by(|a, b| a.1.likely.total_cmp(&b.1.likely));
    HostPromise {
        host: host.to_owned(),
        samples: u32::try_from(samples.len()).unwrap_or(u32::MAX),
        busy_cpus: mean(rows().map(|row| row.cpus).sum()),
        saved_cpus: sum(|one| one.likely),
        low_cpus: sum(|one| one.low),
        high_cpus: sum(|one| one.high),
        program: best.map(|(name, _)| (*name).to_owned()),
        arm: best.map(|(_, saved)| saved.arm.to_owned()),
    }
}

/// Sorts hosts, those that would save most first.
pub fn rank(hosts: &mut [HostPromise]) {
    hosts.sort_by(|a, b| b.saved_cpus.total_cmp(&a.saved_cpus).then_with(|| a.host.cmp(&b.host)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::Nanos;
    use pagewise_model::top::{TopHost, TopProcess};

    fn process(name: &str, cpus: f64, gain: Option<f64>) -> TopProcess {
        let prediction = gain.map(|gain_share| GainPrediction {
            arm: "heap-huge=glibc".into(),
            gain_share,
            low_share: gain_share - 0.05,
            high_share: gain_share + 0.05,
            offset_share: 0.0,
            programs: 40,
        });
        TopProcess {
            pid: 1,
            name: name.into(),
            cpus,
            minor_per_second: 0.0,
            major_per_second: 0.0,
            fault_cpus: 0.0,
            resident_bytes: None,
            anonymous_bytes: None,
            table_bytes: None,
            huge_bytes: None,
            prediction,
        }
    }

    fn sample(rows: Vec<TopProcess>) -> TopSample {
        TopSample {
            interval_ns: Nanos::secs(1),
            processes: 9,
            host: TopHost::default(),
            rows,
            own_cpu_ns: Nanos(0),
        }
    }

    #[test]
    fn the_host_that_saves_most_cpu_time_comes_first() {
        // A large share of little time against a small share of much.
        let small = [sample(vec![process("job", 0.5, Some(0.4)), process("sh", 0.5, None)])];
        let worker = || process("worker", 4.0, Some(0.1));
        let large = [sample(vec![worker(), worker()]), sample(vec![])];
        let mut hosts = [promise("a", &small), promise("b", &large), promise("idle", &[])];
        rank(&mut hosts);
        let names = hosts.each_ref().map(|host| host.host.as_str());
        assert_eq!(names, ["b", "a", "idle"]);
        let near = |value: f64, expected: f64| (value - expected).abs() < 1e-9;
        let [best, second, idle] = &hosts;
        // Two workers in one of two samples.
        assert!(near(best.busy_cpus, 4.0) && near(best.saved_cpus, 0.4), "{best:?}");
        assert!(near(best.low_cpus, 0.2) && near(best.high_cpus, 0.6), "{best:?}");
        assert_eq!((best.samples, best.program.as_deref()), (2, Some("worker")));
        assert!(near(second.busy_cpus, 1.0) && near(second.saved_cpus, 0.2), "{second:?}");
        assert_eq!((idle.saved_cpus, idle.program.as_ref()), (0.0, None));
    }
}
