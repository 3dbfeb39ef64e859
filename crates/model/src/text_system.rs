//! Code on huge pages for the whole system: what the kernel offers for it, how that is set, and what was
//! changed.
//!
//! Some kernels (Alibaba Cloud Linux 2 and 3, Anolis OS 8) have *hugetext*: one setting by which khugepaged
//! puts the code of all programs on huge pages by and by. Others collapse text of files on demand
//! (READ_ONLY_THP_FOR_FS), or map what of it the page cache holds in huge folios.

use crate::collapse::CollapsedProcess;
use crate::measured::Fact;
use crate::text::{HugeTotals, TextFile};
use crate::units::{Bytes, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which code hugetext puts on huge pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[derive(strum::FromRepr, strum::IntoStaticStr)]
#[strum(const_into_str)]
#[repr(u64)]
pub enum Mode {
    /// None; what is there stays.
    #[strum(serialize = "no code; what is on huge pages stays there")]
    Off,
    /// That of programs and libraries.
    #[strum(serialize = "code of programs and libraries")]
    Files,
    /// That which programs generate: executable anonymous memory.
    #[strum(serialize = "code that programs generate")]
    Generated,
    #[strum(serialize = "code of programs and libraries, and code that programs generate")]
    Both,
}

impl Mode {
    /// The number that stands for it, 0 to 3.
    #[must_use]
    pub const fn number(self) -> u64 {
        self as u64
    }

    /// Whether it is about programs and libraries.
    #[must_use]
    pub const fn has_files(self) -> bool {
        matches!(self, Self::Files | Self::Both)
    }

    /// Whether it is about generated code.
    #[must_use]
    pub const fn has_generated(self) -> bool {
        matches!(self, Self::Generated | Self::Both)
    }
}

/// A setting of hugetext.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)] // its file under `/sys/kernel/mm/transparent_hugepage`
#[strum(const_into_str)]
pub enum Setting {
    /// Which code.
    #[strum(serialize = "hugetext_enabled")]
    Mode,
    /// From how many bytes in the last slot of a mapping on that is filled up to a huge page; 0 is off.
    #[strum(serialize = "hugetext_pad_threshold")]
    PadThreshold,
}

/// A setting that was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    pub setting: Setting,
    pub before: u64,
    /// What the kernel says that it is now.
    pub after: u64,
}

/// What removes huge pages that are there, on the whole machine and for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[derive(strum::EnumString, strum::IntoStaticStr)] // as a user types it
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum Cleaner {
    /// The page cache dropped (`drop_caches`).
    Caches,
    /// Every huge page split (`split_huge_pages`).
    Split,
}

impl Cleaner {
    pub const ALL: [Self; 2] = [Self::Caches, Self::Split];

    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            Self::Caches => "/proc/sys/vm/drop_caches",
            Self::Split => "/sys/kernel/debug/split_huge_pages",
        }
    }

    /// What has to be known before: there is no undo.
    #[must_use]
    pub const fn warning(self) -> &'static str {
        match self {
            Self::Caches => {
                "drops the page cache of the whole machine, with names and inodes: every program must read its files from disk again"
            }
            Self::Split => {
                "splits every huge page of the whole machine, also those of heaps, guests and shared memory: other programs lose their benefit until the kernel builds them again"
            }
        }
    }
}

/// A way to remove huge pages, and whether this account can take it here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Offered {
    pub cleaner: Cleaner,
    /// Whether it may be used; the reason why that is unknown.
    pub may_write: Fact<bool>,
}

/// The settings of hugetext.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Hugetext {
    /// Which code.
    pub mode: Fact<Mode>,
    /// From how many bytes on a last slot is filled.
    pub pad_threshold_bytes: Fact<Bytes>,
}

/// The pace of khugepaged, which does what hugetext asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pace {
    /// How much it looks at in a round.
    pub round_bytes: Bytes,
    /// How long it sleeps between two rounds.
    pub sleep_ns: Nanos,
}

/// What the kernel has, and what was done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TextSystem {
    /// The settings of hugetext; absent where the kernel has none.
    pub hugetext: Option<Hugetext>,
    /// What the kernel was started with (`hugetext=`).
    pub boot_mode: Option<Mode>,
    /// Whether it collapses text of files (`MADV_COLLAPSE`, READ_ONLY_THP_FOR_FS).
    pub collapses_files: Fact<bool>,
    /// The pace of khugepaged.
    pub pace: Fact<Pace>,
    /// What removes huge pages.
    pub cleaners: Vec<Offered>,
    /// Settings that were changed.
    pub changes: Vec<Change>,
    pub cleaned: Option<Cleaner>,
    /// Files that were brought on huge pages instead.
    pub files: Vec<TextFile>,
    /// Processes whose generated code was.
    pub processes: Vec<CollapsedProcess>,
    /// What else came of it.
    pub notes: Vec<String>,
    /// The machine before.
    pub before: HugeTotals,
    /// The machine afterwards, where something was changed.
    pub after: Option<HugeTotals>,
}

impl TextSystem {
    /// Whether anything was done.
    #[must_use]
    pub const fn is_changed(&self) -> bool {
        self.after.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_numbers() {
        for number in 0..4 {
            assert_eq!(Mode::from_repr(number).map(Mode::number), Some(number));
        }
        assert_eq!(Mode::from_repr(4), None);
        let parts = |mode: Mode| (mode.has_files(), mode.has_generated());
        let all = [Mode::Off, Mode::Files, Mode::Generated, Mode::Both].map(parts);
        assert_eq!(all, [(false, false), (true, false), (false, true), (true, true)]);
    }
}
