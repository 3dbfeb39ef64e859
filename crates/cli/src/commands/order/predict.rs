//! `pagewise order predict`

use super::close::refusal;
use super::lists;
use crate::args::Predict;
use crate::failure::Failure;
use crate::terminal;
use pagewise_judge::order::{Build, forecast};
use pagewise_model::pieces::By;
use pagewise_observe::order::read_frame;
use pagewise_report::order::forecast_section;
use std::path::PathBuf;
use std::process::ExitCode;

/// Predicts what starts touch of a program's code in several layouts.
pub(super) fn run(args: &Predict) -> Result<ExitCode, Failure> {
    let lists = lists::read(&args.orders, &args.weight)?;
    let build = |name: &str, file: &PathBuf| -> Result<Build, Failure> {
        let functions = lists::build(std::slice::from_ref(file), By::Function)?;
        let workloads = lists::find(&lists, &functions);
        let frame = read_frame(file).map_err(refusal)?;
        Ok(Build { name: name.to_owned(), functions, frame, workloads })
    };
    let program = build("", &args.program)?;
    if program.workloads.iter().all(|one| one.calls.is_empty()) {
        let text = format!("`{}` has none of these functions", args.program.display());
        return Err(
            Failure::usage(text).with_help("name the program that the order is of, not stripped")
        );
    }
    let other = |text: &String| match text.split_once('=') {
        Some((name, file)) => build(name, &PathBuf::from(file)),
        None => build(text, &PathBuf::from(text)),
    };
    let others = args.builds.iter().map(other).collect::<Result<Vec<_>, _>>()?;
    let forecast = forecast(&program, &others);
    let text = match args.json {
        true => forecast.to_json() + "\n",
        false => forecast_section(&forecast).text(&terminal::style()),
    };
    terminal::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
