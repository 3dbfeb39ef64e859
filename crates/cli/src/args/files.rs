//! Files that a result is also written to.

use crate::failure::CommandFailure;
use crate::store;
use clap::Args;
use pagewise_model::run::SavedRun;
use rustix::fs::Access;
use std::path::{Path, PathBuf};

/// The saved run, and the page.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SaveArgs {
    /// Also save the run to FILE
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    #[command(flatten)]
    page: HtmlArgs,
}

impl SaveArgs {
    /// Refuses files that cannot be written: nobody should learn that after a long run.
    pub(crate) fn check(&self) -> Result<(), CommandFailure> {
        self.save.as_deref().map_or(Ok(()), check).and_then(|()| self.page.check())
    }

    /// Writes both. One that cannot be written does not keep the other from being written.
    pub(crate) fn write(&self, run: &SavedRun) -> Result<(), CommandFailure> {
        let save = |path: &PathBuf| store::write_private(path, &run.to_json());
        let saved = self.save.as_ref().map_or(Ok(()), save);
        self.page.write(|| pagewise_report::html(run)).and(saved)
    }
}

/// The page.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct HtmlArgs {
    /// Also write the report to FILE as an HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl HtmlArgs {
    /// Refuses a file that cannot be written.
    pub(crate) fn check(&self) -> Result<(), CommandFailure> {
        self.html.as_deref().map_or(Ok(()), check)
    }

    /// Writes the page, if asked for.
    pub(crate) fn write(&self, page: impl Fn() -> String) -> Result<(), CommandFailure> {
        self.html.as_ref().map_or(Ok(()), |path| store::write_whole(path, &page()))
    }
}

fn check(path: &Path) -> Result<(), CommandFailure> {
    let refused = |why: std::io::Error| {
        CommandFailure::usage(format!("cannot save `{}`: {why}", path.display()))
            .with_help("name a file in a directory that you may write to")
    };
    let directory = match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => path,
    };
    let place = match std::fs::metadata(path) {
        Ok(there) if there.is_dir() => {
            return Err(refused(std::io::ErrorKind::IsADirectory.into()));
        }
        Ok(there) if !there.is_file() => path,
        _ => directory,
    };
    rustix::fs::access(place, Access::WRITE_OK).map_err(|errno| refused(errno.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_cannot_be_written_are_refused_before_a_run() {
        let page = |html: &str| HtmlArgs { html: Some(html.into()) };
        let files = |html: &str| SaveArgs { save: None, page: page(html) };
        let directory = tempfile::tempdir().expect("a directory");
        let inside = directory.path().join("page.html");
        assert!(files(inside.to_str().expect("UTF-8")).check().is_ok());
        assert!(files("/dev/null").check().is_ok() && SaveArgs::default().check().is_ok());
        for bad in ["/", "/nowhere/page.html", directory.path().to_str().expect("UTF-8")] {
            assert!(files(bad).check().is_err(), "{bad}");
        }
    }
}
