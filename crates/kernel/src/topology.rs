//! Which CPUs are hardware threads of one core (`/sys/devices/system/cpu/cpu<N>/topology`), and the private
//! caches of a core (`cache/index<N>` there).
//!
//! In a virtual machine this is what the host chose to show: threads of one core may appear as two cores.
//! Reading costs about 20 us per CPU.

use crate::error::SysError;
use crate::proc::read_text;
use pagewise_model::Bytes;

/// The hardware threads of the core of `cpu`, including itself, ascending.
pub fn siblings(cpu: u32) -> Result<Vec<u32>, SysError> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    let text = read_text(&path)?;
    parse_list(&text).ok_or_else(|| SysError::malformed("read", path))
}

/// The second-level cache of `cpu`.
pub fn second_level_cache(cpu: u32) -> Result<Bytes, SysError> {
    let caches = data_caches(cpu)?;
    let second = caches.iter().find(|(level, _)| *level == 2);
    second.map(|(_, size)| *size).ok_or_else(|| SysError::malformed("read", cache_dir(cpu)))
}

/// The caches that hold data of `cpu`: level and size, smallest level first.
pub fn data_caches(cpu: u32) -> Result<Vec<(u8, Bytes)>, SysError> {
    let dir = cache_dir(cpu);
    let mut caches = Vec::new();
    for index in 0..16 {
        let file = |name: &str| format!("{dir}/index{index}/{name}");
        let level = match read_text(file("level")) {
            Err(error) if error.is_gone() && index > 0 => break,
            level => level?,
        };
        if read_text(file("type")).is_ok_and(|kind| kind == "Instruction") {
            continue;
        }
        let path = file("size");
        let malformed = || SysError::malformed("read", path.clone());
        let size = read_text(&path)?.parse().map_err(|_| malformed())?;
        caches.push((level.parse().map_err(|_| malformed())?, size));
    }
    caches.sort_unstable();
    Ok(caches)
}

fn cache_dir(cpu: u32) -> String {
    format!("/sys/devices/system/cpu/cpu{cpu}/cache")
}

/// Parses a list such as `0-3,8` in the kernel's format.
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
    fn the_cache_has_a_size_or_is_not_reported() {
        match second_level_cache(crate::affinity::get(0).unwrap()[0]) {
            Ok(size) => {
                assert!(size >= Bytes::kib(16), "{size}");
                let caches = data_caches(crate::affinity::get(0).unwrap()[0]).unwrap();
                assert!(caches.len() > 1 && caches.is_sorted(), "{caches:?}");
            }
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
