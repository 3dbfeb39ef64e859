//! The kernel's copy compared with copies that a program can make.

use crate::measured::{Fact, Measured};
use crate::schema::JsonSchema;
use crate::units::Bytes;
use serde::{Deserialize, Serialize};

/// A way to copy.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(const_into_str)]
pub enum CopyWay {
    /// pread(2) out of the page cache.
    #[strum(serialize = "the kernel (pread)")]
    Kernel,
    /// The C library's memcpy(3).
    #[strum(serialize = "memcpy")]
    Library,
    /// `rep movsb`.
    #[strum(serialize = "rep movsb")]
    RepMovsb,
    /// Vector registers of 32 bytes.
    #[strum(serialize = "AVX2")]
    Avx2,
    /// Vector registers of 64 bytes.
    #[strum(serialize = "AVX-512")]
    Avx512,
}

impl CopyWay {
    /// All of them, in display order.
    pub const ALL: [Self; 5] =
        [Self::Kernel, Self::Library, Self::RepMovsb, Self::Avx2, Self::Avx512];
}

/// The rates of one way at each offset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CopyRow {
    pub way: CopyWay,
    /// Rate at each offset, in the order of the offsets.
    pub gib_per_s: Vec<Fact<Measured>>,
}

/// Copies of the same cached bytes to the same place, by several ways.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CopyRates {
    /// Bytes of one copy.
    pub block_bytes: Bytes,
    /// Distances from the beginning of a page to the place of the copy.
    pub offset_bytes: Vec<Bytes>,
    /// The ways to copy.
    pub rows: Vec<CopyRow>,
    /// Size of the register state that is saved before the kernel may use vector registers.
    pub state_bytes: Fact<Bytes>,
    /// Time to save and restore that state, in nanoseconds.
    pub save_restore_ns: Fact<Measured>,
}

impl CopyRates {
    /// Rate of a way at the beginning of a page.
    #[must_use]
    pub fn aligned(&self, way: CopyWay) -> Option<&Measured> {
        let row = self.rows.iter().find(|row| row.way == way)?;
        row.gib_per_s.first()?.known()
    }
}
