//! Says what a reader could not rely on in a report: `check_report TEXT SAVED [COLUMNS]`, where SAVED is the run that
//! the report is of, as `--save` writes it. Prints nothing and ends with 0 if it finds no defect, with 1 otherwise.

#![allow(clippy::print_stdout, reason = "a program for the command line")]

use pagewise_model::run::SavedRun;
use std::error::Error;
use std::process::ExitCode;

#[path = "../tests/testsuite/support/reading.rs"]
mod reading;

/// Columns of a report that no terminal limits.
const COLUMNS: usize = 80;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(text), Some(saved)) = (words.next(), words.next()) else {
        return Err("usage: check_report TEXT SAVED [COLUMNS]".into());
    };
    let columns = words.next().map_or(Ok(COLUMNS), |columns| columns.parse())?;
    let run = SavedRun::from_json(&std::fs::read(saved)?)?;
    let found = reading::defects(&std::fs::read_to_string(text)?, &run, columns);
    found.iter().for_each(|defect| println!("{defect}"));
    Ok(ExitCode::from(u8::from(!found.is_empty())))
}
