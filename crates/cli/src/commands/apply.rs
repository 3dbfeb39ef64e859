//! `pagewise apply`

use super::helper::own_exe;
use crate::args::ApplyArgs;
use crate::failure::CommandFailure;
use crate::{store, terminal};
use pagewise_remedy::apply::record::{self, UndoOutcome};
use pagewise_remedy::apply::verify::{VerifyOutcome, verify};
use pagewise_remedy::apply::{ApplyError, ApplyPlace, plan, trust};
use std::io::{BufRead, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Writes a receipt where it takes effect, lists applied receipts, or undoes one.
pub(super) fn run(args: &ApplyArgs) -> Result<ExitCode, CommandFailure> {
    if args.list {
        return list(args);
    }
    if let Some(number) = args.undo {
        return undo(args, number);
    }
    let run = store::load(args.run.as_deref())?;
    let place = place(args)?;
    let quote = pagewise_report::quote_bytes;
    let change = plan(&run, &place, &own_exe()?, quote, args.likely).map_err(failure)?;
    let checked = verify(&change, args.user).map_err(failure)?;
    if !args.json {
        let page = pagewise_report::change_page(&change, &checked_line(&checked));
        terminal::print(&page.text(&terminal::style()))?;
    }
    if args.dry_run {
        return if args.json { print_json(&change) } else { Ok(ExitCode::SUCCESS) };
    }
    if !args.yes && !confirmed(args)? {
        return Err(CommandFailure::usage("not confirmed, so pagewise wrote nothing")
            .with_help("use --yes to write without asking"));
    }
    match record::apply(&change, args.replace).map_err(failure)? {
        None if args.json => print_json(&change),
        None => done("nothing to do: the file holds this already\n"),
        Some(applied) if args.json => print_json(&applied),
        Some(applied) => {
            let page = pagewise_report::applied_page(&applied);
            done(&page.text(&terminal::style()))
        }
    }
}

fn done(text: &str) -> Result<ExitCode, CommandFailure> {
    terminal::print(text)?;
    Ok(ExitCode::SUCCESS)
}

fn print_json(what: &impl serde::Serialize) -> Result<ExitCode, CommandFailure> {
    terminal::print_json(what)?;
    Ok(ExitCode::SUCCESS)
}

/// The failure to apply a receipt, with the next step.
pub(super) fn failure(error: ApplyError) -> CommandFailure {
    let help = error.help();
    let failure = CommandFailure::usage(error.to_string());
    match help {
        Some(help) => failure.with_help(help),
        None => failure,
    }
}

/// The path of this program, for a printed unit. Problems with it are reported on standard error.
pub(super) fn unit_program() -> Result<PathBuf, CommandFailure> {
    let pagewise = own_exe()?;
    for line in trust::of_unit(&pagewise).map_err(failure)? {
        terminal::remark(&line);
    }
    Ok(pagewise)
}

fn place(args: &ApplyArgs) -> Result<ApplyPlace, CommandFailure> {
    let name = || args.name.clone().unwrap_or_default();
    if let Some(unit) = &args.systemd {
        let units = units(args.user)?;
        return Ok(ApplyPlace::Systemd { unit: unit.clone(), units, of_user: args.user });
    }
    if let Some(directory) = &args.wrapper {
        return Ok(ApplyPlace::Wrapper { directory: directory.clone() });
    }
    if let Some(file) = &args.env_file {
        return Ok(ApplyPlace::EnvironmentFile { file: file.clone() });
    }
    if let Some(file) = &args.compose {
        return Ok(ApplyPlace::Compose { file: file.clone(), service: name() });
    }
    match &args.kubernetes {
        Some(file) => Ok(ApplyPlace::Kubernetes { file: file.clone(), container: name() }),
        None => {
            let run = pagewise_report::quote(args.run.as_deref().unwrap_or("last"));
            Err(CommandFailure::usage("say where the receipt is to work").with_help(format!(
                "pagewise apply {run} --wrapper ~/bin, or --systemd UNIT, --env-file FILE, --compose FILE, --kubernetes FILE"
            )))
        }
    }
}

/// The directory for an administrator's units: the system's or this account's (systemd.unit(5)).
fn units(of_user: bool) -> Result<PathBuf, CommandFailure> {
    if !of_user {
        return Ok(PathBuf::from("/etc/systemd/system"));
    }
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let config = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")));
    config.map(|config| config.join("systemd/user")).ok_or_else(|| {
        CommandFailure::usage("neither XDG_CONFIG_HOME nor HOME is an absolute path")
    })
}

fn checked_line(checked: &VerifyOutcome) -> String {
    match checked {
        VerifyOutcome::Accepted { by, note: None } => format!("accepted by {by}"),
        VerifyOutcome::Accepted { by, note: Some(note) } => format!("accepted by {by}; {note}"),
        VerifyOutcome::Not { why } => format!("not checked: {why}"),
    }
}

/// Whether the user agrees; does not ask without a terminal.
fn confirmed(args: &ApplyArgs) -> Result<bool, CommandFailure> {
    let stdin = std::io::stdin();
    if args.json || !stdin.is_terminal() {
        return Ok(false);
    }
    let failed = |e| CommandFailure::usage(format!("cannot ask: {e}"));
    let mut err = std::io::stderr().lock();
    write!(err, "\nWrite it? [y/N] ").and_then(|()| err.flush()).map_err(failed)?;
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer).map_err(failed)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

fn list(args: &ApplyArgs) -> Result<ExitCode, CommandFailure> {
    let all = record::all().map_err(failure)?;
    if args.json {
        return print_json(&all);
    }
    done(&pagewise_report::applied_list(&all).text(&terminal::style()))
}

fn undo(args: &ApplyArgs, number: Option<u32>) -> Result<ExitCode, CommandFailure> {
    let (applied, undone) = record::undo(number, args.force).map_err(failure)?;
    if args.json {
        return print_json(&applied);
    }
    let what = match undone {
        UndoOutcome::Restored => "restored",
        UndoOutcome::Removed => "removed",
        UndoOutcome::Nothing => "nothing to do: it is as it was before:",
    };
    done(&pagewise_report::undone_page(&applied, what).text(&terminal::style()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_reader_said_is_one_line() {
        let note = Some("no unit x.service is installed here yet".to_owned());
        let line = checked_line(&VerifyOutcome::Accepted { by: "sh -n", note });
        assert_eq!(line, "accepted by sh -n; no unit x.service is installed here yet");
        assert_eq!(checked_line(&VerifyOutcome::Not { why: "w" }), "not checked: w");
    }
}
