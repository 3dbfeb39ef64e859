//! The pieces that a linker places: the sections of object files, and what each one refers to.
//!
//! With `-ffunction-sections` and `-fdata-sections`, and always from rustc, a section is one function
//! or one variable. Sizes are bytes.

use crate::units::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// What a section holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PieceKind {
    /// Code.
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
    /// The symbol at its start; the name of the section where there is none.
    pub name: String,
    /// The section.
    pub section: String,
    /// Place in [`Pieces::objects`].
    pub object: usize,
    /// What it holds.
    pub kind: PieceKind,
    /// Its size.
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
    /// Its size; 0 where it is not known.
    pub bytes: Bytes,
    /// Symbols of the functions that it calls; empty where they are not known.
    pub callees: Vec<String>,
    /// The section of an object file that holds it.
    pub section: Option<String>,
}

/// What is put in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Object files, by their code.
    Object,
    /// Functions.
    Function,
    /// Variables.
    Variable,
}

/// An order with what it comes to.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkOrder {
    /// Names in the order; of object files, or of symbols.
    pub names: Vec<String>,
    /// What is reached, of how many.
    pub reached: u64,
    /// All there are.
    pub all: u64,
    /// Their bytes.
    pub reached_bytes: Bytes,
    /// Bytes of all.
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
    /// What it is called.
    pub name: String,
    /// How much it counts beside the others.
    pub weight: f64,
    /// Functions by place, in the order of their first calls.
    pub calls: Vec<usize>,
}

/// What a workload touches of a program's code in one layout.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Touched {
    /// Bytes of the functions that are called.
    pub called_bytes: Bytes,
    /// Base pages that hold some of them.
    pub pages: u64,
    /// Faults: windows of fault-around, the mean over all places the program may be loaded at.
    pub faults: f64,
}

/// A layout with what each workload touches, in the order of the workloads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LayoutForecast {
    /// What it is called.
    pub layout: String,
    /// One for each workload.
    pub touched: Vec<Touched>,
}

/// What all workloads touch with pages of another size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SizeForecast {
    /// The page size.
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OrderForecast {
    /// Names of the workloads.
    pub workloads: Vec<String>,
    /// Their weights.
    pub weights: Vec<f64>,
    /// Today's layout first, then orders, then other builds.
    pub layouts: Vec<LayoutForecast>,
    /// Other page sizes, for the union of all workloads.
    pub sizes: Vec<SizeForecast>,
}
