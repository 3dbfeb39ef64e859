//! What commands do, whatever else runs on the machine.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says when it skips"
)]

mod apply;
mod faults;
mod fifo;
mod fleet;
mod fold;
mod interpreters;
mod java;
mod order;
mod page;
mod preload;
mod schema;
mod transcripts;
mod words;

#[allow(dead_code, reason = "the other test program uses the rest")]
#[path = "../helper/mod.rs"]
mod helper;
