//! Unit prices of page work on this machine: one fault, one wake-up, one copied byte.
//!
//! `measure` produces them and `judge` uses them. All times are nanoseconds of CPU time, measured on this
//! machine in this session unless `prior` says that they come from the cache.

use crate::measured::{Fact, Measured};
use crate::schema::JsonSchema;
use crate::units::Bytes;
use serde::{Deserialize, Serialize};

/// One point of the random pointer chase: the same working set on base and on huge pages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChasePoint {
    /// Size of the working set, whose cache lines are visited in one random cycle.
    pub set_bytes: Bytes,
    /// Time of a dependent access on base pages, in nanoseconds.
    pub base_ns: Measured,
    /// Time of a dependent access on huge pages (proven huge), in nanoseconds; missing if there were none.
    pub huge_ns: Fact<Measured>,
}

/// The price of a transfer of one size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TransferPoint {
    pub transfer_bytes: Bytes,
    pub transfer_ns: Measured,
}

/// Prices of one session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionPrices {
    /// First touch of one anonymous base page: entry, allocation, zeroing and mapping, with its share of
    /// unmapping and freeing. The host already backs the memory.
    pub anon_fault_ns: Measured,
    /// Zeroing part of `anon_fault_ns`: clearing one base page in the kernel, estimated by a clear of the
    /// same size in user space.
    pub zero_page_ns: Measured,
    /// One fault on a cached file mapping, which maps a window of pages (fault-around). The cache
    /// holds the file in base pages, as a start from disk leaves programs and libraries.
    pub file_fault_ns: Measured,
    /// Number of pages that such a fault maps.
    pub file_fault_pages: f64,
    /// One copy-on-write fault of a base page.
    pub cow_fault_ns: Measured,
    /// First touch of one transparent huge page; missing if THP is off.
    pub huge_fault_ns: Fact<Measured>,
    /// Transfers through a pipe on one core, by growing size: a write and the read of its bytes, with both
    /// calls, both copies and the pipe's pages. No end sleeps. Between two sizes the time grows with the
    /// bytes.
    pub pipe_transfers: Vec<TransferPoint>,
    /// Reads from the page cache, by growing size, with the same rule between sizes. Empty in runs saved
    /// before several sizes were measured.
    #[serde(default)]
    pub file_reads: Vec<TransferPoint>,
    /// Entering and leaving the kernel by a trivial system call.
    pub syscall_ns: Measured,
    /// mmap and munmap of one untouched region, including the mapping work.
    pub map_unmap_ns: Measured,
    /// Blocking hand-over to a thread on another CPU: half of the round trip.
    pub wakeup_cross_ns: Fact<Measured>,
    /// The same between two threads on one CPU.
    pub wakeup_same_ns: Measured,
    /// A minimal fork, exec, exit and wait of a dynamically linked program, as the kernel charges it; missing
    /// if no such program is found or its end cannot be waited for.
    pub spawn_ns: Fact<Measured>,
    /// Copying the page tables in a fork, for each base page that the parent has touched.
    #[serde(default = "not_measured")]
    pub fork_page_ns: Fact<Measured>,
    /// Dependent random loads over growing working sets, on base and huge pages.
    pub chase: Vec<ChasePoint>,
    /// Extra time per base page of a first touch if the host must back the memory again; missing outside
    /// virtual machines, or if no difference was seen.
    pub host_fault_extra_ns: Fact<f64>,
    /// True if some prices come from the cache and were not measured in this session.
    pub prior: bool,
}

/// For runs saved before this price existed.
fn not_measured() -> Fact<Measured> {
    Fact::missing("not in this recording")
}
