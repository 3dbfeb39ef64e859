//! Which files a change will start or load, and which other accounts could replace them.
//!
//! A unit of the machine, or a file that root writes, runs with rights that the owner of such a file may
//! lack. So its pagewise and its preloaded libraries must belong to root alone, in directories that do too.
//! The program itself was started before the change as well, so an unsafe one is only reported. A pagewise in
//! a cargo build directory is reported: `cargo clean` removes it, and then nothing starts.
//!
//! Overhead: three calls for each path component.

use super::ApplyError;
use pagewise_kernel::file_view::open_regular;
use pagewise_kernel::trusted_path::{PathDoubt, doubt};
use pagewise_model::plan::LD_PRELOAD;
use pagewise_tracee::environment::Variables;
use std::io::Read;
use std::path::{Path, PathBuf};

/// What a change starts.
pub(super) struct StartedProgram<'a> {
    /// The file of pagewise, if it starts the program.
    pub(super) pagewise: Option<&'a Path>,
    pub(super) program: &'a Path,
    /// Variables set in its environment.
    pub(super) variables: &'a Variables,
}

const INSTALL: &str = "install pagewise where only root can write, such as /usr/local/bin";

/// Warnings about these files. `of_machine`: the change is a unit of the machine.
///
/// # Errors
/// When another account could replace pagewise or a library.
pub(super) fn warnings(
    started: &StartedProgram<'_>,
    of_machine: bool,
) -> Result<Vec<String>, ApplyError> {
    let mut warnings = Vec::new();
    if of_machine || rustix::process::geteuid().is_root() {
        if let Some(pagewise) = started.pagewise {
            refuse("pagewise", pagewise, &format!("{INSTALL}, and use that one"))?;
        }
        for library in preloaded(started.variables) {
            refuse("a preloaded library", &library, "install it by the package manager")?;
        }
        if let Some((at, why)) = doubt(started.program)? {
            let program = started.program.display();
            warnings.push(format!("it starts {program}, and {} {why}", at.display()));
        }
    }
    warnings.extend(started.pagewise.and_then(in_build));
    Ok(warnings)
}

/// Warnings about a pagewise that a unit of the machine starts.
///
/// # Errors
/// As root, when another account could replace the file.
pub fn of_unit(pagewise: &Path) -> Result<Vec<String>, ApplyError> {
    let found = doubt(pagewise)?.map(|found| said("pagewise", pagewise, &found));
    match found {
        Some(why) if rustix::process::geteuid().is_root() => {
            Err(ApplyError::refused(why, format!("{INSTALL}, and use that one")))
        }
        found => Ok(found
            .map(|why| format!("{why}; {INSTALL}"))
            .into_iter()
            .chain(in_build(pagewise))
            .collect()),
    }
}

fn refuse(what: &str, path: &Path, help: &str) -> Result<(), ApplyError> {
    match doubt(path)? {
        Some(found) => Err(ApplyError::refused(said(what, path, &found), help)),
        None => Ok(()),
    }
}

fn said(what: &str, path: &Path, (at, why): &(PathBuf, PathDoubt)) -> String {
    format!("another account could replace {what} ({}): {} {why}", path.display(), at.display())
}

/// The preloaded libraries that are given by a path.
fn preloaded(variables: &Variables) -> Vec<PathBuf> {
    let lists = variables.iter().filter(|(name, _)| name == LD_PRELOAD);
    let lists = lists.map(|(_, value)| value.to_string_lossy().into_owned());
    let named =
        lists.flat_map(|list| list.split([':', ' ']).map(PathBuf::from).collect::<Vec<_>>());
    named.filter(|path| path.is_absolute()).collect()
}

/// A warning if this program is in a directory that a build tool creates and removes.
fn in_build(pagewise: &Path) -> Option<String> {
    const TAG: &[u8; 43] = b"Signature: 8a477f597d28d172789f06886806bc55";
    let is_build = |directory: &&Path| {
        let mut tag = [0; TAG.len()];
        let read = open_regular(&directory.join("CACHEDIR.TAG"));
        let is_tag =
            read.is_ok_and(|(mut file, _)| file.read_exact(&mut tag).is_ok() && tag == *TAG);
        directory.join(".cargo-lock").exists() || is_tag
    };
    let directory = pagewise.ancestors().skip(1).find(is_build)?.display();
    Some(format!(
        "pagewise lies in the build directory {directory}, and nothing starts once that is \
         cleaned: install it first, as by `cargo install --path crates/cli`"
    ))
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test says why it is skipped")]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_build_directory_is_known_by_its_marks() {
        let place = tempfile::tempdir().unwrap();
        let pagewise = place.path().join("release/pagewise");
        assert_eq!(in_build(&pagewise), None);
        fs::create_dir(place.path().join("release")).unwrap();
        fs::write(place.path().join("release/.cargo-lock"), "").unwrap();
        assert!(in_build(&pagewise).unwrap().contains("release, and nothing starts"));
        fs::remove_file(place.path().join("release/.cargo-lock")).unwrap();
        fs::write(place.path().join("CACHEDIR.TAG"), "Signature: another").unwrap();
        assert_eq!(in_build(&pagewise), None);
        let tag = "Signature: 8a477f597d28d172789f06886806bc55\n# cargo";
        fs::write(place.path().join("CACHEDIR.TAG"), tag).unwrap();
        assert!(in_build(&pagewise).is_some());
    }

    #[test]
    fn a_unit_of_the_machine_starts_and_loads_what_is_roots() {
        if !rustix::process::geteuid().is_root() {
            return println!("SKIP a_unit_of_the_machine_starts: only root gives files away");
        }
        let place = tempfile::tempdir().unwrap();
        let theirs = place.path().canonicalize().unwrap().join("theirs");
        fs::write(&theirs, "").unwrap();
        let own = theirs.with_file_name("own");
        fs::write(&own, "").unwrap();
        std::os::unix::fs::chown(&theirs, Some(65001), None).unwrap();
        let of = |pagewise: &Path, library: &Path, program: &Path| {
            let variables =
                vec![(LD_PRELOAD.into(), format!("lib.so {}", library.display()).into())];
            let started =
                StartedProgram { pagewise: Some(pagewise), program, variables: &variables };
            warnings(&started, true).map_err(|error| error.to_string())
        };
        assert_eq!(of(&own, &own, &own), Ok(Vec::new()));
        let belongs = format!("{} belongs to another user (uid 65001)", theirs.display());
        for refused in [of(&theirs, &own, &own), of(&own, &theirs, &own), of_unit_said(&theirs)] {
            assert!(refused.unwrap_err().ends_with(&belongs));
        }
        let named = of(&own, &own, &theirs).unwrap();
        assert!(named.len() == 1 && named[0].ends_with(&belongs), "{named:?}");
    }

    fn of_unit_said(pagewise: &Path) -> Result<Vec<String>, String> {
        of_unit(pagewise).map_err(|error| error.to_string())
    }
}
