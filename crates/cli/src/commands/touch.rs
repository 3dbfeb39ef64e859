//! The hidden command that takes first touches of base pages and does nothing else: what recording
//! adds to a fault is seen by it.

use super::faults::RECORD;
use crate::failure::Failure;
use pagewise_tune::faults::Commands;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// Its name.
const TOUCH: [&str; 1] = ["__touch"];
/// How often it touches all its pages: the host may have to back them the first time.
const ROUNDS: u32 = 3;

/// How this program, which is `exe`, times faults.
pub(super) fn commands(exe: &Path) -> Commands {
    let command = |words: &[&str]| -> Vec<OsString> {
        std::iter::once(exe.into()).chain(words.iter().map(Into::into)).collect()
    };
    Commands { recorder: command(&RECORD), probe: command(&TOUCH) }
}

/// Touches fresh pages.
pub(super) fn run() -> Result<ExitCode, Failure> {
    pagewise_measure::touch_pages(ROUNDS).map_err(|e| Failure::usage(e.to_string()))?;
    Ok(ExitCode::SUCCESS)
}
