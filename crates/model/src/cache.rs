//! What the page cache holds of files, on which pages that is mapped, and what became of an attempt to
//! change it.
//!
//! A *slot* is a piece of a file as large as a huge page, at a multiple of that size: what one entry of
//! the page table can map when the cache holds it as one folio. The last slot of a file may be shorter,
//! and is never huge.

use crate::measured::Fact;
use crate::units::{Bytes, Nanos, PageSize};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CacheVerb {
    /// To be shown.
    Show,
    /// To be dropped.
    Evict,
    /// To be held in huge folios.
    Huge,
    /// To be locked in memory.
    Lock,
}

/// What the cache holds of one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slot {
    /// All of it, mapped huge.
    Huge,
    /// All of it, in smaller pieces.
    Whole,
    /// Some of it.
    Part,
    /// Its first page, which alone was asked for.
    Asked,
    /// Nothing, or not the page that was asked for.
    Absent,
}

impl Slot {
    /// Every state with its character.
    pub const ALL: [(Self, char); 5] = [
        (Self::Huge, 'H'),
        (Self::Whole, '#'),
        (Self::Part, '+'),
        (Self::Asked, 'o'),
        (Self::Absent, '.'),
    ];

    /// The character that stands for it.
    #[must_use]
    pub fn letter(self) -> char {
        Self::ALL.iter().find(|(slot, _)| *slot == self).map_or('?', |(_, letter)| *letter)
    }
}

/// The slots of a file in order; saved as a text of one character for each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlotMap(pub Vec<Slot>);

impl SlotMap {
    /// How many are in this state.
    #[must_use]
    pub fn count(&self, state: Slot) -> u64 {
        self.0.iter().filter(|slot| **slot == state).count() as u64
    }

    /// The state at byte `offset` of the file.
    #[must_use]
    pub fn at(&self, offset: u64, huge: PageSize) -> Option<Slot> {
        self.0.get(usize::try_from(offset / huge.bytes()).ok()?).copied()
    }
}

impl JsonSchema for SlotMap {
    fn schema_name() -> Cow<'static, str> {
        String::schema_name()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
    fn inline_schema() -> bool {
        true
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
            let known = Slot::ALL.iter().find(|(_, known)| *known == letter);
            known.map(|(slot, _)| *slot).ok_or_else(|| D::Error::custom("unknown state of a slot"))
        };
        text.chars().map(slot).collect::<Result<_, _>>().map(Self)
    }
}

/// What `cachestat(2)` counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CacheCounts {
    pub cached_bytes: Bytes,
    /// Of it, written and not yet on disk.
    pub dirty_bytes: Bytes,
    /// Of it, on its way to the disk.
    pub writeback_bytes: Bytes,
    /// Was in the cache and has been dropped.
    pub evicted_bytes: Bytes,
}

/// How much of a file is in folios of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FolioShare {
    pub folio_bytes: Bytes,
    /// All of them together.
    pub total_bytes: Bytes,
}

/// What the cache holds of a file at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CacheState {
    pub cached_bytes: Fact<Bytes>,
    /// Of it, mapped by one entry for each huge page in a fresh mapping of the file.
    pub huge_bytes: Fact<Bytes>,
    pub slots: SlotMap,
    /// What the kernel counts.
    pub counts: Fact<CacheCounts>,
    /// The folios, smallest first.
    pub folios: Fact<Vec<FolioShare>>,
}

/// A process that maps a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Holder {
    pub pid: i32,
    pub name: String,
    /// How much of the file it maps.
    pub mapped_bytes: Bytes,
}

/// The processes that map a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Holders {
    /// Those that could be seen, by number.
    pub seen: Vec<Holder>,
    /// Processes whose mappings this account may not read.
    pub hidden_processes: u64,
}

/// What came of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum CacheOutcome {
    /// It is as asked.
    Done,
    /// It was so before; nothing was changed.
    Already,
    /// Not done, and nothing was changed.
    Refused { why: String, help: String },
    /// Done, but less came of it than asked.
    Short {
        /// Why, as far as it is known.
        why: String,
    },
    /// Less is on huge pages than before; the file was read back into the cache.
    Worse {
        /// What is known of why.
        why: String,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CachedFile {
    pub path: String,
    pub size_bytes: Bytes,
    /// The file system that it lies on.
    pub file_system: String,
    /// What the cache held at first.
    pub before: CacheState,
    /// What it held afterwards; absent where nothing was changed.
    pub after: Option<CacheState>,
    /// Who maps it; absent if no search was made.
    pub holders: Option<Holders>,
    /// What came of it; absent where it was only looked at.
    pub outcome: Option<CacheOutcome>,
    /// How long the change took; absent where nothing was changed.
    pub took_ns: Option<Nanos>,
}

impl CachedFile {
    /// What the cache holds now.
    #[must_use]
    pub fn now(&self) -> &CacheState {
        self.after.as_ref().unwrap_or(&self.before)
    }
}

/// What `pagewise cache` found and did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CacheReport {
    pub verb: CacheVerb,
    /// The size of a slot.
    pub slot_bytes: PageSize,
    pub files: Vec<CachedFile>,
}

/// On what the cache holds bytes.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(const_into_str)]
pub enum FolioClass {
    /// Single pages, or a few.
    #[strum(serialize = "single pages")]
    Page,
    /// Folios of some ten pages to less than a huge page, or never mapped as one.
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
        let all = SlotMap(Slot::ALL.iter().map(|(slot, _)| *slot).collect());
        let text = serde_json::to_string(&all).unwrap();
        assert_eq!(text, "\"H#+o.\"");
        assert_eq!(serde_json::from_str::<SlotMap>(&text).unwrap(), all);
        assert!(serde_json::from_str::<SlotMap>("\"Hx\"").is_err());
        assert_eq!(all.count(Slot::Part), 1);
    }

    #[test]
    fn a_slot_is_found_by_offset() {
        let map = SlotMap(vec![Slot::Huge, Slot::Absent]);
        let huge = PageSize::PMD_2M;
        assert_eq!(map.at(huge.bytes() - 1, huge), Some(Slot::Huge));
        assert_eq!(map.at(huge.bytes(), huge), Some(Slot::Absent));
        assert_eq!(map.at(u64::MAX, huge), None);
    }
}
