//! Why the kernel copies as it does (an experiment). The same cached bytes are copied to the same buffer by
//! the kernel, by the C library, and by one kind of instruction each, at four offsets within a page. The
//! experiment also measures what the kernel would pay to use vector registers.
//!
//! The source is a cached, generated file of 16 MiB, in blocks of 64 KiB. The program reads it through a
//! populated mapping, the kernel through its own map of the same pages. The kernel must not touch vector
//! registers that belong to the interrupted program, unless it saves them first and restores them later
//! (`kernel_fpu_begin` in arch/x86/kernel/fpu/core.c). Here the program does the same to itself, with `xsave`
//! and `xrstor`. Additional costs of the kernel (preemption off, state marked) are not seen.
//!
//! Runs in a child, because a mapped file may raise `SIGBUS`.

use super::origin::{FileContent, FileOrigin};
use crate::error::PriceError;
use crate::kernels::vectors::{self, CopyInstruction};
use crate::kernels::view::MappedFileView;
use crate::sample::time_cpu;
use pagewise_kernel::page_size;
use pagewise_kernel::region::{MemoryRegion, RegionPages};
use pagewise_kernel::worker::ForkedWorker;
use pagewise_model::bench::file::{CopyRates, CopyRow, CopyWay};
use pagewise_model::{Bytes, Fact, Measured};
use rustix::io::Errno;
use std::os::fd::AsFd;
use std::path::Path;

/// Bytes read in one repeat, and bytes of one copy.
const SET: Bytes = Bytes::mib(16);
const BLOCK: usize = 64 << 10;
/// Places within a page, the last its last byte.
const OFFSETS: usize = 4;
const REPEATS: usize = 7;
/// Savings of one repeat.
const SAVINGS: u64 = 10_000;
/// The request to save and restore; others are a way and an offset.
const SAVE: u64 = (CopyWay::ALL.len() * OFFSETS) as u64;

/// All copies, until the caller wants no more.
///
/// # Errors
/// When there is no file or no memory to copy.
pub fn copies(directory: &Path, stop: &dyn Fn() -> bool) -> Result<CopyRates, PriceError> {
    let origin = FileOrigin::own(directory, Some(SET), SET);
    let content = origin.and_then(|origin| origin.open(stop));
    let content = content.map_err(|error| PriceError::Unavailable(error.to_string()))?;
    let offsets = offsets();
    let mut bench = CopyBench::new(&content, offsets)?;
    let worker = ForkedWorker::start(move |request| bench.serve(request))?;
    let requests = 0..=SAVE;
    // The first time warms caches and page tables, and is not counted.
    let mut values = vec![Vec::with_capacity(REPEATS); requests.clone().count()];
    for repeat in 0..=REPEATS {
        for request in requests.clone() {
            if stop() {
                return Err(PriceError::Interrupted);
            }
            let value = worker.ask(request);
            if repeat > 0 || value.is_err() {
                values[request as usize].push(value.map_err(|error| error.to_string()));
            }
        }
    }
    let facts: Vec<Fact<Measured>> = values.into_iter().map(fact).collect();
    let rows = CopyWay::ALL.into_iter().zip(facts.chunks(OFFSETS));
    Ok(CopyRates {
        block_bytes: Bytes(BLOCK as u64),
        offset_bytes: offsets.map(|offset| Bytes(offset as u64)).to_vec(),
        rows: rows.map(|(way, rates)| CopyRow { way, gib_per_s: rates.to_vec() }).collect(),
        state_bytes: vectors::state_bytes().map_or_else(
            || Fact::missing("the processor or its system does not let programs save it"),
            |size| Fact::Known(Bytes(size as u64)),
        ),
        save_restore_ns: facts.last().cloned().unwrap_or_else(|| Fact::missing("not measured")),
    })
}

/// The values of one request, or why they are missing.
fn fact(values: Vec<Result<f64, String>>) -> Fact<Measured> {
    let values: Result<Vec<f64>, String> = values.into_iter().collect();
    match values {
        Ok(values) => Measured::from_values(&values)
            .map_or_else(|| Fact::missing("not measured"), Fact::Known),
        Err(_) => Fact::missing("this processor does not have it"),
    }
}

fn offsets() -> [usize; OFFSETS] {
    [0, 16, 64, usize::try_from(page_size::base().bytes()).unwrap_or(BLOCK) - 1]
}

/// Source and destination; allocates nothing when it serves.
struct CopyBench {
    file: std::fs::File,
    view: MappedFileView,
    to: MemoryRegion,
    state: MemoryRegion,
    offsets: [usize; OFFSETS],
}

