//! `pagewise order emit`

use super::close::refusal;
use crate::args::Emit;
use crate::failure::Failure;
use crate::{store, terminal};
use pagewise_judge::order::{Matched, counterparts};
use pagewise_model::pieces::{By, Function, PieceKind, Pieces, Reference};
use pagewise_observe::order::{is_linked, read_functions, read_objects};
use pagewise_report::order::{Placed, how_section, match_section, order_file};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What the file is called where it is not written.
const UNNAMED: &str = "order.txt";

/// Writes an order in the form of a linker.
pub(super) fn run(args: &Emit) -> Result<ExitCode, Failure> {
    let by = args.by.by();
    if let Some(why) = args.linker.refusal(by) {
        return Err(Failure::usage(format!("this linker cannot use the order: {why}"))
            .with_help("--linker ld-script places members of archives and variables"));
    }
    let former = names(&args.order)?;
    let order = match args.builds.is_empty() {
        true => former.into_iter().map(|one| Placed { name: one.name, section: None }).collect(),
        false => found(&former, &args.builds, by)?,
    };
    let text = order_file(args.linker, by, &order);
    let named = args.output.as_deref().unwrap_or(Path::new(UNNAMED));
    // Build systems run the linker elsewhere.
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

/// The names of a file, one a line.
fn names(file: &Path) -> Result<Vec<Function>, Failure> {
    let read = match file.as_os_str() == "-" {
        true => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map(|_| text)
        }
        false => std::fs::read_to_string(file),
    };
    let text =
        read.map_err(|error| Failure::usage(format!("cannot read `{}`: {error}", file.display())))?;
    let lines =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let function = |line: &str| Function { name: line.to_owned(), ..Function::default() };
    let names: Vec<Function> = lines.map(function).collect();
    match names.is_empty() {
        true => Err(Failure::usage(format!("`{}` holds no names", file.display()))
            .with_help("pagewise order close OBJECT... prints an order")),
        false => Ok(names),
    }
}

/// The names as a build has them; how many are still there goes to standard error.
fn found(former: &[Function], builds: &[PathBuf], by: By) -> Result<Vec<Placed>, Failure> {
    let new = match builds {
        [program] if is_linked(program) => read_functions(program).map_err(refusal)?,
        objects => of_objects(&read_objects(objects).map_err(refusal)?, by),
    };
    let matched: Matched = counterparts(former, &new);
    let text =
        match_section(former.len() as u64, matched.exact, matched.by_stem, matched.by_callees);
    text.text(&terminal::error_style()).lines().for_each(terminal::complain);
    let placed =
        |at: &usize| Placed { name: new[*at].name.clone(), section: new[*at].section.clone() };
    Ok(matched.places.iter().flatten().map(placed).collect())
}

/// The functions, variables or files that object files define.
fn of_objects(pieces: &Pieces, by: By) -> Vec<Function> {
    if by == By::Object {
        let object = |name: &String| Function { name: name.clone(), ..Function::default() };
        return pieces.objects.iter().map(object).collect();
    }
    let is_wanted = |kind: PieceKind| (kind == PieceKind::Data) == (by == By::Variable);
    let wanted = pieces.all.iter().filter(|piece| piece.symbols > 0 && is_wanted(piece.kind));
    let callee = |(to, how): &(usize, Reference)| {
        (*how == Reference::Call).then(|| pieces.all[*to].name.clone())
    };
    wanted
        .map(|piece| Function {
            name: piece.name.clone(),
            bytes: piece.bytes,
            callees: piece.references.iter().filter_map(callee).collect(),
            section: Some(piece.section.clone()),
            ..Function::default()
        })
        .collect()
}
