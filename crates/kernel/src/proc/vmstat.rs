//! `/proc/vmstat`: counters of the memory manager since boot, for the whole machine.
//!
//! They include the events of all processes, so a difference over a run is evidence only on an otherwise
//! quiet machine. The read folds per-CPU counters (mm/vmstat.c).

use super::{fields, lines, number, read_bytes};
use crate::error::SysError;
use std::collections::BTreeMap;

/// Counters by name (`thp_fault_alloc`, `pgfault`, ...).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VmStat(pub BTreeMap<String, u64>);

impl VmStat {
    /// A counter; `None` if this kernel does not have it.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<u64> {
        self.0.get(name).copied()
    }
}

/// The counters in `text`.
#[must_use]
pub fn parse(text: &[u8]) -> VmStat {
    let counter = |line: &[u8]| {
        let mut parts = fields(line);
        let name = std::str::from_utf8(parts.next()?).ok()?.to_owned();
        Some((name, number(parts.next()?)?))
    };
    VmStat(lines(text).filter_map(counter).collect())
}

/// The counters now.
pub fn read() -> Result<VmStat, SysError> {
    read_bytes("/proc/vmstat").map(|text| parse(&text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn counters_and_lines_that_are_none() {
        let found = parse(b"pgfault 15\nthp_fault_alloc 1\nbad x\n");
        assert_eq!(found.get("pgfault"), Some(15));
        assert_eq!(found.get("thp_fault_alloc"), Some(1));
        assert_eq!(found.get("bad"), None);
    }

    #[test]
    fn the_kernel_counts_faults() {
        assert!(read().unwrap().get("pgfault").is_some_and(|n| n > 0));
    }

    proptest! {
        #[test]
        fn any_bytes_are_accepted(text: Vec<u8>) {
            let _ = parse(&text);
        }
    }
}
