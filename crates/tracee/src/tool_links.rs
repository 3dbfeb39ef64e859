//! Provides the tools of a pipeline to the tree: a directory of links in front of PATH.
//!
//! `execvp(3)`, shells and the libraries of other languages search a name without a slash in the directories
//! of PATH, in order; the first match wins. Each link has the name of a tool and leads to the program of the
//! tools (`kernel::tool_program`), which selects the tool by that name.
//!
//! The directory is in the user's cache (`kernel::dirs::links_dir`), one for each combination of that
//! program and tools, and stays. A start creates missing links and corrects wrong ones, each link atomically
//! (`kernel::link`). So whatever an interrupted start leaves, the next one can use or repair. The directory
//! belongs to the owner alone, and no other account can replace it or anything above it
//! (`kernel::trusted_path`). So no other user can put a program under the path that PATH names, not even in
//! the middle of a run. Root with the home of a user has it in root's own home. A process of the tree that
//! has become another user cannot enter it. It skips the directory like any other PATH directory that it
//! cannot enter, and finds the system's tools. That also holds if that user could not run pagewise.
//!
//! The kernel reports whether a tool was started or a library preloaded ([`StartWatch`]).
//!
//! Not seen: processes that set PATH themselves or name a tool by its path; they run what they ran before.
//!
//! Overhead before the program starts: a look at the program of the tools, two walks to directories (some 10 us
//! each) and a `readlink` for each tool. Later: one more failing call for each search of the tree for another
//! program.

use crate::launch_error::LaunchError;
use crate::program::{self, DEFAULT_PATH};
use pagewise_kernel::opens::OpenWatch;
use pagewise_kernel::{dirs, link, tool_program};
use pagewise_model::plan::{ArmSettings, PipelineTool};
use std::ffi::{OsStr, OsString};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Separator of the directories in PATH.
const SEPARATOR: u8 = b':';

/// Creates and fills the directory with the links to these tools; `None` without tools.
pub(crate) fn directory(tools: &[PipelineTool]) -> Result<Option<PathBuf>, LaunchError> {
    if tools.is_empty() {
        return Ok(None);
    }
    let program = tool_program()?;
    let directory = dirs::links_dir(&key(&program, tools))
        .map_err(|error| LaunchError::Tools { why: format!("{error}; {}", error.help()) })?;
    fill(&directory, &program, tools)?;
    Ok(Some(directory))
}

/// The search path of a program whose tree is to find the tools of `directory`. The user's is `path`, which
/// is returned unchanged without a directory.
pub(crate) fn search_path(
    directory: Option<&Path>,
    path: Option<&OsStr>,
) -> Result<Option<OsString>, LaunchError> {
    match directory {
        Some(directory) => in_front(directory, path).map(Some),
        None => Ok(path.map(OsStr::to_owned)),
    }
}

/// The program of the tools. Others must be able to run it, so it must still exist, and must not grant extra
/// rights, which each tool would get.
fn tool_program() -> Result<PathBuf, LaunchError> {
    let file = tool_program::path()
        .map_err(|error| LaunchError::call("readlink", "/proc/self/exe", &error))?;
    program::check(&file, &file.to_string_lossy(), None)
        .map_err(|error| LaunchError::Tools { why: error.to_string() })?;
    Ok(file)
}

fn names(tools: &[PipelineTool]) -> String {
    let chosen = PipelineTool::ALL.into_iter().filter(|tool| tools.contains(tool));
    chosen.map(<&str>::from).collect::<Vec<_>>().join("+")
}

/// Name of the directory: the same for each start of this file with these tools.
fn key(program: &Path, tools: &[PipelineTool]) -> String {
    let mut hasher = DefaultHasher::new();
    program.as_os_str().as_bytes().hash(&mut hasher);
    format!("{}-{:016x}", names(tools), hasher.finish())
}

/// Ensures that `directory` has a link to `program` for each tool.
fn fill(directory: &Path, program: &Path, tools: &[PipelineTool]) -> Result<(), LaunchError> {
    for tool in tools {
        let path = directory.join(tool.into_str());
        if !path.read_link().is_ok_and(|target| target == program) {
            link::replace(program, &path).map_err(|error| LaunchError::sys(&error))?;
        }
    }
    Ok(())
}

