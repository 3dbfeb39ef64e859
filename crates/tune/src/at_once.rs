//! Whether runs of a program may be made at once on one CPU, and how many.
//!
//! Runs that share a CPU are interleaved every few milliseconds. A disturbance of one run affects the others
//! equally. So their CPU times can be compared to a fraction of what runs one after the other allow
//! (docs/decisions/055). This suits programs that do not interfere with each other, with one busy thread,
//! whose CPU time is what a user waits for, or sessions in which CPU time decides. Programs with several busy
//! threads share all CPUs.
//!
//! Not seen: programs that watch the clock. If a program does other work at once or ends in another way, the
//! race continues one run at a time.

use crate::request::SessionRequest;
use crate::world::ProgramArm;
use pagewise_model::look::{LookFindings, SideEffect, TracedLook, sentence};
use pagewise_model::plan::ArmSettings;
use pagewise_model::trial::ComparedQuantity;
use pagewise_model::usage::ProgramUsage;
use pagewise_model::{Bytes, Fact, Nanos};

/// Writes to it cannot conflict.
const NOWHERE: &str = "/dev/null";
/// Most runs at once: each CPU has one set of caches.
const MOST: u32 = 5;
/// Most blocks side by side: their common disturbances are not measured.
const MOST_BLOCKS: u32 = 2;
/// CPUs that a program with one busy thread keeps busy.
const ONE_BUSY: (f64, f64) = (0.85, 1.1);
/// A program that waits more often than this, and more than once in each millisecond of CPU time, lives by its
/// wake-ups: what reads its output, or another part of it, decides how long it takes.
const MOST_WAITS: u64 = 50;
/// Each run may take this much more memory than the plain ones.
const MORE_MEMORY: f64 = 1.25;
/// CPU time of a run at once, as a multiple of that of a run alone, within which it counts as the same work.
/// Runs that evict each other from the largest cache need five times as much, and still compare well.
const SAME_CPU: (f64, f64) = (0.4, 8.0);

/// A program as a look or a first run showed it.
#[derive(Debug)]
pub(crate) struct ObservedProgram {
    pub(crate) traced: Fact<TracedLook>,
    /// Its plain runs, at least one.
    pub(crate) runs: Vec<ProgramUsage>,
}

impl ObservedProgram {
    pub(crate) fn by(look: &LookFindings) -> Option<Self> {
        let runs = look.runs.clone();
        (!runs.is_empty()).then(|| Self { traced: look.traced.clone(), runs })
    }

    /// Why two runs of it cannot run at once. `None` if they can.
    pub(crate) fn meets_itself(&self) -> Option<String> {
        let traced = match &self.traced {
            Fact::Known(traced) => traced,
            Fact::Missing(why) => return Some(format!("what it writes is not known: {why}")),
        };
        if let Some(file) = traced.written.first() {
            return Some(format!("two at once would both write `{file}`"));
        }
        let reaches = |effect: &&SideEffect| effect.subject != NOWHERE;
        let effects: Vec<_> = traced.effects.iter().filter(reaches).cloned().collect();
        if !effects.is_empty() {
            return Some(format!("two at once would meet: it {}", sentence(&effects)));
        }
        None
    }

    /// How many CPUs it keeps busy, or would if no other program had them: by the run that is nearest to one. On a
    /// busy machine a parent waits for a CPU while its child runs, and both count.
    fn busy(&self) -> f64 {
        let of = |run: &ProgramUsage| {
            let ready = run.cpu_ns() + run.run_delay_ns.unwrap_or_default();
            ready.0 as f64 / run.wall_ns.0.max(1) as f64
        };
        let from_one = |busy: &f64| (busy - 1.0).abs();
        let busy = self.runs.iter().map(of);
        busy.min_by(|a, b| from_one(a).total_cmp(&from_one(b))).unwrap_or_default()
    }

    /// Why its CPU time is not what decides, if so.
    pub(crate) fn waits(&self, quantity: ComparedQuantity) -> Option<String> {
        let longest = self.runs.iter().max_by_key(|run| run.wall_ns);
        let waits = longest.map_or(0, |run| run.voluntary_switches);
        let cpu_ms = longest.map_or(0, |run| run.cpu_ns().0 / Nanos::millis(1).0);
        if quantity != ComparedQuantity::Cpu && waits > MOST_WAITS && waits > cpu_ms {
            return Some(format!("it waits {waits} times in {cpu_ms} ms of CPU time"));
        }
        let busy = self.busy();
        let is_meant =
            quantity == ComparedQuantity::Cpu || (ONE_BUSY.0..=ONE_BUSY.1).contains(&busy);
        (!is_meant).then(|| format!("it keeps {busy:.1} CPUs busy, not one"))
    }

