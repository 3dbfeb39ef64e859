//! `pagewise text collapse`

use super::{explain::no_process, tell};
use crate::args::TextCollapseArgs;
use crate::failure::{CommandFailure, UNFIT};
use pagewise_kernel::{SysError, clock, page_size};
use pagewise_model::collapse::{CollapseWay, CollapsedProcess};
use pagewise_model::text_report::TextReport;
use pagewise_remedy::collapse::{self, CollapseError, CollapseOptions};
use std::io::ErrorKind;
use std::process::ExitCode;

/// Puts the text of a running process on huge pages, or splits them.
pub(super) fn run(args: &TextCollapseArgs) -> Result<ExitCode, CommandFailure> {
    let start = clock::now();
    let way = match (args.reread, args.undo) {
        (true, _) => CollapseWay::Reread,
        (_, true) => CollapseWay::Split,
        _ => CollapseWay::InPlace,
    };
    let options = CollapseOptions { with_files: true, way, later: args.later };
    let process = collapsed(args.pid, options)?;
    let exit = exit_code(&process);
    tell(TextReport::Collapse { slot_bytes: page_size::huge(), process }, start, args.json)?;
    Ok(ExitCode::from(exit))
}

/// Collapses the text of the process.
pub(super) fn collapsed(
    pid: i32,
    options: CollapseOptions,
) -> Result<CollapsedProcess, CommandFailure> {
    collapse::run(pid, options).map_err(|error| match error {
        CollapseError::Sys(error) => not_collapsed(pid, &error),
        CollapseError::NoMemory { why, help } => CommandFailure::unfit(why).with_help(help),
    })
}

/// The exit code for the result.
pub(super) fn exit_code(process: &CollapsedProcess) -> u8 {
    if process.is_all_done() { 0 } else { UNFIT }
}

fn not_collapsed(pid: i32, error: &SysError) -> CommandFailure {
    if error.call != "process_madvise" {
        return no_process(pid, error);
    }
    match error.source.kind() {
        ErrorKind::PermissionDenied => CommandFailure::unfit(format!(
            "not allowed to change process {pid} from outside: {error}"
        ))
        .with_help("run as root, or with CAP_SYS_NICE: setcap cap_sys_nice+ep on pagewise"),
        ErrorKind::Unsupported => CommandFailure::unfit(error.to_string())
            .with_help("the call needs Linux 5.10, and this use of it Linux 6.1"),
        _ => no_process(pid, error),
    }
}
