//! `pagewise text warm`

use super::super::cache::{cannot_be_undone, exit_code, failure, until_failure};
use super::file::{Opened, Placed, open};
use super::{record, tell};
use crate::args::Warm;
use crate::failure::Failure;
use crate::terminal;
use pagewise_kernel::{clock, page_size};
use pagewise_model::cache::CacheVerb;
use pagewise_model::text::{TextFile, TextReport};
use pagewise_observe::text::of_programs;
use pagewise_remedy::recache::Subject;
use std::process::ExitCode;

/// Recaches each file, and says what of its code starts on huge pages.
pub(super) fn run(args: &Warm) -> Result<ExitCode, Failure> {
    let start = clock::now();
    let mut opened: Vec<Opened> = args.files.iter().map(|p| open(p)).collect::<Result<_, _>>()?;
    let mut missing_libraries = Vec::new();
    let asked = opened.len();
    if args.with_libraries {
        let programs = opened.iter().map(|file| (file.path.as_path(), &file.elf));
        let libraries = of_programs(programs);
        missing_libraries = libraries.missing;
        for path in libraries.found {
            opened.push(open(&path)?);
        }
    }
    cannot_be_undone(CacheVerb::Huge).into_iter().for_each(terminal::complain);
    let (files, failed) = until_failure(opened, warm);
    // Libraries that are too small, or in use by others, are told and no failure of what was asked.
    let exit = exit_code(files.iter().take(asked).map(|file| &file.cache));
    let report = TextReport::Warm { slot_bytes: page_size::huge(), files, missing_libraries };
    tell(report, start, args.json)?;
    failed.map_or(Ok(exit), Err)
}

fn warm(opened: Opened) -> Result<TextFile, Failure> {
    let (placed, file) = Placed::of(opened)?;
    let cache = Subject::look(file).and_then(|subject| subject.make_huge(record));
    Ok(placed.explain(cache.map_err(|error| failure(&error))?))
}
