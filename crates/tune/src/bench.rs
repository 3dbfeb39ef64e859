//! The experiment of a session: arms of [`World`] as arms of [`pagewise_trial`].
//!
//! Here a run becomes a point: the counter of each remedy's mechanism is read from what the
//! kernel accounted, for the arm and, in the control's runs, for every arm; the host's share is
//! the system time beyond what the run's faults and the program's other kernel work cost.

use crate::choose;
use crate::output::Baseline;
use crate::request::Request;
use crate::stop::Stop;
use crate::world::{Arm, Event, Timed, World};
use pagewise_model::look::Look;
use pagewise_model::plan::Dose;
use pagewise_model::price::Prices;
use pagewise_model::run::OutputCheck;
use pagewise_model::trial::{Design, Experiment, Point};
use pagewise_model::usage::Usage;
use pagewise_model::{Bytes, Nanos};
use pagewise_remedy::Mechanism;
use pagewise_trial as trial;
use pagewise_trial::{ArmId, Bench, Canary, Kind, Plan, Progress, RunFailure, WeatherMark};

/// Memory touched and freed before a run, relative to the program's peak. Freed pages merge with
/// their neighbours and the program takes others than those just touched: what is in place must be
/// well more than it needs. See docs/decisions/006-conditioning-before-each-run.md.
const CONDITION_FACTOR: u64 = 2;
/// The least that is touched: what a small program takes comes from anywhere in free memory.
const CONDITION_LEAST: Bytes = Bytes::mib(256);
/// System time above expectation that is still the program's own: prices are good to 20%.
const HOST_TOLERANCE: f64 = 1.2;
/// Device reads beyond those of the look by which a run counts as cold.
const COLD: Bytes = Bytes::mib(1);
/// Faults must make up this share of the system time before what exceeds it is blamed on the
/// host; otherwise it is the program's other kernel work that varies.
const FAULTS_DOMINATE: f64 = 0.3;

/// What an experiment starts from.
#[derive(Debug)]
pub struct Setup<'a> {
    /// What the user asked for.
    pub request: &'a Request,
    /// Whether all arms go to confirmation at once.
    pub kind: Kind,
    /// The control.
    pub plain: Arm,
    /// The arms.
    pub arms: Vec<Arm>,
    /// Doses by arm, in the order of `arms`; the user's own arms have none.
    pub doses: Vec<Vec<Dose>>,
    /// Plain runs made before.
    pub look: &'a Look,
    /// Prices of the session.
    pub prices: Option<&'a Prices>,
    /// What plain runs put out; arms that are combined later are held against it.
    pub base: Option<&'a Baseline>,
    /// Output checks made so far; more are added.
    pub checks: Vec<OutputCheck>,
}

/// What an experiment leaves.
#[derive(Debug)]
pub struct Tried {
    /// The experiment.
    pub experiment: Experiment,
    /// Arms by name with their doses, combinations included.
    pub doses: Vec<(String, Vec<Dose>)>,
    /// All output checks.
    pub checks: Vec<OutputCheck>,
}

/// Runs the experiment.
///
/// # Errors
/// When the budget cannot hold a confirmation.
pub fn experiment(setup: Setup<'_>, world: &mut dyn World) -> Result<Tried, Stop> {
    let plan = plan(&setup);
    let run_ns = median_wall(setup.look);
    let least = trial::least_budget(arm_count(&plan), run_ns, Nanos(0));
    if plan.budget < least {
        return Err(Stop::Budget(format!(
            "{} holds no confirmation of {} arm(s) with runs of {run_ns}; at least {least} needed",
            plan.budget,
            plan.arms.len()
        )));
    }
    let deviation = deviation(&plan.look_wall_ns);
    world.tell(&Event::Design(&trial::forecast(&plan, run_ns, Nanos(0), deviation)));
    let mut bench = WorldBench { expectation: Expectation::of(&setup), setup, world, cold_runs: 0 };
    let mut experiment = trial::run(&mut bench, &plan);
    if bench.cold_runs > 0 {
        experiment.warnings.push(format!(
            "{} run(s) read from a device what had been in the page cache",
            bench.cold_runs
        ));
    }
    let Setup { arms, doses, checks, .. } = bench.setup;
    let names = arms.into_iter().map(|arm| arm.name);
    Ok(Tried {
        experiment,
        doses: names.zip(doses).filter(|(_, d)| !d.is_empty()).collect(),
        checks,
    })
}

fn arm_count(plan: &Plan) -> u32 {
    u32::try_from(plan.arms.len()).unwrap_or(u32::MAX)
}

