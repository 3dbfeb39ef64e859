//! `pagewise profile -p PID`

use super::{conclude, judged, kernel_only, named, shown};
use crate::args::ProfileArgs;
use crate::commands::experiment::{environment, identity};
use crate::commands::faults::running::{begun_line, refusal};
use crate::commands::signals::stop_flag;
use crate::failure::CommandFailure;
use crate::terminal;
use pagewise_kernel::clock;
use pagewise_kernel::proc::tree;
use pagewise_model::Fact;
use pagewise_model::body::RunBody;
use pagewise_model::look::LookFindings;
use pagewise_model::run::RunKind;
use pagewise_observe::made_code::MadeCode;
use pagewise_tracee::mapped_file::MappedFiles;
use pagewise_tracee::perf::profile_running;
use pagewise_tracee::perf::user_samples;
use pagewise_tracee::target::{RecordingCourse, TargetProcess};
use pagewise_tune::request::run_of;
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

/// Reason why facts from a program's start are missing for this process.
const RAN_BEFORE: &str = "the process was running already";

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
    let (samples, course) = {
        let stop = stop_flag()?;
        let enough = || stop.load(Ordering::Relaxed);
        let begun =
            |threads| terminal::remark(&begun_line("profiling", pid, &run.command, threads));
        let until = RecordingCourse { begun: &begun, time: args.duration, enough: &enough };
        profile_running(&target, &files, &until)
    };
    let samples = named(samples, &files, &mut made, &mut run);
    run.body = Some(RunBody::Profile(judged(&samples, None, &machine, Some(course))));
    run.look = Some(LookFindings {
        runs: Vec::new(),
        traced: Fact::missing(RAN_BEFORE),
        samples: kernel_only(&samples),
        user: samples.clone().map(|all| user_samples(&all, &files)),
        walks: Fact::missing(RAN_BEFORE),
        faults: Fact::missing(RAN_BEFORE),
    });
    run.machine = Some(machine);
    conclude(&mut run, start);
    shown(&run, &samples, args)?;
    Ok(ExitCode::SUCCESS)
}
