//! Code on huge pages for the whole system: the kernel's facilities, their settings, and what was changed.
//!
//! Some kernels (Alibaba Cloud Linux 2 and 3, Anolis OS 8) have *hugetext*: one setting by which khugepaged
//! gradually puts the code of all programs on huge pages. Others collapse text of files on demand
//! (READ_ONLY_THP_FOR_FS), or map the part of it that the page cache holds in huge folios.

use crate::collapse::CollapsedProcess;
use crate::measured::Fact;
use crate::schema::JsonSchema;
use crate::text::{HugeTotals, TextFile};
use crate::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// The code that hugetext puts on huge pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[derive(strum::FromRepr, strum::IntoStaticStr)]
#[strum(const_into_str)]
#[repr(u64)]
pub enum HugetextMode {
    /// None. Code that is on huge pages stays there.
    #[strum(serialize = "no code; what is on huge pages stays there")]
    Off,
    /// Code of programs and libraries.
    #[strum(serialize = "code of programs and libraries")]
    Files,
    /// Code that programs generate: executable anonymous memory.
    #[strum(serialize = "code that programs generate")]
    Generated,
    #[strum(serialize = "code of programs and libraries, and code that programs generate")]
    Both,
}

impl HugetextMode {
    /// Number of the mode, 0 to 3.
    #[must_use]
    pub const fn number(self) -> u64 {
        self as u64
    }

    /// True if it covers programs and libraries.
    #[must_use]
    pub const fn has_files(self) -> bool {
        matches!(self, Self::Files | Self::Both)
    }

    /// True if it covers generated code.
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
pub enum HugetextSetting {
    /// The code that hugetext covers.
    #[strum(serialize = "hugetext_enabled")]
    Mode,
    /// Bytes in the last slot of a mapping from which the slot is filled up to a huge page; 0 is off.
    #[strum(serialize = "hugetext_pad_threshold")]
    PadThreshold,
}

/// A setting that was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HugetextChange {
    pub setting: HugetextSetting,
    pub before: u64,
    /// Value that the kernel reports now.
    pub after: u64,
}

/// An action that removes existing huge pages, on the whole machine and for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[derive(strum::EnumString, strum::IntoStaticStr)] // as a user types it
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum HugePageCleaner {
    /// Drop the page cache (`drop_caches`).
    Caches,
    /// Split every huge page (`split_huge_pages`).
    Split,
}

impl HugePageCleaner {
    pub const ALL: [Self; 2] = [Self::Caches, Self::Split];

    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            Self::Caches => "/proc/sys/vm/drop_caches",
            Self::Split => "/sys/kernel/debug/split_huge_pages",
        }
    }

    /// Warning to show before: there is no undo.
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

/// An action that removes huge pages, and whether this account can use it here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OfferedCleaner {
    pub cleaner: HugePageCleaner,
    /// True if it may be used; missing if that is unknown.
    pub may_write: Fact<bool>,
}

/// The settings of hugetext.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HugetextState {
    /// The code that hugetext covers.
    pub mode: Fact<HugetextMode>,
    /// Bytes in a last slot from which the slot is filled up.
    pub pad_threshold_bytes: Fact<Bytes>,
}

/// The pace of khugepaged, which does the work of hugetext.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KhugepagedPace {
    /// Bytes that it scans in a round.
    pub round_bytes: Bytes,
    /// Time that it sleeps between two rounds.
    pub sleep_ns: Nanos,
}

/// The kernel's facilities, and what was done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TextSystem {
    /// Settings of hugetext; absent if the kernel has none.
    pub hugetext: Option<HugetextState>,
    /// Mode that the kernel was started with (`hugetext=`).
    pub boot_mode: Option<HugetextMode>,
    /// True if the kernel collapses text of files (`MADV_COLLAPSE`, READ_ONLY_THP_FOR_FS).
    pub collapses_files: Fact<bool>,
    /// Pace of khugepaged.
    pub pace: Fact<KhugepagedPace>,
    /// Actions that remove huge pages.
    pub cleaners: Vec<OfferedCleaner>,
    /// Settings that were changed.
    pub changes: Vec<HugetextChange>,
    pub cleaned: Option<HugePageCleaner>,
    /// Files that were brought onto huge pages instead.
    pub files: Vec<TextFile>,
    /// Processes whose generated code was put on huge pages instead.
    pub processes: Vec<CollapsedProcess>,
    /// Further results.
    pub notes: Vec<String>,
    /// Huge pages of the machine before.
    pub before: HugeTotals,
    /// Huge pages of the machine afterwards; absent if nothing was changed.
    pub after: Option<HugeTotals>,
}

impl TextSystem {
    /// True if anything was changed.
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
            assert_eq!(HugetextMode::from_repr(number).map(HugetextMode::number), Some(number));
        }
        assert_eq!(HugetextMode::from_repr(4), None);
        let parts = |mode: HugetextMode| (mode.has_files(), mode.has_generated());
        let all =
            [HugetextMode::Off, HugetextMode::Files, HugetextMode::Generated, HugetextMode::Both]
                .map(parts);
        assert_eq!(all, [(false, false), (true, false), (false, true), (true, true)]);
    }
}
