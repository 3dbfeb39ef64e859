//! Plain facts and verdicts: what pagewise saw, what it concluded, and the saved form of both.
//!
//! This crate reads no clock, file, environment or kernel. Producers (`kernel`, `tracee`, `measure`,
//! `observe`) fill these types, `judge` turns facts into verdicts, and `report` shows them. Everything in
//! this crate can be saved and read back, so each later step also runs on a recording.
//!
//! Units are types ([`Bytes`], [`Nanos`]). A JSON key ends in its unit (`_ns`, `_bytes`, `_pages`, `_share`).
//! A value that could not be measured is [`Fact::Missing`] with the reason, never 0.
#![forbid(unsafe_code)]

pub mod address;
pub mod applied;
pub mod bench;
pub mod body;
pub mod bounded;
pub mod builds;
pub mod cache;
pub mod cache_list;
pub mod capability;
pub mod check;
pub mod choice;
pub mod code_tlb;
pub mod collapse;
pub mod comparison;
pub mod conditions;
#[cfg(any(test, feature = "constructed"))]
pub mod constructed;
pub mod diagnosis;
pub mod fault;
pub mod first_calls;
pub mod fleet;
pub mod fold;
mod former;
pub mod guard;
pub mod heap;
pub mod history;
pub mod library;
pub mod look;
pub mod machine;
pub mod measured;
pub mod memory_account;
pub mod name;
pub mod os_text;
pub mod pieces;
pub mod plan;
pub mod pool;
pub mod prediction;
pub mod price;
pub mod profile;
pub mod recheck;
pub mod run;
pub mod schema;
pub mod service;
pub mod spec;
pub mod text;
pub mod text_report;
pub mod text_system;
pub mod text_trial;
pub mod top;
pub mod trial;
pub mod units;
pub mod usage;

pub use measured::{Fact, Measured};
pub use units::{Bytes, Nanos, PageSize};
