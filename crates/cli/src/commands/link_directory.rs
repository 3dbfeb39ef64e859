//! The tools under their usual names: symbolic links in a directory that the user chose.
//!
//! Each link points to the program of the tools ([`tool_program`]), which selects the tool by the name it is
//! started under. Nothing else is changed, so removing the links undoes everything. A link belongs to pagewise
//! if it points to a file of that program's name or called `pagewise`. Any other entry under a requested name
//! is an error, found before the first link is made. `symlink(2)` never overwrites. A link is replaced by
//! `rename(2)`, so its name is never missing.

use crate::failure::CommandFailure;
use pagewise_kernel::{link, tool_program};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// What a directory holds under a name.
#[derive(Debug, PartialEq, Eq)]
enum LinkEntry {
    Nothing,
    /// A link to the program of the tools.
    Ours,
    /// A link to this pagewise, which is not that program.
    ThisPagewise,
    /// A link to a file of another pagewise, which may no longer exist.
    OtherPagewise(PathBuf),
    Foreign,
}

/// What was done with a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkOutcome {
    Made,
    /// Replaced a link to another pagewise.
    Replaced,
    /// It existed already.
    Kept,
    Removed,
    /// No link to pagewise: left unchanged.
    Left,
}

/// A directory for links to a program.
#[derive(Debug)]
pub(crate) struct LinkDirectory {
    /// Absolute and without symbolic links, as PATH needs it.
    pub(crate) directory: PathBuf,
    /// The file that the links point to.
    pub(crate) program: PathBuf,
    this_pagewise: PathBuf,
}

impl LinkDirectory {
    /// Links to the tools of the running program, in an existing directory.
    pub(crate) fn to_tools(directory: &Path) -> Result<Self, CommandFailure> {
        let refused =
            |why: String| CommandFailure::usage(format!("{}: {why}", directory.display()));
        let found = directory.canonicalize().map_err(|error| {
            refused(error.to_string()).with_help(format!("mkdir -p {}", directory.display()))
        })?;
        if !found.is_dir() {
            return Err(refused("not a directory".to_owned()));
        }
        if found.as_os_str().as_bytes().contains(&b':') {
            let failure = refused("PATH separates directories by `:`".to_owned());
            return Err(failure.with_help("choose a directory without `:` in its name"));
        }
        let unknown =
            |error| CommandFailure::usage(format!("cannot find this program's own file: {error}"));
        let program = tool_program::path().map_err(unknown)?;
        let this_pagewise = std::env::current_exe().map_err(unknown)?;
        Ok(Self { directory: found, program, this_pagewise })
    }

