//! What the page cache holds of files, the pages on which it is mapped, and the outcome of an attempt to
//! change it.
//!
//! A *slot* is a piece of a file as large as a huge page, at a multiple of that size. One entry of the page
//! table can map it if the cache holds it as one folio. The last slot of a file may be shorter, and is never
//! huge.

use crate::measured::Fact;
use crate::schema::JsonSchema;
use crate::units::{Bytes, Nanos, PageSize};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CacheAction {
    /// Shows what the cache holds.
    Show,
    /// Drops files from the cache.
    Evict,
    /// Holds files in huge folios.
    Huge,
    /// Locks files in memory.
    Lock,
}

/// Content of the cache for one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheSlot {
    /// The whole slot, mapped huge.
    Huge,
    /// The whole slot, in smaller pieces.
    Whole,
    /// A part of the slot.
    Part,
    /// The first page of the slot; no other page was checked.
    Asked,
    /// Nothing of the slot, or not the page that was checked.
    Absent,
}

impl CacheSlot {
    /// All states with their characters.
    pub const ALL: [(Self, char); 5] = [
        (Self::Huge, 'H'),
        (Self::Whole, '#'),
        (Self::Part, '+'),
        (Self::Asked, 'o'),
        (Self::Absent, '.'),
    ];

    /// The character of the state.
    #[must_use]
    pub fn letter(self) -> char {
        Self::ALL.iter().find(|(slot, _)| *slot == self).map_or('?', |(_, letter)| *letter)
    }
}

/// The slots of a file in order. The saved form is a text with one character for each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlotMap(pub Vec<CacheSlot>);

impl SlotMap {
    /// Number of slots in this state.
    #[must_use]
    pub fn count(&self, state: CacheSlot) -> u64 {
        self.0.iter().filter(|slot| **slot == state).count() as u64
    }

    /// State of the slot at byte `offset` of the file.
    #[must_use]
    pub fn at(&self, offset: u64, huge: PageSize) -> Option<CacheSlot> {
        self.0.get(usize::try_from(offset / huge.bytes()).ok()?).copied()
    }
}

impl Serialize for SlotMap {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(&self.0.iter().map(|slot| slot.letter()).collect::<String>())
    }
}

impl<'de> Deserialize<'de> for SlotMap {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let slot = |letter: char| {
            let known = CacheSlot::ALL.iter().find(|(_, known)| *known == letter);
            known.map(|(slot, _)| *slot).ok_or_else(|| D::Error::custom("unknown state of a slot"))
        };
        text.chars().map(slot).collect::<Result<_, _>>().map(Self)
    }
}

/// The counts of `cachestat(2)`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CacheCounts {
    pub cached_bytes: Bytes,
    /// Cached bytes that were written and are not yet on disk.
    pub dirty_bytes: Bytes,
    /// Cached bytes that are being written to disk.
    pub writeback_bytes: Bytes,
    /// Bytes that were in the cache and have been dropped.
    pub evicted_bytes: Bytes,
}

/// The part of a file in folios of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FolioShare {
    pub folio_bytes: Bytes,
    /// Size of all these folios together.
    pub total_bytes: Bytes,
}

/// Content of the page cache for a file at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CacheState {
    pub cached_bytes: Fact<Bytes>,
    /// Cached bytes that a fresh mapping of the file maps by one entry for each huge page.
    pub huge_bytes: Fact<Bytes>,
    pub slots: SlotMap,
    /// The counts of the kernel.
    pub counts: Fact<CacheCounts>,
    /// Folios by size, smallest first.
    pub folios: Fact<Vec<FolioShare>>,
}

/// A process that maps a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileHolder {
    pub pid: i32,
    pub name: String,
    /// Bytes of the file that the process maps.
    pub mapped_bytes: Bytes,
}

/// The processes that map a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileHolders {
    /// The processes that this account can see, by process id.
    pub seen: Vec<FileHolder>,
    /// Number of processes whose mappings this account may not read.
    pub hidden_processes: u64,
}

/// The outcome of an attempt to change the cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum CacheOutcome {
    /// Done as requested.
    Done,
    /// The state was already as requested, and nothing was changed.
    Already,
    /// Refused, and nothing was changed.
    Refused { why: String, help: String },
    /// Done in part.
    Short {
        /// The reason, as far as it is known.
        why: String,
    },
    /// Less is on huge pages than before. The file was read back into the cache.
    Worse {
        /// The reason, as far as it is known.
        why: String,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileCacheReport {
    pub path: String,
    pub size_bytes: Bytes,
    /// The file system that holds the file.
    pub file_system: String,
    /// Content of the cache before the change.
    pub before: CacheState,
    /// Content of the cache after the change; absent if nothing was changed.
    pub after: Option<CacheState>,
    /// Processes that map the file; absent if they were not searched for.
    pub holders: Option<FileHolders>,
    /// Outcome of the change; absent if none was requested.
    pub outcome: Option<CacheOutcome>,
    /// Time that the change took; absent if nothing was changed.
    pub took_ns: Option<Nanos>,
}

impl FileCacheReport {
    /// Content of the cache now.
    #[must_use]
    pub fn now(&self) -> &CacheState {
        self.after.as_ref().unwrap_or(&self.before)
    }
}

/// Findings and actions of `pagewise cache`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CacheReport {
    pub verb: CacheAction,
    /// Size of a slot.
    pub slot_bytes: PageSize,
    pub files: Vec<FileCacheReport>,
}

/// The kind of folio in which the cache holds bytes.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(const_into_str)]
pub enum FolioClass {
    /// Single pages, or a few together.
    #[strum(serialize = "single pages")]
    Page,
    /// Folios from about ten pages to less than a huge page, or larger ones that are never mapped huge.
    #[strum(serialize = "folios of some pages")]
    Piece,
    /// Folios that are mapped as huge pages.
    #[strum(serialize = "huge pages")]
    Huge,
}

impl FolioClass {
    pub const ALL: [Self; 3] = [Self::Page, Self::Piece, Self::Huge];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_saved_as_letters_and_come_back() {
        let all = SlotMap(CacheSlot::ALL.iter().map(|(slot, _)| *slot).collect());
        let text = serde_json::to_string(&all).unwrap();
        assert_eq!(text, "\"H#+o.\"");
        assert_eq!(serde_json::from_str::<SlotMap>(&text).unwrap(), all);
        assert!(serde_json::from_str::<SlotMap>("\"Hx\"").is_err());
        assert_eq!(all.count(CacheSlot::Part), 1);
    }

    #[test]
    fn a_slot_is_found_by_offset() {
        let map = SlotMap(vec![CacheSlot::Huge, CacheSlot::Absent]);
        let huge = PageSize::PMD_2M;
        assert_eq!(map.at(huge.bytes() - 1, huge), Some(CacheSlot::Huge));
        assert_eq!(map.at(huge.bytes(), huge), Some(CacheSlot::Absent));
        assert_eq!(map.at(u64::MAX, huge), None);
    }
}
