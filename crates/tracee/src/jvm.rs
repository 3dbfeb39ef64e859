//! Adds options for Java programs before those of the user, so that the user's win.
//!
//! The launcher `java` gets them as its first arguments. Any other program may start a JVM, so it gets them
//! in `JAVA_TOOL_OPTIONS`. Every JVM below it reads that variable and reports it in one line on standard
//! error.
//!
//! Not seen: JVMs whose launcher is not linked to `libjli` (a program that loads `libjvm` by itself) count as
//! other programs; so do launchers such as `javac`, since they take options in another form.

use crate::elf;
use crate::environment::{Variables, set, value};
use pagewise_model::look::Allocator;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The variable from which every JVM takes options.
pub const VARIABLE: &str = "JAVA_TOOL_OPTIONS";

/// Whether `path` has the name of the launcher, in any directory.
#[must_use]
pub fn is_launcher_name(path: &Path) -> bool {
    path.file_name() == Some(OsStr::new("java"))
}

/// Whether `file` is the launcher `java`, or a link to it.
fn is_launcher(file: &Path) -> bool {
    let found = file.canonicalize().ok().filter(|file| is_launcher_name(file));
    let seen = found.and_then(|file| elf::of_executable(&file).ok());
    seen.is_some_and(|seen| seen.allocator == Allocator::Hotspot)
}

/// `argv` of the program `file`, with `options` inserted if it accepts them; otherwise they go into `env`.
pub(crate) fn put(
    options: &[String],
    file: &Path,
    argv: &[OsString],
    env: &mut Variables,
) -> Vec<OsString> {
    let mut words = argv.to_vec();
    if options.is_empty() {
        return words;
    }
    if is_launcher(file) && !words.is_empty() {
        words.splice(1..1, options.iter().map(OsString::from));
    } else {
        put_in_environment(options, env);
    }
    words
}

/// Puts `options` into the variable, before its current content.
pub fn put_in_environment(options: &[String], env: &mut Variables) {
    if options.is_empty() {
        return;
    }
    let mut all = OsString::from(options.join(" "));
    if let Some(own) = value(env, VARIABLE).filter(|own| !own.is_empty()) {
        all.push(" ");
        all.push(own);
    }
    set(env, VARIABLE, all);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Vec<String> {
        vec!["-XX:+UseTransparentHugePages".to_owned()]
    }

    #[test]
    fn other_programs_get_them_in_front_of_what_the_variable_holds() {
        let argv: Vec<OsString> = ["sh", "run.sh"].map(OsString::from).into();
        let mut env: Variables = Vec::new();
        assert_eq!(put(&options(), Path::new("/bin/sh"), &argv, &mut env), argv);
        assert_eq!(env, [(VARIABLE.into(), "-XX:+UseTransparentHugePages".into())]);
        env[0].1 = "-Dx=1".into();
        put_in_environment(&options(), &mut env);
        assert_eq!(env, [(VARIABLE.into(), "-XX:+UseTransparentHugePages -Dx=1".into())]);
        put_in_environment(&[], &mut env);
        assert_eq!(env.len(), 1);
    }

    #[test]
    fn a_name_does_not_make_a_launcher() {
        assert!(is_launcher_name(Path::new("/opt/jdk/bin/java")));
        assert!(!is_launcher_name(Path::new("/opt/jdk/bin/javac")));
        let dir = tempfile::tempdir().unwrap();
        let other = dir.path().join("java");
        std::fs::copy("/bin/sh", &other).unwrap();
        assert!(!is_launcher(&other));
        assert!(!is_launcher(&dir.path().join("none")));
    }
}
