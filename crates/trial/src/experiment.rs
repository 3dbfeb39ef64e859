//! The experiment from plan to verdicts.

use crate::bench::Bench;
use crate::confirmation;
use crate::evidence;
use crate::plan::{Arm, Plan};
use crate::runner::{Halt, Runner};
use crate::screening::{Choice, Screening, choose};
use pagewise_judge::verdict::{judge, minimum_blocks, without_effect};
use pagewise_model::trial::{Block, Design, Experiment, Verdict, Word};

/// Runs the whole experiment. Whatever goes wrong on the way becomes a verdict or a warning:
/// what was measured is never lost.
pub fn run<B: Bench>(bench: &mut B, plan: &Plan) -> Experiment {
    let mut runner = Runner::new(bench, plan);
    let (screening, mut halt) = Screening::run(&mut runner);
    let (choice, broken) = choose(&mut runner, &screening, halt.is_none());
    halt = halt.or(broken);
    let design = choice.sizing.design(plan, &choice.confirmed);
    let enough = choice.sizing.suffices(plan.budget) && !choice.confirmed.is_empty();
    let mut blocks = Vec::new();
    if halt.is_none() && enough {
        runner.bench.announce(&design);
        (blocks, halt) = confirmation::run(&mut runner, &choice.confirmed, design.blocks);
    }
    let course = Course { plan, screening, choice, design, blocks, halt };
    let verdicts = course.verdicts(&runner);
    let warnings = course.warnings();
    Experiment {
        interrupted: course.halt == Some(Halt::Interrupted),
        halted: course.halted(),
        design: course.design,
        screening: course.screening.points,
        blocks: course.blocks,
        verdicts,
        warnings,
    }
}

/// What happened, before it is judged.
struct Course<'a> {
    plan: &'a Plan,
    screening: Screening,
    choice: Choice,
    design: Design,
    blocks: Vec<Block>,
    halt: Option<Halt>,
}

impl Course<'_> {
    /// Why the control could not be measured to the end.
    fn halted(&self) -> Option<String> {
        if let Some(Halt::Control(why)) = &self.halt { Some(why.clone()) } else { None }
    }

    /// One verdict for each arm of the plan, in its order, then one for the combination.
    fn verdicts<B: Bench>(&self, runner: &Runner<'_, B>) -> Vec<Verdict> {
        let planned = self.plan.arms.iter();
        let dropped = self.choice.dropped.iter().map(|(arm, _)| arm);
        let tried = self.choice.confirmed.iter().chain(dropped);
        let added = tried.filter(|arm| !self.plan.arms.contains(arm));
        planned.chain(added).map(|arm| self.verdict(arm, runner)).collect()
    }

    fn verdict<B: Bench>(&self, arm: &Arm, runner: &Runner<'_, B>) -> Verdict {
        if let Some(why) = &arm.barred {
            return self.screened(arm, Word::Reject, why.clone());
        }
        // Where the control or the machinery failed, an arm's failure may have the same cause.
        if let Some(Halt::Control(why)) = &self.halt {
            return self.screened(arm, Word::CannotTell, why.clone());
        }
        if let Some(why) = runner.failed.get(&arm.id) {
            return self.screened(arm, Word::Reject, why.clone());
        }
        if let Some((_, why)) = self.choice.dropped.iter().find(|(other, _)| other.id == arm.id) {
            return self.screened(arm, Word::NotProven, why.clone());
        }
        if self.blocks.is_empty() {
            return self.screened(arm, Word::NotProven, self.no_blocks());
        }
        let confirmed = self.choice.confirmed.len();
        let complete = self.halt != Some(Halt::Interrupted);
        let (evidence, costs) = evidence::gather(arm, self.plan, &self.blocks, confirmed, complete);
        judge(&arm.id.0, &evidence, costs)
    }

    /// A verdict without an effect, with the costs as far as screening saw them.
    fn screened(&self, arm: &Arm, word: Word, why: String) -> Verdict {
        let own = self.screening.points_of(&arm.id);
        let control = self.screening.points_of(&self.plan.control);
        without_effect(&arm.id.0, word, why, evidence::costs(&own, &control))
    }

    fn no_blocks(&self) -> String {
        if self.halt == Some(Halt::Interrupted) {
            return "stopped before the confirmation".to_owned();
        }
        let sizing = &self.choice.sizing;
        let least = minimum_blocks(sizing.arms);
        format!(
            "the budget leaves {} blocks where {least} are needed: a budget of {} would do",
            self.design.blocks,
            sizing.budget_of(least)
        )
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = evidence::mode_warnings(self.plan, &self.choice.confirmed, &self.blocks);
        match &self.halt {
            Some(Halt::Interrupted) => warnings.push("stopped by the user".to_owned()),
            Some(Halt::Budget) => warnings.push(format!(
                "runs took longer than expected: the budget ended after {} of {} blocks",
                self.blocks.len(),
                self.design.blocks
            )),
            Some(Halt::Control(why)) => warnings.push(why.clone()),
            None => {}
        }
        let first = |of: fn(&Block) -> Option<&String>| {
            let all: Vec<&String> = self.blocks.iter().filter_map(of).collect();
            Some((all.len(), (*all.first()?).clone()))
        };
        let of = self.blocks.len();
        if let Some((count, why)) = first(|block| block.dropped.as_ref()) {
            warnings.push(format!("{count} of {of} blocks do not count (the first: {why})"));
        }
        if let Some((count, why)) = first(|b| b.host.as_ref().filter(|_| b.dropped.is_none())) {
            warnings.push(format!(
                "{count} of {of} blocks count though the host interfered (the first: {why}): too \
                 many to be dropped"
            ));
        }
        warnings
    }
}
