//! `pagewise order predict`

use super::close::refusal;
use super::lists;
use crate::args::OrderPredictArgs;
use crate::failure::CommandFailure;
use crate::terminal;
use pagewise_judge::order::{ProgramBuild, forecast};
use pagewise_model::pieces::OrderUnit;
use pagewise_model::run::RunKind;
use pagewise_observe::order::{ProgramCode, read_frame};
use pagewise_report::order::{forecast_map, forecast_page, forecast_section};
use pagewise_tracee::read_ahead;
use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Predicts which code pages starts of a program touch in several layouts.
pub(super) fn run(args: &OrderPredictArgs) -> Result<ExitCode, CommandFailure> {
    let lists = lists::read(&args.orders, &args.weight)?;
    args.drawn.page.check()?;
    if !args.touched.is_empty() && args.touched.len() != lists.len() {
        let text =
            format!("--touched gives {} files for {} orders", args.touched.len(), lists.len());
        return Err(CommandFailure::usage(text).with_help("give each order its file, or none"));
    }
    let build = |name: &str, file: &PathBuf| -> Result<ProgramBuild, CommandFailure> {
        let functions = lists::build(std::slice::from_ref(file), OrderUnit::Function)?;
        let workloads = lists::find(&lists, &functions);
        let frame = read_frame(file).map_err(refusal)?;
        Ok(ProgramBuild { name: name.to_owned(), functions, frame, workloads })
    };
    let mut program = build("", &args.program)?;
    for (workload, set) in program.workloads.iter_mut().zip(&args.touched) {
        workload.touched = touched(set, &args.program)?;
    }
    if program.workloads.iter().all(|one| one.calls.is_empty()) {
        let text = format!("`{}` has none of these functions", args.program.display());
        return Err(CommandFailure::usage(text)
            .with_help("name the unstripped program that the order was made for"));
    }
    let named: Vec<(&str, PathBuf)> = args.builds.iter().map(|text| named(text)).collect();
    let others =
        named.iter().map(|(name, file)| build(name, file)).collect::<Result<Vec<_>, _>>()?;
    let files = others.iter().zip(&named).map(|(other, (_, file))| (&other.name, file));
    let code: HashMap<&String, ProgramCode> = files
        .chain([(&program.name, &args.program)])
        .filter_map(|(name, file)| Some((name, ProgramCode::open(file)?)))
        .collect();
    let count = |build: &ProgramBuild, pages: &[u64]| code.get(&build.name)?.faults(pages).ok();
    let forecast = forecast(&program, &others, &count);
    let text = match args.json {
        true => forecast.to_json() + "\n",
        false => forecast_section(&forecast).text(&terminal::style()),
    };
    let run = || super::run_of(RunKind::Faults, &[args.program.clone().into_os_string()]);
    args.drawn.page.write(|| forecast_page(&forecast, &run()))?;
    terminal::print(&text)?;
    super::show_map(args.drawn.map.then(|| forecast_map(&forecast)));
    Ok(ExitCode::SUCCESS)
}

/// Name and file of another build.
fn named(text: &str) -> (&str, PathBuf) {
    text.split_once('=').map_or((text, text.into()), |(name, file)| (name, file.into()))
}

/// The ranges of the program's code that a saved run touched.
fn touched(set: &Path, program: &Path) -> Result<Vec<Range<u64>>, CommandFailure> {
    let saved = read_ahead::load(set).map_err(CommandFailure::usage)?;
    let touched = ProgramCode::open(program).map(|code| code.touched(&saved)).unwrap_or_default();
    if touched.is_empty() {
        let text = format!("`{}` has no code of `{}`", set.display(), program.display());
        return Err(CommandFailure::usage(text).with_help(
            "save it from a run of the same file: pagewise faults --exact --save-working-set FILE -- CMD",
        ));
    }
    Ok(touched)
}
