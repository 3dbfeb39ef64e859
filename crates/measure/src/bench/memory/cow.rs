//! One sample of memory that a fork shares: the child writes to each page, and each write copies.
//!
//! This process fills the memory and forks (the set-up, which copies its page tables as well); the child
//! writes and unmaps. Since Linux 5.8 the first write to a shared huge page splits its mapping and copies
//! a base page (mm/huge_memory.c, `do_huge_pmd_wp_page`), so that the other writes fault as well; the count
//! of faults tells.

use super::child::{self, Cycle};
use super::present::Present;
use super::spent::{Taken, spend, unmetered};
use crate::error::PriceError;
use crate::kernels::touch;
use crate::kinds::Kinds;
use pagewise_kernel::page_size;
use pagewise_kernel::region::Region;
use pagewise_model::bench::PageKind;
use pagewise_model::{Bytes, Fact, PageSize};
use rustix::io::Errno;

/// Pages of the small cycle.
const SMALL: u64 = 32;

/// Takes a sample of `size` on pages of a kind in a child of the calling thread, on its CPU.
pub(super) fn take(kinds: Kinds, kind: PageKind, size: Bytes) -> Result<Taken, PriceError> {
    let mut all = kinds.map(kind, size)?;
    all.populate()?;
    kinds.prove(kind, &all)?;
    let mut few = kinds.map(PageKind::Base, Bytes(SMALL * kinds.base().bytes()))?;
    few.populate()?;
    let (small, len) = (few.size().0 as usize, all.size().0 as usize);
    let (mut few, mut all) = (Some(few), Some(all));
    let mut present = Present::new();
    let cycle = |wanted| {
        let memory = if wanted == small { few.take() } else { all.take() };
        write_and_unmap(memory.ok_or(Errno::INVAL)?, &mut present)
    };
    let (fork, worker) = spend(|| child::start(cycle, small, len)).map_err(unmetered)?;
    let mut cycle = child::run(&worker?)?;
    cycle.setup = fork;
    let page = copied_page(kinds, size, cycle.touch.faults);
    Ok(cycle.taken(Fact::Known(page)))
}

fn write_and_unmap(mut memory: Region, present: &mut Present) -> Result<Cycle, Errno> {
    let len = memory.size().0 as usize;
    let page = page_size::base().bytes() as usize;
    let before = present.count(memory.as_ptr() as u64, len).ok();
    let (touch, ()) = spend(|| touch::write_pages(memory.as_mut_slice(), page))?;
    let (teardown, ()) = spend(|| drop(memory))?;
    Ok(Cycle { touch, teardown, present: before, ..Cycle::default() })
}

/// The pages that were copied, by the number of faults.
fn copied_page(kinds: Kinds, size: Bytes, faults: u64) -> PageSize {
    if faults > size.pages(kinds.base()) / 2 { kinds.base() } else { kinds.huge() }
}
