//! The engine's interface to the outside world: run an arm, read the clock, read the load.

use super::SessionClock;
use crate::world::ProgramArm;
use pagewise_model::Nanos;
use pagewise_model::trial::{ArmRun, TimeRatio};

/// Why a run gave no point.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunFailure {
    /// The arm could not be run, or not as planned (not started, remedy not applied, unequal
    /// work); the text says what happened.
    #[error("{0}")]
    Failed(String),
    /// Runs at once do not work with this program. This says nothing about the arm.
    #[error("{0}")]
    NotAtOnce(String),
    /// A failure of this tool. It says nothing about the arm, but ends the experiment.
    #[error("{0}")]
    Broken(String),
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// Totals since boot; the engine takes differences.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SystemTotals {
    /// CPU time stolen by the hypervisor (`/proc/stat`).
    pub steal_ns: Nanos,
    /// Time in which some task waited for a CPU (`/proc/pressure/cpu`), if it can be read.
    pub cpu_stall_ns: Option<Nanos>,
    /// Time in which some task waited for memory (`/proc/pressure/memory`), if it can be read.
    pub memory_stall_ns: Option<Nanos>,
}

/// How far the experiment is.
#[derive(Clone, Copy)]
pub struct RaceProgress<'a> {
    /// Runs done in blocks.
    pub runs: u32,
    /// Time left.
    pub left_ns: Nanos,
    /// The arm about to run.
    pub arm: &'a str,
    /// The ratios of each arm that ran after the last whole block, best first. The intervals take time, so
    /// they are computed only on request.
    pub standings: &'a dyn Fn() -> Vec<(String, TimeRatio)>,
}

impl std::fmt::Debug for RaceProgress<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RaceProgress").field("runs", &self.runs).finish_non_exhaustive()
    }
}

/// The unchanged program and the arms to try.
#[derive(Debug, Clone)]
pub struct RaceArms {
    pub control: ProgramArm,
    /// The most promising first.
    pub tried: Vec<ProgramArm>,
}

/// Runs arms. The engine sees the world only through this trait, so that an experiment can be simulated.
pub trait RaceLab: SessionClock {
    /// Prepares the machine (memory that the host has backed), runs `arm` once in a fresh process and reports
    /// its usage. In a run of the control, also the counters of all arms. The race names the point.
    ///
    /// # Errors
    /// [`RunFailure`]. A program that ran and failed is instead a point with its exit status.
    fn run(&mut self, arm: &ProgramArm, arms: &RaceArms) -> Result<ArmRun, RunFailure>;

    /// Runs these arms, each in a fresh process. Those of one block run at once on one CPU, in this order.
    /// Blocks run side by side on separate CPUs.
    ///
    /// # Errors
    /// [`RunFailure`] that ends them all.
    fn run_at_once(
        &mut self,
        blocks: &[Vec<&ProgramArm>],
        all: &RaceArms,
    ) -> Result<Vec<Vec<Result<ArmRun, RunFailure>>>, RunFailure>;

    /// How many blocks of runs at once may run side by side.
    fn most_side_by_side(&self) -> usize {
        1
    }

    /// Reads the totals.
    fn system_totals(&mut self) -> SystemTotals;

    /// Called before each run.
    fn progress(&mut self, progress: &RaceProgress<'_>);

    /// System time of a run beyond what its faults cost at the session's price: the time the
    /// host took to give memory back.
    fn host_ns(&mut self, point: &ArmRun, at_once: bool) -> Nanos;

    /// An arm that combines all of `apart`, if they are compatible.
    ///
    /// # Errors
    /// [`RunFailure`] if a trial for it could not be made. `Failed` only leaves the combination out.
    fn combine(
        &mut self,
        apart: &[&ProgramArm],
        arms: &RaceArms,
    ) -> Result<Option<ProgramArm>, RunFailure>;

    /// Compares the output of an arm with that of the control, before its gain is reported. Returns why the
    /// arm is rejected, if they differ.
    ///
    /// # Errors
    /// [`RunFailure`] if the outputs could not be compared.
    fn compare_output(
        &mut self,
        arm: &ProgramArm,
        arms: &RaceArms,
    ) -> Result<Option<String>, RunFailure>;
}
