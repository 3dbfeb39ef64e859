//! Detects whether the hypervisor takes free memory back.
//!
//! With free page reporting or a balloon, the host does not back memory that is free in the guest. The first
//! touch then faults in the host too, and costs several times a plain first touch. The probe compares the
//! time to touch fresh memory with the time to touch it again right after it was freed. Not seen: memory that
//! happened to be in use shortly before. So a ratio near 1 proves nothing, and the devices are named as well.
//!
//! Overhead: at most 64 MiB, and 30 ms for the first pass.

use crate::clock::{now, thread_cpu};
use crate::error::SysError;
use crate::region::{MemoryRegion, RegionPages};
use crate::{limits, page_size};
use pagewise_model::capability::MachineTrait;
use pagewise_model::{Bytes, Nanos};

const SIZE: Bytes = Bytes::mib(64);
const CAP: Nanos = Nanos::millis(30);

/// Above this ratio the host served the first touch, not the guest alone.
pub(super) const SUSPECT_RATIO: f64 = 3.0;

/// Time of the first touch of fresh memory, as a multiple of the second.
pub(super) fn first_touch_ratio() -> Result<f64, SysError> {
    // A quarter of what an experiment may take: a small container must survive the probe.
    let size = SIZE.min(Bytes(limits::experiment_memory()?.bytes.0 / 4));
    let mut region = MemoryRegion::new(size, RegionPages::Huge)
        .or_else(|_| MemoryRegion::new(size, RegionPages::Any))?;
    let (pages, first) = touch_some(&mut region, u64::MAX);
    region.discard()?;
    let (_, second) = touch_some(&mut region, pages);
    Ok(first.0 as f64 / second.0.max(1) as f64)
}

/// Touches up to `most` base pages in order until the time is up. Returns their number and the CPU time. That
/// excludes time taken by other processes, and includes time taken by the host inside a fault.
fn touch_some(region: &mut MemoryRegion, most: u64) -> (u64, Nanos) {
    let page = page_size::base().bytes() as usize;
    let (start, cpu) = (now(), thread_cpu());
    let mut count = 0;
    for chunk in region.as_mut_slice().chunks_mut(page) {
        // Reading the clock costs about as much as the noise of a fault, so it is read only every 64 pages.
        if count == most || (count % 64 == 0 && now().0 - start.0 > CAP.0) {
            break;
        }
        chunk[0] = 1;
        count += 1;
    }
    (count, Nanos(thread_cpu().0.saturating_sub(cpu.0)))
}

/// The ratio as a fact.
pub(super) fn backing_trait(ratio: &Result<f64, SysError>) -> MachineTrait {
    let value = match ratio {
        Ok(ratio) => format!("fresh memory takes {ratio:.1} times as long as memory used before"),
        Err(error) => error.to_string(),
    };
    MachineTrait { group: "memory".into(), name: "first touch".into(), value }
}

/// Driver names of devices through which a host takes memory back.
pub(super) fn reclaiming_devices() -> Vec<String> {
    ["virtio_balloon", "virtio_mem", "hv_balloon", "vmw_balloon"]
        .into_iter()
        .filter(|driver| has_device(driver))
        .map(str::to_owned)
        .collect()
}

fn has_device(driver: &str) -> bool {
    let buses = ["virtio", "vmbus", "platform"];
    buses.iter().any(|bus| {
        std::fs::read_dir(format!("/sys/bus/{bus}/drivers/{driver}")).is_ok_and(|entries| {
            // A bound device is a link to its directory; `module` is a link too.
            entries
                .flatten()
                .any(|e| e.file_type().is_ok_and(|t| t.is_symlink()) && e.file_name() != "module")
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touches_what_it_says() {
        let mut region = MemoryRegion::new(Bytes::mib(1), RegionPages::Base).unwrap();
        let (count, _) = touch_some(&mut region, 3);
        assert_eq!(count, 3);
        assert_eq!(region.residency().unwrap().rss, Bytes(3 * page_size::base().bytes()));
    }

    #[test]
    fn a_ratio_is_a_positive_number() {
        assert!(first_touch_ratio().unwrap() > 0.0);
    }
}
