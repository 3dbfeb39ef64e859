//! `pipe-grow`: every pipe that the tree creates gets more room.
//!
//! A pipe holds 64 KiB unless asked otherwise (pipe(7)); writer and reader wake each other once
//! per fill. `fcntl(F_SETPIPE_SZ)` on a borrowed descriptor changes that from outside, also for
//! pipes that a shell inside the program makes: the supervising process looks for new ones every
//! 0.2 ms at first, later every 5 to 20 ms. Pipes that came from outside the program are never
//! touched. Unprivileged users have a budget (`fs.pipe-user-pages-soft`, 64 MiB); beyond it new
//! pipes of that user shrink to two pages, so at most 16 MiB are taken.

use crate::registry::{Evidence, Mechanism, Remedy};
use pagewise_model::Bytes;
use pagewise_model::diagnosis::CostKind;
use pagewise_model::look::PipeSeen;
use pagewise_model::machine::Machine;
use pagewise_model::plan::{Candidate, Dose, Settings, Watch};

/// The most pipe memory that one run takes from the user's budget.
const BUDGET: Bytes = Bytes::mib(16);
/// Sizes tried when the evidence fits. The larger is for bytes that pass by reference or are read
/// once; the smaller stays within half of the second-level cache of today's machines, which is
/// what a reader that goes through every byte wants. Which of them a program has is proven by trial.
const TRIED: [Bytes; 2] = [Bytes::kib(256), Bytes::mib(1)];
/// Name under which the watcher reports.
pub(crate) const WATCH: &str = "grow-pipes";

/// The remedy.
pub(crate) struct PipeGrow;

impl PipeGrow {
    fn grow(&self, capacity: Bytes) -> Dose {
        let watches = vec![Watch::GrowPipes { capacity_bytes: capacity, budget_bytes: BUDGET }];
        let parameter = format!("{}K", capacity.0 >> 10);
        self.with(&parameter, Settings { watches, ..Settings::default() })
    }
}

fn grows(pipe: &PipeSeen, capacity: Bytes) -> bool {
    !pipe.inherited
        && pipe.capacity_bytes < capacity
        && pipe.writers.iter().any(|w| pipe.readers.iter().any(|r| r != w))
}

impl Remedy for PipeGrow {
    fn name(&self) -> &'static str {
        "pipe-grow"
    }
    fn sentence(&self) -> &'static str {
        "every pipe inside the program gets 256 KiB or 1 MiB instead of 64 KiB"
    }
    fn parameters(&self) -> &'static str {
        "the capacity, a power of two from 64K up to fs.pipe-max-size (default 1M)"
    }

    fn dose(&self, parameter: &str, machine: &Machine) -> Result<Dose, String> {
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

    fn fit(&self, evidence: &Evidence<'_>) -> Candidate {
        let Some(traced) = evidence.traced() else {
            return self.unfit("the pipes of the program could not be looked at");
        };
        let limit = evidence.machine.pipe_max_bytes;
        let sizes: Vec<Bytes> = TRIED
            .into_iter()
            .filter(|size| *size <= limit && traced.pipes.iter().any(|p| grows(p, *size)))
            .collect();
        let Some(largest) = sizes.last() else {
            return self.unfit(if traced.pipes.iter().all(|p| p.inherited) {
                "no process of the program passes data to another through a pipe of its own"
            } else {
                "its pipes are large already"
            });
        };
        let count = traced.pipes.iter().filter(|p| grows(p, *largest)).count();
        let ceiling = evidence.diagnosis.share(&[CostKind::PipeCopies, CostKind::Wakeups]);
        let why = format!("{count} pipe(s) between its processes hold less than {largest}");
        self.fitting(why, ceiling, sizes.into_iter().map(|s| self.grow(s)).collect())
    }

    fn mechanism(&self, _dose: &Dose) -> Mechanism {
        Mechanism::Watched(WATCH)
    }

    fn notes(&self, _dose: &Dose) -> Vec<String> {
        vec![
            format!(
                "takes up to {BUDGET} of the user's pipe budget (fs.pipe-user-pages-soft); beyond \
                 that budget new pipes of the user hold only two pages"
            ),
            "pagewise stays beside the program and looks for new pipes every 5 to 20 ms".to_owned(),
        ]
    }
}
