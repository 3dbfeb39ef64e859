//! One address of a process: the processor's path through the page table to its page, and what the kernel
//! reports about page, frame, folio and mapping.
//!
//! [`AddressSeen`] holds the raw readings and [`AddressView`] their meaning; `judge::address` turns one into the other. The
//! terms are Linux's. A *frame* is a piece of physical memory of the size of a base page. A *folio* is a
//! group of frames that the kernel manages as one. A *page* is the memory that one entry of the page table
//! maps. Addresses and offsets are bytes.
//!
//! User space cannot see the entries themselves, the accessed and dirty bits, or references to a frame other
//! than those of page tables.

mod entry;
mod frame;
mod mapping_flags;

pub use entry::{PagemapEntry, ScannedRange, SwapSlot};
pub use frame::FrameFlags;
pub use mapping_flags::describe_mapping_flag;

use crate::measured::Fact;
use crate::schema::JsonSchema;
use crate::units::{Bytes, PageSize};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Version of [`AddressReport`].
pub const ADDRESS_SCHEMA: u32 = 1;

/// An address in memory. Shown as `0x7f1200034000`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct VirtualAddress(pub u64);

impl fmt::Display for VirtualAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#014x}", self.0)
    }
}

/// A text that is not an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "not an address: hexadecimal as in /proc/PID/maps or after 0x, or decimal of 13 digits or more"
)]
pub struct AddressError;

impl std::str::FromStr for VirtualAddress {
    type Err = AddressError;

    /// An address is hexadecimal if it starts with `0x`, has a digit above 9, or has up to twelve digits, as
    /// in `/proc/PID/maps`. Longer numbers are decimal, as some runtimes print theirs. (A user address of 47
    /// bits has 12 hexadecimal digits, and near its end 15 decimal ones.)
    fn from_str(text: &str) -> Result<Self, AddressError> {
        const MOST_IN_MAPS: usize = 12;
        let text = text.trim();
        let prefixed = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
        let digits = prefixed.unwrap_or(text);
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(AddressError);
        }
        let is_decimal = prefixed.is_none()
            && digits.len() > MOST_IN_MAPS
            && digits.bytes().all(|digit| digit.is_ascii_digit());
        let radix = if is_decimal { 10 } else { 16 };
        u64::from_str_radix(digits, radix).map(Self).map_err(|_| AddressError)
    }
}

/// How the page tables of a machine divide an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AddressLayout {
    pub base_page_bytes: PageSize,
    /// Bits of an address that the page tables translate.
    pub address_bits: u32,
    /// Bits of an address that a process may use. On x86 the highest translated bit belongs to the kernel.
    pub user_bits: u32,
}

impl AddressLayout {
    /// Bits of an address within a base page.
    #[must_use]
    pub const fn page_bits(&self) -> u32 {
        self.base_page_bytes.bytes().trailing_zeros()
    }
    /// Bits of an address that select an entry of a table. A table fills a base page with entries of 8 bytes.
    #[must_use]
    pub const fn table_bits(&self) -> u32 {
        self.page_bits().saturating_sub(3)
    }
    /// The page that an entry maps one level above base pages.
    #[must_use]
    pub fn huge_page(&self) -> Option<PageSize> {
        PageSize::new(1u64.checked_shl(self.page_bits() + self.table_bits())?)
    }
}

/// The owner of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AddressHalf {
    /// A process may use the address.
    User,
    /// The address belongs to the kernel.
    Kernel,
    /// Neither may use it: the bits that are not translated are not all equal.
    NotCanonical,
}

/// The part that the entry of a level plays in the walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EntryRole {
    /// It leads to the table of the next level.
    Table,
    /// It maps the page, and the walk ends here.
    Page,
    /// It lies below the page, so it is not walked.
    Beyond,
    /// Its part is not known.
    NotKnown,
}

/// One level of the page table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PageTableLevel {
    /// Linux's name of the level: PGD, P4D, PUD, PMD or PTE.
    pub name: String,
    /// Highest bit of the address that this level uses.
    pub high_bit: u32,
    /// Lowest bit of the address that this level uses.
    pub low_bit: u32,
    /// Number of the entry in its table, from 0.
    pub index: u64,
    /// Memory that one entry covers, in bytes.
    pub entry_spans_bytes: Bytes,
    /// The part that the entry plays in the walk.
    pub role: EntryRole,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryMapping {
    /// First address of the mapping.
    pub start_address: VirtualAddress,
    /// Address after the last one.
    pub end_address: VirtualAddress,
    /// `r-xp`, as in `/proc/PID/maps`.
    pub permissions: String,
    /// Offset in the file at which the mapping begins, in bytes; absent for memory without a file.
    pub offset_bytes: Option<Bytes>,
    /// Path of the file, a name such as `[heap]`, or empty.
    pub path: String,
}

