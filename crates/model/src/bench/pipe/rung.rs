//! A technique with all its settings.

use super::Consumption;
use crate::units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the producer puts bytes into the pipe.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum Writer {
    /// write(2): the kernel copies.
    Write,
    /// vmsplice(2) of buffers that are used again, on the belief that a filled pipe has let go of
    /// what was in it before: not safe against a reader that passes references on.
    Vmsplice,
    /// splice(2) from a sealed memfd: bytes that cannot change.
    #[strum(serialize = "frozen")]
    SpliceFrozen,
    /// tee(2) of a seed pipe and splice(2): bytes that belong to the kernel.
    #[strum(serialize = "tee")]
    TeeSeed,
    /// vmsplice(2) of pages that are given up at once and replaced by fresh ones.
    #[strum(serialize = "dropped")]
    GiveDropped,
    /// IORING_OP_WRITE, one at a time.
    IoUring,
}

impl Writer {
    /// The producer sends the same bytes again and again because it cannot change them.
    #[must_use]
    pub const fn sends_constant(self) -> bool {
        matches!(self, Self::SpliceFrozen | Self::TeeSeed)
    }
}

/// How the consumer takes bytes out of the pipe.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum Reader {
    /// read(2): the kernel copies.
    Read,
    /// splice(2), to /dev/null or to where the bytes are forwarded.
    Splice,
    /// vmsplice(2) out of the pipe: the kernel copies.
    VmspliceOut,
    /// IORING_OP_READ, one at a time.
    IoUring,
}

impl Reader {
    /// The bytes are copied to the consumer's own memory.
    #[must_use]
    pub const fn copies(self) -> bool {
        !matches!(self, Self::Splice)
    }
}

/// Pages asked for, for the producer's buffer.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(const_into_str)]
pub enum Pages {
    /// Base pages.
    #[strum(serialize = "base pages")]
    Base,
    /// Transparent huge pages: advised for memory, collapsed for a frozen file.
    #[strum(serialize = "huge pages")]
    Huge,
    /// Pages of the reserved pool.
    #[strum(serialize = "hugetlb pages")]
    HugeTlb,
}

/// What an end does while the other is not ready.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum Wait {
    /// It sleeps in the call that moves bytes.
    Block,
    /// poll(2) before each call, then as `Block`.
    Poll,
    /// It calls again and again without sleeping.
    Busy,
    /// It calls poll(2) again and again without sleeping, then moves bytes.
    BusyPoll,
    /// It spins while the other end is about to act, and sleeps when it is not.
    Adaptive,
}

impl Wait {
    /// A call that cannot move bytes returns instead of sleeping.
    #[must_use]
    pub const fn is_nonblocking(self) -> bool {
        matches!(self, Self::Busy | Self::BusyPoll | Self::Adaptive)
    }
}

/// Buffers that the producer takes in turn.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Buffers {
    /// One mapping, whose halves are taken in turn.
    One,
    /// Two mappings of the full size, on page-table entries of their own.
    Two,
}

/// Where the two processes run.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum Placement {
    /// Both on one CPU.
    #[strum(serialize = "one core")]
    SameCore,
    /// Each on a core of its own.
    #[strum(serialize = "two cores")]
    TwoCores,
    /// On two hardware threads of one core.
    Siblings,
    /// Wherever the scheduler puts them.
    Free,
}

/// A technique with all its settings.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Rung {
    /// Short name, unique within a ladder that is no sweep.
    pub name: String,
    /// How bytes get in.
    pub writer: Writer,
    /// How they get out.
    pub reader: Reader,
    /// Pages of the producer's buffer.
    pub pages: Pages,
    /// How both ends wait.
    pub wait: Wait,
    /// Buffers taken in turn (`vmsplice` only).
    pub buffers: Buffers,
    /// SPLICE_F_GIFT for the producer, SPLICE_F_MOVE for the consumer.
    pub gift: bool,
    /// The producer's buffer is locked in memory.
    pub lock: bool,
    /// The producer's buffer is not touched before it is sent.
    pub untouched: bool,
    /// A buffer that is not proven to be on huge pages refuses the point.
    pub check_huge: bool,
    /// Bytes handed over by one call, at most.
    pub buffer_bytes: Bytes,
    /// Capacity asked for; none leaves the kernel's default.
    pub pipe_bytes: Option<Bytes>,
    /// Where the two run.
    pub placement: Placement,
}

impl Rung {
    /// Base pages, two buffers of 256 KiB, the default pipe, and sleeping ends on two cores.
    #[must_use]
    pub fn plain(name: &str, writer: Writer, reader: Reader) -> Self {
        Self {
            name: name.to_owned(),
            writer,
            reader,
            pages: Pages::Base,
            wait: Wait::Block,
            buffers: Buffers::Two,
            gift: false,
            lock: false,
            untouched: false,
            check_huge: false,
            buffer_bytes: Bytes::kib(256),
            pipe_bytes: None,
            placement: Placement::TwoCores,
        }
    }

    /// No reader of any kind can see bytes change after they were handed over.
    #[must_use]
    pub fn is_safe(&self) -> bool {
        self.writer != Writer::Vmsplice
    }

    /// The bytes reach the consumer's side without being copied by the kernel.
    #[must_use]
    pub const fn by_reference(&self) -> bool {
        !self.reader.copies() && !matches!(self.writer, Writer::Write | Writer::IoUring)
    }

    /// The reader that a consumption needs: references cannot be looked at, so a consumer that
    /// touches the bytes reads them.
    #[must_use]
    pub const fn reader_for(&self, consumption: Consumption) -> Reader {
        match (self.reader, consumption) {
            (Reader::Splice, Consumption::Touched) => Reader::Read,
            (reader, _) => reader,
        }
    }

    /// The technique without its sizes and switches: `vmsplice/splice, huge pages, busy`.
    #[must_use]
    pub fn technique(&self) -> String {
        let mut text = format!("{}/{}", self.writer.into_str(), self.reader.into_str());
        for (said, part) in [
            (self.pages != Pages::Base, self.pages.into_str()),
            (self.wait != Wait::Block, self.wait.into_str()),
            (self.placement != Placement::TwoCores, self.placement.into_str()),
        ] {
            if said {
                text.push_str(", ");
                text.push_str(part);
            }
        }
        text
    }

    /// The same technique with the same switches, whatever the sizes and the name.
    #[must_use]
    pub fn is_alike(&self, other: &Self) -> bool {
        let bare = |rung: &Self| Self {
            name: String::new(),
            buffer_bytes: Bytes(0),
            pipe_bytes: None,
            ..rung.clone()
        };
        bare(self) == bare(other)
    }
}
