//! Memory and accounting at the level of system calls: the only `unsafe` of this crate.
#![allow(
    unsafe_code,
    reason = "mappings are touched through raw pointers, pages are handed to pipes, generated code is run"
)]

pub(crate) mod chain;
pub(crate) mod fizzbuzz;
pub(crate) mod lend;
pub(crate) mod list;
pub(crate) mod mapping;
pub(crate) mod own_memory;
pub(crate) mod ring;
pub(crate) mod touch;
pub(crate) mod vectors;
pub(crate) mod view;
