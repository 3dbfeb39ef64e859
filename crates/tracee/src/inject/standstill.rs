//! Stops the other running threads of a process for the time of one injected call.
//!
//! Only threads that run their own code are stopped ([`running`](super::running)), which harms no call. A
//! thread that waits stays in its call. If it wakes meanwhile, it runs on. Each stop has a tracer thread of
//! its own, which releases what it holds after [`LONGEST`] at the latest. So an `execve` that waits for these
//! threads never waits for ever.

use super::held::ThreadTracer;
use super::running::RunnableHistory;
use pagewise_kernel::proc::{stat, tree};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Duration;

/// How long a thread is held at most.
const LONGEST: Duration = Duration::from_secs(2);
/// How long a thread may take to stop before the call is made without it.
const PATIENCE: Duration = Duration::from_millis(20);

/// Looks for running threads, and the pause between them: one that waits for a CPU gets it once others stand.
const LOOKS: usize = 10;
const PAUSE: Duration = Duration::from_micros(200);

/// Threads that stand still until this is dropped.
#[derive(Debug, Default)]
pub(super) struct Standstill {
    held: Vec<Sender<()>>,
}

impl Standstill {
    /// Stops what runs in process `pid`, except thread `caller`.
    pub(super) fn around(pid: i32, caller: i32, looks: &mut RunnableHistory) -> Self {
        let mut still = Self::default();
        for _ in 0..LOOKS {
            let mut running = tree::threads(pid).unwrap_or_default();
            running.retain(|&tid| {
                tid != caller && stat::read(tid).is_ok_and(|stat| stat.state == 'R')
            });
            if running.is_empty() {
                break;
            }
            running.retain(|&tid| looks.runs_its_own_code(tid));
            still.held.extend(running.into_iter().filter_map(hold));
            thread::sleep(PAUSE);
        }
        still
    }
}

/// Stops a thread. It goes on when the result is dropped.
fn hold(tid: i32) -> Option<Sender<()>> {
    let (tell, told) = mpsc::sync_channel(1);
    let (release, released) = mpsc::channel();
    let stand = move |tracer: &mut ThreadTracer| {
        let held = tracer.halt(tid);
        if tell.try_send(()).is_ok() {
            let _released_or_late = released.recv_timeout(LONGEST);
        }
        drop(held);
    };
    ThreadTracer::start(stand).ok()?;
    let _may_run_on = told.recv_timeout(PATIENCE);
    Some(release)
}
