//! `pagewise tune --live -p PID`

use super::TuneGoals;
use crate::args::{HelperRole, TuneArgs};
use crate::commands::experiment;
use crate::commands::progress::ProgressDisplay;
use crate::commands::signals;
use crate::commands::{helper, run::doses};
use crate::failure::{CommandFailure, observing_help};
use pagewise_judge::service::{GUARDED, USUAL_GUARDS};
use pagewise_kernel::proc::{self, stat, tree};
use pagewise_model::guard::ArmGuard;
use pagewise_model::spec::ServerSpec;
use pagewise_model::trial::ComparedQuantity;
use pagewise_tracee::launch::StdinSource;
use pagewise_tracee::target::{TargetError, TargetProcess};
use pagewise_tune::service::{self, HelperCommands, LiveServiceRequest, LoadTerms};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// Default guards: users of a service wait for its answers.
const GUARDS: [ArmGuard; 3] = [
    USUAL_GUARDS[0],
    USUAL_GUARDS[1],
    ArmGuard { quantity: Some(ComparedQuantity::Throughput), limit_share: 0.20 },
];

/// Goals for a running process.
const RUNNING: TuneGoals =
    TuneGoals { quantities: &GUARDED, has_errors: true, usual_guards: |_| GUARDS.to_vec() };

/// Tunes a running process.
pub(super) fn run(args: &TuneArgs, pid: i32) -> Result<ExitCode, CommandFailure> {
    let target = TargetProcess::find(pid).map_err(refused)?;
    if is_ancestor(pid) {
        return Err(CommandFailure::usage(format!("process {pid} is an ancestor of pagewise"))
            .with_help(
                "start pagewise outside that process; otherwise its figures would include pagewise",
            ));
    }
    if !args.service.live && !args.advise {
        return Err(not_allowed(&target));
    }
    let request = request(args, target)?;
    let _lock = experiment::lock(args.experiment.patience)?;
    let stop = signals::stop_flag()?;
    let mut display = ProgressDisplay::new(args.experiment.quiet);
    let mut listener = |event: &pagewise_tune::world::SessionEvent<'_>| display.tell(event);
    let words = |part| helper::words(part).map(str::to_owned).to_vec();
    let helpers = HelperCommands {
        exe: helper::own_exe()?,
        supervise: words(HelperRole::Supervise),
        switch: words(HelperRole::Switch),
    };
    let (run, end) = service::run_live(&request, &helpers, stop, &mut listener);
    display.finish();
    experiment::conclude(run, end, &args.experiment)
}

fn refused(error: TargetError) -> CommandFailure {
    let failure = CommandFailure::usage(error.to_string());
    match error {
        TargetError::NotAllowed(_) => failure.with_help(observing_help("CAP_SYS_PTRACE")),
        TargetError::Gone(_) => failure.with_help("pgrep -a NAME lists the processes of a program"),
        TargetError::Thread { pid, .. } => failure.with_help(format!("use -p {pid}")),
        TargetError::Kernel(_) | TargetError::Sys(_) => failure,
    }
}

/// Whether the process is an ancestor of this one.
fn is_ancestor(pid: i32) -> bool {
    let mut at = proc::own_pid();
    while at > 0 {
        if at == pid {
            return true;
        }
        at = stat::read(at).map_or(0, |stat| stat.ppid);
    }
    false
}

/// The failure without `--live`, and what `--live` would allow.
fn not_allowed(target: &TargetProcess) -> CommandFailure {
    let pid = target.pid();
    let below = tree::descendants(pid).unwrap_or_default().len();
    let name = stat::read(pid).map(|stat| stat.comm).unwrap_or_default();
    let others = if below == 0 { String::new() } else { format!(" and {below} below it") };
    CommandFailure::usage(format!(
        "tune -p needs --live to switch the heap pages and CPUs of process {pid} ({name}){others} \
         under load"
    ))
    .with_help("add --live, or --advise to look only")
}

fn request(args: &TuneArgs, target: TargetProcess) -> Result<LiveServiceRequest, CommandFailure> {
    let pid = target.pid();
    let command = command(&target);
    let only = args.only.as_ref().map(|list| doses(list, &command)).transpose()?;
    let mut base = experiment::request_of_running(&args.experiment, command, StdinSource::Null)?;
    base.spec.advise = args.advise;
    base.spec.only = only;
    // The receipt is for the next start of the service, not of this process.
    base.here.environment = proc::environment(pid);
    base.here.program = file(pid);
    base.here.directory = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
    base.spec.directory.clone_from(&base.here.directory);
    let serve = target.command().join(" ");
    base.spec.service = Some(args.service.terms.service(serve, ServerSpec::Running { pid })?);
    (base.spec.quantity, base.spec.guards) = super::goal(args, &RUNNING)?;
    let terms = LoadTerms::new(&base.spec).map_err(CommandFailure::usage)?;
    Ok(LiveServiceRequest { base, target, terms })
}

fn file(pid: i32) -> PathBuf {
    std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default()
}

/// The visible command line of the process. A process that sets its title has overwritten its arguments.
fn command(target: &TargetProcess) -> Vec<OsString> {
    let words = target.command();
    let program = file(target.pid()).into_os_string();
    let first = words.first().map(String::as_str).unwrap_or_default();
    let is_title = first.contains([' ', ':']);
    let arguments = words.iter().skip(1).filter(|_| !is_title).map(OsString::from);
    std::iter::once(program).chain(arguments).collect()
}
