//! One address of a process: the way of the processor through the page table to its page, and what
//! the kernel tells of page, frame, folio and mapping.
//!
//! [`Seen`] is what was read, [`View`] what it means; `judge::address` makes the one into the other.
//! The words are Linux's: a *frame* is a piece of physical memory of the size of a base page, a
//! *folio* the frames that the kernel manages as one, a *page* what one entry of the page table maps.
//! Addresses and offsets are bytes.
//!
//! Not seen by anybody in user space: the entries themselves, the accessed and dirty bits, and how
//! often a frame is referenced other than by page tables.

mod entry;
mod frame;
mod mapping_flags;

pub use entry::{Entry, Scanned, SwapSlot};
pub use frame::FrameFlags;
pub use mapping_flags::describe_mapping_flag;

use crate::measured::Fact;
use crate::units::{Bytes, PageSize};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Version of [`AddressReport`].
pub const ADDRESS_SCHEMA: u32 = 1;

/// An address in memory. Shown as `0x7f1200034000`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Address(pub u64);

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#014x}", self.0)
    }
}

/// A text that is no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "not an address: hexadecimal as in /proc/PID/maps or after 0x, or decimal of 13 digits or more"
)]
pub struct AddressError;

impl std::str::FromStr for Address {
    type Err = AddressError;

    /// Hexadecimal after `0x`, with a digit above 9 in it, or of up to twelve digits, as
    /// `/proc/PID/maps` has them; more digits than that are decimal, as some runtimes print theirs
    /// (a user address of 47 bits has 12 hexadecimal digits, near its end 15 decimal ones).
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
pub struct Layout {
    pub base_page_bytes: PageSize,
    /// Bits of an address that are translated.
    pub address_bits: u32,
    /// Bits of an address that a process may use: on x86 the highest translated bit is the kernel's.
    pub user_bits: u32,
}

impl Layout {
    /// Bits of an address inside a base page.
    #[must_use]
    pub const fn page_bits(&self) -> u32 {
        self.base_page_bytes.bytes().trailing_zeros()
    }
    /// Bits of an address that number the entries of a table: one fills a base page with entries of 8
    /// bytes.
    #[must_use]
    pub const fn table_bits(&self) -> u32 {
        self.page_bits().saturating_sub(3)
    }
    /// The page that an entry one level above base pages maps.
    #[must_use]
    pub fn huge_page(&self) -> Option<PageSize> {
        PageSize::new(1u64.checked_shl(self.page_bits() + self.table_bits())?)
    }
}

/// Whose an address is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Half {
    /// A process may have it.
    User,
    /// The kernel's.
    Kernel,
    /// Nobody's: the bits that are not translated are not all alike.
    NotCanonical,
}

/// What the entry of a level does in the walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Leads to the table of the next level.
    Table,
    /// Maps the page: the walk ends here.
    Page,
    /// Below the page: not walked.
    Beyond,
    /// Nothing is known of it.
    NotKnown,
}

/// One level of the page table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Level {
    /// Linux's name: PGD, P4D, PUD, PMD, PTE.
    pub name: String,
    /// Highest bit of the address that it takes.
    pub high_bit: u32,
    /// Lowest one.
    pub low_bit: u32,
    /// Number of the entry in its table.
    pub index: u64,
    /// What one entry covers.
    pub entry_spans_bytes: Bytes,
    /// What its entry does.
    pub role: Role,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Mapping {
    /// First address.
    pub start_address: Address,
    /// Address after the last.
    pub end_address: Address,
    /// `r-xp`, as in `/proc/PID/maps`.
    pub permissions: String,
    /// Where it begins in its file; none for memory of no file.
    pub offset_bytes: Option<Bytes>,
    /// Its file, `[heap]` and the like, or nothing.
    pub path: String,
}

impl Mapping {
    /// True when `address` lies in it.
    #[must_use]
    pub const fn contains(&self, address: u64) -> bool {
        self.start_address.0 <= address && address < self.end_address.0
    }
    #[must_use]
    pub const fn size(&self) -> Bytes {
        Bytes(self.end_address.0.saturating_sub(self.start_address.0))
    }
}

/// What `/proc/PID/smaps` says of a mapping.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Residence {
    /// The page that it is made for: larger than the base page for a reserved pool alone.
    pub kernel_page_bytes: Option<PageSize>,
    /// The page by which the processor translates it, if known.
    pub mmu_page_bytes: Option<PageSize>,
    /// Resident, without pages of a reserved pool.
    pub resident_bytes: Bytes,
    /// Anonymous memory mapped huge.
    pub anon_huge_bytes: Bytes,
    /// File pages mapped huge.
    pub file_pmd_mapped_bytes: Bytes,
    /// Shared memory mapped huge.
    pub shmem_pmd_mapped_bytes: Bytes,
    /// Pages of a reserved pool.
    pub pool_bytes: Bytes,
    /// Swapped out.
    pub swapped_bytes: Bytes,
    /// `VmFlags`, two letters each ([`describe_mapping_flag`]).
    pub flags: Vec<String>,
}

/// What was read of one frame.
#[derive(Debug, Clone, PartialEq)]
pub struct FrameSeen {
    pub number: u64,
    /// Flags of the frames around it, itself among them.
    pub flags: Fact<FlagWindow>,
    /// How many entries of page tables map it.
    pub map_count: Fact<u64>,
}

