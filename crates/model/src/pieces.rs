//! The pieces that a linker places: the sections of object files, and the references of each.
//!
//! With `-ffunction-sections` and `-fdata-sections`, and always from rustc, a section holds one function or
//! one variable. Sizes are bytes.

use crate::schema::JsonSchema;
use crate::trial::ArmVerdict;
use crate::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::ops::Range;

/// The content of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PieceKind {
    Code,
    /// Code that the compiler considers unlikely to run.
    ColdCode,
    /// Data: variables, constants, tables.
    Data,
}

/// Kind of reference from one piece to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PieceReference {
    /// It calls the piece or jumps to it, from one place.
    Call,
    /// It takes the address of the piece or reads it.
    Address,
}

/// A section of an object file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkPiece {
    /// The symbol at its start, or the name of the section if it has none.
    pub name: String,
    pub section: String,
    /// Index in [`LinkPieces::objects`].
    pub object: usize,
    pub kind: PieceKind,
    pub bytes: Bytes,
    /// Alignment in bytes.
    pub align: u64,
    /// Number of functions or variables in it.
    pub symbols: usize,
    /// True for a list of functions that run before or after `main`.
    pub is_start_list: bool,
    /// The pieces that it refers to, as indexes in [`LinkPieces::all`], with the kind of reference.
    pub references: Vec<(usize, PieceReference)>,
}

/// The sections of all object files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinkPieces {
    /// Names of the object files; members of archives as `archive(member)`.
    pub objects: Vec<String>,
    /// The sections of these files.
    pub all: Vec<LinkPiece>,
    /// The piece that defines each global symbol.
    pub symbols: HashMap<String, usize>,
    /// Symbols that are referred to and that none of the files defines.
    pub undefined: Vec<String>,
}

/// A function or variable of a build.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BuildSymbol {
    /// Symbol of the function or variable.
    pub name: String,
    /// Other symbols at the same address.
    pub aliases: Vec<String>,
    /// Address in the linked program; 0 in object files.
    pub address: u64,
    /// Size; 0 if not known.
    pub bytes: Bytes,
    /// Symbols of the functions that it calls; empty if they are not known.
    pub callees: Vec<String>,
    /// The section of an object file that holds it.
    pub section: Option<String>,
}

/// The pieces that are put in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum OrderUnit {
    /// Object files, by their code.
    Object,
    Function,
    Variable,
}

/// An order with its result.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkOrder {
    /// Names of object files or symbols, in order.
    pub names: Vec<String>,
    /// Number of pieces that are reached, out of `all`.
    pub reached: u64,
    pub all: u64,
    pub reached_bytes: Bytes,
    pub all_bytes: Bytes,
    /// Pages of the order in which the files define the pieces, without the pieces that are not reached.
    pub plain: OrderPages,
    /// Pages of this order.
    pub packed: OrderPages,
    /// Number of sections with several functions or variables, which no linker can separate.
    pub joined: u64,
}

/// The pages of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderPages {
    /// Number of pages that the pieces take, one after the other.
    pub pages: u64,
    /// Number of pieces no larger than a page that cross the end of one.
    pub crossing: u64,
}

/// The code that a start runs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Workload {
    pub name: String,
    /// Weight of the workload among the others.
    pub weight: f64,
    /// Indexes of the functions, in the order of their first calls.
    pub calls: Vec<usize>,
    /// Addresses of the pages that the run touched in today's layout, by first touch; empty if not known.
    pub touched: Vec<Range<u64>>,
}

/// The code that a workload touches in one layout.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TouchedCode {
    /// Bytes of the functions that are called.
    pub called_bytes: Bytes,
    /// Number of base pages that hold these functions.
    pub pages: u64,
    /// Number of faults, as the mean over all addresses at which the program may be loaded.
    pub faults: f64,
    /// True if the faults were counted on the program's file. Else they are windows of fault-around.
    pub is_counted: bool,
}

/// A layout with the code that each workload touches, in the order of the workloads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LayoutForecast {
    pub layout: String,
    /// Code that each workload touches.
    pub touched: Vec<TouchedCode>,
    /// Address range of the functions, from the first to the end of the last.
    pub code: Range<u64>,
    /// Addresses of the pages that each workload probably touches, roughly in this order.
    pub pages: Vec<Vec<u64>>,
}

/// The code that all workloads touch, with pages of another size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SizeForecast {
    pub page_bytes: Bytes,
    /// Number of pages in today's layout.
    pub today_pages: u64,
    /// Number of pages in the best order.
    pub ordered_pages: u64,
    /// Bytes in those pages that hold nothing called, in today's layout.
    pub today_waste_bytes: Bytes,
    /// Bytes in those pages that hold nothing called, in the best order.
    pub ordered_waste_bytes: Bytes,
}

impl OrderForecast {
    /// The forecast as a JSON document.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_else(|e| format!("{{\"error\":\"{e}\"}}"))
    }
}

/// The results of orders, predicted from one recording of each workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OrderForecast {
    /// Names of the workloads.
    pub workloads: Vec<String>,
    pub weights: Vec<f64>,
    /// Today's layout first, then orders, then other builds.
    pub layouts: Vec<LayoutForecast>,
    /// Other page sizes, for the union of all workloads.
    pub sizes: Vec<SizeForecast>,
}

/// Agreement of a build with an order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OrderConformance {
    /// Number of names in the order.
    pub names: u64,
    /// Number of these names that the build has.
    pub found: u64,
    /// Neighbours in the order whose addresses are also in order, as a share of all neighbours.
    pub in_order_share: f64,
    /// Largest number of functions that follow each other as in the order.
    pub longest_run: u64,
    /// Bytes from the first of the functions found to the end of the last.
    pub span_bytes: Bytes,
    pub function_bytes: Bytes,
}

/// The code that starts of one build touched, with one figure for each start.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StartSeen {
    pub path: String,
    /// Executable parts of the file: offset and length.
    pub text: Vec<(Bytes, Bytes)>,
    /// Number of faults on these parts.
    pub faults: Vec<u64>,
    /// Bytes of these parts that were resident when the program ended.
    pub resident_bytes: Vec<Bytes>,
    /// The proportional share of those bytes that counts for this process.
    pub proportional_bytes: Vec<Bytes>,
    /// First touch of each page by its offset, from one start that takes a fault for each page.
    pub touched: Vec<(Bytes, Nanos)>,
}

/// Two builds, compared by their starts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OrderCheck {
    /// Agreement of the second build with the order; absent without an order.
    pub conformance: Option<OrderConformance>,
    /// Starts of the first build.
    pub before: StartSeen,
    pub after: StartSeen,
    /// Time of the second build compared with the first; absent if it was not measured.
    pub time: Option<ArmVerdict>,
}

impl OrderCheck {
    /// The comparison as a JSON document.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_else(|e| format!("{{\"error\":\"{e}\"}}"))
    }
}

impl OrderConformance {
    /// Smallest share of the names that a build must have.
    const LEAST_FOUND: f64 = 0.95;
    /// Smallest share of the neighbours that must be in order.
    const LEAST_IN_ORDER: f64 = 0.98;

    /// True if the linker followed the order.
    #[must_use]
    pub fn is_honoured(&self) -> bool {
        self.found_share() >= Self::LEAST_FOUND && self.in_order_share >= Self::LEAST_IN_ORDER
    }

    /// Share of the names that the build has.
    #[must_use]
    pub fn found_share(&self) -> f64 {
        self.found as f64 / (self.names as f64).max(1.0)
    }
}
