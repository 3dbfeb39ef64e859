//! A ladder of pipe techniques as it was measured: what each way to move bytes from one process to
//! another gives on one machine.
//!
//! A [`Rung`] is a technique with all its settings. A [`Point`] is a rung under one
//! [`Consumption`]: what is done with the bytes at the far end decides what a figure means, so no
//! figure is without it. A [`Sample`] is one repeat, that is one fresh pair of processes. The
//! [`Yardsticks`] of the same minute say what the memory itself gives.
//!
//! Rates are GiB/s on the wall clock, from the arrival of the first bytes to that of the last. CPU
//! time is what the kernel charged to the two processes; a process that only empties the socket of
//! a forwarding consumer is not in it. Machine, prices and version stand in the saved run around it
//! (`run::Run`).

mod judgement;
mod rung;
mod sample;

pub use judgement::{
    Account, Advice, ApartPrices, Comparison, Judgement, Pace, Part, PartBasis, ReferencePrices,
    Step, Work,
};
pub use rung::{Buffers, Pages, Placement, Reader, Rung, Wait, Writer};
pub use sample::{EndUsage, Sample};

pub use crate::bench::{Answer, Claim};
use crate::measured::{Fact, Measured};
use crate::units::{Bytes, Nanos, PageSize};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is done with the bytes at the far end.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum Consumption {
    /// Nobody looks at them: a splicing reader throws references away, a copying one does not read
    /// its buffer. Always headed *by reference*.
    #[strum(serialize = "untouched, by reference")]
    Untouched,
    /// The consumer reads every byte and checks it against the sequence that the producer wrote.
    Touched,
    /// They are passed on to an AF_UNIX socket, which a third process empties.
    #[strum(serialize = "forwarded to a socket")]
    ForwardedSocket,
    /// They are passed on to a file in the page cache.
    #[strum(serialize = "forwarded to a file")]
    ForwardedFile,
}

impl Consumption {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 4] =
        [Self::Untouched, Self::Touched, Self::ForwardedSocket, Self::ForwardedFile];
}

/// One rung under one consumption.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// The technique and its settings, as asked for.
    pub rung: Rung,
    /// What became of the bytes.
    pub consumption: Consumption,
    /// No reader of any kind can see bytes change after they were handed over ([`Rung::is_safe`]).
    pub safe: bool,
    /// How the far end took the bytes: a splicing reader cannot look at them and reads instead.
    pub reader: Reader,
    /// CPU of the writing process; none where it was left free.
    pub writer_cpu: Option<u32>,
    /// CPU of the reading process.
    pub reader_cpu: Option<u32>,
    /// What the pipe really held.
    pub pipe_bytes: Bytes,
    /// Page size of the producer's buffer as the kernel showed it, never as it was asked for.
    pub page_bytes: Fact<PageSize>,
    /// Whether the consumer found the sequence whole, in every repeat; missing where it did not
    /// look.
    pub verified: Fact<bool>,
    /// The repeats, in the order of their numbers.
    pub samples: Vec<Sample>,
    /// Why there are no samples, or fewer than asked for.
    pub refused: Option<String>,
}

impl Point {
    /// A point without samples, for `reason`.
    #[must_use]
    pub fn refused(rung: Rung, consumption: Consumption, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self {
            safe: rung.is_safe(),
            reader: rung.reader_for(consumption),
            rung,
            consumption,
            writer_cpu: None,
            reader_cpu: None,
            pipe_bytes: Bytes(0),
            page_bytes: Fact::missing(reason.clone()),
            verified: Fact::missing(reason.clone()),
            samples: Vec::new(),
            refused: Some(reason),
        }
    }

    /// The technique with the reader that was run: `vmsplice/read`.
    #[must_use]
    pub fn technique(&self) -> String {
        Rung { reader: self.reader, ..self.rung.clone() }.technique()
    }

    /// `of` over the repeats: median and spread; none without repeats or where one gives nothing.
    #[must_use]
    pub fn measured(&self, of: impl Fn(&Sample) -> Option<f64>) -> Option<Measured> {
        let values: Option<Vec<f64>> = self.samples.iter().map(of).collect();
        Measured::from_values(&values?)
    }

    /// GiB/s.
    #[must_use]
    pub fn rate(&self) -> Option<Measured> {
        self.measured(Sample::gib_per_s)
    }
}

/// What the memory itself gives, taken in between the repeats of the ladder, in GiB/s.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Yardsticks {
    /// One core copies a buffer larger than the caches to another (bytes copied, once counted).
    pub memcpy_gib_per_s: Fact<Measured>,
    /// One core reads a buffer larger than the caches.
    pub read_gib_per_s: Fact<Measured>,
    /// One core reads what another core has just written and still has in its caches.
    pub cross_core_gib_per_s: Fact<Measured>,
}

impl Yardsticks {
    /// Above the speed at which one core reads memory this much is no longer noise.
    const TOLERATED: f64 = 1.05;

    /// A point whose bytes were touched passed faster than one core can read: the figure is not to
    /// be believed without a reason.
    #[must_use]
    pub fn is_implausible(&self, point: &Point) -> bool {
        let memory = self.read_gib_per_s.known().map(|rate| rate.max * Self::TOLERATED);
        let rate = point.rate().filter(|_| point.consumption == Consumption::Touched);
        rate.zip(memory).is_some_and(|(rate, memory)| rate.median > memory)
    }
}

/// A measured ladder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ladder {
    /// Seed of the order in which the repeats were run.
    pub seed: u64,
    /// Repeats asked for.
    pub repeats: u32,
    /// Bytes of each repeat as asked for; none where each rung moved what filled its time.
    pub asked_bytes: Option<Bytes>,
    /// Time that one repeat was sized for, where no bytes were asked for.
    pub repeat_ns: Option<Nanos>,
    /// Whether the points are a grid over buffer and pipe sizes instead of a ladder.
    pub sweep: bool,
    /// Every rung under every consumption, in the order of the ladder.
    pub points: Vec<Point>,
    /// What the memory itself gives.
    pub yardsticks: Yardsticks,
    /// Claims and what this machine says.
    pub claims: Vec<Claim>,
    /// What is concluded from the points; none where nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judgement: Option<Judgement>,
}

#[cfg(test)]
mod tests;
