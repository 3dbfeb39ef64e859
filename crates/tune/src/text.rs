//! `bench text -- COMMAND`: compares a program whose code is on base pages with the same program with its
//! code on huge pages.
//!
//! The arms are those of `tune` for `text-huge`, with all blocks spent on this one question. *Off* is the
//! program with its code files in their state after a plain start: dropped from the page cache and read back
//! by an untimed start ([`crate::folios`], docs/decisions/020). *On* has them in huge folios. The kernel
//! reports how much of their text is on huge pages: in both arms before the first block, and after each run
//! of either arm the number of their huge pages.
//!
//! The traced look lists these files, including those of children, unless they are named.

use crate::ab;
use crate::choose;
use crate::experiment::WorldLab;
use crate::look;
use crate::output::OutputPolicy;
use crate::race::{ProgramSubject, RaceGoal};
use crate::request::SessionRequest;
use crate::session;
use crate::stop::SessionStop;
use crate::world::{
    ProgramArm, ProgramWorld, RunObservation, RunTiming, SessionEvent, TracedLookPlan,
};
use pagewise_judge::code_tlb;
use pagewise_judge::text::PageSizePair;
use pagewise_model::body::RunBody;
use pagewise_model::code_tlb::CodeMissEstimate;
use pagewise_model::look::{LookFindings, TracedLook};
use pagewise_model::machine::Machine;
use pagewise_model::plan::{ArmSettings, FileKind, HugeFile, RemedyDose};
use pagewise_model::run::{RunKind, SavedRun, SessionOutcome};
use pagewise_model::text_trial::{FileInArms, LeftFile, OFF, ON, TextTrial};
use pagewise_model::{Fact, PageSize};
use pagewise_remedy::code_files;
use pagewise_remedy::warmth::TextNow;

/// The remedy.
const REMEDY: &str = "text-huge";

/// A program whose code is tried on huge pages.
#[derive(Debug)]
pub struct TextTrialSubject<'a> {
    /// Conditions and command.
    pub request: &'a SessionRequest,
    /// Pairs to run.
    pub pairs: u32,
    /// The files. If empty, those of the traced look.
    pub files: Vec<HugeFile>,
}

/// The program in both arms.
struct TextArms {
    off: ProgramArm,
    on: ProgramArm,
    dose: RemedyDose,
    files: Vec<HugeFile>,
    left: Vec<LeftFile>,
}

