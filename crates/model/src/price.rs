//! Unit prices of page work: what one fault, one wake-up, one copied byte costs here.
//!
//! Produced by `measure`, used by `judge`. All times are nanoseconds of CPU time on this machine,
//! measured in this session unless `prior` says that they come from the cache.

use crate::measured::{Fact, Measured};
use crate::units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One point of the random pointer chase: the same working set on base and on huge pages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChasePoint {
    /// Working set walked at random, one access per base page-independent cache line.
    pub set_bytes: Bytes,
    /// ns per dependent access on base pages.
    pub base_ns: Measured,
    /// ns per dependent access on huge pages (proven huge); missing where none could be had.
    pub huge_ns: Fact<Measured>,
}

/// The price of one size of transfer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TransferPoint {
    pub transfer_bytes: Bytes,
    pub transfer_ns: Measured,
}

/// Prices of one session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Prices {
    /// First touch of one anonymous base page on demand: entry, allocation, zeroing, mapping,
    /// with its share of unmapping and freeing. Memory that the host already backs.
    pub anon_fault_ns: Measured,
    /// Zeroing part of `anon_fault_ns`: clearing one base page in the kernel, estimated by a
    /// same-size clear in user space.
    pub zero_page_ns: Measured,
    /// One fault on a cached file mapping, which maps a window of pages (fault-around). The cache
    /// holds the file in base pages, as a start from disk leaves programs and libraries.
    pub file_fault_ns: Measured,
    /// Pages such a fault maps.
    pub file_fault_pages: f64,
    /// One copy-on-write fault of a base page.
    pub cow_fault_ns: Measured,
    /// First touch of one transparent huge page; missing where THP is off.
    pub huge_fault_ns: Fact<Measured>,
    /// Transfers through a pipe on one core, by growing size: a write and the reading of what it
    /// wrote, both calls, both copies, the pipe's pages; no end sleeps. Between two sizes the time
    /// grows with the bytes.
    pub pipe_transfers: Vec<TransferPoint>,
    /// Reads out of the page cache, by growing size; likewise. Empty in runs saved before there
    /// was more than one size.
    #[serde(default)]
    pub file_reads: Vec<TransferPoint>,
    /// Entering and leaving the kernel by a trivial system call.
    pub syscall_ns: Measured,
    /// mmap + munmap of one untouched region, with the mapping work.
    pub map_unmap_ns: Measured,
    /// Blocking hand-over to a thread on another CPU and back, half of the round trip.
    pub wakeup_cross_ns: Fact<Measured>,
    /// The same between two threads on one CPU.
    pub wakeup_same_ns: Measured,
    /// A minimal fork + exec + exit + wait of a dynamically linked program, as the kernel charges it;
    /// missing where no such program is found or its end cannot be waited for.
    pub spawn_ns: Fact<Measured>,
    /// Copying the page tables at a fork, for each base page that the parent has touched.
    #[serde(default = "not_measured")]
    pub fork_page_ns: Fact<Measured>,
    /// Dependent random loads over growing working sets, on base and huge pages.
    pub chase: Vec<ChasePoint>,
    /// Extra time per base page of a first touch when the host must back the memory again;
    /// missing outside virtual machines or where no difference was seen.
    pub host_fault_extra_ns: Fact<f64>,
    /// True when (some of) this was taken from the cache instead of measured in this session.
    pub prior: bool,
}

/// For runs that were saved before there was this price.
fn not_measured() -> Fact<Measured> {
    Fact::missing("not in this recording")
}