impl MemoryMapping {
    /// True if `address` lies in the mapping.
    #[must_use]
    pub const fn contains(&self, address: u64) -> bool {
        self.start_address.0 <= address && address < self.end_address.0
    }
    #[must_use]
    pub const fn size(&self) -> Bytes {
        Bytes(self.end_address.0.saturating_sub(self.start_address.0))
    }
}

/// Facts about a mapping from `/proc/PID/smaps`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MappingResidence {
    /// Page size that the mapping is made for. Only a reserved pool has one larger than the base page.
    pub kernel_page_bytes: Option<PageSize>,
    /// Page size by which the processor translates the mapping, if known.
    pub mmu_page_bytes: Option<PageSize>,
    /// Resident memory without pages of a reserved pool.
    pub resident_bytes: Bytes,
    /// Anonymous memory that is mapped huge.
    pub anon_huge_bytes: Bytes,
    /// File pages that are mapped huge.
    pub file_pmd_mapped_bytes: Bytes,
    /// Shared memory that is mapped huge.
    pub shmem_pmd_mapped_bytes: Bytes,
    /// Memory on pages of a reserved pool.
    pub pool_bytes: Bytes,
    /// Memory that is swapped out.
    pub swapped_bytes: Bytes,
    /// `VmFlags`, two letters for each flag ([`describe_mapping_flag`]).
    pub flags: Vec<String>,
}

/// Readings of one frame.
#[derive(Debug, Clone, PartialEq)]
pub struct FrameSeen {
    pub number: u64,
    /// Flags of the frames around it, including its own.
    pub flags: Fact<FlagWindow>,
    /// Number of page-table entries that map it.
    pub map_count: Fact<u64>,
}

/// Flags of adjacent frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlagWindow {
    /// Number of the first frame.
    pub first: u64,
    pub flags: Vec<FrameFlags>,
}

/// Readings for one address of a process, taken one after the other while it ran.
#[derive(Debug, Clone, PartialEq)]
pub struct AddressSeen {
    pub address: VirtualAddress,
    /// All mappings of the process, in order of addresses.
    pub mappings: Vec<MemoryMapping>,
    /// Facts about the mapping that holds the address; meaningless if no mapping does.
    pub residence: Fact<MappingResidence>,
    /// Entries of all pages below one entry of the level above base pages.
    pub entries: Fact<PagemapWindow>,
    /// The ranges among these pages that are mapped huge or to the zero page.
    pub scanned: Fact<Vec<ScannedRange>>,
    /// The frame of the address; also missing if no page is present.
    pub frame: Fact<FrameSeen>,
    /// True if this kernel keeps soft-dirty bits.
    pub keeps_soft_dirty: Fact<bool>,
}

/// Adjacent entries of `/proc/PID/pagemap`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PagemapWindow {
    /// Address of the page that the first entry describes.
    pub first_address: VirtualAddress,
    pub entries: Vec<PagemapEntry>,
}

/// The state of one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PageState {
    /// Mapped. A touch that the permissions allow needs no kernel.
    Present,
    /// Swapped out, or moving from one frame to another.
    Swapped,
    /// A guard (`MADV_GUARD_INSTALL`). Any touch is fatal.
    Guard,
    /// Not mapped. A touch is a fault.
    Absent,
}

/// The page that holds an address.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PageView {
    pub state: PageState,
    /// Size of the page: the memory that one entry of the page table maps.
    pub size_bytes: Fact<PageSize>,
    /// Offset of the address in the page, or in a base page if the page size is not known.
    pub offset_bytes: Bytes,
    /// True if a present page belongs to a file or to shared memory.
    pub is_of_file_or_shared: bool,
    /// True if the page is present and no other process maps it.
    pub is_exclusive: bool,
    /// True for the zero page, which memory shares that was only read.
    pub is_zero: Fact<bool>,
    /// True if the page was written since the marks were last cleared.
    pub is_soft_dirty: Fact<bool>,
    /// True if a userfaultfd write-protects the page.
    pub is_write_protected: bool,
    /// Place of the page in swap space; absent if the page is not swapped.
    pub swapped_to: Option<Fact<SwapSlot>>,
}

/// The folio of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Folio {
    pub first_frame: u64,
    /// Number of frames in the folio.
    pub frames: u64,
    pub size_bytes: Bytes,
}

/// The frame at an address.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PageFrame {
    pub number: u64,
    /// Physical address of the byte at the virtual address: number of the frame times base page size, plus
    /// the offset in a base page. In bytes.
    pub physical_address: u64,
    /// Kind and state of the frame ([`FrameFlags::names`]).
    pub flags: Fact<Vec<String>>,
    /// Number of page-table entries that map the frame.
    pub map_count: Fact<u64>,
    pub folio: Fact<Folio>,
}

