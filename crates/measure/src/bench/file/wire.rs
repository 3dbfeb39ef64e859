//! What a bench and a process that reads for it tell each other.

use crate::helper;
use pagewise_model::bench::file::{Cell, Pace, Sample, Slip};
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

/// What a process has done: a sample, its numbers and the proof still to be given; the pace of one thread alone.
pub(super) type Done = (Sample, Option<Pace>);

/// A message.
pub(super) type Word = helper::Word<Task, Done>;

/// One end of the line between the bench and a process.
pub(super) type Line = helper::Line<Word>;
