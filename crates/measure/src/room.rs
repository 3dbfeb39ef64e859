//! What benches that go through large sets ask of the machine before and between their mappings.

use crate::error::PriceError;
use crate::pinned::on_cpu;
use pagewise_kernel::limits::{self, MemoryLimit};
use pagewise_kernel::proc::meminfo;
use pagewise_kernel::tlb;
use pagewise_model::Bytes;
use pagewise_model::walk::{ClaimedTlb, Unavailable};

/// Share of the installed memory that the largest set may have.
const SHARE: u64 = 4;
/// Before mappings from this size on it is asked again what may be taken.
const LARGE: Bytes = Bytes::mib(64);

/// The least of what this process may take and a share of the installed memory.
pub(crate) fn allowed() -> Result<MemoryLimit, PriceError> {
    let limit = limits::own_memory()?;
    let share = Bytes(meminfo::read()?.total.0 / SHARE);
    if share < limit.bytes {
        let bound_by = format!("1/{SHARE} of the installed memory");
        return Ok(MemoryLimit { bytes: share, bound_by });
    }
    Ok(limit)
}

/// Fails where so much is large and no longer free.
pub(crate) fn still_has(resident: Bytes) -> Result<(), PriceError> {
    if resident >= LARGE && resident > limits::own_memory()?.bytes {
        let text = format!("{resident} are no longer free for an experiment");
        return Err(PriceError::Unavailable(text));
    }
    Ok(())
}

/// That no point is left: why the first kind of page is missing, or else what does not fit.
pub(crate) fn nothing(unavailable: &[Unavailable], what: &str, most: &MemoryLimit) -> PriceError {
    let why = unavailable.first().map_or_else(
        || format!("no {what} that was asked for fits into {}", most.bytes),
        |missing| format!("{}: {}", missing.pages.name(), missing.why),
    );
    PriceError::Unavailable(format!("nothing to measure: {why}"))
}

/// What a CPU claims of its TLBs: on processors with cores of several kinds each answers for itself.
pub(crate) fn claimed_tlbs(cpu: u32) -> Vec<ClaimedTlb> {
    let asked = on_cpu(cpu, || Ok(tlb::claimed()));
    let one = |found: tlb::Tlb| ClaimedTlb {
        level: found.level,
        side: found.side,
        page_bytes: found.page_sizes(),
        entries: found.entries,
        scaled_entries: found.scaled,
    };
    asked.unwrap_or_default().into_iter().map(one).collect()
}
