//! `pagewise calibrate`

use crate::args::CalibrateArgs;
use crate::failure::CommandFailure;
use crate::{store, terminal};
use pagewise_judge::history::is_same_hardware;
use pagewise_judge::prediction::{PredictionPair, offsets, outcomes, pairs};
use pagewise_model::run::SavedRun;
use std::path::Path;
use std::process::ExitCode;

/// Fits the offsets of predictions on this machine, or prints what a fit of the whole model needs.
pub(super) fn run(args: &CalibrateArgs) -> Result<ExitCode, CommandFailure> {
    if !args.pairs.is_empty() {
        for path in &args.pairs {
            print_pairs(path)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if args.forget {
        store::save_prediction_offsets(None)?;
        terminal::print("predictions are those of the model again\n")?;
        return Ok(ExitCode::SUCCESS);
    }
    let here = pagewise_kernel::machine::machine();
    let is_here = |run: &SavedRun| {
        run.machine.as_ref().is_some_and(|machine| is_same_hardware(machine, &here))
    };
    let all = store::all()?.into_iter().map(|(_, run)| run);
    let runs: Vec<SavedRun> = all.filter(is_here).collect();
    let found = offsets(&runs);
    store::save_prediction_offsets(Some(&found))?;
    if args.json {
        terminal::print_json(&found)?;
    } else {
        let page = pagewise_report::offsets_page(&found, outcomes(&runs).len());
        terminal::print(&page.text(&terminal::style()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// One line for each arm: file, model, arm, whether it fits, gain, its deviation, and `name=value` for each fact.
fn print_pairs(path: &Path) -> Result<(), CommandFailure> {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    for pair in pairs(&store::read(path)?) {
        let PredictionPair { model, arm, facts, found_share, found_deviation, fits } = pair;
        let facts: Vec<String> =
            facts.iter().map(|(name, value)| format!("{name}={value:.6}")).collect();
        terminal::print(&format!(
            "{name}\t{model}\t{arm}\t{fits}\t{found_share:.6}\t{found_deviation:.6}\t{}\n",
            facts.join("\t")
        ))?;
    }
    Ok(())
}
