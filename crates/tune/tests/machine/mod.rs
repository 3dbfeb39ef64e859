//! A simulated machine: heavy-tailed noise, drift, stolen time, a host, and a user who interrupts.

pub(crate) mod plan;

use crate::arm;
use pagewise_judge::stats::Rng;
use pagewise_model::constructed;
use pagewise_model::trial::ArmRun;
use pagewise_model::usage::{MachineSpeed, ProgramEnd, ProgramUsage};
use pagewise_model::{Bytes, Nanos};
use pagewise_tune::race::{
    RaceArms, RaceLab, RaceProgress, RunFailure, SessionClock, SystemTotals,
};
use pagewise_tune::world::ProgramArm;

/// A machine and a program with known properties.
#[derive(Clone)]
pub(crate) struct Machine {
    pub(crate) rng: Rng,
    pub(crate) clock_ns: u64,
    /// Usual time of a run of the control.
    pub(crate) run_ns: f64,
    /// Times of the control, with the speeds during each if they were sampled. If any exist, they are used in
    /// turn instead of the usual one.
    pub(crate) recording: Vec<(f64, Option<MachineSpeed>)>,
    /// Time between two runs.
    pub(crate) between_ns: u64,
    /// Standard deviation of the logarithm of the time.
    pub(crate) sd: f64,
    /// Standard deviation of the logarithm of the time of a concurrent run, relative to the others of its
    /// block.
    pub(crate) own_sd: f64,
    /// Noise of concurrent runs, of mean 0 and deviation 1.
    pub(crate) own_noise: fn(&mut Rng) -> f64,
    /// Noise that the concurrent runs share. `None` if no such runs exist.
    pub(crate) common: Option<f64>,
    /// Further change of the logarithm of the time of concurrent runs, by arm.
    pub(crate) only_at_once: Vec<(&'static str, f64)>,
    /// Blocks of concurrent runs that run side by side.
    pub(crate) side_by_side: usize,
    /// Why runs at once do not work. `None` if they work.
    pub(crate) never_at_once: Option<&'static str>,
    /// Noise of mean 0 and deviation 1.
    pub(crate) noise: fn(&mut Rng) -> f64,
    /// How the logarithm of the time depends on those of an arithmetic round and of a load. `None`: no speeds
    /// are sampled.
    pub(crate) parts: Option<[f64; 2]>,
    /// Standard deviations of the two speeds.
    pub(crate) swings: [f64; 2],
    /// Changes of the logarithms of the two speeds, by arm.
    pub(crate) moved: Vec<(&'static str, [f64; 2])>,
    /// Slow-down per hour, as a logarithm.
    pub(crate) drift: f64,
    /// Interval of stolen time, which lasts 400 ms and slows everything by a third. 0 for never.
    pub(crate) steal_every_ns: u64,
    /// Change of the logarithm of the time, by arm.
    pub(crate) effects: Vec<(&'static str, f64)>,
    /// Change of the logarithm of the memory, by arm. Memory has a noise of 1%.
    pub(crate) memory: Vec<(&'static str, f64)>,
    /// Further change in half of the runs, by arm.
    pub(crate) second_speeds: Vec<(&'static str, f64)>,
    /// Exit status, by arm.
    pub(crate) statuses: Vec<(&'static str, i32)>,
    /// Arms that cannot be run.
    pub(crate) broken: Vec<&'static str>,
    /// The machinery fails from this run on.
    pub(crate) breaks_at: usize,
    /// Result of a run with the combination of arms.
    pub(crate) together: Result<(), RunFailure>,
    /// Arms whose output differs from the control's.
    pub(crate) differing: Vec<&'static str>,
    /// Counter readings by arm, in its own runs and in the control's.
    pub(crate) counters: Vec<(&'static str, u64, u64)>,
    /// Host time by arm, and the share of its runs that it hits. It adds to their time.
    pub(crate) host: Vec<(&'static str, (Nanos, f64))>,
    /// Host time of the last run.
    pub(crate) hit: Nanos,
    /// Whether the user watches the race.
    pub(crate) is_watched: bool,
    /// Number of runs after which the user interrupts.
    pub(crate) patience: usize,
    /// Factor on the times of all runs after the first ten.
    pub(crate) slump: f64,
    pub(crate) order: Vec<String>,
    /// Arms whose output was compared.
    pub(crate) compared: Vec<String>,
}

impl Machine {
    pub(crate) fn new(seed: u64, run: Nanos, sd: f64) -> Self {
        Self {
            rng: Rng::new(seed ^ 0x5eed),
            clock_ns: 1 << 40,
            run_ns: run.0 as f64,
            recording: vec![],
            between_ns: Nanos::millis(1).0,
            sd,
            own_sd: 0.01,
            own_noise: Rng::normal,
            common: None,
            only_at_once: vec![],
            side_by_side: 2,
            never_at_once: None,
            noise: Rng::heavy_tailed,
            parts: None,
            swings: [0.06; 2],
            moved: vec![],
            drift: 0.5,
            steal_every_ns: 0,
            effects: vec![],
            memory: vec![],
            second_speeds: vec![],
            statuses: vec![],
            broken: vec![],
            breaks_at: usize::MAX,
            together: Ok(()),
            differing: vec![],
            counters: vec![],
            host: vec![],
            hit: Nanos(0),
            is_watched: true,
            patience: usize::MAX,
            slump: 1.0,
            order: vec![],
            compared: vec![],
        }
    }

    /// Concurrent runs share their disturbances.
    fn noise_of_run(&mut self, arm: &str) -> f64 {
        match self.common {
            Some(common) => {
                let favour = of(&self.only_at_once, arm).unwrap_or(0.0);
                common + favour + self.own_sd * (self.own_noise)(&mut self.rng)
            }
            None => self.sd * (self.noise)(&mut self.rng),
        }
    }

    fn slowness(&self) -> f64 {
        let stolen =
            self.steal_every_ns > 0 && self.clock_ns % self.steal_every_ns < Nanos::millis(400).0;
        if stolen { 4.0 / 3.0 } else { 1.0 }
    }
}

fn of<T: Copy>(table: &[(&'static str, T)], arm: &str) -> Option<T> {
    table.iter().find(|(name, _)| *name == arm).map(|(_, value)| *value)
}

fn usage(wall_ns: Nanos, status: i32) -> ProgramUsage {
    ProgramUsage {
        wall_ns,
        user_ns: wall_ns,
        ended: ProgramEnd::Exited(status),
        ..constructed::usage()
    }
}

impl SessionClock for &mut Machine {
    fn now(&self) -> Nanos {
        Nanos(self.clock_ns)
    }
    fn interrupted(&self) -> bool {
        self.order.len() >= self.patience
    }
}

impl RaceLab for &mut Machine {
    fn run(&mut self, arm: &ProgramArm, _: &RaceArms) -> Result<ArmRun, RunFailure> {
        let name = arm.name.as_str();
        self.order.push(name.to_owned());
        if self.order.len() > self.breaks_at {
            return Err(RunFailure::Broken("no more processes".to_owned()));
        }
        if self.broken.contains(&name) {
            return Err(RunFailure::Failed("no such file".to_owned()));
        }
        // A separate generator, so that runs stay the same without it.
        let mut memory_noise = Rng::new(self.clock_ns);
        let hours = (self.clock_ns - (1 << 40)) as f64 / 3.6e12;
        let second = of(&self.second_speeds, name).filter(|_| self.rng.below(2) == 0);
        let recorded = self.recording.iter().cycle().nth(self.order.len() - 1).copied();
        let speeds = self.parts.map(|_| self.swings.map(|swing| swing * self.rng.normal()));
        let by_speeds = match (self.parts, speeds) {
            (Some(parts), Some(speeds)) => parts[0] * speeds[0] + parts[1] * speeds[1],
            _ => 0.0,
        };
        let log = of(&self.effects, name).unwrap_or(0.0)
            + by_speeds
            + second.unwrap_or(0.0)
            + self.noise_of_run(name)
            + self.drift * hours;
        let slump = if self.order.len() > 10 { self.slump } else { 1.0 };
        let (host, often) = of(&self.host, name).unwrap_or_default();
        self.hit = if self.rng.uniform() < often { host } else { Nanos(0) };
        let (usual, recorded_speed) = recorded.unwrap_or((self.run_ns, None));
        let moved = of(&self.moved, name).unwrap_or_default();
        let speed = recorded_speed.or_else(|| {
            let [core, load] = speeds?;
            let (round_ns, load_ns) =
                (2.0 * (core + moved[0]).exp(), 200.0 * (load + moved[1]).exp());
            Some(MachineSpeed { round_ns, load_ns })
        });
        let wall = Nanos::from_f64(usual * log.exp() * self.slowness() * slump) + self.hit;
        self.clock_ns += wall.0 + self.between_ns;
        let held = of(&self.memory, name).unwrap_or(0.0) + 0.01 * memory_noise.normal();
        let peak_rss_bytes = Bytes((Bytes::gib(1).0 as f64 * held.exp()) as u64);
        let status = of(&self.statuses, name).unwrap_or(0);
        let own = self.counters.iter().find(|(counted, ..)| *counted == name);
        let idle = self.counters.iter().map(|(counted, _, idle)| ((*counted).to_owned(), *idle));
        Ok(ArmRun {
            arm: String::new(),
            usage: ProgramUsage { speed, peak_rss_bytes, ..usage(wall, status) },
            mechanism: own.map(|(_, moved, _)| *moved),
            idle_mechanisms: if name == "A" { idle.collect() } else { vec![] },
            huge_faults: 0,
            supervisor_ns: Nanos(1000),
        })
    }
    fn run_at_once(
        &mut self,
        blocks: &[Vec<&ProgramArm>],
        all: &RaceArms,
    ) -> Result<Vec<Vec<Result<ArmRun, RunFailure>>>, RunFailure> {
        if let Some(why) = self.never_at_once {
            return Err(RunFailure::NotAtOnce(why.to_owned()));
        }
        let mut points = Vec::new();
        let (begin, mut end) = (self.clock_ns, self.clock_ns);
        for block in blocks {
            self.common = Some(self.sd * (self.noise)(&mut self.rng));
            self.clock_ns = begin;
            points.push(block.iter().map(|arm| self.run(arm, all)).collect());
            end = end.max(self.clock_ns);
        }
        self.clock_ns = end;
        self.common = None;
        Ok(points)
    }
    fn most_side_by_side(&self) -> usize {
        self.side_by_side
    }
    fn system_totals(&mut self) -> SystemTotals {
        SystemTotals { steal_ns: Nanos(self.clock_ns / 100), ..SystemTotals::default() }
    }
    fn progress(&mut self, progress: &RaceProgress<'_>) {
        let shown = if self.is_watched { (progress.standings)() } else { vec![] };
        for (arm, at) in shown {
            assert!(at.ratio_low <= at.ratio && at.ratio <= at.ratio_high, "{arm}: {at:?}");
        }
    }
    fn host_ns(&mut self, _: &ArmRun, _: bool) -> Nanos {
        self.hit
    }
    fn combine(
        &mut self,
        arms: &[&ProgramArm],
        _: &RaceArms,
    ) -> Result<Option<ProgramArm>, RunFailure> {
        let mut names: Vec<&str> = arms.iter().map(|arm| arm.name.as_str()).collect();
        names.sort_unstable();
        if names != ["b", "c"] {
            return Ok(None);
        }
        self.together.clone().map(|()| Some(arm("b+c")))
    }
    fn compare_output(
        &mut self,
        arm: &ProgramArm,
        _: &RaceArms,
    ) -> Result<Option<String>, RunFailure> {
        assert!(!self.compared.contains(&arm.name), "compared twice");
        self.compared.push(arm.name.clone());
        let differs = self.differing.contains(&arm.name.as_str());
        Ok(differs.then(|| "its output differs from the reference".to_owned()))
    }
}
