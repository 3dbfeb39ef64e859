//! `pagewise profile -p PID`

use super::{conclude, judged, kernel_only, named, shown, unit_prices};
use crate::args::ProfileArgs;
use crate::commands::experiment::{environment, identity};
use crate::commands::faults::running::{begun_line, refusal};
use crate::commands::signals::stop_flag;
use crate::failure::CommandFailure;
use crate::{store, terminal};
use pagewise_kernel::clock;
use pagewise_kernel::proc::tree;
use pagewise_model::body::RunBody;
use pagewise_model::look::LookFindings;
use pagewise_model::run::RunKind;
use pagewise_observe::made_code::MadeCode;
use pagewise_tracee::mapped_file::MappedFiles;
use pagewise_tracee::perf::profile_running;
use pagewise_tracee::perf::user_samples;
use pagewise_tracee::target::{RecordingCourse, TargetProcess};
use pagewise_tune::request::run_of;
use pagewise_tune::service::{RunningObservation, advise};
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

/// Profiles a running process until the user stops or the process ends.
pub(super) fn run(args: &ProfileArgs, pid: i32) -> Result<ExitCode, CommandFailure> {
    let start = clock::now();
    let target = TargetProcess::find(pid).map_err(refusal)?;
    let command: Vec<OsString> = target.command().iter().map(Into::into).collect();
    let (started, id) = identity(&command);
    let mut run = run_of(RunKind::Profile, id, started, &command);
    run.environment = environment();
    let machine = pagewise_kernel::machine::machine();
    let (mut made, files) = (MadeCode::default(), MappedFiles::default());
    let others = tree::descendants(pid).unwrap_or_default();
    others.into_iter().chain([pid]).for_each(|pid| made.meet(pid));
    let observation = RunningObservation::begin(pid);
    let (samples, course) = {
        let stop = stop_flag()?;
        let enough = || stop.load(Ordering::Relaxed);
        let begun =
            |threads| terminal::remark(&begun_line("profiling", pid, &run.command, threads));
        let until = RecordingCourse { begun: &begun, time: args.duration, enough: &enough };
        profile_running(&target, &files, &until)
    };
    let has_ended = course.has_ended;
    let seen = match has_ended {
        true => LookFindings::missing("the process has ended"),
        false => observation.end(),
    };
    let samples = named(samples, &files, &mut made, &mut run);
    run.body = Some(RunBody::Profile(judged(&samples, None, &machine, Some(course))));
    run.machine = Some(machine);
    let look = LookFindings {
        samples: kernel_only(&samples),
        user: samples.clone().map(|all| user_samples(&all, &files)),
        ..seen
    };
    if has_ended {
        run.look = Some(look);
    } else {
        run.prices = Some(unit_prices()?);
        advise(&mut run, look, &store::prediction_offsets());
    }
    conclude(&mut run, start);
    shown(&run, &samples, args)?;
    Ok(ExitCode::SUCCESS)
}
