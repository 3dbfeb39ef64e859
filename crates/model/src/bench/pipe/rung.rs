//! A technique with all its settings.

use super::PipeConsumption;
use crate::schema::JsonSchema;
use crate::units::Bytes;
use serde::{Deserialize, Serialize};

/// Way by which the producer puts bytes into the pipe.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum RungWriter {
    /// write(2): the kernel copies.
    Write,
    /// vmsplice(2) of buffers that are reused, on the assumption that a filled pipe has released its former
    /// content. This is not safe with a reader that passes references on.
    Vmsplice,
    /// splice(2) from a sealed memfd, whose bytes cannot change.
    #[strum(serialize = "frozen")]
    SpliceFrozen,
    /// tee(2) of a seed pipe and splice(2). The bytes belong to the kernel.
    #[strum(serialize = "tee")]
    TeeSeed,
    /// vmsplice(2) of pages that are given up at once and replaced by fresh ones.
    #[strum(serialize = "dropped")]
    GiveDropped,
    /// IORING_OP_WRITE, one at a time.
    IoUring,
    /// A program at work: new lines of FizzBuzz all the time, given by vmsplice(2) on pages that come back.
    #[strum(serialize = "fizzbuzz")]
    FizzBuzz,
}

impl RungWriter {
    /// True if the producer sends the same bytes each time, because it cannot change them.
    #[must_use]
    pub const fn sends_constant(self) -> bool {
        matches!(self, Self::SpliceFrozen | Self::TeeSeed)
    }
}

/// Way by which the consumer takes bytes out of the pipe.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum RungReader {
    /// read(2): the kernel copies.
    Read,
    /// splice(2), to /dev/null or to where the bytes are forwarded.
    Splice,
    /// vmsplice(2) out of the pipe: the kernel copies.
    VmspliceOut,
    /// IORING_OP_READ, one at a time.
    IoUring,
    /// The copy engine of `pagewise meter`, to /dev/null. It passes references on.
    Meter,
}

impl RungReader {
    /// True if the bytes are copied to the consumer's memory.
    #[must_use]
    pub const fn copies(self) -> bool {
        !matches!(self, Self::Splice | Self::Meter)
    }
}

/// Pages requested for the producer's buffer.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(const_into_str)]
pub enum RungPages {
    /// Base pages.
    #[strum(serialize = "base pages")]
    Base,
    /// Transparent huge pages, by advice for memory and by collapse for a frozen file.
    #[strum(serialize = "huge pages")]
    Huge,
    /// Pages of the reserved pool.
    #[strum(serialize = "hugetlb pages")]
    HugeTlb,
}

/// Way in which an end waits while the other is not ready.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum RungWait {
    /// It sleeps in the call that moves bytes.
    Block,
    /// It calls poll(2) before each call, then as `Block`.
    Poll,
    /// It repeats the call without sleeping.
    Busy,
    /// It repeats poll(2) without sleeping, then moves bytes.
    BusyPoll,
    /// It spins while the other end is about to act, and otherwise sleeps.
    Adaptive,
}

impl RungWait {
    /// True if a call that cannot move bytes returns instead of sleeping.
    #[must_use]
    pub const fn is_nonblocking(self) -> bool {
        matches!(self, Self::Busy | Self::BusyPoll | Self::Adaptive)
    }
}

/// Buffers that the producer uses in turn.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum RungBuffers {
    /// One mapping, whose halves are used in turn.
    One,
    /// Two mappings of the full size, each with its own page-table entries.
    Two,
}

/// A setting that a rung can be compared with and without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum RungSwitch {
    /// The buffers are on transparent huge pages.
    Huge,
    /// An end repeats its call instead of sleeping in it.
    Busy,
    /// An end calls poll(2) before its call.
    Poll,
    /// The halves of one buffer are used in turn, instead of two buffers.
    OneBuffer,
    /// SPLICE_F_GIFT on one side and SPLICE_F_MOVE on the other.
    Gift,
    /// The producer's buffers are locked in memory.
    Lock,
    /// The producer's buffers are not touched before they are sent.
    Untouched,
}

/// Placement of the two processes.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum CpuPlacement {
    /// Both on one CPU.
    #[strum(serialize = "one core")]
    SameCore,
    /// Each on its own core.
    #[strum(serialize = "two cores")]
    TwoCores,
    /// On two hardware threads of one core.
    Siblings,
    /// Wherever the scheduler puts them.
    Free,
}

