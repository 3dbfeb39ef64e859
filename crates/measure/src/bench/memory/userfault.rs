//! One sample of memory whose faults another thread of this process answers.
//!
//! The answering thread waits by poll(2) and read(2), and copies a page of zeroes for each fault, as
//! userfaultfd(2) shows it; it runs on the second CPU where there is one, so that each fault is two
//! wake-ups across CPUs. The kernel counts such a fault as a major one, so the pages that were filled in
//! take the place of the count.

use super::spent::{Taken, spend, unmetered};
use crate::error::PriceError;
use crate::kernels::touch;
use crate::kinds::Kinds;
use pagewise_kernel::region::{Pages, Region};
use pagewise_kernel::userfault::Missing;
use pagewise_kernel::{SysError, affinity, clock};
use pagewise_model::{Bytes, Fact, Nanos};
use std::sync::atomic::{AtomicBool, Ordering};

/// The answering thread looks this often whether all is touched.
const PATIENCE: Nanos = Nanos::millis(5);

/// Takes the sample on the calling thread, which is pinned to the first of `cpus`.
pub(super) fn take(kinds: Kinds, size: Bytes, cpus: &[u32]) -> Result<Taken, PriceError> {
    let make = || {
        let region = Region::new(size, Pages::Base)?;
        let missing = Missing::open()?;
        missing.register(region.as_ptr() as u64, region.size().0)?;
        Ok::<_, SysError>((region, missing))
    };
    let (setup, made) = spend(make).map_err(unmetered)?;
    let (mut region, missing) = made?;
    let resident = Fact::from(region.residency().map(|found| found.rss));
    let over = AtomicBool::new(false);
    let helper = cpus.get(1).or(cpus.first()).copied().unwrap_or(0);
    let (touched, answered) = std::thread::scope(|scope| {
        let work = || answer(missing, helper, &over);
        // Where it cannot be started the descriptor is closed, and nothing waits for an answer.
        let answering = std::thread::Builder::new().spawn_scoped(scope, work);
        let page = kinds.base().bytes() as usize;
        let touched = spend(|| touch::write_pages(region.as_mut_slice(), page));
        over.store(true, Ordering::Release);
        let answered = match answering {
            Ok(thread) => thread.join().map_err(|_| PriceError::ThreadLost).flatten(),
            Err(error) => Err(SysError::new("clone", "a thread", error).into()),
        };
        (touched, answered)
    });
    let (mut touch, ()) = touched.map_err(unmetered)?;
    let answered = answered?;
    touch.faults = answered.pages;
    touch.cpu += answered.cpu;
    let page = region.proven_page()?;
    let (teardown, ()) = spend(|| drop(region)).map_err(unmetered)?;
    let page = page.map_or_else(|| Fact::missing("pages of several sizes"), Fact::Known);
    Ok(Taken { setup, touch, teardown, resident, page })
}

/// What the answering thread did.
#[derive(Debug)]
struct Answered {
    pages: u64,
    cpu: Nanos,
}

/// Answers until `over`; the descriptor is closed at the end, however it comes.
fn answer(missing: Missing, cpu: u32, over: &AtomicBool) -> Result<Answered, PriceError> {
    affinity::set(0, &[cpu])?;
    let start = clock::thread_cpu();
    let mut pages = 0;
    while !over.load(Ordering::Acquire) {
        pages += u64::from(missing.answer(PATIENCE)?);
    }
    Ok(Answered { pages, cpu: Nanos(clock::thread_cpu().0.saturating_sub(start.0)) })
}