fn plan(setup: &Setup<'_>) -> Plan {
    let look_wall_ns: Vec<Nanos> = setup.look.runs.iter().map(|u| u.wall_ns).collect();
    let run = median_wall(setup.look);
    Plan {
        kind: setup.kind,
        control: ArmId(setup.plain.name.clone()),
        arms: setup.arms.iter().map(|arm| planned(arm, &setup.checks)).collect(),
        budget: setup.request.budget.unwrap_or_else(|| trial::default_budget(run)),
        seed: setup.request.seed,
        look_wall_ns,
    }
}

fn planned(arm: &Arm, checks: &[OutputCheck]) -> trial::Arm {
    trial::Arm {
        id: ArmId(arm.name.clone()),
        counted: !arm.mechanism.is_empty(),
        output_equal: checks.iter().all(|c| c.arm != arm.name || c.equal),
    }
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

fn median_wall(look: &Look) -> Nanos {
    Nanos(median(look.runs.iter().map(|u| u.wall_ns.0).collect()))
}

/// Run-to-run deviation of the logarithm of the time, from the few runs there are.
fn deviation(walls: &[Nanos]) -> Option<f64> {
    let logs: Vec<f64> = walls.iter().map(|w| (w.0.max(1) as f64).ln()).collect();
    let n = logs.len();
    if n < 2 {
        return None;
    }
    let mean = logs.iter().sum::<f64>() / n as f64;
    let squares: f64 = logs.iter().map(|l| (l - mean).powi(2)).sum();
    Some((squares / (n - 1) as f64).sqrt())
}

/// What a plain run's faults and system time are expected to be.
#[derive(Debug, Clone, Copy)]
struct Expectation {
    minor_faults: u64,
    other_sys_ns: f64,
    fault_ns: f64,
    huge_fault_ns: f64,
    fault_bound: bool,
    device_read: Bytes,
}

impl Expectation {
    fn of(setup: &Setup<'_>) -> Self {
        let runs = &setup.look.runs;
        let minor_faults = median(runs.iter().map(|u| u.minor_faults).collect());
        let fault_ns = setup.prices.map_or(0.0, |p| p.anon_fault_ns.median);
        let huge_fault_ns =
            setup.prices.and_then(|p| p.huge_fault_ns.known()).map_or(0.0, |p| p.median);
        // The least system time seen is the one with the least share of the host in it.
        let sys = runs.iter().map(|u| u.sys_ns.0).min().unwrap_or(0) as f64;
        let faults_ns = minor_faults as f64 * fault_ns;
        let other_sys_ns = (sys - faults_ns).max(0.0);
        let fault_bound = faults_ns > FAULTS_DOMINATE * sys;
        let device_read = runs.iter().filter_map(|u| u.device_read_bytes).max().unwrap_or_default();
        Self { minor_faults, other_sys_ns, fault_ns, huge_fault_ns, fault_bound, device_read }
    }

    /// System time of a run beyond what its work explains.
    fn host_ns(&self, usage: &Usage, huge_faults: u64) -> Nanos {
        if !self.fault_bound {
            return Nanos(0);
        }
        let small = usage.minor_faults.saturating_sub(huge_faults) as f64 * self.fault_ns;
        let huge = huge_faults as f64 * self.huge_fault_ns;
        let expected = (self.other_sys_ns + small + huge) * HOST_TOLERANCE;
        Nanos::from_f64(usage.sys_ns.0 as f64 - expected)
    }

    /// The run read from a device what the look found in the page cache.
    fn is_cold(&self, usage: &Usage) -> bool {
        usage.device_read_bytes.is_some_and(|read| read > self.device_read + COLD)
    }

    /// The counter of one mechanism in one run.
    fn read(&self, mechanism: Mechanism, arm: &Arm, run: &Timed) -> u64 {
        let faults = run.usage.minor_faults;
        match mechanism {
            // The machine's counter moves for others too; what this run's own faults went down
            // by bounds what of it can be this run's.
            Mechanism::HugeFaults => run.huge_faults.min(self.minor_faults.saturating_sub(faults)),
            Mechanism::FaultsSaved => self.minor_faults.saturating_sub(faults),
            Mechanism::FaultsAdded => faults.saturating_sub(self.minor_faults),
            Mechanism::Watched(name) => {
                run.watched.iter().filter(|(watch, _)| watch == name).map(|(_, n)| n).sum()
            }
            Mechanism::Affinity => u64::from(arm.settings.cpus.as_ref() == Some(&run.cpus_at_end)),
        }
    }

    /// The least of an arm's counters: all of its parts must have taken hold.
    fn counter(&self, arm: &Arm, run: &Timed) -> Option<u64> {
        arm.mechanism.iter().map(|m| self.read(*m, arm, run)).min()
    }
}

struct WorldBench<'a, 'w> {
    setup: Setup<'a>,
    expectation: Expectation,
    world: &'w mut dyn World,
    cold_runs: u32,
}

impl WorldBench<'_, '_> {
    fn arm(&self, id: &ArmId) -> Option<&Arm> {
        let all = std::iter::once(&self.setup.plain).chain(&self.setup.arms);
        all.into_iter().find(|arm| arm.name == id.0)
    }

    fn doses(&self, id: &ArmId) -> Option<&Vec<Dose>> {
        let at = self.setup.arms.iter().position(|arm| arm.name == id.0)?;
        self.setup.doses.get(at)
    }
}

/// How much memory to have the host back before a run. Before each run and not only before each
/// block: free memory goes back to the host within two seconds, and small and huge pages come
/// from different parts of it, so that otherwise each arm would pay for the host in its own way.
#[must_use]
pub fn conditioned(runs: &[Usage]) -> Bytes {
    let peak = runs.iter().map(|u| u.peak_rss_bytes.0).max().unwrap_or(0);
    Bytes(peak.saturating_mul(CONDITION_FACTOR)).max(CONDITION_LEAST)
}

fn failure(stop: Stop) -> RunFailure {
    match stop {
        Stop::Interrupted => RunFailure::Interrupted,
        other => RunFailure::Failed(other.to_string()),
    }
}

impl Bench for WorldBench<'_, '_> {
    fn run(&mut self, id: &ArmId) -> Result<Point, RunFailure> {
        let arm = self.arm(id).cloned();
        let arm = arm.ok_or_else(|| RunFailure::Failed(format!("no arm `{id}`")))?;
        self.world.condition(conditioned(&self.setup.look.runs));
        let run = self.world.timed(&arm, false).map_err(failure)?;
        self.cold_runs += u32::from(self.expectation.is_cold(&run.usage));
        let control = arm.name == self.setup.plain.name;
        let idle = |other: &Arm| {
            self.expectation.counter(other, &run).map(|reading| (other.name.clone(), reading))
        };
        let idle_mechanisms =
            if control { self.setup.arms.iter().filter_map(idle).collect() } else { Vec::new() };
        Ok(Point {
            arm: arm.name.clone(),
            mechanism: self.expectation.counter(&arm, &run),
            idle_mechanisms,
            huge_faults: run.huge_faults,
            supervisor_ns: run.supervisor_ns,
            usage: run.usage,
        })
    }

    fn before_block(&mut self) -> Result<(), RunFailure> {
        Ok(())
    }

    fn canary(&mut self) -> Canary {
        self.world.canary()
    }

    fn weather(&mut self) -> WeatherMark {
        self.world.weather()
    }

    fn now(&self) -> Nanos {
        self.world.now()
    }

    fn interrupted(&self) -> bool {
        self.world.interrupted()
    }

    fn progress(&mut self, progress: &Progress) {
        self.world.tell(&Event::Progress(progress));
    }

    fn announce(&mut self, design: &Design) {
        self.world.tell(&Event::Design(design));
    }

    fn host_ns(&mut self, point: &Point) -> Nanos {
        self.expectation.host_ns(&point.usage, point.huge_faults)
    }

    fn combine(&mut self, first: &ArmId, second: &ArmId) -> Option<trial::Arm> {
        let both = choose::combine(self.doses(first)?, self.doses(second)?)?;
        if both.is_empty() {
            return None;
        }
        let arm = choose::arm(self.setup.request, &both);
        if let Some(base) = self.setup.base {
            let run = self.world.captured(&arm).ok()?;
            self.setup.checks.push(base.check(&arm.name, &run));
        }
        let planned = planned(&arm, &self.setup.checks);
        self.setup.arms.push(arm);
        self.setup.doses.push(both);
        Some(planned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::usage::Ended;

    fn with_peak(peak_rss_bytes: Bytes) -> Usage {
        Usage {
            wall_ns: Nanos::secs(1),
            user_ns: Nanos::secs(1),
            sys_ns: Nanos(0),
            peak_rss_bytes,
            minor_faults: 0,
            major_faults: 0,
            voluntary_switches: 0,
            involuntary_switches: 0,
            read_bytes: None,
            written_bytes: None,
            read_calls: None,
            write_calls: None,
            device_read_bytes: None,
            ended: Ended::Exited(0),
        }
    }

    #[test]
    fn twice_the_largest_peak_is_conditioned_and_never_little() {
        assert_eq!(conditioned(&[]), Bytes::mib(256));
        assert_eq!(conditioned(&[with_peak(Bytes::mib(40))]), Bytes::mib(256));
        let runs = [with_peak(Bytes::mib(300)), with_peak(Bytes::mib(200))];
        assert_eq!(conditioned(&runs), Bytes::mib(600));
        assert_eq!(conditioned(&[with_peak(Bytes(u64::MAX))]), Bytes(u64::MAX));
    }
}
