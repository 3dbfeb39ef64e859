//! Commands that measure, or that change settings of the machine. Tests that need the machine to themselves take
//! their turn (`helper::only_turn`). This program runs before and after others, not beside them.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says when it skips"
)]

mod bench_file;
mod bench_memory;
mod bench_pin;
mod bench_pipe;
mod bench_text;
mod bench_tlb;
mod builds;
mod cache;
mod check;
mod choose;
mod collapse;
mod collapse_files;
mod folios;
mod goals;
mod heap;
mod host;
mod input;
mod live;
mod memory;
mod owners;
mod pipe_grow;
mod pool;
mod predictions;
mod profile;
mod recheck;
mod serve;
mod streams;
mod toggle;
mod tune;

#[path = "../helper/mod.rs"]
mod helper;