/// `directory` before the directories of `path`. An empty path means the working directory, as usual.
fn in_front(directory: &Path, path: Option<&OsStr>) -> Result<OsString, LaunchError> {
    if directory.as_os_str().as_bytes().contains(&SEPARATOR) {
        let directory = directory.display();
        let why = format!(
            "{directory} contains a `:`, which separates the directories of PATH; set XDG_CACHE_HOME to a directory without one"
        );
        return Err(LaunchError::Tools { why });
    }
    let mut all = directory.as_os_str().to_owned();
    all.push(OsStr::from_bytes(&[SEPARATOR]));
    all.push(path.unwrap_or(OsStr::new(DEFAULT_PATH)));
    Ok(all)
}

/// Detects whether files that settings make a program open were opened: the file behind the tool links, and
/// preloaded libraries.
#[derive(Debug)]
pub(crate) struct StartWatch(Vec<OpenWatch>);

impl StartWatch {
    /// Starts to watch; plain settings need no watch.
    pub(crate) fn of(settings: &ArmSettings) -> Result<Self, LaunchError> {
        let tools = (!settings.tools.is_empty()).then(tool_program).transpose()?;
        let preloaded = settings.preloaded().map(PathBuf::from);
        let opens = tools.into_iter().chain(preloaded).map(|file| OpenWatch::of(&file));
        opens.collect::<Result<_, _>>().map(Self).map_err(|error| LaunchError::sys(&error))
    }

    /// Whether there are such files and each was opened since, by any process.
    pub(crate) fn seen(&self) -> Result<bool, LaunchError> {
        let mut seen = !self.0.is_empty();
        for opens in &self.0 {
            seen &= opens.any().map_err(|error| LaunchError::sys(&error))?;
        }
        Ok(seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_made_mended_and_left_alone() {
        let place = tempfile::tempdir().unwrap();
        let program = Path::new("/opt/pagewise");
        let target = |tool: PipelineTool| place.path().join(tool.into_str()).read_link().unwrap();
        fill(place.path(), program, &[PipelineTool::Cat]).unwrap();
        assert_eq!(target(PipelineTool::Cat), program);
        let before = place.path().metadata().unwrap().modified().unwrap();
        fill(place.path(), program, &[PipelineTool::Cat]).unwrap();
        assert_eq!(place.path().metadata().unwrap().modified().unwrap(), before);
        std::fs::remove_file(place.path().join("cat")).unwrap();
        symlink("/elsewhere", place.path().join("cat")).unwrap();
        fill(place.path(), program, &PipelineTool::ALL).unwrap();
        assert_eq!(PipelineTool::ALL.map(target), [program, program]);
        assert_eq!(place.path().read_dir().unwrap().count(), 2);
    }

    #[test]
    fn each_file_and_each_set_of_tools_has_its_directory() {
        let [one, other] = ["/opt/pagewise", "/usr/bin/pagewise"].map(Path::new);
        assert_eq!(key(one, &[PipelineTool::Tee, PipelineTool::Cat]), key(one, &PipelineTool::ALL));
        assert!(key(one, &PipelineTool::ALL).starts_with("cat+tee-"));
        assert_ne!(key(one, &[PipelineTool::Cat]), key(other, &[PipelineTool::Cat]));
    }

    #[test]
    fn what_is_searched_before_is_searched_after_ours() {
        let path = |path: Option<&str>| in_front(Path::new("/ours"), path.map(OsStr::new)).unwrap();
        assert_eq!(path(Some("/a:/b")), "/ours:/a:/b");
        assert_eq!(path(Some("")), "/ours:");
        assert_eq!(path(None), "/ours:/bin:/usr/bin");
        let refused = in_front(Path::new("/o:s"), None).unwrap_err().to_string();
        assert!(refused.contains("/o:s") && refused.contains("XDG_CACHE_HOME"), "{refused}");
    }

    #[test]
    fn without_tools_nothing_is_made_and_nothing_is_looked_for() {
        let search = |path: Option<&str>| {
            search_path(directory(&[]).unwrap().as_deref(), path.map(OsStr::new)).unwrap()
        };
        assert_eq!(search(None), None);
        assert_eq!(search(Some("/a")).unwrap(), "/a");
        assert!(!StartWatch::of(&ArmSettings::default()).unwrap().seen().unwrap());
    }
}
