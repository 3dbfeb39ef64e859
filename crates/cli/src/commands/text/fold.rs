//! `pagewise text fold`

use super::super::cache::failure;
use super::super::signals::{INTERRUPTED, stop_flag};
use super::file::{OpenedElf, looked_at, open};
use super::{sizes, tell};
use crate::args::TextFoldArgs;
use crate::failure::CommandFailure;
use crate::terminal;
use pagewise_judge::text as judged;
use pagewise_kernel::{SysError, clock, page_size};
use pagewise_model::fold::FoldReport;
use pagewise_model::text_report::TextReport;
use pagewise_remedy::fold::{self, FoldError, FoldOptions, FoldTarget};
use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitCode;

/// Makes a copy, or explains how to get the same from a linker.
pub(super) fn run(args: &TextFoldArgs) -> Result<ExitCode, CommandFailure> {
    let link = judged::link_advice(args.merge, page_size::huge());
    let (Some(file), Some(output)) = (&args.file, &args.output) else {
        terminal::print(&pagewise_report::link_script(&link))?;
        return Ok(ExitCode::SUCCESS);
    };
    let (start, options, stop) = (clock::now(), options(args)?, stop_flag()?);
    let original = open(file)?;
    let target = FoldTarget { path: output, replaces: args.force };
    let mut made = fold::make(&original.file, target, &options, &stop)
        .map_err(|error| no_copy(file, output, error))?;
    made.notes.extend(moved_origin(&original, output));
    let folded = Box::new(FoldReport {
        is_merged: args.merge,
        changes: made.changes,
        original: looked_at(original)?,
        copy: looked_at(open(output)?)?,
        attributes: made.attributes,
        notes: made.notes,
        link,
        took_ns: made.took,
    });
    tell(TextReport::Fold { slot_bytes: page_size::huge(), folded }, start, args.json)?;
    Ok(ExitCode::SUCCESS)
}

fn options(args: &TextFoldArgs) -> Result<FoldOptions, CommandFailure> {
    let judged::PageSizePair { base, huge } = sizes();
    if args.pad_tail.0 >= huge.bytes() {
        let text =
            format!("--pad-tail {}: a last huge page always holds less than {huge}", args.pad_tail);
        return Err(CommandFailure::usage(text).with_help("use --pad-tail 0 to fill none"));
    }
    Ok(FoldOptions { merge: args.merge, fill_above: args.pad_tail, base, huge })
}

/// Explains why the copy does not find its libraries: their path starts at its directory, which has changed.
fn moved_origin(original: &OpenedElf, copy: &Path) -> Option<String> {
    let search = original.elf.search.as_deref().filter(|search| search.contains("ORIGIN"))?;
    let directory = |path: &Path| Some(path.canonicalize().ok()?.parent()?.to_owned());
    (directory(&original.path) != directory(copy)).then(|| {
        format!("it looks for libraries beside itself ({search}), and the copy lies elsewhere")
    })
}

fn no_copy(file: &Path, output: &Path, error: FoldError) -> CommandFailure {
    match error {
        FoldError::Refused { why, help } => CommandFailure::usage(why).with_help(help),
        FoldError::Plan(error) => CommandFailure::usage(format!("{}: {error}", file.display()))
            .with_help("pagewise text explain FILE shows what is possible without a copy"),
        FoldError::System(error) => not_written(output, &error),
        FoldError::Stopped => CommandFailure::usage(error.to_string()).with_code(INTERRUPTED),
    }
}

fn not_written(output: &Path, error: &SysError) -> CommandFailure {
    let help = match error.source.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            format!("free space beside {}, or name another directory", output.display())
        }
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "put the copy in a directory that this account may write".to_owned()
        }
        ErrorKind::NotFound => "create the directory of the copy first".to_owned(),
        ErrorKind::InvalidInput if error.call == "renameat2" => {
            "use --force on this file system; it replaces an existing file".to_owned()
        }
        _ => return failure(error),
    };
    CommandFailure::usage(error.to_string()).with_help(help)
}
