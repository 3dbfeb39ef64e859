//! What the engine asks of the outside world: run an arm, tell the time, read the weather.

use crate::plan::Arm;
use pagewise_model::Nanos;
use pagewise_model::trial::{Design, Point};

/// Name of an arm, unique within an experiment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ArmId(pub String);

impl std::fmt::Display for ArmId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a run gave no point.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunFailure {
    /// The arm could not be run, or not as planned (not started, remedy not applied, unequal
    /// work); the text says what happened.
    #[error("{0}")]
    Failed(String),
    /// Something of ours failed, which says nothing about the arm; the experiment cannot go on.
    #[error("{0}")]
    Broken(String),
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// Times of two fixed loops, as taken before and after each block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Canary {
    /// Of a loop in registers only: moves with the CPU's speed and with stolen time.
    pub register_ns: Nanos,
    /// Of a loop bound by memory: moves with neighbours, too.
    pub memory_ns: Nanos,
}

/// Totals since boot; the engine takes differences.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WeatherMark {
    /// CPU time stolen by the hypervisor (`/proc/stat`).
    pub steal_ns: Nanos,
    /// Time in which some task waited for a CPU (`/proc/pressure/cpu`), where it can be read.
    pub cpu_stall_ns: Option<Nanos>,
    /// The same for memory.
    pub memory_stall_ns: Option<Nanos>,
}

/// Part of an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Two runs of each arm.
    Screening,
    /// Fresh blocks.
    Confirmation,
}

/// How far the experiment is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// Which part.
    pub stage: Stage,
    /// Runs (screening) or blocks (confirmation) done.
    pub done: u32,
    /// Of how many.
    pub total: u32,
    /// Budget left.
    pub left_ns: Nanos,
    /// The arm about to run.
    pub arm: ArmId,
}

/// Runs arms. Everything the engine sees of the world comes through here, so that an experiment
/// can be simulated.
pub trait Bench {
    /// Prepares the machine (memory that the host has ready), runs `arm` once in a fresh process
    /// and reports what it used. The engine names the point.
    ///
    /// # Errors
    /// [`RunFailure`]; a program that ran and failed is a point with its exit status instead.
    fn run(&mut self, arm: &ArmId) -> Result<Point, RunFailure>;

    /// Times the two fixed loops.
    fn canary(&mut self) -> Canary;

    /// Reads the totals.
    fn weather(&mut self) -> WeatherMark;

    /// Time of a monotonic clock.
    fn now(&self) -> Nanos;

    /// The user asked to stop.
    fn interrupted(&self) -> bool;

    /// Told before each run.
    fn progress(&mut self, progress: &Progress);

    /// Told once, before the first block of the confirmation.
    fn announce(&mut self, design: &Design);

    /// System time of a run beyond what its faults cost at the session's price: the time the
    /// host took to give memory back.
    fn host_ns(&mut self, point: &Point) -> Nanos;

    /// The arm that does what both do, if they go together.
    ///
    /// # Errors
    /// [`RunFailure`] when what was tried for it could not be; `Failed` leaves the combination out.
    fn combine(&mut self, first: &ArmId, second: &ArmId) -> Result<Option<Arm>, RunFailure>;
}
