//! A cell and a task for tests.

use super::wire::Task;
use pagewise_model::Bytes;
use pagewise_model::file::{Arm, Cell, Part, Residency};
use pagewise_model::walk::Order;

pub(super) fn cell(arm: Arm) -> Cell {
    Cell {
        part: Part::Blocks,
        arm,
        block_bytes: Bytes(512),
        order: Order::Sequential,
        residency: Residency::Warm,
        passes: 1,
        fresh: false,
        offset_bytes: Bytes(0),
        threads: 1,
        span_bytes: Bytes(512 * 64),
    }
}

pub(super) fn task(cell: Cell) -> Task {
    Task { cell, slips: Vec::new(), summed: false, seed: 1, cpus: Vec::new() }
}
