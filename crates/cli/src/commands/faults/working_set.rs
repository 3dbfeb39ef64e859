//! Saving the working set of a recording.

use crate::failure::Failure;
use crate::{store, terminal};
use pagewise_judge::faults::working_set::FirstTouches;
use pagewise_kernel::page_size;
use pagewise_model::fault::{Fault, Names};
use pagewise_observe::faults::working_set::identify;
use pagewise_report::quote;
use std::path::{Path, PathBuf};

/// Collects what is touched, where it is to be saved.
pub(super) struct Saved {
    to: PathBuf,
    touches: FirstTouches,
}

impl Saved {
    /// For a recording that is `exact` or not, to be saved in `to`.
    pub(super) fn new(to: &Path, exact: bool) -> Self {
        Self { to: to.to_owned(), touches: FirstTouches::new(page_size::base(), exact) }
    }

    /// Takes a part of the list of faults.
    pub(super) fn take(&mut self, names: &Names, faults: &[Fault]) {
        self.touches.take(names, faults);
    }

    /// Writes the file and says what it holds.
    pub(super) fn write(self, command: &[String]) -> Result<(), Failure> {
        let (set, left_out) = identify(command, self.touches.ranges());
        for path in left_out {
            let why = "it is not there any more, or cannot be read";
            terminal::remark(&format!("left out of the working set: {path}: {why}"));
        }
        let text = serde_json::to_string(&set)
            .map_err(|e| Failure::usage(format!("the working set cannot be written: {e}")))?;
        store::write_whole(&self.to, &(text + "\n"))?;
        let (size, files) = (set.size(), set.files.len());
        let to = quote(&self.to.to_string_lossy());
        terminal::remark(&format!("working set: {size} of {files} files saved to {to}"));
        Ok(())
    }
}
