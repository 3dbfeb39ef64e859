//! Whether an arm has the same output as the unchanged program.
//!
//! Runs at once keep what they write to a pipe if that is little. Otherwise an arm and the control are run
//! for it, once the arm is likely to gain, side by side if the machine has room.

use super::WorldLab;
use crate::at_once;
use crate::look;
use crate::output::{BaselineError, CapturedOutput, OutputBaseline, OutputPolicy, rejection};
use crate::race::{RaceArms, RunFailure};
use crate::stop::SessionStop;
use crate::world::ProgramArm;
use pagewise_model::Bytes;
use pagewise_model::run::OutputCheck;
use pagewise_model::spec::StdoutTarget;

/// If a program writes more, separate runs keep its output.
const MOST_AT_HAND: Bytes = Bytes::mib(4);

impl WorldLab<'_> {
    /// Compares the output of an arm with that of the control. Returns why the arm is rejected, if they
    /// differ.
    ///
    /// # Errors
    /// If the outputs could not be compared.
    pub(super) fn compare(
        &mut self,
        arm: &ProgramArm,
        arms: &RaceArms,
    ) -> Result<Option<String>, RunFailure> {
        if let Some(check) = self.outputs.check_of(&arm.name) {
            return Ok(rejection(check));
        }
        if matches!(self.outputs, OutputPolicy::Free) {
            return Ok(None);
        }
        let is_new = self.outputs.lack_base() && !self.at_hand.contains_key(&arm.name);
        if is_new && self.compares_at_once() && at_once::is_apart(arm) {
            self.put_out_together(arm, &arms.control)?;
        }
        let run = self.put_out(arm).map_err(SessionStop::into_failure)?;
        match run.map_or_else(Ok, |run| self.against_plain(&arm.name, &run, &arms.control)) {
            Ok(check) => {
                let why = rejection(&check);
                self.outputs.add(check);
                Ok(why)
            }
            Err(BaselineError::Run(SessionStop::Interrupted)) => Err(RunFailure::Interrupted),
            Err(why) => {
                let failure = RunFailure::Broken(why.to_string());
                self.incomparable = Some(why);
                Err(failure)
            }
        }
    }

    /// The output of an arm in an untimed run. An arm that cannot run is unequal; the check says why.
    ///
    /// # Errors
    /// Failures that are not the arm's own.
    pub(crate) fn put_out(
        &mut self,
        arm: &ProgramArm,
    ) -> Result<Result<CapturedOutput, OutputCheck>, SessionStop> {
        if let Some(run) = self.take_kept(arm) {
            return Ok(Ok(run));
        }
        let limits = self.limits(arm);
        self.world.captured(arm, &limits).map(Ok).or_else(|stop| match stop.into_failure() {
            RunFailure::Interrupted => Err(SessionStop::Interrupted),
            RunFailure::Broken(why) => Err(SessionStop::Broken(why)),
            RunFailure::Failed(why) | RunFailure::NotAtOnce(why) => Ok(Err(OutputCheck {
                arm: arm.name.clone(),
                equal: false,
                notes: vec![format!("there is none ({why})")],
            })),
        })
    }

    /// The kept output of a run of an arm at once, if one is left.
    fn take_kept(&mut self, arm: &ProgramArm) -> Option<CapturedOutput> {
        self.at_hand.get_mut(&arm.name)?.pop()
    }

    /// The complete output of a plain run.
    fn kept(&mut self, plain: &ProgramArm) -> Result<CapturedOutput, BaselineError> {
        let run = match self.take_kept(plain) {
            Some(run) => run,
            None => self.world.captured(plain, &self.known.limits)?,
        };
        let other_work = || {
            let why = self.known.work.other_amount(&run.usage, &[])?;
            Some(format!("with its output kept the plain program does other work: it {why}"))
        };
        match look::not_kept(&run, &self.known.runs).or_else(other_work) {
            Some(why) => Err(BaselineError::NotKept(why)),
            None => Ok(run),
        }
    }

    /// The outputs of two plain runs, and their differences.
    ///
    /// # Errors
    /// Why no output can be compared with them.
    pub(crate) fn baseline(
        &mut self,
        plain: &ProgramArm,
    ) -> Result<(OutputBaseline, OutputCheck), BaselineError> {
        let first = self.kept(plain)?;
        let base = OutputBaseline::of(&first, &self.kept(plain)?)?;
        let check = by_itself(&base, plain);
        Ok((base, check))
    }

    /// Compares the output of an arm with one plain run. If they differ, it is compared with what two plain
    /// runs have in common.
    fn against_plain(
        &mut self,
        arm: &str,
        run: &CapturedOutput,
        plain: &ProgramArm,
    ) -> Result<OutputCheck, BaselineError> {
        let base = match self.outputs.take_base() {
            Some(base) => base,
            None => OutputBaseline::of_one(self.kept(plain)?)?,
        };
        let found = base.check(arm, run);
        let Some(first) = base.only_run().filter(|_| !found.equal) else {
            self.outputs.set_base(base);
            return Ok(found);
        };
        // Run alone: the output of a program may depend on its number of CPUs.
        self.at_hand.remove(&plain.name);
        let base = OutputBaseline::of(first, &self.kept(plain)?)?;
        self.outputs.add(by_itself(&base, plain));
        let found = base.check(arm, run);
        self.outputs.set_base(base);
        Ok(found)
    }

    /// Whether runs at once keep their output, so that no separate runs are needed for it.
    pub(crate) fn keeps_output(&self) -> bool {
        let written = self.known.runs.iter().filter_map(|run| run.written_bytes).max();
        matches!(self.outputs, OutputPolicy::Equal { .. })
            && self.can_keep_output()
            && written.is_some_and(|bytes| bytes <= MOST_AT_HAND)
    }

    /// Whether two runs side by side give the outputs of an arm and of the control.
    pub(crate) fn compares_at_once(&self) -> bool {
        self.can_keep_output() && self.width.as_ref().is_ok_and(|width| width.blocks > 1)
    }

    /// Whether runs at once are made, and all that is compared of them goes through their standard streams.
    fn can_keep_output(&self) -> bool {
        let spec = &self.request.spec;
        self.width.is_ok() && spec.stdout != StdoutTarget::Null && spec.outputs.is_empty()
    }

    /// Runs an arm and the control side by side for their output. A failure here is retried alone later.
    fn put_out_together(
        &mut self,
        arm: &ProgramArm,
        control: &ProgramArm,
    ) -> Result<(), RunFailure> {
        let blocks = [control, arm].map(|one| vec![(one, self.limits(one))]);
        let done = self.world.timed_at_once(&blocks, Bytes(0), false, true);
        let done = done.map_err(SessionStop::into_failure)?;
        for (one, run) in [control, arm].into_iter().zip(done.into_iter().flatten()) {
            let kept = run.ok().and_then(|run| run.kept);
            self.at_hand.entry(one.name.clone()).or_default().extend(kept);
        }
        Ok(())
    }
}

/// In what plain runs differ.
fn by_itself(base: &OutputBaseline, plain: &ProgramArm) -> OutputCheck {
    let notes = base.exceptions();
    OutputCheck { arm: plain.name.clone(), equal: notes.is_empty(), notes }
}
