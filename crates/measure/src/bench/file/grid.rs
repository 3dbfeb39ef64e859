//! Which cells are read.

use super::plan::Request;
use pagewise_model::bench::file::{Arm, Cell, Part, Residency};
use pagewise_model::{Bytes, PageSize};

/// The block around which passes, buffers and threads are looked at: the published study's largest.
const CENTRE: Bytes = Bytes::kib(16);
/// Most bytes of a pass of the parts that look at one thing each.
const PART_SPAN: Bytes = Bytes::mib(256);
/// Ways of these parts: one of each kind.
const PASSES: [Arm; 4] = [Arm::Read, Arm::Map, Arm::MapPopulate, Arm::Place];
const BUFFERS: [Arm; 2] = [Arm::Read, Arm::Map];
const THREADS: [Arm; 4] = [Arm::Read, Arm::Pread, Arm::Map, Arm::Place];

/// All cells over a file of `size` bytes, in the order in which they are shown.
pub(super) fn cells(request: &Request, size: Bytes, page: PageSize) -> Vec<Cell> {
    let mut cells = Vec::new();
    for part in &request.parts {
        match part {
            Part::Blocks => cells.extend(blocks(request, size)),
            Part::Passes => cells.extend(passes(request, size)),
            Part::Buffers => cells.extend(buffers(request, size, page)),
            Part::Threads => cells.extend(threads(request, size)),
            Part::Copies | Part::Prices => {}
        }
    }
    cells.retain(|cell| cell.blocks() > 0);
    cells
}

/// Whole blocks of at most `most` bytes of the file.
const fn span(size: Bytes, most: Bytes, block: Bytes) -> Bytes {
    let bytes = if size.0 < most.0 { size.0 } else { most.0 };
    match bytes.checked_div(block.0) {
        Some(blocks) => Bytes(blocks * block.0),
        None => Bytes(0),
    }
}

fn blocks(request: &Request, size: Bytes) -> impl Iterator<Item = Cell> {
    let whole = move |residency, block_bytes| match residency {
        Residency::Warm => span(size, size, block_bytes),
        Residency::Cold => span(size, request.cold_bytes, block_bytes),
    };
    let cell = move |residency, order, block_bytes, arm| Cell {
        order,
        residency,
        ..Cell::plain(Part::Blocks, arm, block_bytes, whole(residency, block_bytes))
    };
    let mut all = Vec::new();
    for residency in &request.residencies {
        for order in &request.orders {
            for arm in request.arms.iter().filter(|arm| arm.serves(*order, *residency)) {
                all.extend(
                    request.blocks.iter().map(|block| cell(*residency, *order, *block, *arm)),
                );
            }
        }
    }
    all.into_iter()
}

/// One cell in the middle: warm, in order, one pass.
fn middle(request: &Request, size: Bytes, part: Part, arm: Arm) -> Cell {
    let distance = |block: &&Bytes| block.0.abs_diff(CENTRE.0);
    let block_bytes = request.blocks.iter().min_by_key(distance).copied().unwrap_or(CENTRE);
    Cell::plain(part, arm, block_bytes, span(size, PART_SPAN, block_bytes))
}

/// Those of `arms` that were asked for.
fn of(request: &Request, arms: &[Arm]) -> Vec<Arm> {
    arms.iter().copied().filter(|arm| request.arms.contains(arm)).collect()
}

fn passes(request: &Request, size: Bytes) -> impl Iterator<Item = Cell> {
    let cell =
        move |arm| Cell { passes: request.passes, ..middle(request, size, Part::Passes, arm) };
    of(request, &PASSES).into_iter().map(cell)
}

/// Four places within a page, in memory that is used again and in fresh memory.
fn buffers(request: &Request, size: Bytes, page: PageSize) -> impl Iterator<Item = Cell> {
    let offsets = [0, 16, 64, page.bytes() - 1].map(Bytes);
    let ways = of(request, &BUFFERS).into_iter().flat_map(|arm| [(arm, false), (arm, true)]);
    ways.flat_map(move |(arm, fresh)| {
        offsets.map(|offset_bytes| Cell {
            fresh,
            offset_bytes,
            ..middle(request, size, Part::Buffers, arm)
        })
    })
}

fn threads(request: &Request, size: Bytes) -> impl Iterator<Item = Cell> {
    of(request, &THREADS).into_iter().flat_map(move |arm| {
        request.threads.iter().map(move |threads| Cell {
            threads: *threads,
            ..middle(request, size, Part::Threads, arm)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Request {
        Request { threads: vec![1, 2], ..Request::usual(3) }
    }

    fn all(request: &Request, size: Bytes) -> Vec<Cell> {
        cells(request, size, PageSize::BASE_4K)
    }

    #[test]
    fn the_usual_cells_are_those_of_the_study_and_more() {
        let cells = all(&request(), Bytes::gib(1));
        let of = |part| cells.iter().filter(move |cell| cell.part == part).count();
        // Three blocks: all ways in order, all but readv at random; past the cache only cold ones.
        assert_eq!(of(Part::Blocks), 3 * (15 + 14 + 16 + 15));
        assert_eq!((of(Part::Passes), of(Part::Buffers), of(Part::Threads)), (4, 2 * 2 * 4, 4 * 2));
        for (at, cell) in cells.iter().enumerate() {
            assert!(!cells[..at].contains(cell), "{cell:?} comes twice");
            assert!(cell.span_bytes <= Bytes::gib(1) && cell.blocks() > 0, "{cell:?}");
        }
    }

    #[test]
    fn passes_are_whole_blocks_of_what_there_is() {
        let own = Request { blocks: vec![Bytes::kib(8), Bytes::mib(1)], ..request() };
        let cells = all(&own, Bytes(20_000));
        assert!(cells.iter().all(|cell| cell.span_bytes == Bytes::kib(16)), "{cells:?}");
        assert!(cells.iter().all(|cell| cell.block_bytes == Bytes::kib(8)), "one is too large");
        assert_eq!(span(Bytes::gib(9), Bytes::gib(9), Bytes::kib(4)), Bytes::gib(9));
        assert_eq!(span(Bytes(5), Bytes(5), Bytes(0)), Bytes(0));
    }

    #[test]
    fn only_what_was_asked_for() {
        let some = Request {
            parts: vec![Part::Buffers, Part::Passes],
            arms: vec![Arm::Map, Arm::MapRandom],
            passes: 5,
            ..request()
        };
        let cells = all(&some, Bytes::mib(64));
        assert_eq!(cells.len(), 8 + 1);
        assert!(cells.iter().all(|cell| cell.arm == Arm::Map));
        assert_eq!(cells.iter().filter(|cell| cell.passes == 5).count(), 1);
    }
}
