//! What the ladder and its processes tell each other.

use crate::helper;
use pagewise_model::bench::pipe::{Consumption, EndUsage, Rung};
use pagewise_model::{Bytes, Fact, Nanos, PageSize};
use serde::{Deserialize, Serialize};

/// What a process is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Role {
    /// It puts bytes into the pipe.
    Producer,
    /// It takes them out.
    Consumer,
    /// It empties the socket that a consumer forwards to.
    Drain,
}

impl Role {
    /// As it is named in errors.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Producer => "producer",
            Self::Consumer => "consumer",
            Self::Drain => "process behind the socket",
        }
    }
}

/// What a process is to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Task {
    /// As what.
    pub(super) role: Role,
    /// The technique.
    pub(super) rung: Rung,
    /// What becomes of the bytes.
    pub(super) consumption: Consumption,
    /// Bytes to move.
    pub(super) bytes: Bytes,
    /// Where to run; anywhere if empty.
    pub(super) cpus: Vec<u32>,
}

/// What a process has done.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Done {
    /// What it moved and used.
    pub(super) usage: EndUsage,
    /// Bytes that came while the clock ran, and that time (consumer).
    pub(super) timed_bytes: Bytes,
    pub(super) wall_ns: Nanos,
    /// Whether the sequence was whole, where it was looked at (consumer).
    pub(super) verified: Option<bool>,
    /// Page size of the buffer (producer).
    pub(super) page_bytes: Fact<PageSize>,
}

/// A message.
pub(super) type Word = helper::Word<Task, Done>;

/// One end of the line between the ladder and a process.
pub(super) type Line = helper::Line<Word>;
