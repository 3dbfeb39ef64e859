//! `pagewise order emit`

use super::lists::{self, OrderList};
use crate::args::OrderEmitArgs;
use crate::failure::CommandFailure;
use crate::{store, terminal};
use pagewise_judge::order::{ProgramBuild, best};
use pagewise_model::pieces::BuildSymbol;
use pagewise_observe::order::{ProgramCode, is_linked, read_frame};
use pagewise_report::order::{PlacedName, how_section, order_file};
use std::path::Path;
use std::process::ExitCode;

/// File name in the instructions if no file is written.
const UNNAMED: &str = "order.txt";

/// Writes an order in a linker's format.
pub(super) fn run(args: &OrderEmitArgs) -> Result<ExitCode, CommandFailure> {
    let by = args.by;
    if let Some(why) = args.linker.refusal(by) {
        return Err(CommandFailure::usage(format!("this linker cannot use the order: {why}"))
            .with_help("--linker ld-script places members of archives and variables"));
    }
    let lists = lists::read(&args.orders, &args.weight)?;
    let text = order_file(args.linker, by, &order(args, lists)?);
    let named = args.output.as_deref().unwrap_or(Path::new(UNNAMED));
    // Absolute, because build systems run the linker in another directory.
    let whole = std::path::absolute(named).unwrap_or_else(|_| named.to_owned());
    let how = how_section(args.linker, by, &whole.to_string_lossy());
    match &args.output {
        Some(file) => {
            store::write_whole(file, &text)?;
            terminal::print(&how.text(&terminal::style()))?;
        }
        None => {
            terminal::print(&text)?;
            how.text(&terminal::error_style()).lines().for_each(terminal::complain);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// One order unchanged; several orders merged into one that serves all.
fn order(
    args: &OrderEmitArgs,
    mut lists: Vec<OrderList>,
) -> Result<Vec<PlacedName>, CommandFailure> {
    if !args.builds.is_empty() {
        let functions = lists::build(&args.builds, args.by)?;
        let workloads = lists::find(&lists, &functions);
        let linked = args.builds.first().filter(|file| is_linked(file));
        let frame = linked.and_then(|file| read_frame(file).ok()).unwrap_or_default();
        let code = linked.and_then(|file| ProgramCode::open(file));
        let build = ProgramBuild { name: String::new(), functions, frame, workloads };
        let order = best(&build, &|_, pages| code.as_ref()?.faults(pages).ok());
        let placed = |at: usize| {
            let BuildSymbol { name, section, .. } = &build.functions[at];
            PlacedName { name: name.clone(), section: section.clone() }
        };
        return Ok(order.into_iter().map(placed).collect());
    }
    match (lists.pop(), lists.is_empty()) {
        (Some(one), true) => {
            let placed = |one: BuildSymbol| PlacedName { name: one.name, section: None };
            Ok(one.functions.into_iter().map(placed).collect())
        }
        _ => {
            Err(CommandFailure::usage("merging several orders needs the sizes of their functions")
                .with_help("name the program or its object files: --for FILE"))
        }
    }
}
