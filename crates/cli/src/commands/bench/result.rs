//! The run of a bench, whatever it measures: as it begins, and where its result goes: standard output,
//! a saved file, CSV, a drawing.

use crate::args::BenchResult;
use crate::commands::experiment::{INTERRUPTED, environment, keep};
use crate::failure::{Failure, UNFIT};
use crate::{store, terminal};
use pagewise_kernel::{clock, machine};
use pagewise_measure::PriceError;
use pagewise_measure::walk::Cost;
use pagewise_model::Nanos;
use pagewise_model::run::{Run, RunKind};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// A run of the command line that was typed, on this machine, without results.
pub(super) fn begun(id: String, started_unix_ns: u64) -> Run {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let mut run = pagewise_tune::request::run_of(RunKind::Bench, id, started_unix_ns, &words);
    run.environment = environment();
    run.machine = Some(machine::machine());
    run
}

/// What will be done in fresh mappings, before it is.
pub(super) fn announcement(cost: &Cost, repeats: u32) -> String {
    format!(
        "{} points, {repeats} fresh mappings of each: {} mappings, about {}, at most {}, in at most \
         {} of memory",
        cost.points, cost.mappings, cost.about_ns, cost.cap_ns, cost.memory_bytes
    )
}

/// Keeps and shows a run that began at `start`; `any` says whether anything was measured.
pub(super) fn conclude(
    mut run: Run,
    start: Nanos,
    any: bool,
    out: &BenchResult,
) -> Result<ExitCode, Failure> {
    run.took_ns = Nanos(clock::now().0.saturating_sub(start.0));
    keep(&mut run);
    show(&run, out)?;
    Ok(ExitCode::from(match (&run.outcome, any) {
        (Some(_), _) => INTERRUPTED,
        (None, true) => 0,
        (None, false) => UNFIT,
    }))
}

/// From what a bench cannot measure here to what is told.
pub(super) fn unfit(error: PriceError, help: &str) -> Failure {
    match error {
        PriceError::Unavailable(why) => Failure::unfit(why).with_help(help),
        other => Failure::usage(other.to_string()),
    }
}

/// The kinds of drawing, by the end of the name.
pub(super) fn check_chart(file: Option<&Path>) -> Result<(), Failure> {
    match file.map(|file| (file, extension(file))) {
        None | Some((_, "svg" | "html")) => Ok(()),
        Some((file, _)) => {
            Err(Failure::usage(format!("--chart `{}` names no kind of drawing", file.display()))
                .with_help("let it end in .svg or .html"))
        }
    }
}

fn extension(file: &Path) -> &str {
    file.extension().and_then(|end| end.to_str()).unwrap_or_default()
}

/// Prints the result, then writes it wherever else it was asked for.
fn show(run: &Run, out: &BenchResult) -> Result<(), Failure> {
    let text = if out.json {
        run.to_json() + "\n"
    } else {
        pagewise_report::render(run, &terminal::style())
    };
    terminal::print(&text)?;
    // The result is told first: what cannot be written is not lost.
    if let Some(file) = &out.save {
        store::write_whole(file, &run.to_json())?;
    }
    if let Some(file) = &out.csv {
        store::write_whole(file, &pagewise_report::csv(run))?;
    }
    if let Some(file) = &out.chart
        && let Some(drawn) = draw(run, file)
    {
        store::write_whole(file, &drawn)?;
    }
    Ok(())
}

/// The picture of a run, or one page with everything, by the end of the name.
fn draw(run: &Run, file: &Path) -> Option<String> {
    if extension(file) == "html" { pagewise_report::html(run) } else { pagewise_report::svg(run) }
}
