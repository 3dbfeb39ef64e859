//! Builds of one program that differ by options, and what their starts touch.

use crate::fault::PageForecast;
use crate::measured::Fact;
use crate::schema::JsonSchema;
use crate::trial::{ArmVerdict, ComparedQuantity};
use crate::units::Bytes;
use serde::{Deserialize, Serialize};

/// The pages of a program's file that one start touches.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TouchedFile {
    /// Number of base pages.
    pub pages: u64,
    /// Number of those that hold code.
    pub code_pages: u64,
    /// Number of windows of fault-around with pages that are only read, as the mean over all addresses at which
    /// the program may be loaded.
    pub windows: f64,
    /// The file with other page sizes: the base page first, then larger ones.
    pub sizes: Vec<PageForecast>,
}

/// A build and its starts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BuildSeen {
    /// The linker and its version, as far as the file names them.
    pub linker: String,
    /// Bytes of the sections that hold code.
    pub code_bytes: Bytes,
    /// Bytes of the file.
    pub file_bytes: Bytes,
    /// An earlier build with the same bytes: the figures are those of its starts.
    pub same_as: Option<String>,
    /// From one start that takes a fault for each page.
    pub touched: TouchedFile,
    /// Number of faults of each other start.
    pub faults: Vec<u64>,
    /// Number of those on the program's file.
    pub file_faults: Vec<u64>,
    /// CPU time compared with the first build; absent if it was not measured.
    pub time: Option<ArmVerdict>,
}

/// A build by its name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NamedBuild {
    pub name: String,
    /// The command that made it.
    pub command: Vec<String>,
    /// What was seen of it; missing if it was not built or does not run.
    pub seen: Fact<BuildSeen>,
}

/// Builds beside the first of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BuildComparison {
    /// The command that was started, with {} for the program.
    pub command: Vec<String>,
    /// All builds, the reference first.
    pub builds: Vec<NamedBuild>,
    /// The quantity of the times.
    pub quantity: ComparedQuantity,
    /// What the linkers here can and cannot do.
    pub notes: Vec<String>,
}

impl BuildComparison {
    /// The comparison as a JSON document.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_else(|e| format!("{{\"error\":\"{e}\"}}"))
    }
}
