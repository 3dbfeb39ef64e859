//! Applies a kept receipt as a file: a drop-in of a systemd unit, a wrapper, an environment file, a Compose
//! override, or a Kubernetes patch.
//!
//! The lines come from the saved run: its doses, its command, and the environment of the test. [`record`]
//! writes the file and undoes it. [`verify`] runs the format's own checker first.

pub mod record;
pub mod trust;
pub mod verify;

use crate::containers;
use crate::receipt;
use crate::receipt::{ReceiptConditions, TestedStart, all_of, environment_alone};
use crate::registry::{RemedyError, derived};
use pagewise_kernel::SysError;
use pagewise_kernel::machine::machine;
use pagewise_kernel::trusted_path::{MissingNamePolicy, PathDoubt, PathError};
use pagewise_model::applied::FileChange;
use pagewise_model::name::{in_comment, is_label, yaml_string};
use pagewise_model::plan::{self, RemedyDose};
use pagewise_model::run::{SavedRun, SessionOutcome};
use pagewise_tracee::launch::ProgramLaunch;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Programs that must not get a wrapper: it would affect every script.
const SHELLS: [&str; 9] = ["sh", "bash", "dash", "zsh", "ksh", "fish", "env", "busybox", "sudo"];

/// File name of the drop-in. An administrator's additions sort after it.
const DROP_IN: &str = "50-pagewise.conf";

/// Unit types that start no program.
const OTHER_UNITS: [&str; 8] =
    ["socket", "timer", "target", "mount", "automount", "swap", "path", "slice"];

/// Where to apply a receipt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApplyPlace {
    /// A drop-in of this unit, in the directory that holds the account's or the machine's units.
    Systemd { unit: String, units: PathBuf, of_user: bool },
    /// A script with the program's name in this directory.
    Wrapper { directory: PathBuf },
    /// Lines `NAME=value`, for `EnvironmentFile=` and `docker run --env-file`.
    EnvironmentFile { file: PathBuf },
    /// An override file of this service.
    Compose { file: PathBuf, service: String },
    /// A patch of this container, for `kubectl patch --patch-file`.
    Kubernetes { file: PathBuf, container: String },
}

/// Why a receipt cannot be applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// There is nothing to apply, or this form cannot express it.
    #[error("{why}")]
    Refused {
        why: String,
        /// Advice for the user.
        help: String,
    },
    /// The kernel refused.
    #[error(transparent)]
    Sys(#[from] SysError),
    /// The record cannot be kept.
    #[error(transparent)]
    State(#[from] pagewise_kernel::dirs::DirError),
}

impl From<PathError> for ApplyError {
    fn from(error: PathError) -> Self {
        let PathError::Doubtful { at, why } = error else { return Self::Sys(error.into()) };
        let help = match why {
            PathDoubt::Foreign(_) => {
                "run this as that user (not by sudo), or give another place".into()
            }
            PathDoubt::Open | PathDoubt::Group(_) => {
                format!("chmod go-w {}, or give another place", at.display())
            }
        };
        Self::refused(format!("{} {why}", at.display()), help)
    }
}

impl From<RemedyError> for ApplyError {
    fn from(error: RemedyError) -> Self {
        Self::refused(error.to_string(), "measure again on this machine: pagewise tune -- CMD")
    }
}

impl ApplyError {
    pub(crate) fn refused(why: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Refused { why: why.into(), help: help.into() }
    }

    /// Advice for the user, if any.
    #[must_use]
    pub fn help(&self) -> Option<String> {
        match self {
            Self::Refused { help, .. } => Some(help.clone()),
            Self::Sys(error) if error.is_permission() => {
                Some("use an account that may write there, or another place".to_owned())
            }
            Self::Sys(_) => None,
            Self::State(error) => Some(error.help()),
        }
    }
}

/// The part of a run that is applied.
struct AppliedArm<'a> {
    run: &'a SavedRun,
    arm: &'a str,
    doses: Vec<RemedyDose>,
    list: String,
    command: Vec<OsString>,
    here: ReceiptConditions,
}

