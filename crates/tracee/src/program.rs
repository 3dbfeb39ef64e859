//! Which file a command means, and whether it may be started: the search of `execvp(3)` done
//! beforehand, so that what is wrong can be said in words.
//!
//! A file found executable can still be refused by `execve(2)` (wrong architecture, interpreter
//! missing); [`explain`] turns that errno into a [`LaunchError`].

use crate::launch_error::LaunchError;
use pagewise_kernel::privilege::FileRights;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What `execvp(3)` searches when PATH is not set.
pub(crate) const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// A file that may be executed.
#[derive(Debug)]
pub(crate) struct Program {
    /// Path for `execve`, relative to the directory the program starts in.
    pub(crate) path: PathBuf,
    /// Text without `#!` line: what `execvp` hands to the shell when the kernel refuses it.
    pub(crate) shell_text: bool,
}

/// The file that `name` means, with the search path `path`, for a start in `cwd`.
pub(crate) fn find(
    name: &OsStr,
    path: Option<&OsStr>,
    cwd: Option<&Path>,
) -> Result<Program, LaunchError> {
    let shown = || name.to_string_lossy().into_owned();
    if name.is_empty() {
        return Err(LaunchError::NotFound { program: shown() });
    }
    if name.as_bytes().contains(&b'/') {
        let file = located(Path::new(name), cwd);
        return check(&file, &shown()).map(|shell_text| Program { path: name.into(), shell_text });
    }
    let default = OsString::from(DEFAULT_PATH);
    let mut refused = None;
    for dir in std::env::split_paths(path.unwrap_or(&default)) {
        let candidate =
            if dir.as_os_str().is_empty() { Path::new(".").join(name) } else { dir.join(name) };
        let file = located(&candidate, cwd);
        if fs::metadata(&file).is_err() {
            // Also a directory of PATH that this account may not enter: no sign of the command.
            continue;
        }
        match check(&file, &shown()) {
            Ok(shell_text) => return Ok(Program { path: candidate, shell_text }),
            Err(LaunchError::NotFound { .. }) => {}
            Err(error @ LaunchError::SetuidRefused { .. }) => return Err(error),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    Err(refused.unwrap_or_else(|| LaunchError::NotFound { program: shown() }))
}

/// Where `path` is for us, when the program starts in `cwd`.
fn located(path: &Path, cwd: Option<&Path>) -> PathBuf {
    cwd.map_or_else(|| path.to_path_buf(), |dir| dir.join(path))
}

/// Whether `file` may be executed; on success whether it is text for the shell.
pub(crate) fn check(file: &Path, program: &str) -> Result<bool, LaunchError> {
    let no = |reason: &str| LaunchError::NotExecutable {
        program: program.to_owned(),
        reason: reason.to_owned(),
    };
    let meta = fs::metadata(file).map_err(|e| match e.raw_os_error() {
        Some(libc::ENOENT | libc::ENOTDIR) => LaunchError::NotFound { program: program.to_owned() },
        _ => no(&e.to_string()),
    })?;
    if meta.is_dir() {
        return Err(no("it is a directory"));
    }
    if !meta.is_file() {
        return Err(no("it is not a regular file"));
    }
    let access = rustix::fs::accessat(
        rustix::fs::CWD,
        file,
        rustix::fs::Access::EXEC_OK,
        rustix::fs::AtFlags::EACCESS,
    );
    if access.is_err() || meta.permissions().mode() & 0o111 == 0 {
        return Err(no("permission denied"));
    }
    // Marks that cannot be looked at are not refused: a security module may hide them all.
    if let Some(what) = FileRights::of(file).ok().and_then(FileRights::mark) {
        return Err(LaunchError::SetuidRefused { program: program.to_owned(), what: what.into() });
    }
    Ok(is_shell_text(&head(file)))
}

/// The first bytes of the file; empty where it cannot be read.
fn head(file: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(open) = fs::File::open(file) {
        // A file that cannot be read is simply not recognised as text.
        let _unreadable = open.take(256).read_to_end(&mut bytes);
    }
    bytes
}

/// Text the shell can be given: no NUL byte in its first line's reach, not an ELF file, no `#!`.
fn is_shell_text(head: &[u8]) -> bool {
    !head.contains(&0) && !head.starts_with(b"#!") && !head.starts_with(b"\x7fELF")
}

/// What a refusal of `execve` for `program` at `file` means.
pub(crate) fn explain(program: &str, file: &Path, errno: i32) -> LaunchError {
    let program = program.to_owned();
    match errno {
        libc::ENOENT if file.exists() => {
            let interpreter = script_interpreter(&head(file))
                .unwrap_or_else(|| "the loader named in its ELF header".to_owned());
            LaunchError::MissingInterpreter { program, interpreter }
        }
        libc::ENOENT | libc::ENOTDIR => LaunchError::NotFound { program },
        libc::ENOEXEC => LaunchError::NotExecutable {
            program,
            reason: "it is in no format this machine can run".into(),
        },
        _ => LaunchError::NotExecutable {
            program,
            reason: std::io::Error::from_raw_os_error(errno).to_string(),
        },
    }
}

/// The path in a `#!` line.
fn script_interpreter(head: &[u8]) -> Option<String> {
    let line = head.strip_prefix(b"#!")?.split(|b| *b == b'\n').next()?;
    let path = line.trim_ascii().split(u8::is_ascii_whitespace).next()?;
    Some(String::from_utf8_lossy(path).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shebang_names_its_interpreter() {
        let read = |text: &[u8]| script_interpreter(text);
        assert_eq!(read(b"#! /usr/bin/env python3\nx").as_deref(), Some("/usr/bin/env"));
        assert_eq!(read(b"#!/no/such").as_deref(), Some("/no/such"));
        assert_eq!(read(b"\x7fELF"), None);
    }

    #[test]
    fn only_plain_text_goes_to_the_shell() {
        assert!(is_shell_text(b"echo hello\n"));
        assert!(is_shell_text(b""));
        assert!(!is_shell_text(b"#!/bin/sh\n"));
        assert!(!is_shell_text(b"\x7fELF"));
        assert!(!is_shell_text(b"MZ\0\0"));
    }

    #[test]
    fn the_search_follows_path_and_skips_what_is_not_executable() {
        let found = find(OsStr::new("sh"), Some(OsStr::new("/nonexistent:/bin")), None);
        assert_eq!(found.map(|p| p.path), Ok(PathBuf::from("/bin/sh")));
        let missing = find(OsStr::new("no-such-command"), None, None);
        assert!(matches!(missing, Err(LaunchError::NotFound { .. })), "{missing:?}");
        let directory = find(OsStr::new("/bin"), None, None);
        assert!(matches!(directory, Err(LaunchError::NotExecutable { .. })), "{directory:?}");
        let data = find(OsStr::new("/proc/version"), None, None);
        assert!(matches!(data, Err(LaunchError::NotExecutable { .. })), "{data:?}");
    }

    #[test]
    fn refusals_of_execve_are_told_apart() {
        let missing = explain("x", Path::new("/nonexistent/x"), libc::ENOENT);
        assert_eq!(missing.exit_code(), 127);
        let foreign = explain("x", Path::new("/bin/sh"), libc::ENOEXEC);
        assert_eq!(foreign.exit_code(), 126);
        let loader = explain("x", Path::new("/bin/sh"), libc::ENOENT);
        assert!(matches!(loader, LaunchError::MissingInterpreter { .. }));
    }
}
