//! Which CPUs are hardware threads of one core (`/sys/devices/system/cpu/cpu<N>/topology`), and what
//! cache a core has to itself (`cache/index<N>` there).
//!
//! In a virtual machine this is what the host chose to show: threads of one core may be shown as
//! two cores. Reading costs about 20 us for each CPU.

use crate::error::SysError;
use crate::proc::read_text;
use pagewise_model::Bytes;

/// The hardware threads of the core of `cpu`, itself among them, ascending.
pub fn siblings(cpu: u32) -> Result<Vec<u32>, SysError> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    let text = read_text(&path)?;
    parse_list(&text).ok_or_else(|| SysError::malformed("read", path))
}

/// The second-level cache of `cpu`.
pub fn second_level_cache(cpu: u32) -> Result<Bytes, SysError> {
    let dir = format!("/sys/devices/system/cpu/cpu{cpu}/cache");
    for index in 0..16 {
        let file = |name: &str| format!("{dir}/index{index}/{name}");
        if read_text(file("level"))? == "2" {
            let path = file("size");
            return read_text(&path)?.parse().map_err(|_| SysError::malformed("read", path));
        }
    }
    Err(SysError::malformed("read", dir))
}

/// A list such as `0-3,8`, as the kernel writes it.
fn parse_list(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last < first || last - first > u32::from(u16::MAX) {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_as_the_kernel_writes_them() {
        assert_eq!(parse_list("0\n"), Some(vec![0]));
        assert_eq!(parse_list("0-2,8,10-11"), Some(vec![0, 1, 2, 8, 10, 11]));
        for bad in ["", "a", "3-1", "0-4294967295", "1,,2"] {
            assert_eq!(parse_list(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_cache_has_a_size_or_is_not_told() {
        match second_level_cache(crate::affinity::get(0).unwrap()[0]) {
            Ok(size) => assert!(size >= Bytes::kib(16), "{size}"),
            Err(error) => assert_eq!(error.call, "read"),
        }
    }

    #[test]
    fn a_cpu_is_its_own_sibling() {
        let own = crate::affinity::get(0).unwrap()[0];
        match siblings(own) {
            Ok(cpus) => assert!(cpus.contains(&own), "{cpus:?}"),
            // Without /sys, as in some containers.
            Err(error) => assert_eq!(error.call, "read"),
        }
    }
}
