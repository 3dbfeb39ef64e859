//! What becomes of the list of faults while it comes: it is printed, or searched for a working set.

use super::working_set::Saved;
use super::{Printed, report_run};
use crate::args::Faults;
use pagewise_model::fault::{Fault, Names};
use pagewise_model::run::Run;

/// Both.
pub(super) struct Taken {
    printed: Printed,
    saved: Option<Saved>,
}

impl Taken {
    pub(super) fn new(args: &Faults) -> Self {
        let saved = args.save_working_set.as_ref().map(|to| Saved::new(to, args.exact));
        Self { printed: Printed::new(args), saved }
    }

    /// Takes a part of the list.
    pub(super) fn take(&mut self, names: &Names, faults: &[Fault]) {
        self.printed.take(names, faults);
        if let Some(saved) = &mut self.saved {
            saved.take(names, faults);
        }
    }

    /// Shows what is left to be shown, and writes what is to be kept; tells what fails.
    pub(super) fn finish(self, run: &Run, args: &Faults) {
        let shown = self.printed.finish(run).and_then(|()| report_run(run, args));
        let saved = self.saved.map_or(Ok(()), |saved| saved.write(&run.command));
        for error in [shown, saved].into_iter().filter_map(Result::err) {
            error.tell();
        }
    }
}
