//! The pieces that a linker places: the sections of object files, and what each one refers to.
//!
//! With `-ffunction-sections` and `-fdata-sections`, and always from rustc, a section is one function
//! or one variable. Sizes are bytes.

use crate::trial::Verdict;
use crate::units::{Bytes, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::ops::Range;

/// What a section holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PieceKind {
    Code,
    /// Code that the compiler found unlikely to run.
    ColdCode,
    /// Data: variables, constants, tables.
    Data,
}

/// How one piece refers to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reference {
    /// Calls it or jumps to it, from one place.
    Call,
    /// Takes its address or reads it.
    Address,
}

/// A section of an object file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The symbol at its start; the name of the section if it has none.
    pub name: String,
    pub section: String,
    /// Place in [`Pieces::objects`].
    pub object: usize,
    pub kind: PieceKind,
    pub bytes: Bytes,
    /// Its alignment in bytes.
    pub align: u64,
    /// Functions or variables in it.
    pub symbols: usize,
    /// A list of functions that run before or after `main`.
    pub is_start_list: bool,
    /// What it refers to, by place in [`Pieces::all`].
    pub references: Vec<(usize, Reference)>,
}

/// The sections of all object files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pieces {
    /// Object files by name; members of archives as `archive(member)`.
    pub objects: Vec<String>,
    /// Their sections.
    pub all: Vec<Piece>,
    /// Where each global symbol is defined.
    pub symbols: HashMap<String, usize>,
    /// Symbols that are referred to and defined in none of the files.
    pub undefined: Vec<String>,
}

/// A function or variable as a build has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Function {
    /// Its symbol.
    pub name: String,
    /// Other symbols at its address.
    pub aliases: Vec<String>,
    /// Its address in the linked program; 0 in object files.
    pub address: u64,
    /// Its size; 0 if not known.
    pub bytes: Bytes,
    /// Symbols of the functions that it calls; empty where they are not known.
    pub callees: Vec<String>,
    /// The section of an object file that holds it.
    pub section: Option<String>,
}

/// What is put in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum By {
    /// Object files, by their code.
    Object,
    Function,
    Variable,
}

/// An order with what it comes to.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkOrder {
    /// Names in the order; of object files, or of symbols.
    pub names: Vec<String>,
    /// What is reached, of how many.
    pub reached: u64,
    pub all: u64,
    pub reached_bytes: Bytes,
    pub all_bytes: Bytes,
    /// Pages in the order in which the files define them, with the rest left out.
    pub plain: Paged,
    /// Pages in this order.
    pub packed: Paged,
    /// Sections that hold several functions or variables, which no linker can separate.
    pub joined: u64,
}

/// What an order comes to in pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paged {
    /// Pages that the pieces take, one after the other.
    pub pages: u64,
    /// Pieces no larger than a page that lie over the end of one.
    pub crossing: u64,
}

/// What a start does, as far as code goes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Workload {
    pub name: String,
    /// How much it counts beside the others.
    pub weight: f64,
    /// Functions by place, in the order of their first calls.
    pub calls: Vec<usize>,
    /// Addresses of the pages that the run touched in today's layout, by first touch; empty where that is
    /// not known.
    pub touched: Vec<Range<u64>>,
}

/// What a workload touches of a program's code in one layout.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Touched {
    /// Bytes of the functions that are called.
    pub called_bytes: Bytes,
    /// Base pages that hold some of them.
    pub pages: u64,
    /// Faults, the mean over all places the program may be loaded at.
    pub faults: f64,
    /// Whether they were counted on the program's file. Else they are windows of fault-around.
    pub is_counted: bool,
}

/// A layout with what each workload touches, in the order of the workloads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LayoutForecast {
    pub layout: String,
    /// One for each workload.
    pub touched: Vec<Touched>,
    /// Addresses of the functions, from the first to the end of the last.
    pub code: Range<u64>,
    /// For each workload the addresses of the pages that it is likely to touch, about in this order.
    pub pages: Vec<Vec<u64>>,
}

/// What all workloads touch with pages of another size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SizeForecast {
    pub page_bytes: Bytes,
    /// Pages in today's layout.
    pub today_pages: u64,
    /// Pages in the best order.
    pub ordered_pages: u64,
    /// Bytes of those pages that hold nothing called, in today's layout.
    pub today_waste_bytes: Bytes,
    /// The same in the best order.
    pub ordered_waste_bytes: Bytes,
}

impl OrderForecast {
    /// The forecast as a JSON document.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_else(|e| format!("{{\"error\":\"{e}\"}}"))
    }
}

/// What orders come to, predicted from one recording of each workload.
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

/// How well a build follows an order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Conformance {
    /// Names of the order.
    pub names: u64,
    /// Of them those that the build has.
    pub found: u64,
    /// Neighbours in the order that lie in the order of addresses, as a share of all neighbours.
    pub in_order_share: f64,
    /// The most functions that follow each other as in the order.
    pub longest_run: u64,
    /// From the first of these functions to the end of the last.
    pub span_bytes: Bytes,
    pub function_bytes: Bytes,
}

/// What starts of one build touched of its code; one figure a start.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StartSeen {
    pub path: String,
    /// Executable parts of the file: offset and length.
    pub text: Vec<(Bytes, Bytes)>,
    /// Faults on these parts.
    pub faults: Vec<u64>,
    /// Of these parts resident when the program ended.
    pub resident_bytes: Vec<Bytes>,
    /// The share of that which this process stands for.
    pub proportional_bytes: Vec<Bytes>,
    /// First touch of each page by its offset, from one start with a fault for each page.
    pub touched: Vec<(Bytes, Nanos)>,
}

/// Two builds by their starts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OrderCheck {
    /// How the second follows the order.
    pub conformance: Conformance,
    /// The first build.
    pub before: StartSeen,
    pub after: StartSeen,
    /// Time of the second against the first; absent where it was not measured.
    pub time: Option<Verdict>,
}

impl OrderCheck {
    /// The comparison as a JSON document.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_else(|e| format!("{{\"error\":\"{e}\"}}"))
    }
}

impl Conformance {
    /// Names that a build must have, as a share.
    const LEAST_FOUND: f64 = 0.95;
    /// Neighbours that must lie in order.
    const LEAST_IN_ORDER: f64 = 0.98;

    /// Whether the linker followed the order.
    #[must_use]
    pub fn is_honoured(&self) -> bool {
        self.found_share() >= Self::LEAST_FOUND && self.in_order_share >= Self::LEAST_IN_ORDER
    }

    /// Names that the build has, as a share.
    #[must_use]
    pub fn found_share(&self) -> f64 {
        self.found as f64 / (self.names as f64).max(1.0)
    }
}
