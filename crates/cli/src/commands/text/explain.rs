//! `pagewise text explain`

use super::file::{looked_at, open};
use super::{sizes, tell};
use crate::args::TextExplainArgs;
use crate::failure::{CommandFailure, observing_help};
use pagewise_judge::text as judged;
use pagewise_kernel::{SysError, clock, page_size};
use pagewise_model::text::MappedFile;
use pagewise_model::text_report::{ExplainedProcess, TextReport};
use pagewise_observe::text::{self as observed, FileSeen};
use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

/// Explains a file or a process.
pub(super) fn run(args: &TextExplainArgs) -> Result<ExitCode, CommandFailure> {
    let start = clock::now();
    let report = match digits(&args.subject) {
        Some(text) => of_process(text)?,
        None => of_file(Path::new(&args.subject))?,
    };
    tell(report, start, args.json)?;
    Ok(ExitCode::SUCCESS)
}

fn of_file(path: &Path) -> Result<TextReport, CommandFailure> {
    let file = Box::new(looked_at(open(path)?)?);
    Ok(TextReport::ExplainFile { slot_bytes: page_size::huge(), file })
}

/// Parses a process id.
pub(super) fn number(text: &str) -> Result<i32, CommandFailure> {
    text.parse::<i32>().ok().filter(|pid| *pid > 0).ok_or_else(|| {
        CommandFailure::usage(format!("{text} is not a process id"))
            .with_help(format!("for a file of that name, use ./{text}"))
    })
}

/// The argument as text if it consists of digits, and so means a process.
pub(super) fn digits(subject: &OsStr) -> Option<&str> {
    subject.to_str().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
}

fn of_process(text: &str) -> Result<TextReport, CommandFailure> {
    let pid = number(text)?;
    let seen = observed::look(pid).map_err(|error| no_process(pid, &error))?;
    let is_disabled = seen.is_disabled;
    let files = seen.files.into_iter().map(|file| explained(file, is_disabled)).collect();
    let generated = |seen| judged::explain_generated(seen, is_disabled, &sizes());
    let generated = seen.generated.iter().map(generated).collect();
    let heap =
        observed::look_heap(pid, seen.start_ticks).map_err(|error| no_process(pid, &error))?;
    let huge = page_size::huge();
    let memory = |seen| judged::explain_heap(seen, is_disabled, &heap.setting, huge);
    let heap = heap.mappings.iter().map(memory).collect();
    let process = ExplainedProcess { pid, name: seen.name, is_disabled, files, generated, heap };
    Ok(TextReport::ExplainProcess { slot_bytes: page_size::huge(), process })
}

fn explained(file: FileSeen, is_disabled: bool) -> MappedFile {
    let FileSeen { path, mappings, cache } = file;
    let area = |seen| judged::explain_mapping(seen, &cache, is_disabled, &sizes());
    let areas = mappings.iter().map(area).collect();
    // A process usually disables huge pages after its text was mapped. So a new process gets them for its
    // text all the same.
    let can_be_huge = cache.base_pages_alone.is_none();
    let after_warm = judged::after_warm(if can_be_huge { &mappings } else { &[] }, &sizes());
    MappedFile { path, areas, after_warm }
}

/// The failure to look at a process, with the next step.
pub(super) fn no_process(pid: i32, error: &SysError) -> CommandFailure {
    use std::io::ErrorKind;
    if error.is_gone() || error.source.kind() == ErrorKind::NotFound {
        return CommandFailure::usage(format!("no process {pid} is running")).with_help(format!(
            "ps shows running processes; for a file of that name, use ./{pid}"
        ));
    }
    match error.source.kind() {
        ErrorKind::PermissionDenied => {
            CommandFailure::usage(format!("process {pid} belongs to another account: {error}"))
                .with_help(observing_help("CAP_SYS_PTRACE"))
        }
        _ if error.call.contains("PAGEMAP_SCAN") => CommandFailure::unfit(error.to_string())
            .with_help(format!("on older kernels, pagewise text status {pid} shows sums")),
        _ => CommandFailure::usage(error.to_string()).with_help("ps shows what it is"),
    }
}