    /// The most memory that all its processes hold.
    fn peak(&self) -> Bytes {
        let processes = self.traced.known().into_iter().flat_map(|traced| &traced.processes);
        let tree: u64 = processes.map(|process| process.peak_rss_bytes.0).sum();
        let peaks = self.runs.iter().map(|run| run.peak_rss_bytes);
        peaks.fold(Bytes(tree), Bytes::max)
    }
}

/// How many runs may run at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunConcurrency {
    /// As one block.
    pub(crate) runs: u32,
    /// Blocks side by side.
    pub(crate) blocks: u32,
    /// Those of a block share all CPUs, not one.
    pub(crate) spread: bool,
}

/// The resources of the machine for them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MachineRoom {
    pub(crate) memory: Bytes,
    pub(crate) cpus: u32,
}

/// Why the request itself asks for one run at a time, if so.
pub(crate) fn in_turn_by_request(request: &SessionRequest) -> Option<&'static str> {
    let spec = &request.spec;
    if spec.in_turn {
        return Some("as asked");
    }
    if !matches!(spec.quantity, ComparedQuantity::Time | ComparedQuantity::Cpu) {
        return Some("memory decides");
    }
    let is_around = spec.prepare.is_some() || spec.cleanup.is_some();
    is_around.then_some("--prepare and --cleanup go with one run")
}

/// How many runs of these programs may run at once, or why only one.
pub(crate) fn width(
    request: &SessionRequest,
    seen: &[ObservedProgram],
    room: &MachineRoom,
) -> Result<RunConcurrency, String> {
    if let Some(why) = in_turn_by_request(request) {
        return Err(why.to_owned());
    }
    let quantity = request.spec.quantity;
    let refusal = |one: &ObservedProgram| one.waits(quantity).or_else(|| one.meets_itself());
    let refusal = seen.iter().find_map(refusal);
    if let Some(why) = refusal {
        return Err(why);
    }
    let peak = seen.iter().map(|one| one.peak().0).max().unwrap_or(0) as f64 * MORE_MEMORY;
    let held = (room.memory.0 as f64 / peak.max(1.0)) as u64;
    let held = u32::try_from(held).unwrap_or(u32::MAX);
    if held < 2 {
        return Err("two do not fit into memory".to_owned());
    }
    // Many runs of one block need memory for less than as many blocks.
    let spread = seen.iter().any(|one| one.busy() > ONE_BUSY.1);
    let most = if spread { 1 } else { MOST_BLOCKS };
    let blocks = (held / 2).min(room.cpus).clamp(1, most);
    Ok(RunConcurrency { runs: (held / blocks).min(MOST), blocks, spread })
}

/// Whether the changes of an arm affect only its own runs, not the runs beside it.
pub(crate) fn is_apart(arm: &ProgramArm) -> bool {
    let ArmSettings { cpus, tools, huge_files, pool, folios, working_set, watches, .. } =
        &arm.settings;
    cpus.is_none()
        && tools.is_empty()
        && huge_files.is_empty()
        && pool.is_none()
        && folios.is_none()
        && working_set.is_none()
        && watches.is_empty()
}