impl TextTrialSubject<'_> {
    /// Runs the experiment. The run contains everything found so far, even after an early stop.
    pub fn run(&self, world: &mut dyn ProgramWorld) -> (SavedRun, Option<SessionStop>) {
        let run = self.request.empty_run(RunKind::Bench, &self.request.spec.command);
        ab::filled(run, world, |run, world| self.fill(run, world))
    }

    fn fill(&self, run: &mut SavedRun, world: &mut dyn ProgramWorld) -> Result<(), SessionStop> {
        let machine = world.machine();
        run.machine = Some(machine.clone());
        world.tell(&SessionEvent::Stage("measuring this machine's unit prices"));
        run.prices = Some(world.prices()?);
        world.tell(&SessionEvent::Stage("tracing one run"));
        let plan = TracedLookPlan { code: true, ..TracedLookPlan::default() };
        let (mut traced, said) = world.traced(&ProgramArm::plain(self.request), plan)?;
        let estimate = estimate(&mut traced, &machine);
        let notes = look::rerun(self.request, &traced, said)?;
        run.warnings.extend(notes);
        let arms = match self.arms(&traced, &machine) {
            Ok(arms) => arms,
            Err(why) => {
                let untried = TextTrial::untried(self.pairs, estimate, "no arm could be run");
                run.body = Some(RunBody::TextTrial(untried));
                run.outcome = Some(SessionOutcome::NothingToGain { why });
                return Ok(());
            }
        };
        self.compare(run, traced, estimate, &arms, world)
    }

    /// The arms, or why there is none with code on huge pages.
    fn arms(&self, traced: &Fact<TracedLook>, machine: &Machine) -> Result<TextArms, String> {
        let (files, left) = if self.files.is_empty() {
            found(traced, machine)?
        } else {
            (self.files.clone(), Vec::new())
        };
        let settings = ArmSettings { huge_files: files.clone(), ..ArmSettings::default() };
        let paths: Vec<String> = files.iter().map(|file| file.path.clone()).collect();
        let parameter = paths.join(&HugeFile::SEPARATOR.to_string());
        let dose = RemedyDose { remedy: REMEDY.to_owned(), parameter, settings };
        let on = choose::arm(self.request, std::slice::from_ref(&dose));
        let on = ProgramArm { name: ON.to_owned(), ..on };
        let off = ProgramArm {
            natural_files: paths,
            ..ProgramArm::unchanged(OFF, &self.request.spec.command)
        };
        Ok(TextArms { off, on, dose, files, left })
    }

    fn compare(
        &self,
        run: &mut SavedRun,
        traced: Fact<TracedLook>,
        estimate: Fact<CodeMissEstimate>,
        arms: &TextArms,
        world: &mut dyn ProgramWorld,
    ) -> Result<(), SessionStop> {
        world.tell(&SessionEvent::Stage("timing the plain program"));
        let limits = look::first_limits(&traced);
        let timed =
            look::time(world, &arms.off, self.request.spec.ignore_failure, limits, |_, _| true)?;
        let off_text = world.text_on_huge_pages(&arms.files);
        let fresh = look::conditioned(&timed.runs);
        let timing =
            RunTiming { fresh, watch: RunObservation::Kernel, limits, ..RunTiming::default() };
        let faults = Fact::missing("not part of a trial of code on huge pages");
        let look::PlainRuns { runs, samples, user, walks, code_misses, cost_ns, .. } = timed;
        let (off_walks, off_misses) = (walks.clone(), code_misses.clone());
        let look = LookFindings { runs, traced, samples, user, walks, code_misses, faults };
        let limits = look::limits(&look);
        let since = world.now();
        run.look = Some(look);
        let mut programs =
            ProgramSubject::new(WorldLab::new(self.request, world), arms.off.clone());
        programs.learn(run, cost_ns, limits, &[]);
        let lab = &mut programs.lab;
        lab.world.tell(&SessionEvent::Stage("comparing outputs"));
        let (base, _) = match lab.baseline(&arms.off) {
            Ok(base) => base,
            Err(why) => {
                run.outcome = Some(why.outcome()?);
                return Ok(());
            }
        };
        let put_out = lab.put_out(&arms.on)?;
        let check = put_out.map_or_else(|none| none, |run| base.check(&arms.on.name, &run));
        let on_text = lab.world.text_on_huge_pages(&arms.files);
        let is_counted = off_walks.known().is_some() || off_misses.known().is_some();
        let why = match check.equal {
            true => "nothing was counted in the arm off",
            false => "the arm could not be run as intended",
        };
        let mut trial = TextTrial::untried(self.pairs, estimate, why);
        (trial.off_walks, trial.off_misses) = (off_walks, off_misses);
        if is_counted && check.equal {
            let done = lab.world.timed(&arms.on, &timing)?.done;
            (trial.on_walks, trial.on_misses) = (done.walks, done.code_misses);
        }
        (trial.files, trial.left) = (in_arms(&arms.files, &off_text, &on_text), arms.left.clone());
        run.body = Some(RunBody::TextTrial(trial));
        let outputs = OutputPolicy::Equal { base: Some(base), checks: vec![check] };
        let entrants = programs.enter_arms(vec![arms.on.clone()], outputs);
        session::race(&mut programs, run, since, RaceGoal::Pairs(self.pairs), entrants)?;
        if matches!(run.outcome, Some(SessionOutcome::Proven { .. })) {
            let doses = std::slice::from_ref(&arms.dose);
            run.receipt = Some(pagewise_remedy::receipt::write(doses, &self.request.start()));
        }
        Ok(())
    }
}

/// Misses of the TLB for code by the steps of the traced run, which it then no longer holds.
fn estimate(traced: &mut Fact<TracedLook>, machine: &Machine) -> Fact<CodeMissEstimate> {
    let stepped = match traced {
        Fact::Known(traced) => traced.stepped.take().ok_or("its code was not stepped".to_owned()),
        Fact::Missing(why) => Err(why.clone()),
    };
    let huge = machine.huge_page_bytes.known().copied().unwrap_or(PageSize::PMD_2M);
    let sizes = PageSizePair { base: machine.base_page_bytes, huge };
    stepped.map_or_else(Fact::Missing, |stepped| code_tlb::estimate(&stepped, sizes))
}

/// What the kernel showed about each file in both arms: the size of its text, and how much of that is on huge
/// pages.
fn in_arms(files: &[HugeFile], off: &[TextNow], on: &[TextNow]) -> Vec<FileInArms> {
    let all = files.iter().zip(off).zip(on);
    all.map(|((file, off), on)| FileInArms {
        path: file.path.clone(),
        text_bytes: on.text_bytes,
        off_huge_bytes: off.huge_bytes,
        on_huge_bytes: on.huge_bytes,
    })
    .collect()
}

/// Files of the traced program's code, and why the others stay unchanged.
fn found(
    traced: &Fact<TracedLook>,
    machine: &Machine,
) -> Result<(Vec<HugeFile>, Vec<LeftFile>), String> {
    let traced = match traced {
        Fact::Known(traced) => traced,
        Fact::Missing(why) => {
            return Err(format!("the files with its code could not be examined: {why}"));
        }
    };
    let huge = machine.huge_page_bytes.known().ok_or("this machine has no huge pages")?;
    let sizes = PageSizePair { base: machine.base_page_bytes, huge: *huge };
    let (paths, left) = code_files(&traced.files, sizes);
    let left: Vec<LeftFile> = left.into_iter().map(|(path, why)| LeftFile { path, why }).collect();
    if paths.is_empty() {
        let first = left.first().map(|file| format!("{}: {}", file.path, file.why));
        return Err(first.unwrap_or_else(|| {
            "no file with its code is mapped as large as a huge page".to_owned()
        }));
    }
    let file = |path| HugeFile { path, kind: FileKind::Code };
    Ok((paths.into_iter().map(file).collect(), left))
}
