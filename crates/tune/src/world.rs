//! What a session needs from outside, and the arms it runs there.

use crate::output::Captured;
use crate::stop::Stop;
use pagewise_model::look::{Samples, Traced, WalkCounts};
use pagewise_model::machine::Machine;
use pagewise_model::plan::Settings;
use pagewise_model::price::Prices;
use pagewise_model::run::Run;
use pagewise_model::trial::Design;
use pagewise_model::usage::Usage;
use pagewise_model::{Bytes, Fact, Nanos};
use pagewise_remedy::Mechanism;
use std::ffi::OsString;

/// One way to run the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arm {
    /// Its name in the report.
    pub name: String,
    /// The command it runs.
    pub command: Vec<OsString>,
    /// What is changed about it.
    pub settings: Settings,
    /// How its success is read; `None` passes the check over (the user's own arms).
    pub mechanism: Vec<Mechanism>,
}

/// A timed run as the kernel accounted for it.
#[derive(Debug, Clone)]
pub struct Timed {
    /// Its usage.
    pub usage: Usage,
    /// Readings of the watchers by name.
    pub watched: Vec<(String, u64)>,
    /// Huge pages handed out at faults meanwhile.
    pub huge_faults: u64,
    /// CPUs that it was allowed at its end.
    pub cpus_at_end: Vec<u32>,
    /// CPU time of the supervising process.
    pub supervisor_ns: Nanos,
    /// Kernel samples, if asked for.
    pub samples: Fact<Samples>,
    /// Page-walk counts, if asked for.
    pub walks: Fact<WalkCounts>,
}

/// Readings of the machine at one moment; differences of two are a block's weather.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct WeatherMark {
    /// The clock.
    pub now_ns: Nanos,
    /// Time stolen by the hypervisor so far.
    pub steal_ns: Nanos,
    /// Time in which some task waited for a CPU.
    pub cpu_pressure_ns: Option<Nanos>,
    /// Time in which some task waited for memory.
    pub memory_pressure_ns: Option<Nanos>,
}

/// What the user is told while a session works.
#[derive(Debug)]
pub enum Event<'a> {
    /// A stage begins.
    Stage(&'a str),
    /// Part of the report is final: the run as it is now.
    Section(Section, &'a Run),
    /// The experiment is about to start.
    Design(&'a Design),
    /// Runs done of those planned.
    Progress {
        /// Stage.
        stage: &'a str,
        /// Done.
        done: u32,
        /// Planned.
        total: u32,
        /// Estimate of what is left.
        left_ns: Nanos,
    },
}

/// Parts of the report in the order in which they become final.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// Machine and look.
    Look,
    /// Diagnosis.
    Diagnosis,
    /// Remedies that fit.
    Candidates,
}

/// What reaches outside.
pub trait World {
    /// The machine.
    fn machine(&mut self) -> Machine;
    /// Prices of this session.
    ///
    /// # Errors
    /// When they cannot be measured.
    fn prices(&mut self) -> Result<Prices, Stop>;
    /// The traced look, with the last line of standard error.
    ///
    /// # Errors
    /// When the program cannot be started or the user interrupts.
    fn traced(&mut self) -> Result<(Fact<Traced>, String), Stop>;
    /// One timed run; `observed` asks for samples and walk counts.
    ///
    /// # Errors
    /// When the program cannot be started or the user interrupts.
    fn timed(&mut self, arm: &Arm, observed: bool) -> Result<Timed, Stop>;
    /// One untimed run with its output kept.
    ///
    /// # Errors
    /// When the program cannot be started, its output cannot be kept, or the user interrupts.
    fn captured(&mut self, arm: &Arm) -> Result<Captured, Stop>;
    /// Touches and frees memory so that the host backs it.
    fn condition(&mut self, bytes: Bytes);
    /// Register-only and memory-bound loops of fixed work.
    fn canary(&mut self) -> (Nanos, Nanos);
    /// Weather now.
    fn weather(&mut self) -> WeatherMark;
    /// The clock.
    fn now(&mut self) -> Nanos;
    /// The user wants to stop.
    fn interrupted(&self) -> bool;
    /// Tells the user.
    fn tell(&mut self, event: &Event<'_>);
}