/// Flags of frames side by side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlagWindow {
    /// Number of the first.
    pub first: u64,
    pub flags: Vec<FrameFlags>,
}

/// What was read of one address of a process, one thing after the other while it ran.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    pub address: Address,
    /// All mappings, in order.
    pub mappings: Vec<Mapping>,
    /// Of the mapping that it is in; meaningless without one.
    pub residence: Fact<Residence>,
    /// Entries of all pages under the table entry one level above base pages.
    pub entries: Fact<Entries>,
    /// The ranges among them that are mapped huge or to the zero page.
    pub scanned: Fact<Vec<Scanned>>,
    /// Its frame; missing also where no page is present.
    pub frame: Fact<FrameSeen>,
    /// Whether this kernel keeps soft-dirty bits.
    pub keeps_soft_dirty: Fact<bool>,
}

/// Entries of `/proc/PID/pagemap` side by side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entries {
    /// Address of the page of the first.
    pub first_address: Address,
    pub entries: Vec<Entry>,
}

/// The state of one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Mapped: a touch that its permissions allow needs no kernel.
    Present,
    /// Swapped out, or on its way from one frame to another.
    Swapped,
    /// A guard: any touch is fatal (`MADV_GUARD_INSTALL`).
    Guard,
    /// Not mapped: a touch is a fault.
    Absent,
}

/// The page that an address is in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PageView {
    pub state: State,
    /// Its size: what one entry of the page table maps.
    pub size_bytes: Fact<PageSize>,
    /// Where the address is in it (in a base page while the size is not known).
    pub offset_bytes: Bytes,
    /// It belongs to a file or to shared memory; of pages that are present.
    pub is_of_file_or_shared: bool,
    /// No other process maps it; of pages that are present.
    pub is_exclusive: bool,
    /// It is the zero page, which all that was only read shares.
    pub is_zero: Fact<bool>,
    /// Written since the marks were last cleared.
    pub is_soft_dirty: Fact<bool>,
    /// Write-protected through a userfaultfd.
    pub is_write_protected: bool,
    /// Where it was swapped to; absent for a page that is not swapped.
    pub swapped_to: Option<Fact<SwapSlot>>,
}

/// The folio of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Folio {
    pub first_frame: u64,
    /// How many frames it has.
    pub frames: u64,
    pub size_bytes: Bytes,
}

/// The frame under an address.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Frame {
    pub number: u64,
    /// What it is and what state it is in ([`FrameFlags::names`]).
    pub flags: Fact<Vec<String>>,
    /// How many entries of page tables map it.
    pub map_count: Fact<u64>,
    pub folio: Fact<Folio>,
}

/// The pages under the same entry of the table above base pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Around {
    pub start_address: Address,
    /// A character for each base page: `H` present and mapped huge, `#` present, `z` the zero page, `s`
    /// swapped, `g` guard, `.` absent, `-` in no mapping.
    pub pages: String,
    pub present_pages: u64,
    /// Of these, mapped huge.
    pub huge_pages: u64,
    pub swapped_pages: u64,
    pub guard_pages: u64,
    /// In a mapping and not present.
    pub absent_pages: u64,
    /// In no mapping.
    pub unmapped_pages: u64,
}

/// The mapping that an address is in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Within {
    pub mapping: Mapping,
    /// Where the address is in its file; absent for memory of no file.
    pub position_bytes: Option<Bytes>,
    /// What of it is resident, and its flags.
    pub residence: Fact<Residence>,
}

/// What a process has at an address.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Memory {
    /// The mapping that it is in; absent without one.
    pub within: Option<Within>,
    pub before: Option<Mapping>,
    pub after: Option<Mapping>,
    pub page: Fact<PageView>,
    pub frame: Fact<Frame>,
    /// The pages around it.
    pub around: Fact<Around>,
}

/// What is known of one address.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct View {
    pub address: Address,
    /// Whose it is.
    pub half: Half,
    /// The levels of the page table, the top one first.
    pub levels: Vec<Level>,
    /// What is left of the address below the last level.
    pub page_offset_bytes: Bytes,
    /// What a process has there; absent where none was asked for.
    pub memory: Option<Memory>,
}

/// A process that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Process {
    pub pid: i32,
    /// Program and arguments.
    pub command: Vec<String>,
}

/// Addresses, taken through the page table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AddressReport {
    /// Version of this form.
    pub schema: u32,
    /// Version of the program that made it.
    pub pagewise: String,
    /// The process; absent where addresses were only taken apart.
    pub process: Option<Process>,
    /// How this machine's page tables divide an address.
    pub layout: Layout,
    /// The pages that this processor and kernel can map.
    pub page_sizes_bytes: Vec<PageSize>,
    pub addresses: Vec<View>,
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
        text.parse::<Address>().ok().map(|address| address.0)
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
        assert_eq!(Address(0x1234).to_string(), "0x000000001234");
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
        let layout = Layout { base_page_bytes: PageSize::BASE_4K, address_bits: 48, user_bits: 47 };
        let view = View {
            address: Address(1),
            half: Half::User,
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