/// Builds the file that applies the receipt of `run` in `place`, without writing it. `pagewise` is the file
/// of this program; `quote` quotes a word for a shell.
///
/// # Errors
/// When the run has nothing to keep, or the place cannot express it.
pub fn plan(
    run: &SavedRun,
    place: &ApplyPlace,
    pagewise: &Path,
    quote: fn(&[u8]) -> String,
    is_likely_enough: bool,
) -> Result<FileChange, ApplyError> {
    let kept = kept(run, pagewise, is_likely_enough)?;
    let (command, here) = (&kept.command[..], &kept.here);
    let input = match &run.spec {
        Some(spec) => spec.input.path(),
        None => run.input.as_deref().map(Path::new),
    };
    let tested = run.receipt.as_ref().map_or("", |receipt| &receipt.command);
    let system = tested.contains(" run --system ");
    let start = TestedStart { command, input, here, system, quote };
    match place {
        ApplyPlace::Systemd { unit, units, of_user } => {
            drop_in(&kept, &start, unit, units, *of_user)
        }
        ApplyPlace::Wrapper { directory } => wrapper(&kept, &start, directory),
        ApplyPlace::EnvironmentFile { file } => environment_file(&kept, &start, file),
        ApplyPlace::Compose { file, service } => compose(&kept, &start, file, service),
        ApplyPlace::Kubernetes { file, container } => kubernetes(&kept, &start, file, container),
    }
}

/// The arm that the receipt of `run` is for.
fn kept<'a>(
    run: &'a SavedRun,
    pagewise: &Path,
    is_likely_enough: bool,
) -> Result<AppliedArm<'a>, ApplyError> {
    let nothing = |why: &str| {
        let why = format!("run `{}` keeps nothing: {why}", run.id);
        ApplyError::refused(why, "pagewise history lists the runs; show RUN prints one")
    };
    let arm = match &run.outcome {
        Some(SessionOutcome::Proven { keep }) => keep.first(),
        Some(SessionOutcome::Likely { arms }) if is_likely_enough => arms.first(),
        Some(SessionOutcome::Likely { .. }) => {
            return Err(ApplyError::refused(
                format!("run `{}` has a likely gain, not a proven one", run.id),
                format!(
                    "pagewise tune --continue {} may prove it; --likely applies it all the same",
                    run.id
                ),
            ));
        }
        _ => None,
    };
    let arm = arm.ok_or_else(|| nothing("it has no proven gain"))?;
    let saved = run
        .doses_of(arm)
        .ok_or_else(|| nothing("its best arm is a command of yours, no remedy"))?;
    let doses = derived(saved, &machine())?;
    let (command, directory) = match &run.spec {
        Some(spec) if spec.directory.is_absolute() => {
            (spec.command.clone(), spec.directory.clone())
        }
        _ => (
            run.command.iter().map(OsString::from).collect(),
            std::env::current_dir().unwrap_or_default(),
        ),
    };
    let here = ReceiptConditions {
        environment: run.environment.iter().map(|(n, v)| (n.into(), v.into())).collect(),
        pagewise: pagewise.to_owned(),
        in_path: false,
        program: program(&command, &directory)?,
        directory,
    };
    let list = plan::list(&doses);
    Ok(AppliedArm { run, arm, doses, list, command, here })
}

/// The file of the program, found as the session found it, without any wrapper.
fn program(command: &[OsString], directory: &Path) -> Result<PathBuf, ApplyError> {
    let named = command.first().map(Path::new).filter(|path| path.components().count() > 1);
    Ok(match named {
        Some(path) => directory.join(path),
        None => {
            let wrappers = record::wrappers()?;
            ProgramLaunch::experiment(command.to_vec()).file_beyond(&wrappers).unwrap_or_default()
        }
    })
}

impl AppliedArm<'_> {
    fn change(&self, file: &Path, content: String) -> Result<FileChange, ApplyError> {
        let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        let name = absolute.to_str().ok_or_else(|| {
            ApplyError::refused(
                format!("the path {} is not UTF-8", file.display()),
                "use another name",
            )
        })?;
        // Before anything in that directory is read.
        record::place_of(&absolute, MissingNamePolicy::Ends)?;
        Ok(FileChange {
            run: self.run.id.clone(),
            arm: self.arm.to_owned(),
            file: name.to_owned(),
            content,
            mode: 0o644,
            next: Vec::new(),
            next_after_undo: Vec::new(),
            warnings: Vec::new(),
        })
    }

    /// The first line of every file.
    fn head(&self) -> String {
        format!(
            "# pagewise: {} of run {}. To go back: pagewise apply --undo\n",
            in_comment(self.arm),
            in_comment(&self.run.id)
        )
    }
}

