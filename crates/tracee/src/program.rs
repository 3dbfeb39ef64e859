//! Finds the file that a command names and whether it may be started. This is the search of `execvp(3)`, done
//! beforehand so that errors can be explained.
//!
//! A script takes its rights from its interpreter, so `#!` lines are followed as the kernel does (execve(2)).
//! An ELF file takes none from its loader. Not followed: programs that binfmt_misc starts in a file's place.
//!
//! `execve(2)` can still refuse an executable file (wrong architecture, missing interpreter). [`explain`]
//! turns that errno into a [`LaunchError`].

use crate::launch_error::LaunchError;
use pagewise_kernel::file_view::open_regular;
use pagewise_kernel::privilege::FilePrivileges;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// What `execvp(3)` searches when PATH is not set.
pub(crate) const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// A file that may be executed.
#[derive(Debug)]
pub(crate) struct ProgramFile {
    /// Path for `execve`, relative to the directory the program starts in.
    pub(crate) path: PathBuf,
    /// Text without a `#!` line: `execvp` passes it to the shell when the kernel refuses it.
    pub(crate) shell_text: bool,
}

/// The file that `name` refers to, with the search path `path`, for a start in `cwd`. The search skips the
/// files `passed`.
pub(crate) fn find(
    name: &OsStr,
    path: Option<&OsStr>,
    cwd: Option<&Path>,
    passed: &[PathBuf],
) -> Result<ProgramFile, LaunchError> {
    let shown = || name.to_string_lossy().into_owned();
    if name.is_empty() {
        return Err(LaunchError::NotFound { program: shown() });
    }
    if name.as_bytes().contains(&b'/') {
        let file = located(Path::new(name), cwd);
        let shell_text = check(&file, &shown(), cwd)?;
        return Ok(ProgramFile { path: name.into(), shell_text });
    }
    let default = OsString::from(DEFAULT_PATH);
    let mut refused = None;
    for dir in std::env::split_paths(path.unwrap_or(&default)) {
        let candidate =
            if dir.as_os_str().is_empty() { Path::new(".").join(name) } else { dir.join(name) };
        let file = located(&candidate, cwd);
        let Ok(there) = fs::metadata(&file) else {
            // May also be a PATH directory that this account cannot enter: that does not mean the command
            // exists.
            continue;
        };
        if passed.iter().any(|one| is_file(one, &there)) {
            continue;
        }
        match check(&file, &shown(), cwd) {
            Ok(shell_text) => return Ok(ProgramFile { path: candidate, shell_text }),
            Err(LaunchError::NotFound { .. }) => {}
            Err(error @ LaunchError::SetuidRefused { .. }) => return Err(error),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    Err(refused.unwrap_or_else(|| LaunchError::NotFound { program: shown() }))
}

fn is_file(path: &Path, there: &fs::Metadata) -> bool {
    fs::metadata(path).is_ok_and(|one| (one.dev(), one.ino()) == (there.dev(), there.ino()))
}

/// Location of `path` as seen from this process, when the program starts in `cwd`.
fn located(path: &Path, cwd: Option<&Path>) -> PathBuf {
    cwd.map_or_else(|| path.to_path_buf(), |dir| dir.join(path))
}

/// Checks that `file` may be executed when started in `cwd`. On success, returns whether it is text for the
/// shell.
pub(crate) fn check(file: &Path, program: &str, cwd: Option<&Path>) -> Result<bool, LaunchError> {
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
    let head = head(file);
    let what = mark(file).map(str::to_owned).or_else(|| mark_of_interpreter(&head, cwd));
    match what {
        Some(what) => Err(LaunchError::SetuidRefused { program: program.to_owned(), what }),
        None => Ok(is_shell_text(&head)),
    }
}

/// The mark by which a file gains rights. A mark that cannot be read counts as absent: a security module may
/// hide them all.
fn mark(file: &Path) -> Option<&'static str> {
    FilePrivileges::of(file).ok().and_then(FilePrivileges::mark)
}

/// The kernel follows at most this many nested interpreters (`exec_binprm`).
const INTERPRETERS: usize = 5;

/// The first interpreter that gains rights, of a file that begins with `head`, and how. The kernel takes the
/// rights of the last one only. A mark on an earlier one is still a reason not to start the file.
fn mark_of_interpreter(head: &[u8], cwd: Option<&Path>) -> Option<String> {
    let mut head = head.to_vec();
    if is_shell_text(&head) {
        head = b"#!/bin/sh".to_vec();
    }
    for _ in 0..INTERPRETERS {
        let interpreter = script_interpreter(&head)?;
        let file = located(&interpreter, cwd);
        if let Some(mark) = mark(&file) {
            return Some(format!("is run by `{}`, which {mark}", interpreter.display()));
        }
        head = self::head(&file);
    }
    None
}

/// The first bytes of the file; empty if it cannot be read.
fn head(file: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok((open, _length)) = open_regular(file) {
        // A file that cannot be read is simply not recognised as text.
        let _unreadable = open.take(256).read_to_end(&mut bytes);
    }
    bytes
}

/// Whether this is text for the shell: no NUL byte in its first bytes, not an ELF file, no `#!`.
fn is_shell_text(head: &[u8]) -> bool {
    !head.contains(&0) && !head.starts_with(b"#!") && !head.starts_with(b"\x7fELF")
}

/// Explains a refusal of `execve` for `program` at `file`.
pub(crate) fn explain(program: &str, file: &Path, errno: i32) -> LaunchError {
    let program = program.to_owned();
    match errno {
        libc::ENOENT if file.exists() => {
            let interpreter = script_interpreter(&head(file)).map_or_else(
                || "the loader named in its ELF header".to_owned(),
                |path| path.display().to_string(),
            );
            LaunchError::MissingInterpreter { program, interpreter }
        }
        libc::ENOENT | libc::ENOTDIR => LaunchError::NotFound { program },
        libc::ENOEXEC => LaunchError::NotExecutable {
            program,
            reason: "this machine cannot run its format".into(),
        },
        _ => LaunchError::NotExecutable {
            program,
            reason: std::io::Error::from_raw_os_error(errno).to_string(),
        },
    }
}

/// The path in a `#!` line.
fn script_interpreter(head: &[u8]) -> Option<PathBuf> {
    let line = head.strip_prefix(b"#!")?.split(|b| *b == b'\n' || *b == 0).next()?;
    let mut words = line.split(|b| *b == b' ' || *b == b'\t').filter(|word| !word.is_empty());
    words.next().map(|path| PathBuf::from(OsStr::from_bytes(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shebang_names_its_interpreter() {
        let read = |text: &[u8]| script_interpreter(text);
        assert_eq!(read(b"#! /usr/bin/env python3\nx"), Some("/usr/bin/env".into()));
        assert_eq!(read(b"#!\t/no/such"), Some("/no/such".into()));
        assert_eq!(read(b"#!/a\rb\0c\n"), Some("/a\rb".into()));
        assert_eq!((read(b"\x7fELF"), read(b"#! \n/x")), (None, None));
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
        let found = find(OsStr::new("sh"), Some(OsStr::new("/nonexistent:/bin")), None, &[]);
        assert_eq!(found.map(|p| p.path), Ok(PathBuf::from("/bin/sh")));
        let missing = find(OsStr::new("no-such-command"), None, None, &[]);
        assert!(matches!(missing, Err(LaunchError::NotFound { .. })), "{missing:?}");
        let directory = find(OsStr::new("/bin"), None, None, &[]);
        assert!(matches!(directory, Err(LaunchError::NotExecutable { .. })), "{directory:?}");
        let data = find(OsStr::new("/proc/version"), None, None, &[]);
        assert!(matches!(data, Err(LaunchError::NotExecutable { .. })), "{data:?}");
    }

    #[test]
    fn the_search_goes_on_behind_a_file_that_it_passes_over() {
        let place = tempfile::tempdir().unwrap();
        let [first, second] = ["first", "second"].map(|name| place.path().join(name));
        for directory in [&first, &second] {
            fs::create_dir(directory).unwrap();
            fs::write(directory.join("app"), "").unwrap();
            let permissions = fs::Permissions::from_mode(0o755);
            fs::set_permissions(directory.join("app"), permissions).unwrap();
        }
        let linked = place.path().join("linked");
        std::os::unix::fs::symlink(&first, &linked).unwrap();
        let path = std::env::join_paths([&linked, &first, &second]).unwrap();
        let found = |passed: &[PathBuf]| {
            find(OsStr::new("app"), Some(&path), None, passed).map(|program| program.path)
        };
        assert_eq!(found(&[]), Ok(linked.join("app")));
        assert_eq!(found(&[first.join("app")]), Ok(second.join("app")));
        let both = [first.join("app"), second.join("app"), place.path().join("gone")];
        assert!(matches!(found(&both), Err(LaunchError::NotFound { .. })));
        let named = find(first.join("app").as_os_str(), None, None, &both).map(|p| p.path);
        assert_eq!(named, Ok(first.join("app")), "what was named by its path was not searched for");
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
