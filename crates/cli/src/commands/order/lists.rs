//! Orders as lists of names, and the positions of these names in a build.

use super::close::refusal;
use crate::failure::CommandFailure;
use crate::terminal;
use pagewise_judge::order::counterparts;
use pagewise_kernel::file_view::read_named;
use pagewise_model::Bytes;
use pagewise_model::pieces::{
    BuildSymbol, LinkPieces, OrderUnit, PieceKind, PieceReference, Workload,
};
use pagewise_observe::order::{is_linked, read_functions, read_objects, read_variables};
use pagewise_report::order::match_section;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Largest order that is read, in bytes.
const LARGEST: Bytes = Bytes::mib(256);

/// An order as names.
#[derive(Debug)]
pub(super) struct OrderList {
    /// Name of the order.
    pub(super) name: String,
    /// Weight relative to other orders.
    pub(super) weight: f64,
    /// Functions in order; size and callees only if known.
    pub(super) functions: Vec<BuildSymbol>,
}

/// Reads orders, each with its weight; without weights, all count equally.
pub(super) fn read(files: &[PathBuf], weights: &[f64]) -> Result<Vec<OrderList>, CommandFailure> {
    if !weights.is_empty() && weights.len() != files.len() {
        let text = format!("--weight gives {} weights for {} orders", weights.len(), files.len());
        return Err(CommandFailure::usage(text).with_help("give each order its weight, or none"));
    }
    let weighted = files.iter().zip(weights.iter().copied().chain(std::iter::repeat(1.0)));
    weighted.map(|(file, weight)| list(file, weight)).collect()
}

/// Largest number of names in any file; below, the bytes of a file that allow one name more. A name takes 230
/// bytes, so an order takes at most 64 MiB and 4 times its length.
const MOST_NAMES: usize = 110_000;
const BYTES_OF_NAME: usize = 57;

/// The names of a file, one a line.
fn list(file: &Path, weight: f64) -> Result<OrderList, CommandFailure> {
    let shown = file.display();
    let read = match file.as_os_str() == "-" {
        true => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map(|_| text)
        }
        false => read_named(file, LARGEST).map_err(|error| error.source).and_then(|text| {
            String::from_utf8(text).map_err(|_| std::io::Error::other("it is not UTF-8"))
        }),
    };
    let text =
        read.map_err(|error| CommandFailure::usage(format!("cannot read `{shown}`: {error}")))?;
    let most = MOST_NAMES + text.len() / BYTES_OF_NAME;
    let lines =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let function = |line: &str| BuildSymbol { name: line.to_owned(), ..BuildSymbol::default() };
    let functions: Vec<BuildSymbol> = lines.take(most + 1).map(function).collect();
    if functions.len() > most {
        return Err(CommandFailure::usage(format!(
            "`{shown}` holds more than {most} names, too many for its length"
        ))
        .with_help("pagewise order emit reads one name a line"));
    }
    if functions.is_empty() {
        return Err(CommandFailure::usage(format!("`{shown}` holds no names"))
            .with_help("pagewise order close OBJECT... prints an order"));
    }
    let name = file
        .file_stem()
        .map_or_else(|| shown.to_string(), |stem| stem.to_string_lossy().into_owned());
    Ok(OrderList { name, weight, functions })
}

/// The functions, variables or files that a build (a program, or object files and archives) defines.
pub(super) fn build(files: &[PathBuf], by: OrderUnit) -> Result<Vec<BuildSymbol>, CommandFailure> {
    match files {
        [program] if is_linked(program) => match by {
            OrderUnit::Variable => read_variables(program).map_err(refusal),
            OrderUnit::Function | OrderUnit::Object => read_functions(program).map_err(refusal),
        },
        objects => Ok(of_objects(&read_objects(objects).map_err(refusal)?, by)),
    }
}

/// The orders as positions in a build. Reports on standard error how many names still exist.
pub(super) fn find(lists: &[OrderList], build: &[BuildSymbol]) -> Vec<Workload> {
    let workload = |list: &OrderList| {
        let matched = counterparts(&list.functions, build);
        let names = list.functions.len() as u64;
        let text = match_section(names, matched.exact, matched.by_stem, matched.by_callees);
        text.text(&terminal::error_style()).lines().for_each(terminal::complain);
        Workload {
            name: list.name.clone(),
            weight: list.weight,
            calls: matched.places.into_iter().flatten().collect(),
            touched: Vec::new(),
        }
    };
    lists.iter().map(workload).collect()
}

/// The functions, variables or files that object files define.
fn of_objects(pieces: &LinkPieces, by: OrderUnit) -> Vec<BuildSymbol> {
    if by == OrderUnit::Object {
        let object = |name: &String| BuildSymbol { name: name.clone(), ..BuildSymbol::default() };
        return pieces.objects.iter().map(object).collect();
    }
    let is_wanted = |kind: PieceKind| (kind == PieceKind::Data) == (by == OrderUnit::Variable);
    let wanted = pieces.all.iter().filter(|piece| piece.symbols > 0 && is_wanted(piece.kind));
    let callee = |(to, how): &(usize, PieceReference)| {
        (*how == PieceReference::Call).then(|| pieces.all[*to].name.clone())
    };
    wanted
        .map(|piece| BuildSymbol {
            name: piece.name.clone(),
            bytes: piece.bytes,
            callees: piece.references.iter().filter_map(callee).collect(),
            section: Some(piece.section.clone()),
            ..BuildSymbol::default()
        })
        .collect()
}