fn drop_in(
    kept: &AppliedArm<'_>,
    start: &TestedStart<'_>,
    unit: &str,
    units: &Path,
    of_user: bool,
) -> Result<FileChange, ApplyError> {
    let unit = unit_name(unit)?;
    let receipt = receipt::write(&kept.doses, start);
    if receipt.systemd.is_empty() {
        let why = receipt.notes.iter().find(|note| note.starts_with("no systemd drop-in"));
        let why = why.map_or("this receipt has no systemd drop-in", String::as_str);
        return Err(ApplyError::refused(why, "use --wrapper"));
    }
    let file = units.join(format!("{unit}.d")).join(DROP_IN);
    let settings = all_of(&kept.doses);
    let started = trust::StartedProgram {
        pagewise: receipt
            .systemd
            .iter()
            .any(|line| line.starts_with("ExecStart=/"))
            .then_some(&*kept.here.pagewise),
        program: &kept.here.program,
        variables: &start.variables(&settings, true),
    };
    let warnings = trust::warnings(&started, !of_user)?;
    let mut change = kept.change(&file, kept.head() + &receipt.systemd.join("\n") + "\n")?;
    let systemctl = if of_user { "systemctl --user" } else { "systemctl" };
    change.warnings = warnings;
    change.next = vec![
        format!("{systemctl} daemon-reload"),
        format!("{systemctl} restart {}", start.quoted(&unit)),
    ];
    change.next_after_undo.clone_from(&change.next);
    Ok(change)
}

/// Completes `NAME` to `NAME.service`.
fn unit_name(name: &str) -> Result<String, ApplyError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ":-_.\\@".contains(c);
    if name.is_empty() || !name.chars().all(is_plain) || name.starts_with('.') {
        return Err(ApplyError::refused(
            format!("`{name}` is not the name of a unit"),
            "give it as systemctl lists it, such as redis-server.service",
        ));
    }
    match name.rsplit_once('.') {
        Some((_, "service")) => Ok(name.to_owned()),
        Some((_, kind)) if OTHER_UNITS.contains(&kind) => {
            Err(ApplyError::refused(format!("`{name}` is not a service"), "name the service"))
        }
        _ => Ok(format!("{name}.service")),
    }
}

fn wrapper(
    kept: &AppliedArm<'_>,
    start: &TestedStart<'_>,
    directory: &Path,
) -> Result<FileChange, ApplyError> {
    let program = &kept.here.program;
    let name = program.file_name().ok_or_else(|| {
        ApplyError::refused("the program of this run is not found", "run it where it is installed")
    })?;
    if SHELLS.iter().any(|shell| name == *shell) {
        return Err(ApplyError::refused(
            format!("a wrapper called {} would change every script", name.display()),
            format!("use the line in your script: {}", receipt::write(&kept.doses, start).command),
        ));
    }
    let file = directory.join(name);
    if same_file(&file, program) {
        return Err(ApplyError::refused(
            format!("{} is the program itself", file.display()),
            "give a directory that comes before it in PATH",
        ));
    }
    let line = start.script(&kept.list, &all_of(&kept.doses));
    let mut change = kept.change(&file, format!("#!/bin/sh\n{}exec {line}\n", kept.head()))?;
    change.mode = 0o755;
    let started = trust::StartedProgram {
        pagewise: Some(&kept.here.pagewise),
        program,
        variables: &start.variables(&all_of(&kept.doses), true),
    };
    change.warnings = trust::warnings(&started, false)?;
    let absolute = Path::new(&change.file).parent().unwrap_or(directory);
    change.next = vec![format!("export PATH={}:\"$PATH\"", start.quoted(absolute))];
    Ok(change)
}

