//! The file as a way to read has it open: a descriptor, queues, or a mapping with the kernel advised.

use super::super::wire::Task;
use crate::error::PriceError;
use crate::kernels::queue::ReadQueue;
use crate::kernels::view::View;
use pagewise_kernel::region::Region;
use pagewise_model::bench::file::Arm;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mm::Advice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Reads that a queue has at a time.
pub(super) const DEPTH: u32 = 16;

/// Descriptors, queues and mapping; dropped, the descriptors go last.
#[derive(Debug)]
pub(super) struct Opened {
    view: Option<View>,
    /// One for each thread, which locks its own for a whole pass.
    queues: Vec<Mutex<ReadQueue>>,
    /// One, or for calls that use its position one for each thread.
    descriptors: Vec<OwnedFd>,
}

impl Opened {
    /// Opens the file for a task: all that a program does before the first byte. Queues get `memory`, one
    /// piece each.
    pub(super) fn new(path: &str, task: &Task, memory: Vec<Region>) -> Result<Self, PriceError> {
        let arm = task.cell.arm;
        let has_position = matches!(arm, Arm::Read | Arm::Readv);
        let count = if has_position { task.cell.threads.max(1) } else { 1 };
        let open = |_| {
            let past = if arm == Arm::Direct { OFlags::DIRECT } else { OFlags::empty() };
            let flags = OFlags::RDONLY | OFlags::CLOEXEC | past;
            rustix::fs::open(path, flags, Mode::empty()).map_err(PriceError::sys("open", path))
        };
        let descriptors = (0..count).map(open).collect::<Result<Vec<_>, _>>()?;
        let queue = |buffer| {
            ReadQueue::new(DEPTH, buffer, arm == Arm::UringFixed)
                .map(Mutex::new)
                .map_err(PriceError::sys("io_uring_setup", "a queue of reads"))
        };
        let queues = memory.into_iter().map(queue).collect::<Result<Vec<_>, _>>()?;
        let mut opened = Self { view: None, queues, descriptors };
        if arm.is_mapped() {
            opened.view = Some(map(opened.descriptor(0)?, task)?);
        }
        Ok(opened)
    }

    /// The descriptor of a thread.
    pub(super) fn descriptor(&self, thread: usize) -> Result<BorrowedFd<'_>, PriceError> {
        let own = self.descriptors.get(thread).or_else(|| self.descriptors.first());
        own.map(AsFd::as_fd)
            .ok_or_else(|| PriceError::Unavailable("no descriptor was opened".to_owned()))
    }

    /// The queue of a thread.
    pub(super) fn queue(&self, thread: usize) -> Result<MutexGuard<'_, ReadQueue>, PriceError> {
        let own = self.queues.get(thread);
        let own = own.ok_or_else(|| PriceError::Unavailable("no queue was created".to_owned()))?;
        Ok(own.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The mapping.
    pub(super) fn view(&self) -> Result<&View, PriceError> {
        self.view
            .as_ref()
            .ok_or_else(|| PriceError::Unavailable("this way to read maps nothing".to_owned()))
    }
}

fn map(file: BorrowedFd<'_>, task: &Task) -> Result<View, PriceError> {
    let arm = task.cell.arm;
    let span = task.cell.span_bytes;
    let failed = |call| PriceError::sys::<Errno>(call, format!("{span} of the file"));
    let len = usize::try_from(span.0).unwrap_or(usize::MAX);
    let is_whole = matches!(arm, Arm::MapPopulate | Arm::PlacePopulate);
    let view = View::map(file, len, is_whole).map_err(failed("mmap"))?;
    let advice = match arm {
        Arm::MapWillNeed => Advice::WillNeed,
        Arm::MapSequential => Advice::Sequential,
        Arm::MapRandom => Advice::Random,
        _ => return Ok(view),
    };
    view.advise(0, len, advice).map_err(failed("madvise"))?;
    Ok(view)
}
