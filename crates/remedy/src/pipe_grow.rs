//! `pipe-grow`: gives more room to pipes that the tree creates.
//!
//! A pipe holds 16 base pages by default (pipe(7)), 64 KiB here; writer and reader wake each other once per
//! fill. `fcntl(F_SETPIPE_SZ)` on a borrowed descriptor changes that from outside, also for pipes that a
//! shell inside the program creates. The supervising process looks for full pipes every 0.2 ms at first,
//! later every 5 to 20 ms.
//!
//! A program that lends pages relies on the capacity: it reuses a page once a pipeful has followed, and
//! writes wrong bytes if another process enlarges the pipe. So the remedy is unfit if the look saw such
//! calls, and a run does not change a pipe that such a program could hold (see the rules in
//! `pagewise_tracee::pipes`). Pipes from outside the program are never touched. Unprivileged users have a
//! budget (`fs.pipe-user-pages-soft`, 64 MiB). Beyond it, new pipes of that user shrink to two pages, so at
//! most 16 MiB are taken.

use crate::remedy::{Remedy, RemedyEvidence, RemedyMechanism};
use pagewise_model::Bytes;
use pagewise_model::diagnosis::CostKind;
use pagewise_model::look::{PipeCall, PipeSeen, TracedLook};
use pagewise_model::machine::{self, Machine};
use pagewise_model::plan::{ArmSettings, RemedyCandidate, RemedyDose, WatchAction};

/// Maximum pipe memory that one run takes from the user's budget.
const BUDGET: Bytes = Bytes::mib(16);
/// Sizes tried if the evidence fits. The larger one is for bytes that pass by reference or are read once. The
/// smaller one stays within half of the second-level cache of current machines, which suits a reader that
/// processes every byte. A trial shows which one suits a program.
const TRIED: [Bytes; 2] = [Bytes::kib(256), Bytes::mib(1)];
/// Name of the watcher in reports.
pub(crate) const WATCH: &str = "grow-pipes";

pub(crate) struct PipeGrowRemedy;

impl PipeGrowRemedy {
    fn grow(&self, capacity: Bytes) -> RemedyDose {
        let watches =
            vec![WatchAction::GrowPipes { capacity_bytes: capacity, budget_bytes: BUDGET }];
        let parameter = format!("{}K", capacity.0 >> 10);
        self.with(&parameter, ArmSettings { watches, ..ArmSettings::default() })
    }
}

/// A danger that cannot be detected before the program harms itself.
const UNSEEN: &str = "do not use pipe-grow for scripts that call vmsplice by number, \
    or pass a pipe in use to a program that assumes 64 KiB";

/// Why pipes of the program must keep their capacity.
fn obstacle(traced: &TracedLook) -> Option<&'static str> {
    let made = |call| traced.pipe_calls.contains(&call);
    if made(PipeCall::Lends) {
        Some(
            "it lends pages to pipes (vmsplice) and may reuse them once a pipe's worth was read: a larger pipe could corrupt its output",
        )
    } else if made(PipeCall::AsksCapacity) || made(PipeCall::SetsCapacity) {
        Some("it reads or sets the size of its pipes, so it may rely on it")
    } else {
        None
    }
}

fn grows(pipe: &PipeSeen, default: Bytes, capacity: Bytes) -> bool {
    !pipe.inherited
        && pipe.capacity_bytes == default
        && default < capacity
        && pipe.writers.iter().any(|w| pipe.readers.iter().any(|r| r != w))
}

impl Remedy for PipeGrowRemedy {
    fn name(&self) -> &'static str {
        "pipe-grow"
    }
    fn sentence(&self) -> &'static str {
        "full pipes inside the program get 256 KiB or 1 MiB instead of 64 KiB"
    }
    fn parameters(&self) -> &'static str {
        "the capacity, a power of two from 64K up to fs.pipe-max-size (default 1M)"
    }

    fn dose(&self, parameter: &str, machine: &Machine) -> Result<RemedyDose, String> {
        let limit = machine.pipe_max_bytes;
        let capacity: Bytes = if parameter.is_empty() {
            Bytes::mib(1).min(limit)
        } else {
            parameter.parse().map_err(|e| format!("{e}"))?
        };
        let fits = capacity.0.is_power_of_two() && (Bytes::kib(64)..=limit).contains(&capacity);
        if fits {
            Ok(self.grow(capacity))
        } else {
            Err(format!("the capacity must be a power of two between 64 KiB and {limit}"))
        }
    }

    fn fit(&self, evidence: &RemedyEvidence<'_>) -> RemedyCandidate {
        let Some(traced) = evidence.traced() else {
            return self.unfit("the pipes of the program could not be examined");
        };
        if let Some(why) = obstacle(traced) {
            return self.unfit(why);
        }
        let limit = evidence.machine.pipe_max_bytes;
        let default = machine::default_pipe(evidence.machine.base_page_bytes);
        let grows = |pipe: &PipeSeen, size| grows(pipe, default, size);
        let sizes: Vec<Bytes> = TRIED
            .into_iter()
            .filter(|size| *size <= limit && traced.pipes.iter().any(|p| grows(p, *size)))
            .collect();
        let Some(largest) = sizes.last() else {
            return self.unfit(if traced.pipes.iter().all(|p| p.inherited) {
                "no two processes of the program are joined by a pipe"
            } else {
                "no pipe between its processes has the default size"
            });
        };
        let count = traced.pipes.iter().filter(|p| grows(p, *largest)).count();
        let ceiling = evidence.diagnosis.share(&[CostKind::PipeCopies, CostKind::Wakeups]);
        let why = format!("{count} pipe(s) between its processes hold less than {largest}");
        self.fitting(why, ceiling, sizes.into_iter().map(|s| self.grow(s)).collect())
    }

    fn mechanism(&self, _dose: &RemedyDose) -> RemedyMechanism {
        RemedyMechanism::Watched(WATCH)
    }

    fn unseen(&self) -> Option<&'static str> {
        Some(UNSEEN)
    }

    fn notes(&self, _dose: &RemedyDose) -> Vec<String> {
        vec![
            format!(
                "uses up to {BUDGET} of the user's pipe budget (fs.pipe-user-pages-soft); beyond that budget, the user's new pipes hold only two pages"
            ),
            "pagewise stays beside the program and looks for full pipes every 5 to 20 ms"
                .to_owned(),
            UNSEEN.to_owned(),
        ]
    }
}
