//! `pagewise text system`

use super::super::cache::{failure, until_failure, worst};
use super::super::experiment::MachineLock;
use super::collapse::{self, collapsed};
use super::explain::{digits, number};
use super::warm::{RefillMethod, warm_all};
use super::{tell, undo};
use crate::args::{TextSystemArgs, TextUndoArgs};
use crate::failure::CommandFailure;
use crate::terminal;
use pagewise_kernel::{clock, page_size};
use pagewise_model::text_report::TextReport;
use pagewise_model::text_system::{HugePageCleaner, HugetextMode, HugetextSetting, TextSystem};
use pagewise_remedy::collapse::CollapseOptions;
use pagewise_remedy::hugetext::{self, HugetextControl, HugetextError};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::ExitCode;

/// Result of a change: its exit code, and the failure that ended it early.
struct ChangeOutcome {
    code: u8,
    failed: Option<CommandFailure>,
}

const DONE: ChangeOutcome = ChangeOutcome { code: 0, failed: None };

/// Shows the kernel's settings for code on huge pages of all programs, and changes them.
pub(super) fn run(args: &TextSystemArgs) -> Result<ExitCode, CommandFailure> {
    let start = clock::now();
    let mut system = hugetext::look().map_err(|error| failure(&error))?;
    let mode = args.mode.and_then(HugetextMode::from_repr);
    let has_setting = system.hugetext.is_some();
    if mode == Some(HugetextMode::Off) && !has_setting && args.subjects.is_empty() {
        return undo::run(&TextUndoArgs { all: true, json: args.json, files: Vec::new() });
    }
    let is_change = mode.is_some() || args.pad_threshold.is_some() || args.undo;
    let done = match (args.clean, has_setting) {
        (Some(cleaner), _) => clean(&mut system, cleaner, args.yes)?,
        (None, true) if is_change => set(&mut system, args)?,
        (None, false) if is_change => act(&mut system, args, mode)?,
        (None, _) => DONE,
    };
    if is_change || args.clean.is_some() {
        system.after = Some(hugetext::totals().map_err(|error| failure(&error))?);
    }
    let system = Box::new(system);
    tell(TextReport::System { slot_bytes: page_size::huge(), system }, start, args.json)?;
    done.failed.map_or(Ok(ExitCode::from(done.code)), Err)
}

/// Changes the settings on a kernel that has them.
fn set(system: &mut TextSystem, args: &TextSystemArgs) -> Result<ChangeOutcome, CommandFailure> {
    if !args.subjects.is_empty() {
        return Err(CommandFailure::usage("this kernel has one setting for all programs")
            .with_help("give no files or processes"));
    }
    let threshold = args.pad_threshold.map(|bytes| bytes.0);
    let asked = [(HugetextSetting::Mode, args.mode), (HugetextSetting::PadThreshold, threshold)];
    let asked = || asked.iter().filter_map(|(setting, value)| Some((*setting, (*value)?)));
    // Check all values before changing any setting.
    asked().try_for_each(|(setting, value)| hugetext::check(setting, value)).map_err(unset)?;
    let lock = MachineLock::acquire()?;
    let settings = HugetextControl::own().map_err(unset)?;
    if args.undo {
        (system.changes, system.notes) = settings.undo(&lock.settings).map_err(unset)?;
        if system.changes.is_empty() && system.notes.is_empty() {
            system.notes.push("nothing was changed here since boot".to_owned());
        }
    }
    let mut done = DONE;
    for (setting, value) in asked() {
        match settings.set(&lock.settings, setting, value) {
            Ok(change) => system.changes.push(change),
            // Earlier changes are still reported.
            Err(error) => {
                done.failed = Some(unset(error));
                break;
            }
        }
    }
    system.hugetext = settings.now();
    Ok(done)
}

/// The failure to change a setting, with the next step.
fn unset(error: HugetextError) -> CommandFailure {
    let text = error.to_string();
    match error {
        HugetextError::Sys(error) => match error.source.kind() {
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                CommandFailure::unfit(text).with_help("run as root, outside a container")
            }
            ErrorKind::NotFound => CommandFailure::unfit(text)
                .with_help("this kernel lacks it: pagewise text system shows what it has"),
            _ => CommandFailure::usage(text)
                .with_help("pagewise text system shows what the kernel has"),
        },
        HugetextError::Record(_) => CommandFailure::usage(text)
            .with_help("changes are recorded in /run/pagewise: check it as root"),
        HugetextError::Range { .. } => {
            CommandFailure::usage(text).with_help("pagewise text system --help explains the values")
        }
        HugetextError::NotTaken { .. } => CommandFailure::unfit(text)
            .with_help("pagewise text system --undo restores the previous setting"),
    }
}