    fn entry(&self, name: &str) -> Result<LinkEntry, CommandFailure> {
        let path = self.directory.join(name);
        let target = match path.read_link() {
            Ok(target) => self.directory.join(target),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(LinkEntry::Nothing),
            // EINVAL: the entry exists but is no link.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                return Ok(LinkEntry::Foreign);
            }
            Err(error) => return Err(failed("readlink", &path, &error)),
        };
        let leads_to = |file: &Path| target.canonicalize().is_ok_and(|target| target == file);
        let is_pagewise =
            tool_program::NAMES.map(OsStr::new).map(Some).contains(&target.file_name());
        Ok(match is_pagewise {
            _ if leads_to(&self.program) => LinkEntry::Ours,
            _ if leads_to(&self.this_pagewise) => LinkEntry::ThisPagewise,
            true => LinkEntry::OtherPagewise(target),
            false => LinkEntry::Foreign,
        })
    }

    /// Makes links of all these names, or none. With `force`, replaces links to another pagewise.
    pub(crate) fn make(
        &self,
        names: &[&'static str],
        force: bool,
    ) -> Result<Vec<(PathBuf, LinkOutcome)>, CommandFailure> {
        let mut wanted = Vec::new();
        for name in names {
            let path = self.directory.join(name);
            let done = match self.entry(name)? {
                LinkEntry::Nothing => LinkOutcome::Made,
                LinkEntry::Ours => LinkOutcome::Kept,
                LinkEntry::ThisPagewise => LinkOutcome::Replaced,
                LinkEntry::OtherPagewise(_) if force => LinkOutcome::Replaced,
                LinkEntry::OtherPagewise(other) => {
                    let (path, other) = (path.display(), other.display());
                    return Err(CommandFailure::usage(format!(
                        "{path} links to another one, {other}"
                    ))
                    .with_help("--force replaces it"));
                }
                LinkEntry::Foreign => {
                    return Err(CommandFailure::usage(format!(
                        "{} is not a link to pagewise",
                        path.display()
                    ))
                    .with_help("choose a separate directory for the links"));
                }
            };
            wanted.push((path, done));
        }
        for (at, (path, done)) in wanted.iter().enumerate() {
            if let Err(failure) = self.put(path, *done) {
                // Removes the links that this call made before.
                for (path, _) in wanted[..at].iter().filter(|(_, done)| *done == LinkOutcome::Made)
                {
                    let _gone = std::fs::remove_file(path);
                }
                return Err(failure);
            }
        }
        Ok(wanted)
    }

    fn put(&self, path: &Path, done: LinkOutcome) -> Result<(), CommandFailure> {
        if done == LinkOutcome::Made {
            return symlink(&self.program, path).map_err(|error| failed("symlink", path, &error));
        }
        if done != LinkOutcome::Replaced {
            return Ok(());
        }
        link::replace(&self.program, path).map_err(|error| failed(error.call, path, &error.source))
    }

    /// Removes the links of these names that point to this or another pagewise.
    pub(crate) fn remove(
        &self,
        names: &[&'static str],
    ) -> Result<Vec<(PathBuf, LinkOutcome)>, CommandFailure> {
        let mut done = Vec::new();
        for name in names {
            let path = self.directory.join(name);
            match self.entry(name)? {
                LinkEntry::Nothing => {}
                LinkEntry::Foreign => done.push((path, LinkOutcome::Left)),
                LinkEntry::Ours | LinkEntry::ThisPagewise | LinkEntry::OtherPagewise(_) => {
                    std::fs::remove_file(&path).map_err(|error| failed("unlink", &path, &error))?;
                    done.push((path, LinkOutcome::Removed));
                }
            }
        }
        Ok(done)
    }

    /// Whether a shell with this PATH finds the links of all these names.
    pub(crate) fn are_found(&self, names: &[&'static str], path: &OsStr) -> bool {
        let first = |name: &&str| {
            std::env::split_paths(path).find(|directory| directory.join(name).is_file())
        };
        let is_here = |directory: PathBuf| {
            directory.canonicalize().is_ok_and(|found| found == self.directory)
        };
        names.iter().all(|name| first(name).is_some_and(is_here))
    }
}

fn failed(call: &str, path: &Path, error: &io::Error) -> CommandFailure {
    CommandFailure::usage(format!("{call} {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 2] = ["cat", "tee"];

    fn links(place: &Path) -> LinkDirectory {
        let directory = place.join("links");
        std::fs::create_dir(&directory).unwrap();
        let [program, this_pagewise] = tool_program::NAMES.map(|name| {
            let path = place.join(name);
            std::fs::write(&path, "").unwrap();
            path.canonicalize().unwrap()
        });
        LinkDirectory { directory: directory.canonicalize().unwrap(), program, this_pagewise }
    }

    fn done(outcome: &[(PathBuf, LinkOutcome)]) -> Vec<LinkOutcome> {
        outcome.iter().map(|(_, done)| *done).collect()
    }

    #[test]
    fn links_are_made_once_and_all_of_them_go() {
        let place = tempfile::tempdir().unwrap();
        let links = links(place.path());
        assert_eq!(
            done(&links.make(&NAMES, false).unwrap()),
            [LinkOutcome::Made, LinkOutcome::Made]
        );
        assert_eq!(
            done(&links.make(&NAMES, true).unwrap()),
            [LinkOutcome::Kept, LinkOutcome::Kept]
        );
        assert!(links.are_found(&NAMES, links.directory.as_os_str()));
        let path = std::env::join_paths([place.path(), links.directory.as_path()]).unwrap();
        assert!(links.are_found(&NAMES, &path));
        std::fs::write(place.path().join("tee"), "").unwrap();
        assert!(!links.are_found(&NAMES, &path));
        assert_eq!(
            done(&links.remove(&NAMES).unwrap()),
            [LinkOutcome::Removed, LinkOutcome::Removed]
        );
        assert_eq!(links.directory.read_dir().unwrap().count(), 0);
        assert!(links.remove(&NAMES).unwrap().is_empty());
    }

    #[test]
    fn what_is_not_ours_stays_and_nothing_is_made_beside_it() {
        let place = tempfile::tempdir().unwrap();
        let links = links(place.path());
        let tee = links.directory.join("tee");
        for make in [
            |tee: &Path| std::fs::write(tee, "theirs"),
            |tee: &Path| symlink("/usr/bin/tee", tee),
            |tee: &Path| std::fs::create_dir(tee),
        ] {
            make(&tee).unwrap();
            for force in [false, true] {
                assert!(
                    links
                        .make(&NAMES, force)
                        .unwrap_err()
                        .to_string()
                        .contains("not a link to pagewise")
                );
            }
            assert!(!links.directory.join("cat").exists());
            assert_eq!(done(&links.remove(&NAMES).unwrap()), [LinkOutcome::Left]);
            assert!(tee.symlink_metadata().is_ok());
            std::fs::remove_file(&tee).or_else(|_| std::fs::remove_dir(&tee)).unwrap();
        }
    }

    #[test]
    fn a_link_to_this_pagewise_is_replaced_by_one_to_its_tools() {
        let place = tempfile::tempdir().unwrap();
        let links = links(place.path());
        let cat = links.directory.join("cat");
        symlink(&links.this_pagewise, &cat).unwrap();
        assert_eq!(done(&links.make(&["cat"], false).unwrap()), [LinkOutcome::Replaced]);
        assert_eq!(cat.read_link().unwrap(), links.program);
        symlink(&links.this_pagewise, links.directory.join("tee")).unwrap();
        assert_eq!(
            done(&links.remove(&NAMES).unwrap()),
            [LinkOutcome::Removed, LinkOutcome::Removed]
        );
    }

    #[test]
    fn a_link_to_another_pagewise_is_replaced_when_forced() {
        let place = tempfile::tempdir().unwrap();
        let links = links(place.path());
        let cat = links.directory.join("cat");
        symlink("/gone/pagewise", &cat).unwrap();
        let reported = links.make(&NAMES, false).unwrap_err().to_string();
        assert!(reported.contains("/gone/pagewise"), "{reported}");
        assert_eq!(
            done(&links.make(&NAMES, true).unwrap()),
            [LinkOutcome::Replaced, LinkOutcome::Made]
        );
        assert_eq!(cat.read_link().unwrap(), links.program);
        assert_eq!(links.directory.read_dir().unwrap().count(), 2);
    }
}
