//! What a bench and a process that reads for it tell each other.

use crate::helper;
use pagewise_model::file::{Cell, Ledger, Pace, Slip};
use pagewise_model::{Bytes, Fact, Nanos};
use serde::{Deserialize, Serialize};

/// What a process is to do; the file is its standard output.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Task {
    /// What is read in which way.
    pub(super) cell: Cell,
    /// Errors that are repeated.
    pub(super) slips: Vec<Slip>,
    /// All bytes of each copied block are added up.
    pub(super) summed: bool,
    /// Seed of a random order.
    pub(super) seed: u64,
    /// Where threads run, one after the other.
    pub(super) cpus: Vec<u32>,
}

/// What a process has done.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Done {
    pub(super) set_up_ns: Nanos,
    pub(super) pass_ns: Vec<Nanos>,
    pub(super) tear_down_ns: Nanos,
    pub(super) user_ns: Nanos,
    pub(super) sys_ns: Nanos,
    pub(super) calls: u64,
    pub(super) minor_faults: u64,
    pub(super) major_faults: u64,
    pub(super) device_bytes: Fact<Bytes>,
    pub(super) ledger: Ledger,
    /// Of one thread alone.
    pub(super) pace: Option<Pace>,
}

/// A message.
pub(super) type Word = helper::Word<Task, Done>;

/// One end of the line between the bench and a process.
pub(super) type Line = helper::Line<Word>;
