//! `pagewise show`

use crate::args::Show;
use crate::failure::Failure;
use crate::{store, terminal};
use pagewise_model::run::Run;
use std::process::ExitCode;

/// Prints a saved run in the form asked for.
pub(super) fn run(args: &Show) -> Result<ExitCode, Failure> {
    if args.schema {
        terminal::print(&Run::json_schema())?;
        return Ok(ExitCode::SUCCESS);
    }
    let run = store::load(args.run.as_deref())?;
    if let Some(file) = &args.html {
        store::write_whole(file, &pagewise_report::html(&run))?;
        return Ok(ExitCode::SUCCESS);
    }
    let text = if args.json {
        run.to_json() + "\n"
    } else if args.markdown {
        pagewise_report::markdown(&run)
    } else if args.csv {
        pagewise_report::csv(&run)
    } else {
        pagewise_report::render(&run, &terminal::style())
    };
    terminal::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