/// Why a run at once is not comparable to a run of the program alone. `None` if it is. `cpus` are those it
/// may use at its end, if it was started on one. The own needs of another program are not known.
pub(crate) fn differs(
    run: &ProgramUsage,
    cpus: Option<&Vec<u32>>,
    alone: &[ProgramUsage],
    is_other: bool,
) -> Option<String> {
    if cpus.is_some_and(|cpus| cpus.len() > 1) {
        return Some("it chooses its CPUs itself".to_owned());
    }
    let plain = alone.first()?;
    if run.ended != plain.ended {
        let (beside, alone) = (run.ended, plain.ended);
        return Some(format!("beside others it ended with {beside}, by itself with {alone}"));
    }
    if is_other {
        return None;
    }
    let usual = alone.iter().map(|run| run.cpu_ns().0).max().unwrap_or(1).max(1);
    let times = run.cpu_ns().0 as f64 / usual as f64;
    (!(SAME_CPU.0..=SAME_CPU.1).contains(&times))
        .then(|| format!("beside others it takes {times:.1} times the CPU time"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::asked;
    use pagewise_model::constructed;
    use pagewise_model::spec::SessionSpec;
    use pagewise_model::usage::ProgramEnd;

    fn spec() -> SessionSpec {
        SessionSpec::new(vec!["prog".into()], "/".into(), 1)
    }

    /// Two runs of a program that keeps `percent` of a CPU busy and holds `mib`.
    fn fits(
        spec: SessionSpec,
        traced: &Fact<TracedLook>,
        percent: u64,
        mib: u64,
    ) -> Result<RunConcurrency, String> {
        let run = ProgramUsage {
            user_ns: Nanos::millis(percent),
            wall_ns: Nanos::millis(100),
            peak_rss_bytes: Bytes::mib(mib),
            ..constructed::usage()
        };
        let seen = ObservedProgram { traced: traced.clone(), runs: vec![run] };
        width(&asked(spec), &[seen], &MachineRoom { memory: Bytes::gib(1), cpus: 2 })
    }

    #[test]
    fn programs_that_meet_themselves_run_one_at_a_time() {
        let plain = constructed::traced();
        let known = |traced| Fact::Known(traced);
        let quiet = known(plain.clone());
        let fit = |runs, blocks| Ok(RunConcurrency { runs, blocks, spread: false });
        assert_eq!(fits(spec(), &quiet, 98, 10), fit(MOST, 2));
        assert_eq!(fits(spec(), &quiet, 98, 200), fit(2, 2), "as many as the memory holds");
        assert_eq!(fits(spec(), &quiet, 98, 300), fit(2, 1));
        let no = |spec, traced: &Fact<TracedLook>, percent, mib| {
            fits(spec, traced, percent, mib).unwrap_err()
        };
        assert!(no(spec(), &quiet, 98, 900).contains("memory"));
        assert!(no(spec(), &quiet, 40, 10).contains("0.4 CPUs"), "it waits");
        assert!(no(spec(), &quiet, 190, 10).contains("1.9 CPUs"), "it has two busy threads");
        let writes = known(TracedLook { written: vec!["/a".into()], ..plain.clone() });
        assert!(no(spec(), &writes, 98, 10).contains("write `/a`"));
        let effect = |subject: &str| SideEffect {
            action: "opened for writing".into(),
            subject: subject.into(),
            pid: 1,
        };
        let effects =
            |subject| known(TracedLook { effects: vec![effect(subject)], ..plain.clone() });
        assert!(no(spec(), &effects("/b"), 98, 10).contains("opened for writing `/b`"));
        assert_eq!(fits(spec(), &effects(NOWHERE), 98, 10), fit(MOST, 2));
        assert!(no(spec(), &Fact::missing("not seen"), 98, 10).contains("not seen"));
        assert!(no(SessionSpec { in_turn: true, ..spec() }, &quiet, 98, 10).contains("as asked"));
        let prepared = SessionSpec { prepare: Some("true".into()), ..spec() };
        assert!(no(prepared, &quiet, 98, 10).contains("--prepare"));
        let cpu = || SessionSpec { quantity: ComparedQuantity::Cpu, ..spec() };
        let spread = Ok(RunConcurrency { runs: MOST, blocks: 1, spread: true });
        assert_eq!(fits(cpu(), &quiet, 190, 10), spread, "CPU time decides");
        assert_eq!(fits(cpu(), &quiet, 40, 10), fit(MOST, 2));
        let memory = SessionSpec { quantity: ComparedQuantity::Memory, ..spec() };
        assert!(no(memory, &quiet, 98, 10).contains("memory decides"));
    }

    #[test]
    fn waiting_for_a_cpu_that_others_have_is_no_sleep() {
        let run = |delay| ProgramUsage {
            user_ns: Nanos::millis(50),
            wall_ns: Nanos::millis(100),
            run_delay_ns: delay,
            ..constructed::usage()
        };
        let waits = |delay| {
            let runs = vec![run(delay)];
            ObservedProgram { traced: Fact::Known(constructed::traced()), runs }
                .waits(ComparedQuantity::Time)
        };
        assert_eq!(waits(Some(Nanos::millis(48))), None);
        assert!(waits(Some(Nanos::millis(2))).unwrap().contains("0.5 CPUs"));
        assert!(waits(None).is_some(), "nobody knows");
        assert!(waits(Some(Nanos::millis(150))).is_some(), "two of it were ready");
        let runs = [75, 48].map(|delay| run(Some(Nanos::millis(delay)))).to_vec();
        let both = ObservedProgram { traced: Fact::Known(constructed::traced()), runs };
        assert_eq!(both.waits(ComparedQuantity::Time), None, "one run was disturbed");
    }

    #[test]
    fn a_run_beside_others_is_held_against_those_alone() {
        let run = |ms, status| ProgramUsage {
            user_ns: Nanos::millis(ms),
            ended: ProgramEnd::Exited(status),
            ..constructed::usage()
        };
        let alone = [run(100, 0), run(110, 0)];
        let one = vec![1];
        let why =
            |run: &ProgramUsage, cpus: &Vec<u32>| differs(run, Some(cpus), &alone, false).unwrap();
        assert_eq!(differs(&run(130, 0), Some(&one), &alone, false), None);
        assert_eq!(differs(&run(130, 0), None, &alone, false), None);
        assert!(why(&run(130, 1), &one).contains("exit status 1"));
        assert!(why(&run(1000, 0), &one).contains("9.1 times"));
        assert!(why(&run(30, 0), &one).contains("0.3 times"));
        assert!(why(&run(130, 0), &vec![0, 1]).contains("chooses its CPUs"));
        assert_eq!(differs(&run(1000, 0), Some(&one), &alone, true), None, "it is another program");
        assert!(differs(&run(130, 1), Some(&one), &alone, true).is_some(), "but it must end alike");
    }
}