fn same_file(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

fn environment_file(
    kept: &AppliedArm<'_>,
    start: &TestedStart<'_>,
    file: &Path,
) -> Result<FileChange, ApplyError> {
    let settings = all_of(&kept.doses);
    if !environment_alone(&settings) {
        return Err(ApplyError::refused(
            format!("environment variables are not enough for {}", kept.list),
            "use --wrapper or --systemd",
        ));
    }
    let mut content = kept.head();
    for (name, value) in start.variables(&settings, true) {
        let line = plain_assignment(&name, &value).ok_or_else(|| {
            ApplyError::refused(
                format!("an environment file cannot hold the value of {}", name.display()),
                "use --wrapper or --systemd",
            )
        })?;
        content.push_str(&line);
    }
    let mut change = kept.change(file, content)?;
    let file = start.quoted(&change.file);
    change.next = vec![
        format!("docker run --env-file {file} IMAGE"),
        format!("systemd: EnvironmentFile={}", change.file),
    ];
    Ok(change)
}

/// A line that docker, which takes everything literally, and systemd, which unquotes, read alike; `None` if
/// there is none.
fn plain_assignment(name: &OsString, value: &OsString) -> Option<String> {
    let (name, value) = (name.to_str()?, value.to_str()?);
    let is_odd = |c: char| c.is_control() || "\"'\\`".contains(c);
    let is_plain = !value.contains(is_odd) && value.trim() == value;
    is_plain.then(|| format!("{name}={value}\n"))
}

fn container_lines(
    kept: &AppliedArm<'_>,
    start: &TestedStart<'_>,
    name: &str,
) -> Result<plan::ContainerLines, ApplyError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || !name.chars().all(is_plain) {
        let help = "give it as your Compose file or pod names it";
        return Err(ApplyError::refused(format!("`{name}` is not the name of a container"), help));
    }
    containers::lines(&kept.doses, start).map_err(|why| {
        ApplyError::refused(format!("no lines for containers: {why}"), "use --wrapper in the image")
    })
}

fn compose(
    kept: &AppliedArm<'_>,
    start: &TestedStart<'_>,
    file: &Path,
    service: &str,
) -> Result<FileChange, ApplyError> {
    let lines = container_lines(kept, start, service)?.compose;
    let named = |line: &String| {
        if line == "  NAME:" { format!("  {}:", yaml_string(service)) } else { line.clone() }
    };
    let lines: Vec<String> = lines.iter().map(named).collect();
    let mut change = kept.change(file, kept.head() + &lines.join("\n") + "\n")?;
    let file = start.quoted(&change.file);
    change.next = vec![format!("docker compose -f compose.yaml -f {file} up -d")];
    change.next_after_undo = vec!["docker compose -f compose.yaml up -d".to_owned()];
    Ok(change)
}

fn kubernetes(
    kept: &AppliedArm<'_>,
    start: &TestedStart<'_>,
    file: &Path,
    container: &str,
) -> Result<FileChange, ApplyError> {
    if !is_label(container) {
        let why = format!("`{container}` is not the name of a container in Kubernetes");
        let help = "use up to 63 small letters, digits and -, as your pod names it";
        return Err(ApplyError::refused(why, help));
    }
    let lines = container_lines(kept, start, container)?.kubernetes;
    let mut content = kept.head();
    content.push_str("spec:\n  template:\n    spec:\n      containers:\n");
    content.push_str(&format!("      - name: {}\n", yaml_string(container)));
    for line in &lines {
        content.push_str(&format!("        {line}\n"));
    }
    let mut change = kept.change(file, content)?;
    let file = start.quoted(&change.file);
    change.next = vec![format!("kubectl patch deployment NAME --patch-file {file}")];
    change.next_after_undo = vec!["kubectl rollout undo deployment NAME".to_owned()];
    Ok(change)
}

/// The name of the systemd unit that a drop-in belongs to.
pub(crate) fn unit_of(change: &FileChange) -> Option<(&str, &Path)> {
    let file = Path::new(&change.file);
    let directory = file.parent().filter(|_| file.ends_with(DROP_IN))?;
    let unit = directory.file_name()?.to_str()?.strip_suffix(".d")?;
    Some((unit, directory.parent()?))
}
