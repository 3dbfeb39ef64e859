//! What the engine asks of the outside world: run an arm, tell the time, read the weather.

use super::Clock;
use crate::world::Arm;
use pagewise_model::Nanos;
use pagewise_model::trial::{Point, Ratio};

/// Why a run gave no point.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunFailure {
    /// The arm could not be run, or not as planned (not started, remedy not applied, unequal
    /// work); the text says what happened.
    #[error("{0}")]
    Failed(String),
    /// Runs at once do not work with this program; nothing is said about the arm.
    #[error("{0}")]
    NotAtOnce(String),
    /// Something of ours failed, which says nothing about the arm; the experiment cannot go on.
    #[error("{0}")]
    Broken(String),
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
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

/// How far the experiment is.
#[derive(Clone, Copy)]
pub struct Progress<'a> {
    /// Runs done in blocks.
    pub runs: u32,
    /// Time left.
    pub left_ns: Nanos,
    /// The arm about to run.
    pub arm: &'a str,
    /// Where each arm that ran stands after the last whole block, best first. Its intervals take
    /// time: for who shows them.
    pub standings: &'a dyn Fn() -> Vec<(String, Ratio)>,
}

impl std::fmt::Debug for Progress<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Progress").field("runs", &self.runs).finish_non_exhaustive()
    }
}

/// The program as it is and with what is tried.
#[derive(Debug, Clone)]
pub struct Arms {
    pub control: Arm,
    /// The most promising first.
    pub tried: Vec<Arm>,
}

/// Runs arms. Everything the engine sees of the world comes through here, so that an experiment
/// can be simulated.
pub trait Lab: Clock {
    /// Prepares the machine (memory that the host has ready), runs `arm` once in a fresh process
    /// and reports what it used, with the counters of all arms in a run of the control. The race names the
    /// point.
    ///
    /// # Errors
    /// [`RunFailure`]; a program that ran and failed is a point with its exit status instead.
    fn run(&mut self, arm: &Arm, arms: &Arms) -> Result<Point, RunFailure>;

    /// Runs these arms, each in a fresh process: those of one block at once on one CPU, in this order, and
    /// blocks side by side on CPUs of their own.
    ///
    /// # Errors
    /// [`RunFailure`] that ends them all.
    fn run_at_once(
        &mut self,
        blocks: &[Vec<&Arm>],
        all: &Arms,
    ) -> Result<Vec<Vec<Result<Point, RunFailure>>>, RunFailure>;

    /// How many blocks of runs at once may run side by side.
    fn most_side_by_side(&self) -> usize {
        1
    }

    /// Reads the totals.
    fn weather(&mut self) -> WeatherMark;

    /// Told before each run.
    fn progress(&mut self, progress: &Progress<'_>);

    /// System time of a run beyond what its faults cost at the session's price: the time the
    /// host took to give memory back.
    fn host_ns(&mut self, point: &Point, at_once: bool) -> Nanos;

    /// The arm that does what all of `apart` do, if they go together.
    ///
    /// # Errors
    /// [`RunFailure`] when what was tried for it could not be; `Failed` leaves the combination out.
    fn combine(&mut self, apart: &[&Arm], arms: &Arms) -> Result<Option<Arm>, RunFailure>;

    /// Holds what an arm puts out against the control's, before its gain is reported; why it is
    /// rejected, if it differs.
    ///
    /// # Errors
    /// [`RunFailure`] when it could not be compared.
    fn compare_output(&mut self, arm: &Arm, arms: &Arms) -> Result<Option<String>, RunFailure>;
}
