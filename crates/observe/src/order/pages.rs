//! The functions on the pages of code that a run touched.
//!
//! A second source of an order, without a breakpoint in the program: the first touch of each page. It is
//! coarser than calls: all functions of a page count, including those that were never called, in address
//! order. Units: offsets in the file, times since the first fault.

use super::program::read_functions;
use crate::text::ElfFile;
use pagewise_kernel::file_view::open_regular;
use pagewise_kernel::page_size;
use pagewise_model::first_calls::{CalledObject, FirstCall};
use pagewise_model::pieces::BuildSymbol;
use pagewise_model::{Bytes, Nanos};
use std::collections::BTreeMap;
use std::path::Path;

/// First touches of the pages of a file by their offset, each with the process.
pub type FirstTouches = BTreeMap<Bytes, (Nanos, i32)>;

/// The functions of the file at `path` that lie on these pages, by first touch. `None` if it is no linked
/// file.
#[must_use]
pub fn functions_on(path: &Path, pages: &FirstTouches) -> Option<CalledObject> {
    let elf = open_regular(path).ok().and_then(|(file, _)| ElfFile::read(&file).ok())?;
    let functions = read_functions(path).ok()?;
    let offset = |address: u64| {
        let segments = elf.layout.segments.iter();
        let within = |at: u64, len: Bytes| at <= address && address - at < len.0;
        let mut found = segments.filter(|part| within(part.address, part.file_bytes));
        found.next().map(|part| part.offset_bytes.0 + (address - part.address))
    };
    let touched = |function: &BuildSymbol| {
        let start = offset(function.address)?;
        let page = page_size::base().bytes();
        let end = start + function.bytes.0.max(1);
        let first = pages.range(Bytes(start - start % page)..Bytes(end)).map(|(_, first)| *first);
        first.min()
    };
    let seen = functions.iter().filter_map(|function| Some((touched(function)?, function)));
    let mut calls: Vec<FirstCall> = seen
        .map(|((at_ns, pid), function)| FirstCall {
            name: function.name.clone(),
            address: function.address,
            bytes: function.bytes,
            at_ns,
            pid,
        })
        .collect();
    calls.sort_by_key(|call| (call.at_ns, call.address));
    let path = path.to_string_lossy().into_owned();
    let code = elf.layout.segments.iter().filter(|part| part.is_executable);
    let start = code.clone().map(|part| part.address).min().unwrap_or_default();
    let end = code.map(|part| part.address + part.file_bytes.0).max().unwrap_or(start);
    Some(CalledObject { path, functions: functions.len() as u64, code: start..end, calls })
}