/// On a kernel without the setting, applies the mode to the named files and processes.
fn act(
    system: &mut TextSystem,
    args: &TextSystemArgs,
    mode: Option<HugetextMode>,
) -> Result<ChangeOutcome, CommandFailure> {
    if args.undo {
        system
            .notes
            .push("no setting to restore; for files use pagewise text undo --all".to_owned());
        return Ok(DONE);
    }
    if let Some(bytes) = args.pad_threshold {
        let help = format!("pagewise text fold --pad-tail {} FILE -o COPY", bytes.0);
        return Err(CommandFailure::unfit(
            "this kernel fills no slots: make a copy of the program",
        )
        .with_help(help));
    }
    let Some(mode) = mode else { return Ok(DONE) };
    let (files, processes) = subjects(args, mode)?;
    let mut done = DONE;
    if !files.is_empty() {
        let how = match system.collapses_files.known() {
            Some(true) => RefillMethod::Collapsed,
            _ => RefillMethod::Anew,
        };
        let warmed = warm_all(&files, true, how)?;
        system.files = warmed.files;
        let missing = warmed.missing_libraries.iter();
        system.notes.extend(missing.map(|name| format!("library {name} was not found")));
        done = ChangeOutcome { code: warmed.code, failed: warmed.failed };
    }
    if !processes.is_empty() && done.failed.is_none() {
        let one = |pid| collapsed(pid, CollapseOptions::default());
        (system.processes, done.failed) = until_failure(processes, one);
        done.code = system.processes.iter().map(collapse::exit_code).fold(done.code, worst);
    }
    Ok(done)
}

/// The named files and processes; refuses those that the mode does not take.
fn subjects(
    args: &TextSystemArgs,
    mode: HugetextMode,
) -> Result<(Vec<PathBuf>, Vec<i32>), CommandFailure> {
    let (mut files, mut processes) = (Vec::new(), Vec::new());
    for subject in &args.subjects {
        match digits(subject) {
            Some(text) => processes.push(number(text)?),
            None => files.push(PathBuf::from(subject)),
        }
    }
    let wrong = match mode {
        HugetextMode::Off if !args.subjects.is_empty() => Some("mode 0 takes no names"),
        _ if !files.is_empty() && !mode.has_files() => {
            Some("mode 2 applies to processes, not files")
        }
        _ if !processes.is_empty() && !mode.has_generated() => {
            Some("mode 1 applies to files, not processes")
        }
        _ => None,
    };
    if let Some(wrong) = wrong {
        return Err(CommandFailure::usage(wrong)
            .with_help("use mode 1 FILE..., mode 2 PID..., or mode 3 with both"));
    }
    if args.subjects.is_empty() {
        let names = match mode {
            HugetextMode::Files => "FILE...",
            HugetextMode::Generated => "PID...",
            HugetextMode::Off | HugetextMode::Both => "FILE... PID...",
        };
        let help = format!("name them: pagewise text system --mode {} {names}", mode.number());
        return Err(
            CommandFailure::unfit("this kernel has no setting for all programs").with_help(help)
        );
    }
    Ok((files, processes))
}

/// Removes huge pages of the whole machine, if the user confirmed it with `--yes`.
fn clean(
    system: &mut TextSystem,
    cleaner: HugePageCleaner,
    yes: bool,
) -> Result<ChangeOutcome, CommandFailure> {
    let name = cleaner.into_str();
    if !yes {
        let text = format!("--clean {name} cannot be undone: it {}", cleaner.warning());
        let help = match cleaner {
            HugePageCleaner::Caches => {
                "for one file use pagewise cache evict FILE; for the whole cache add --yes"
            }
            HugePageCleaner::Split => {
                "for files use pagewise text undo --all; for all huge pages add --yes"
            }
        };
        return Err(CommandFailure::usage(text).with_help(help));
    }
    let lock = MachineLock::acquire()?;
    terminal::complain(&format!("cannot be undone: {}", cleaner.warning()));
    let cleaned = HugetextControl::own().map_err(unset)?.clean(&lock.settings, cleaner);
    cleaned.map_err(|error| uncleaned(cleaner, &error))?;
    system.cleaned = Some(cleaner);
    Ok(DONE)
}

fn uncleaned(cleaner: HugePageCleaner, error: &pagewise_kernel::SysError) -> CommandFailure {
    let help = match (cleaner, error.source.kind()) {
        (HugePageCleaner::Split, ErrorKind::NotFound) => {
            "it is in debugfs, which is not mounted: mount -t debugfs none /sys/kernel/debug"
        }
        _ => "run as root, outside a container",
    };
    CommandFailure::unfit(error.to_string()).with_help(help)
}
