//! A measured ladder of pipe techniques: the rate of each way to move bytes from one process to another on
//! one machine.
//!
//! A [`PipeRung`] is a technique with all its settings. A [`PipePoint`] is a rung under one [`PipeConsumption`]: the
//! treatment of the bytes at the far end. It decides what a figure means, so every figure has one. A
//! [`PipeSample`] is one repeat, which is one fresh pair of processes. The [`PipeYardsticks`], measured in the same
//! minute, give the rates of the memory itself.
//!
//! Rates are GiB/s on the wall clock, from the arrival of the first bytes to that of the last. CPU time is
//! what the kernel charged to the two processes. A process that only empties the socket of a forwarding
//! consumer is not included. The saved run around it (`run::SavedRun`) holds machine, prices and version.

mod judgement;
mod mechanism;
mod rung;
mod sample;

pub use judgement::{
    CrossCorePrices, PipeJudgement, PipeRatio, PipeSizeAdvice, PipeTimeAccount, PipeWork,
    PipeWorkBasis, PipeWorkPart, PointSpeed, PublishedShare, ReferencePrices, RungStep,
};
pub use mechanism::{PipeFillStep, PipeMechanism};
pub use rung::{
    CpuPlacement, PipeRung, RungBuffers, RungPages, RungReader, RungSwitch, RungWait, RungWriter,
};
pub use sample::{PipeEndUsage, PipeSample};

pub use crate::bench::{BenchClaim, ClaimAnswer};
use crate::measured::{Fact, Measured};
use crate::schema::JsonSchema;
use crate::units::{Bytes, Nanos, PageSize};
use serde::{Deserialize, Serialize};

/// Treatment of the bytes at the far end.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum PipeConsumption {
    /// Nothing reads the bytes: a splicing reader throws references away, and a copying reader does not read
    /// its buffer. Its heading always says *by reference*.
    #[strum(serialize = "untouched, by reference")]
    Untouched,
    /// The consumer reads every byte and checks it against the sequence that the producer wrote.
    Touched,
    /// The bytes are passed on to an AF_UNIX socket, which a third process empties.
    #[strum(serialize = "forwarded to a socket")]
    ForwardedSocket,
    /// The bytes are passed on to a file in the page cache.
    #[strum(serialize = "forwarded to a file")]
    ForwardedFile,
}

impl PipeConsumption {
    /// All of them, in display order.
    pub const ALL: [Self; 4] =
        [Self::Untouched, Self::Touched, Self::ForwardedSocket, Self::ForwardedFile];
}

/// One rung under one consumption.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PipePoint {
    /// The technique with the requested settings.
    pub rung: PipeRung,
    /// Treatment of the bytes at the far end.
    pub consumption: PipeConsumption,
    /// True if no reader of any kind can see bytes change after they were passed on ([`PipeRung::is_safe`]).
    pub safe: bool,
    /// How the far end took the bytes. A consumer that touches the bytes cannot splice, and reads instead.
    pub reader: RungReader,
    /// Number of the CPU of the writing process; none if the scheduler chose it.
    pub writer_cpu: Option<u32>,
    /// Number of the CPU of the reading process; none if the scheduler chose it.
    pub reader_cpu: Option<u32>,
    /// Real capacity of the pipe.
    pub pipe_bytes: Bytes,
    /// Page size of the producer's buffer that the kernel showed, never the requested one.
    pub page_bytes: Fact<PageSize>,
    /// True if the consumer found the whole sequence in every repeat; missing if it did not check.
    pub verified: Fact<bool>,
    /// Samples in the order of their repeats.
    pub samples: Vec<PipeSample>,
    /// Why there are no samples, or fewer than requested.
    pub refused: Option<String>,
}

impl PipePoint {
    /// A point without samples, for `reason`.
    #[must_use]
    pub fn refused(
        rung: PipeRung,
        consumption: PipeConsumption,
        reason: impl Into<String>,
    ) -> Self {
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

    /// The technique with the reader that ran: `vmsplice/read`.
    #[must_use]
    pub fn technique(&self) -> String {
        PipeRung { reader: self.reader, ..self.rung.clone() }.technique()
    }

    /// Median and spread of the figure `of` over the repeats; none without repeats, or if one has no figure.
    #[must_use]
    pub fn measured(&self, of: impl Fn(&PipeSample) -> Option<f64>) -> Option<Measured> {
        let values: Option<Vec<f64>> = self.samples.iter().map(of).collect();
        Measured::from_values(&values?)
    }

    /// Rate in GiB/s.
    #[must_use]
    pub fn rate(&self) -> Option<Measured> {
        self.measured(PipeSample::gib_per_s)
    }
}

/// Rates of the memory itself, measured between the repeats of the ladder, in GiB/s.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PipeYardsticks {
    /// One core copies a buffer larger than the caches to another. Bytes count once.
    pub memcpy_gib_per_s: Fact<Measured>,
    /// One core reads a buffer larger than the caches.
    pub read_gib_per_s: Fact<Measured>,
    /// One core reads what another core has just written and still holds in its caches.
    pub cross_core_gib_per_s: Fact<Measured>,
}

impl PipeYardsticks {
    /// A rate that exceeds the read rate of one core by this factor is more than noise.
    const TOLERATED: f64 = 1.05;

    /// True if touched bytes passed faster than one core can read. Such a figure needs a reason before it is
    /// believed.
    #[must_use]
    pub fn is_implausible(&self, point: &PipePoint) -> bool {
        let memory = self.read_gib_per_s.known().map(|rate| rate.max * Self::TOLERATED);
        let rate = point.rate().filter(|_| point.consumption == PipeConsumption::Touched);
        rate.zip(memory).is_some_and(|(rate, memory)| rate.median > memory)
    }
}

/// A measured ladder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PipeBenchReport {
    /// Seed of the order in which the repeats were run.
    pub seed: u64,
    /// Number of repeats requested.
    pub repeats: u32,
    /// Bytes requested for each repeat; none if each rung moved what filled its time.
    pub asked_bytes: Option<Bytes>,
    /// Time that one repeat was sized for, if no bytes were requested.
    pub repeat_ns: Option<Nanos>,
    /// True if the points are a grid over buffer and pipe sizes and not a ladder (`--sweep`).
    pub sweep: bool,
    /// The switch that rungs are compared with and without (`--compare`). The points are then pairs: a rung, and
    /// the same with the switch. The steps compare the two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compared: Option<RungSwitch>,
    /// Every rung under every consumption, in the order of the ladder.
    pub points: Vec<PipePoint>,
    /// Rates of the memory itself.
    pub yardsticks: PipeYardsticks,
    /// Claims and the answers of this machine.
    pub claims: Vec<BenchClaim>,
    /// How a pipe works (`--explain`); there are no points then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mechanism: Option<Box<PipeMechanism>>,
    /// Conclusions from the points; none if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judgement: Option<PipeJudgement>,
}

#[cfg(test)]
mod tests;
