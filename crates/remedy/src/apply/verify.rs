//! Checks a change with the format's own checker before it is written.
//!
//! systemd-analyze(1) checks a copy of the unit with the drop-in; sh(1) checks a wrapper (`-n`). For
//! environment files no such checker exists, and files for Compose and Kubernetes need the rest of what they
//! change.

use super::{ApplyError, DROP_IN, unit_of};
use pagewise_kernel::file_view::read_at_most;
use pagewise_model::Bytes;
use pagewise_model::applied::FileChange;
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Directories of units of the machine and of users, highest precedence first (systemd.unit(5)).
const OF_MACHINE: [&str; 5] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];
const OF_USERS: [&str; 4] = [
    "/etc/systemd/user",
    "/run/systemd/user",
    "/usr/local/lib/systemd/user",
    "/usr/lib/systemd/user",
];

/// Maximum size of a unit that is read.
const LARGEST: Bytes = Bytes::mib(1);

/// Result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VerifyOutcome {
    /// It accepts the change.
    Accepted { by: &'static str, note: Option<String> },
    /// Not checked, for this reason.
    Not { why: &'static str },
}

/// Checks `change` with the format's own checker.
///
/// # Errors
/// The complaints of the checker.
pub fn verify(change: &FileChange, of_user: bool) -> Result<VerifyOutcome, ApplyError> {
    if let Some((unit, units)) = unit_of(change) {
        return drop_in(change, unit, installed(unit, units, of_user), of_user);
    }
    if change.is_wrapper() {
        return script(change);
    }
    Ok(VerifyOutcome::Not { why: "this format has no reader that only checks" })
}

fn refused(by: &str, said: &str) -> ApplyError {
    let said = said.trim().lines().next().unwrap_or("no reason given").to_owned();
    ApplyError::refused(format!("{by} does not accept the change: {said}"), "nothing was written")
}

fn script(change: &FileChange) -> Result<VerifyOutcome, ApplyError> {
    const NOT: VerifyOutcome = VerifyOutcome::Not { why: "sh could not be started" };
    let mut command = Command::new("sh");
    command.arg("-n").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let Ok(mut child) = command.spawn() else { return Ok(NOT) };
    if let Some(mut input) = child.stdin.take() {
        let _ended_early = input.write_all(change.content.as_bytes());
    }
    let Ok(done) = child.wait_with_output() else { return Ok(NOT) };
    if done.status.success() {
        return Ok(VerifyOutcome::Accepted { by: "sh -n", note: None });
    }
    Err(refused("sh", &String::from_utf8_lossy(&done.stderr)))
}

/// The drop-in must not add a complaint to those that the unit causes without it.
fn drop_in(
    change: &FileChange,
    unit: &str,
    installed: Option<PathBuf>,
    of_user: bool,
) -> Result<VerifyOutcome, ApplyError> {
    let text = installed.and_then(|path| read_at_most(&path, LARGEST).ok());
    let text = text.and_then(|text| String::from_utf8(text).ok());
    let note = text.is_none().then(|| format!("no unit {unit} is installed here yet"));
    let text = text.unwrap_or_else(|| "[Service]\nExecStart=/bin/true\n".to_owned());
    let Ok((_scratch, plain, changed)) = copies(unit, &text, &change.content) else {
        return Ok(VerifyOutcome::Not { why: "no scratch directory could be written" });
    };
    let (Some(known), Some(now)) = (complaints(&plain, of_user), complaints(&changed, of_user))
    else {
        return Ok(VerifyOutcome::Not { why: "systemd-analyze is not installed" });
    };
    match now.difference(&known).next() {
        None => Ok(VerifyOutcome::Accepted { by: "systemd-analyze verify", note }),
        Some(line) => Err(refused("systemd-analyze verify", line)),
    }
}

/// Two copies of a unit, one with the drop-in, which exist as long as the returned directory.
fn copies(unit: &str, text: &str, added: &str) -> std::io::Result<(TempDir, PathBuf, PathBuf)> {
    let scratch = tempfile::tempdir()?;
    let [plain, changed] = ["plain", "changed"].map(|name| scratch.path().join(name));
    let drop_ins = changed.join(format!("{unit}.d"));
    fs::create_dir(&plain)?;
    fs::create_dir_all(&drop_ins)?;
    fs::write(plain.join(unit), text)?;
    fs::write(changed.join(unit), text)?;
    fs::write(drop_ins.join(DROP_IN), added)?;
    Ok((scratch, plain.join(unit), changed.join(unit)))
}

/// The file of a unit; for an instance, that of its template.
fn installed(unit: &str, units: &Path, of_user: bool) -> Option<PathBuf> {
    let template = unit.split_once('@').map(|(name, _)| format!("{name}@.service"));
    let names = std::iter::once(unit.to_owned()).chain(template);
    let usual: &[&str] = if of_user { &OF_USERS } else { &OF_MACHINE };
    let places: Vec<PathBuf> =
        std::iter::once(units.to_owned()).chain(usual.iter().map(PathBuf::from)).collect();
    let mut all = names.flat_map(|name| places.iter().map(move |place| place.join(&name)));
    all.find(|path| path.is_file())
}

/// The lines that systemd prints about a unit; `None` without systemd-analyze.
fn complaints(unit: &Path, of_user: bool) -> Option<BTreeSet<String>> {
    let mut command = Command::new("systemd-analyze");
    command.args(["verify", "--man=no"]).args(of_user.then_some("--user")).arg(unit);
    let done = command.stdin(Stdio::null()).output().ok()?;
    let directory = unit.parent()?.display().to_string();
    let said = String::from_utf8_lossy(&done.stderr).replace(&directory, "");
    Some(said.lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(file: &str, content: &str, mode: u32) -> FileChange {
        FileChange {
            run: "r".into(),
            arm: "place".into(),
            file: file.into(),
            content: content.into(),
            mode,
            next: Vec::new(),
            next_after_undo: Vec::new(),
            warnings: Vec::new(),
        }
    }

    #[test]
    fn a_shell_reads_a_wrapper() {
        let good = change("/bin/x", "#!/bin/sh\nexec true \"$@\"\n", 0o755);
        assert_eq!(
            verify(&good, false).unwrap(),
            VerifyOutcome::Accepted { by: "sh -n", note: None }
        );
        let bad = change("/bin/x", "#!/bin/sh\nexec true 'x\n", 0o755);
        assert!(verify(&bad, false).unwrap_err().to_string().starts_with("sh does not accept"));
        let other = change("/x.env", "A=b\n", 0o644);
        assert!(matches!(verify(&other, false).unwrap(), VerifyOutcome::Not { .. }));
    }

    #[test]
    #[allow(clippy::print_stdout, reason = "it says when it skips")]
    fn systemd_reads_a_drop_in() {
        let file = "/nowhere/pagewise-test.service.d/50-pagewise.conf";
        let good = change(file, "[Service]\nCPUAffinity=1\n", 0o644);
        let checked = verify(&good, false).unwrap();
        if let VerifyOutcome::Not { why } = checked {
            return println!("SKIP systemd-analyze verify: {why}");
        }
        assert!(matches!(checked, VerifyOutcome::Accepted { note: Some(_), .. }), "{checked:?}");
        let bad = change(file, "[Service]\nCPUAffinity=many\n", 0o644);
        let why = verify(&bad, false).unwrap_err().to_string();
        assert!(why.starts_with("systemd-analyze verify does not accept"), "{why}");
    }
}
