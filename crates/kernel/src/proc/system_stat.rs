//! `/proc/stat`: CPU time of the whole machine, including steal.
//!
//! Counted in clock ticks of 10 ms, so differences below 0.1 s mean little. Steal is the time that the
//! hypervisor reports to have taken; many take time and report nothing.

use super::{fields, lines, number, read_bytes};
use crate::error::SysError;
use pagewise_model::Nanos;
use std::collections::BTreeMap;

/// CPU time since boot, all CPUs together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// In user mode, nice included.
    pub user: Nanos,
    /// In the kernel, interrupts included.
    pub system: Nanos,
    /// Idle, waiting for I/O included.
    pub idle: Nanos,
    /// Taken by the hypervisor.
    pub steal: Nanos,
}

impl CpuTimes {
    /// Time in which the CPUs worked for this machine.
    #[must_use]
    pub fn busy(&self) -> Nanos {
        self.user + self.system
    }
}

/// Parses the times in `text`, which has `ticks_per_second`.
#[must_use]
pub fn parse(text: &[u8], ticks_per_second: u64) -> Option<CpuTimes> {
    let line = lines(text).find(|l| l.starts_with(b"cpu "))?;
    let ticks: Vec<u64> = fields(line).skip(1).map(number).collect::<Option<_>>()?;
    let at = |i: usize| ticks.get(i).copied().unwrap_or(0);
    let span = |list: &[usize]| {
        let sum = list.iter().fold(0u64, |sum, &i| sum.saturating_add(at(i)));
        crate::clock::ticks(sum, ticks_per_second)
    };
    (ticks.len() >= 4).then(|| CpuTimes {
        user: span(&[0, 1]),
        system: span(&[2, 5, 6]),
        idle: span(&[3, 4]),
        steal: span(&[7]),
    })
}

/// The times now.
pub fn read() -> Result<CpuTimes, SysError> {
    let path = "/proc/stat";
    let text = read_bytes(path)?;
    parse(&text, rustix::param::clock_ticks_per_second())
        .ok_or_else(|| SysError::malformed("read", path))
}

/// Time since boot in which each CPU worked for this machine.
pub fn busy_by_cpu() -> Result<BTreeMap<u32, Nanos>, SysError> {
    let text = read_bytes("/proc/stat")?;
    Ok(parse_by_cpu(&text, rustix::param::clock_ticks_per_second()))
}

fn parse_by_cpu(text: &[u8], ticks_per_second: u64) -> BTreeMap<u32, Nanos> {
    let of_line = |line| {
        let mut all = fields(line);
        let cpu = number(all.next()?.strip_prefix(b"cpu")?)?;
        let ticks: Vec<u64> = all.map(number).collect::<Option<_>>()?;
        let busy = [0, 1, 2, 5, 6].iter().filter_map(|&i| ticks.get(i));
        let sum = busy.fold(0u64, |sum, ticks| sum.saturating_add(*ticks));
        Some((cpu, crate::clock::ticks(sum, ticks_per_second)))
    };
    lines(text).filter_map(of_line).collect()
}

/// CPU time taken by the hypervisor since boot.
pub fn steal() -> Result<Nanos, SysError> {
    read().map(|times| times.steal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn recorded_stat() {
        let times = parse(b"cpu  5179 0 2338 217949 592 0 44 12 0 0\ncpu0 1 1\n", 100).unwrap();
        assert_eq!(times.steal, Nanos::millis(120));
        assert_eq!(times.busy(), Nanos::millis(10 * (5179 + 2338 + 44)));
        assert_eq!(times.idle, Nanos::millis(10 * (217_949 + 592)));
        assert_eq!(parse(b"cpu  1 2\n", 100), None);
        assert_eq!(parse(b"cpu0 1 2 3 4\n", 100), None);
        let text = b"cpu  5 0 0 9\ncpu0 1 2 3 40 50 6 7 8\ncpu12 0 0 1 9\ncpux 1 2 3 4\nintr 7\n";
        let busy = BTreeMap::from([(0, Nanos::millis(190)), (12, Nanos::millis(10))]);
        assert_eq!(parse_by_cpu(text, 100), busy);
    }

    proptest! {
        #[test]
        fn any_bytes_are_accepted(text: Vec<u8>, hz: u64) {
            let _ = parse(&text, hz);
        }
        #[test]
        fn any_counts_are_accepted(a: u64, b: u64, hz: u64) {
            let _ = parse(format!("cpu  {a} {b} {a} {b} {a} {b} {a} {b}\n").as_bytes(), hz);
        }
    }
}
