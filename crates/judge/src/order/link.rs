//! The link order of a closure: of object files, functions or variables.

use super::closure::closure;
use super::pack::{AlignedSize, measure, pack};
use pagewise_model::pieces::{LinkOrder, LinkPiece, LinkPieces, OrderUnit, PieceKind};
use pagewise_model::{Bytes, PageSize};
use std::collections::HashMap;

/// The link order of what `entries` reach; an entry that no file defines is the error.
///
/// # Errors
/// The entries that are not defined.
pub fn link_order(
    pieces: &LinkPieces,
    entries: &[String],
    by: OrderUnit,
    page: PageSize,
) -> Result<LinkOrder, Vec<String>> {
    let find = |name: &String| pieces.symbols.get(name).copied().ok_or_else(|| name.clone());
    let (found, missing): (Vec<_>, Vec<_>) = entries.iter().map(find).partition(Result::is_ok);
    if !missing.is_empty() {
        return Err(missing.into_iter().filter_map(Result::err).collect());
    }
    let entries: Vec<usize> = found.into_iter().filter_map(Result::ok).collect();
    let reached = closure(pieces, &entries);
    let units = match by {
        OrderUnit::Object => objects(pieces, &reached),
        OrderUnit::Function => sections(pieces, &reached, |kind| kind != PieceKind::Data),
        OrderUnit::Variable => sections(pieces, &reached, |kind| kind == PieceKind::Data),
    };
    Ok(units.ordered(page))
}

/// What is put in order beside all there is.
struct LinkUnits {
    reached: Vec<LinkUnit>,
    all: u64,
    all_bytes: u64,
    joined: u64,
}

struct LinkUnit {
    name: String,
    /// Place in the files.
    place: usize,
    extent: AlignedSize,
}

impl LinkUnits {
    fn ordered(self, page: PageSize) -> LinkOrder {
        let extents: Vec<AlignedSize> = self.reached.iter().map(|unit| unit.extent).collect();
        let mut plain: Vec<usize> = (0..self.reached.len()).collect();
        plain.sort_by_key(|at| self.reached[*at].place);
        let packed = pack(&extents, page);
        LinkOrder {
            names: packed.iter().map(|at| self.reached[*at].name.clone()).collect(),
            reached: extents.len() as u64,
            all: self.all,
            reached_bytes: Bytes(extents.iter().map(|extent| extent.bytes).sum()),
            all_bytes: Bytes(self.all_bytes),
            plain: measure(&extents, &plain, page),
            packed: measure(&extents, &packed, page),
            joined: self.joined,
        }
    }
}

/// Object files, each at the place of its first function; their code is one piece.
fn objects(pieces: &LinkPieces, reached: &[usize]) -> LinkUnits {
    let mut sizes: HashMap<usize, AlignedSize> = HashMap::new();
    for piece in pieces.all.iter().filter(|piece| piece.kind != PieceKind::Data) {
        let extent = sizes.entry(piece.object).or_insert(AlignedSize { bytes: 0, align: 1 });
        extent.bytes = piece_extent(piece).start(extent.bytes) + piece.bytes.0;
        extent.align = extent.align.max(piece.align);
    }
    let mut order: Vec<usize> = Vec::new();
    let mut is_taken = vec![false; pieces.objects.len()];
    for at in reached {
        let object = pieces.all[*at].object;
        if !std::mem::replace(&mut is_taken[object], true) {
            order.push(object);
        }
    }
    let unit = |object: usize| LinkUnit {
        name: pieces.objects[object].clone(),
        place: object,
        extent: sizes.get(&object).copied().unwrap_or(AlignedSize { bytes: 0, align: 1 }),
    };
    LinkUnits {
        reached: order.into_iter().map(unit).collect(),
        all: pieces.objects.len() as u64,
        all_bytes: sizes.values().map(|extent| extent.bytes).sum(),
        joined: 0,
    }
}

fn sections(
    pieces: &LinkPieces,
    reached: &[usize],
    wanted: impl Fn(PieceKind) -> bool,
) -> LinkUnits {
    let is_wanted = |at: &&usize| wanted(pieces.all[**at].kind) && pieces.all[**at].symbols > 0;
    let unit = |at: &usize| {
        let piece = &pieces.all[*at];
        LinkUnit { name: piece.name.clone(), place: *at, extent: piece_extent(piece) }
    };
    let all = || pieces.all.iter().filter(|piece| wanted(piece.kind));
    LinkUnits {
        reached: reached.iter().filter(is_wanted).map(unit).collect(),
        all: all().filter(|piece| piece.symbols > 0).count() as u64,
        all_bytes: all().map(|piece| piece.bytes.0).sum(),
        joined: all().filter(|piece| piece.symbols > 1).count() as u64,
    }
}

const fn piece_extent(piece: &LinkPiece) -> AlignedSize {
    AlignedSize { bytes: piece.bytes.0, align: piece.align }
}