/// A technique with all its settings.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct PipeRung {
    /// Short name, unique in a ladder that is not a sweep.
    pub name: String,
    /// Way by which bytes enter the pipe.
    pub writer: RungWriter,
    /// Way by which bytes leave the pipe.
    pub reader: RungReader,
    /// Pages of the producer's buffer.
    pub pages: RungPages,
    /// Way in which both ends wait.
    pub wait: RungWait,
    /// Buffers used in turn (only `vmsplice`).
    pub buffers: RungBuffers,
    /// True if the producer sets SPLICE_F_GIFT and the consumer SPLICE_F_MOVE.
    pub gift: bool,
    /// True if the producer's buffer is locked in memory.
    pub lock: bool,
    /// True if the producer's buffer is not touched before it is sent.
    pub untouched: bool,
    /// True if the point is refused when its buffer is not proven to be on huge pages.
    pub check_huge: bool,
    /// Most bytes that one call passes on.
    pub buffer_bytes: Bytes,
    /// Capacity requested for the pipe; none leaves the kernel's default.
    pub pipe_bytes: Option<Bytes>,
    /// Placement of the two processes.
    pub placement: CpuPlacement,
}

impl PipeRung {
    /// A rung with base pages, two buffers of 256 KiB, the default pipe, and sleeping ends on two cores.
    #[must_use]
    pub fn plain(name: &str, writer: RungWriter, reader: RungReader) -> Self {
        Self {
            name: name.to_owned(),
            writer,
            reader,
            pages: RungPages::Base,
            wait: RungWait::Block,
            buffers: RungBuffers::Two,
            gift: false,
            lock: false,
            untouched: false,
            check_huge: false,
            buffer_bytes: Bytes::kib(256),
            pipe_bytes: None,
            placement: CpuPlacement::TwoCores,
        }
    }

    /// The same rung with `switch`, named `P3+untouched`. None if it already has the switch, or if the switch
    /// makes no difference to how bytes with this consumption are passed.
    #[must_use]
    pub fn switched(&self, switch: RungSwitch, consumption: PipeConsumption) -> Option<Self> {
        let mut rung = self.clone();
        let is_vmspliced = self.writer == RungWriter::Vmsplice;
        let has_memory =
            is_vmspliced || matches!(self.writer, RungWriter::Write | RungWriter::IoUring);
        let is_spliced = self.reader_for(consumption) == RungReader::Splice;
        match (switch, self.wait) {
            (RungSwitch::Huge, _)
                if self.pages == RungPages::Base && self.writer != RungWriter::TeeSeed =>
            {
                rung.pages = RungPages::Huge;
            }
            (RungSwitch::Busy, RungWait::Block) => rung.wait = RungWait::Busy,
            (RungSwitch::Poll, RungWait::Block) => rung.wait = RungWait::Poll,
            (RungSwitch::Busy, RungWait::Poll) | (RungSwitch::Poll, RungWait::Busy) => {
                rung.wait = RungWait::BusyPoll;
            }
            (RungSwitch::OneBuffer, _) if is_vmspliced => rung.buffers = RungBuffers::One,
            (RungSwitch::Gift, _) if is_vmspliced || is_spliced => rung.gift = true,
            (RungSwitch::Lock, _) if has_memory => rung.lock = true,
            (RungSwitch::Untouched, _) if has_memory && consumption != PipeConsumption::Touched => {
                rung.untouched = true;
            }
            _ => {}
        }
        (rung != *self).then(|| {
            let name = format!("{}+{}", self.name, switch.into_str());
            Self { name, ..rung }
        })
    }

    /// True if no reader of any kind can see bytes change after they were passed on.
    #[must_use]
    pub fn is_safe(&self) -> bool {
        self.writer != RungWriter::Vmsplice
    }

    /// True if the bytes reach the consumer's side without a copy by the kernel.
    #[must_use]
    pub const fn by_reference(&self) -> bool {
        !self.reader.copies() && !matches!(self.writer, RungWriter::Write | RungWriter::IoUring)
    }

    /// The reader that a consumption needs. A consumer that touches the bytes must read them, because
    /// references cannot be read. The meter forwards nothing.
    #[must_use]
    pub const fn reader_for(&self, consumption: PipeConsumption) -> RungReader {
        match (self.reader, consumption) {
            (RungReader::Splice | RungReader::Meter, PipeConsumption::Touched) => RungReader::Read,
            (
                RungReader::Meter,
                PipeConsumption::ForwardedSocket | PipeConsumption::ForwardedFile,
            ) => RungReader::Splice,
            (reader, _) => reader,
        }
    }

    /// The technique without its sizes and switches: `vmsplice/splice, huge pages, busy`.
    #[must_use]
    pub fn technique(&self) -> String {
        let mut text = format!("{}/{}", self.writer.into_str(), self.reader.into_str());
        for (said, part) in [
            (self.pages != RungPages::Base, self.pages.into_str()),
            (self.wait != RungWait::Block, self.wait.into_str()),
            (self.placement != CpuPlacement::TwoCores, self.placement.into_str()),
        ] {
            if said {
                text.push_str(", ");
                text.push_str(part);
            }
        }
        text
    }

    /// True for the same technique with the same switches, whatever the sizes and the name.
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