/// The pages below the same entry of the table above base pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SurroundingPages {
    pub start_address: VirtualAddress,
    /// One character for each base page: `H` present and mapped huge, `#` present, `z` zero page, `s`
    /// swapped, `g` guard, `.` absent, `-` in no mapping.
    pub pages: String,
    pub present_pages: u64,
    /// Number of present pages that are mapped huge.
    pub huge_pages: u64,
    pub swapped_pages: u64,
    pub guard_pages: u64,
    /// Number of pages in a mapping that are not present.
    pub absent_pages: u64,
    /// Number of pages in no mapping.
    pub unmapped_pages: u64,
}

/// The mapping that holds an address.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ContainingMapping {
    pub mapping: MemoryMapping,
    /// Offset of the address in the file, in bytes; absent for memory without a file.
    pub position_bytes: Option<Bytes>,
    /// Resident memory of the mapping, and its flags.
    pub residence: Fact<MappingResidence>,
}

/// Memory of a process at an address.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AddressMemory {
    /// The mapping that holds the address; absent if no mapping does.
    pub within: Option<ContainingMapping>,
    pub before: Option<MemoryMapping>,
    pub after: Option<MemoryMapping>,
    pub page: Fact<PageView>,
    pub frame: Fact<PageFrame>,
    /// The pages around the address.
    pub around: Fact<SurroundingPages>,
}

/// Facts about one address.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AddressView {
    pub address: VirtualAddress,
    /// Owner of the address.
    pub half: AddressHalf,
    /// Levels of the page table, from the top.
    pub levels: Vec<PageTableLevel>,
    /// Bits of the address below the last level: the offset in a base page.
    pub page_offset_bytes: Bytes,
    /// Memory of the process at the address; absent if no process was named.
    pub memory: Option<AddressMemory>,
}

/// A process whose addresses were examined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExaminedProcess {
    pub pid: i32,
    /// The program and its arguments.
    pub command: Vec<String>,
}

/// Addresses with their paths through the page table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AddressReport {
    /// Version of this format.
    pub schema: u32,
    /// Version of the program that made the report.
    pub pagewise: String,
    /// The process; absent if only the numbers were explained.
    pub process: Option<ExaminedProcess>,
    /// How the page tables of this machine divide an address.
    pub layout: AddressLayout,
    /// Page sizes that this processor and kernel can map.
    pub page_sizes_bytes: Vec<PageSize>,
    pub addresses: Vec<AddressView>,
}

impl AddressReport {
    /// The report as a JSON document.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_else(|e| format!("{{\"error\":\"{e}\"}}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<u64> {
        text.parse::<VirtualAddress>().ok().map(|address| address.0)
    }

    #[test]
    fn addresses_as_they_are_written() {
        assert_eq!(read("0x0000f2705af953c0"), Some(0xf270_5af9_53c0));
        assert_eq!(read("7fe1c2a000"), Some(0x7f_e1c2_a000));
        assert_eq!(read(" 00400000 "), Some(0x40_0000), "as maps has it");
        assert_eq!(read("559012345678"), Some(0x5590_1234_5678), "as maps has it");
        assert_eq!(read("140737353936896"), Some(140_737_353_936_896));
        assert_eq!(read("0x140737353936896"), Some(0x0140_7373_5393_6896));
        assert_eq!(read("ffffffffff600000"), Some(0xffff_ffff_ff60_0000));
        assert_eq!(VirtualAddress(0x1234).to_string(), "0x000000001234");
    }

    #[test]
    fn what_is_no_address_is_refused() {
        let none =
            ["", "0x", "main", "0x12g", "+12", "-1", "0x+1", "1_0", "0x1ffffffffffffffff", "12.5"];
        for text in none {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(read("99999999999999999999"), None, "beyond 64 bits");
    }

    #[test]
    fn a_report_comes_back() {
        let layout =
            AddressLayout { base_page_bytes: PageSize::BASE_4K, address_bits: 48, user_bits: 47 };
        let view = AddressView {
            address: VirtualAddress(1),
            half: AddressHalf::User,
            levels: Vec::new(),
            page_offset_bytes: Bytes(1),
            memory: None,
        };
        let report = AddressReport {
            schema: ADDRESS_SCHEMA,
            pagewise: "0".to_owned(),
            process: None,
            layout,
            page_sizes_bytes: vec![PageSize::BASE_4K],
            addresses: vec![view],
        };
        let back: AddressReport = serde_json::from_str(&report.to_json()).expect("its own form");
        assert_eq!(back, report);
    }
}
