//! `pagewise text warm`

use super::super::cache::{failure, until_failure, warn_of_refilling, worst_of};
use super::file::{FilePlacement, OpenedElf, open};
use super::{record, tell};
use crate::args::TextWarmArgs;
use crate::failure::CommandFailure;
use pagewise_kernel::{clock, page_size};
use pagewise_model::text::TextFile;
use pagewise_model::text_report::TextReport;
use pagewise_observe::text::of_programs;
use pagewise_remedy::recache::RecacheSubject;
use std::path::PathBuf;
use std::process::ExitCode;

/// How a file gets huge folios.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RefillMethod {
    /// Drops and reads it again.
    Anew,
    /// Collapses it in place, on a kernel that collapses files.
    Collapsed,
}

/// The result for several files.
pub(super) struct WarmedFiles {
    pub(super) files: Vec<TextFile>,
    pub(super) missing_libraries: Vec<String>,
    /// Exit code for the outcomes.
    pub(super) code: u8,
    /// The failure that ended it early.
    pub(super) failed: Option<CommandFailure>,
}

/// Fills each file's cache again, and reports how much of its code starts on huge pages.
pub(super) fn run(args: &TextWarmArgs) -> Result<ExitCode, CommandFailure> {
    let start = clock::now();
    let done = warm_all(&args.files, args.with_libraries, RefillMethod::Anew)?;
    let WarmedFiles { files, missing_libraries, code, failed } = done;
    let report = TextReport::Warm { slot_bytes: page_size::huge(), files, missing_libraries };
    tell(report, start, args.json)?;
    failed.map_or(Ok(ExitCode::from(code)), Err)
}

/// Moves files to huge folios, with the libraries that they need if requested.
pub(super) fn warm_all(
    paths: &[PathBuf],
    with_libraries: bool,
    how: RefillMethod,
) -> Result<WarmedFiles, CommandFailure> {
    let mut opened: Vec<OpenedElf> = paths.iter().map(|p| open(p)).collect::<Result<_, _>>()?;
    let mut missing_libraries = Vec::new();
    if with_libraries {
        let programs = opened.iter().map(|file| (file.path.as_path(), &file.elf));
        let libraries = of_programs(programs);
        missing_libraries = libraries.missing;
        for path in libraries.found {
            opened.push(open(&path)?);
        }
    }
    let (files, failed) = until_failure(opened, |file| warm(file, how));
    // Libraries that are too small, or in use by others, are reported. They do not fail the request.
    let code = worst_of(files.iter().take(paths.len()).map(|file| &file.cache));
    Ok(WarmedFiles { files, missing_libraries, code, failed })
}

fn warm(opened: OpenedElf, how: RefillMethod) -> Result<TextFile, CommandFailure> {
    let (placed, file) = FilePlacement::from_opened(opened)?;
    let cache = RecacheSubject::look(file).and_then(|subject| match how {
        RefillMethod::Anew => subject.make_huge(|path| {
            warn_of_refilling();
            record(path);
        }),
        RefillMethod::Collapsed => subject.collapse(record),
    });
    Ok(placed.explain(cache.map_err(|error| failure(&error))?))
}
