//! `pagewise show`

use super::experiment;
use crate::args::ShowArgs;
use crate::failure::CommandFailure;
use crate::{browser, store, terminal};
use pagewise_model::run::SavedRun;
use pagewise_model::schema;
use std::path::Path;
use std::process::ExitCode;

/// Prints a saved run in the requested form, or writes or opens its page or one of its pictures.
pub(super) fn run(args: &ShowArgs) -> Result<ExitCode, CommandFailure> {
    if args.schema {
        terminal::print(schema::PUBLISHED)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(file) = &args.picture {
        refuse_other_forms(file)?;
    }
    let run = store::load(args.run.as_deref())?;
    if let Some(file) = &args.picture {
        store::write_whole(file, &picture(&run, args.chart.as_deref())?)?;
    } else if let Some(file) = &args.html {
        store::write_whole(file, &pagewise_report::html(&run))?;
    } else if args.open {
        let page = store::save_page(&run.id, &pagewise_report::html(&run))?;
        browser::open(&page)?;
    } else {
        terminal::print(&text(&run, args))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn text(run: &SavedRun, args: &ShowArgs) -> String {
    if args.json {
        run.to_json() + "\n"
    } else if args.markdown {
        pagewise_report::markdown(run)
    } else if args.csv {
        pagewise_report::csv(run)
    } else {
        experiment::report(run, args.verbose, &terminal::style())
    }
}

fn refuse_other_forms(file: &Path) -> Result<(), CommandFailure> {
    match file.extension() {
        Some(extension) if extension != "svg" => Err(CommandFailure::usage(format!(
            "cannot draw `{}`: only SVG is written",
            file.display()
        ))
        .with_help("use a name that ends in .svg; a browser or rsvg-convert makes a PNG of it")),
        _ => Ok(()),
    }
}

/// The first picture of `run` whose title contains these words.
fn picture(run: &SavedRun, wanted: Option<&str>) -> Result<String, CommandFailure> {
    let pictures = pagewise_report::pictures(run);
    let wanted = wanted.unwrap_or_default().to_lowercase();
    let found = pictures.iter().find(|(title, _)| title.to_lowercase().contains(&wanted));
    match found {
        Some((_, svg)) => Ok(svg.clone()),
        None if pictures.is_empty() => {
            Err(CommandFailure::usage(format!("run `{}` has no picture", run.id))
                .with_help("pagewise show --html FILE writes its page"))
        }
        None => {
            let titles: Vec<String> =
                pictures.iter().map(|(title, _)| format!("`{title}`")).collect();
            Err(CommandFailure::usage(format!("no picture has `{wanted}` in its title"))
                .with_help(format!("there are {}", titles.join(", "))))
        }
    }
}
