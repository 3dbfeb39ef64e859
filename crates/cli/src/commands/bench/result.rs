//! Where the result of a bench goes: standard output, a saved file, CSV, a drawing.

use crate::args::BenchResult;
use crate::failure::Failure;
use crate::{store, terminal};
use pagewise_measure::Cost;
use pagewise_model::run::Run;
use std::path::Path;

/// What will be done in fresh mappings, before it is.
pub(super) fn announcement(cost: &Cost, repeats: u32) -> String {
    format!(
        "{} points, {repeats} fresh mappings of each: {} mappings, about {}, at most {}, in at most \
         {} of memory",
        cost.points, cost.mappings, cost.about_ns, cost.cap_ns, cost.memory_bytes
    )
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
pub(super) fn show(run: &Run, out: &BenchResult) -> Result<(), Failure> {
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
    if extension(file) == "html" {
        Some(pagewise_report::html(run))
    } else {
        pagewise_report::svg(run)
    }
}