impl CopyBench {
    fn new(content: &FileContent, offsets: [usize; OFFSETS]) -> Result<Self, PriceError> {
        let file =
            content.file.try_clone().map_err(PriceError::sys("fcntl F_DUPFD", "the file"))?;
        let len = usize::try_from(SET.0).unwrap_or(usize::MAX);
        let view = MappedFileView::map(file.as_fd(), len, true);
        let view = view.map_err(PriceError::sys("mmap", "the file"))?;
        let page = page_size::base().bytes();
        let mut to = MemoryRegion::new(Bytes(BLOCK as u64 + page), RegionPages::Base)?;
        to.populate()?;
        let state = Bytes(vectors::state_bytes().unwrap_or(1) as u64);
        Ok(Self { file, view, to, state: MemoryRegion::new(state, RegionPages::Base)?, offsets })
    }

    /// GiB/s of a way at an offset, or nanoseconds of a saving.
    fn serve(&mut self, request: u64) -> Result<f64, Errno> {
        if request >= SAVE {
            return self.save();
        }
        let (nth, place) = (request as usize / OFFSETS, request as usize % OFFSETS);
        let way = *CopyWay::ALL.get(nth).ok_or(Errno::INVAL)?;
        let start = *self.offsets.get(place).ok_or(Errno::INVAL)?;
        let Self { file, view, to, .. } = self;
        let to = to.as_mut_slice().get_mut(start..start + BLOCK).ok_or(Errno::INVAL)?;
        let (ns, done) =
            time_cpu(|| (0..SET.0).step_by(BLOCK).try_for_each(|at| copy(way, file, view, at, to)));
        done.map(|()| SET.0 as f64 / Bytes::gib(1).0 as f64 / (ns.max(1.0) / 1e9))
    }

    fn save(&mut self) -> Result<f64, Errno> {
        let area = self.state.as_mut_slice();
        let (ns, done) = time_cpu(|| vectors::save_state(area, SAVINGS));
        if done { Ok(ns / SAVINGS as f64) } else { Err(Errno::OPNOTSUPP) }
    }
}

fn copy(
    way: CopyWay,
    file: &std::fs::File,
    view: &MappedFileView,
    at: u64,
    to: &mut [u8],
) -> Result<(), Errno> {
    let offset = usize::try_from(at).map_err(|_| Errno::INVAL)?;
    let copied = match way {
        CopyWay::Kernel => {
            let len = to.len();
            return match rustix::io::pread(file, to, at) {
                Ok(got) if got == len => Ok(()),
                Ok(_) => Err(Errno::IO),
                Err(error) => Err(error),
            };
        }
        CopyWay::Library => view.copy_out(offset, to),
        CopyWay::RepMovsb => view.copy_by(CopyInstruction::RepMovsb, offset, to),
        CopyWay::Avx2 => view.copy_by(CopyInstruction::Avx2, offset, to),
        CopyWay::Avx512 => view.copy_by(CopyInstruction::Avx512, offset, to),
    };
    if copied { Ok(()) } else { Err(Errno::OPNOTSUPP) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_copies_the_same_or_is_not_there() {
        let dir = tempfile::tempdir().expect("a directory");
        let origin = FileOrigin::own(dir.path(), Some(SET), SET).expect("room");
        let content = origin.open(&|| false).expect("written");
        let bench = CopyBench::new(&content, offsets()).expect("memory");
        let mut known = vec![0; BLOCK];
        copy(CopyWay::Kernel, &bench.file, &bench.view, BLOCK as u64, &mut known).expect("read");
        for way in CopyWay::ALL {
            let mut to = vec![0; BLOCK + 3];
            match copy(way, &bench.file, &bench.view, BLOCK as u64, &mut to[3..]) {
                Ok(()) => assert!(to[3..] == known, "{way:?}"),
                Err(error) => assert_eq!(error, Errno::OPNOTSUPP, "{way:?}"),
            }
        }
    }

    #[test]
    fn rates_or_reasons() {
        let dir = tempfile::tempdir().expect("a directory");
        let found = copies(dir.path(), &|| false).expect("copies");
        assert_eq!((found.rows.len(), found.offset_bytes.len()), (5, OFFSETS));
        for row in &found.rows {
            assert_eq!(row.gib_per_s.len(), OFFSETS);
            let is_known = row.gib_per_s.iter().all(|rate| rate.known().is_some());
            assert!(is_known || row.way >= CopyWay::Avx2, "{row:?}");
        }
        assert!(found.aligned(CopyWay::Kernel).is_some_and(|rate| rate.min > 0.0));
        let stopped = copies(dir.path(), &|| true);
        assert!(stopped.is_err());
    }
}
