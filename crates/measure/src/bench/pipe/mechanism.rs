//! How a pipe works, on a live one: the ring of slots, and the price of each part of the mechanism.
//!
//! fs/pipe.c keeps a ring of slots with two counts, `head` (filled) and `tail` (emptied). A slot refers to a part of
//! one page. write(2) first fills up the page of the last slot, if the odd bytes fit there and that page is the
//! pipe's own, and takes a new slot for each page from then on. vmsplice(2) takes a slot for each piece. The
//! kernel shows the bytes (FIONREAD). How many slots are free is found out: they are filled with a byte each.
//!
//! A pipe keeps two pages that were read (`tmp_page`). vmsplice(2) looks up 16 pages at a time (`iter_to_pipe` in
//! fs/splice.c). A switch to another address space flushes the TLB, unless its entries are tagged: pages are
//! touched after a hand-over to a thread, to a process, and after a flush of this address space, which
//! `MADV_FREE` of more pages than the kernel flushes one by one causes (`flush_tlb_mm_range`). Touched words lie on
//! different lines of the first-level cache.
//!
//! Everything runs on one CPU, in rounds. Not seen: what the host of a virtual machine does to its own TLB.

use super::plan::AllowedCpus;
use crate::error::PriceError;
use crate::kernels::lend::WriteEnd;
use crate::prices::pipe_copy::PipeCopyProbe;
use crate::prices::process::{receive, send};
use crate::sample::{PriceProbe, StopCheck, time_cpu};
use pagewise_kernel::proc::cpuinfo;
use pagewise_kernel::region::{MemoryRegion, RegionPages};
use pagewise_kernel::worker::ForkedWorker;
use pagewise_kernel::{SysError, affinity, clock, page_size, pipe};
use pagewise_model::bench::pipe::{PipeBenchReport, PipeFillStep, PipeMechanism, PipeYardsticks};
use pagewise_model::{Bytes, Fact, Measured};
use rustix::io::Errno;
use rustix::mm::Advice;
use rustix::pipe::SpliceFlags;
use std::fs::File;
use std::hint::black_box;
use std::os::fd::OwnedFd;

/// Rounds of all prices.
const ROUNDS: u32 = 11;
/// Fewest slots of a pipe that can be shown.
const FEWEST: u64 = 8;
/// Pages of one batch of vmsplice(2).
const BATCH: usize = 16;
/// Transfers of a batch in a round.
const TRANSFERS: usize = 256;
/// Hand-overs there and back in a round, and before its clock starts.
const TRIPS: u32 = 200;
const WARM: u32 = 10;
/// Pages touched after each; more than the kernel flushes one by one.
const PAGES: usize = 128;

/// A report that holds nothing but the mechanism.
///
/// # Errors
/// If a pipe of this user has too few slots, or a call fails.
pub fn explain(seed: u64, stop: &(dyn Fn() -> bool + Sync)) -> Result<PipeBenchReport, PriceError> {
    let measuring =
        std::thread::scope(|scope| scope.spawn(move || measure(StopCheck(stop))).join());
    let none = || Fact::missing("not asked for");
    Ok(PipeBenchReport {
        seed,
        repeats: ROUNDS,
        asked_bytes: None,
        repeat_ns: None,
        sweep: false,
        compared: None,
        points: Vec::new(),
        yardsticks: PipeYardsticks {
            memcpy_gib_per_s: none(),
            read_gib_per_s: none(),
            cross_core_gib_per_s: none(),
        },
        claims: Vec::new(),
        mechanism: Some(Box::new(measuring.map_err(|_| PriceError::ThreadLost)??)),
        judgement: None,
    })
}

fn measure(stop: StopCheck<'_>) -> Result<PipeMechanism, PriceError> {
    if let Some(cpu) = AllowedCpus::allowed().first() {
        affinity::set(0, &[cpu])?;
    }
    let capacity_bytes = pipe::capacity(&pipe::pipe()?.0)?;
    let slots = capacity_bytes.pages(page_size::base());
    if slots < FEWEST {
        let why = format!("a new pipe has {slots} slots: this user's pipes hold too much already");
        return Err(PriceError::Unavailable(why));
    }
    let fill = fill(slots)?;
    let mut rounds = Vec::new();
    for _ in 0..=ROUNDS {
        stop.check()?;
        rounds.push(MechanismRound::take()?);
    }
    let of = |value: fn(&MechanismRound) -> f64| {
        // The first round warms up.
        let values: Vec<f64> = rounds[1..].iter().map(value).collect();
        Measured::from_values(&values).map_or(Fact::missing("not measured"), Fact::Known)
    };
    Ok(PipeMechanism {
        capacity_bytes,
        slots,
        fill,
        kept_page_ns: of(MechanismRound::kept_page),
        new_page_ns: of(|r| (r.copied[2] - r.copied[1]) / 4.0 - r.kept_page()),
        lent_page_ns: of(MechanismRound::lent_page),
        batch_edge_ns: of(|r| r.lent[2] - r.lent[1] - r.lent_page()),
        thread_switch_ns: of(|r| r.thread.hand_over),
        process_switch_ns: of(|r| r.process.hand_over),
        touch_ns: of(|r| r.thread.touch),
        switched_touch_ns: of(|r| r.process.touch),
        flushed_touch_ns: of(|r| r.flushed_touch),
        flushed_share: of(|r| {
            (r.process.touch - r.thread.touch) / (r.flushed_touch - r.thread.touch).max(0.1)
        }),
        has_pcid: cpuinfo::read().map(|cpu| cpu.has("pcid")).into(),
    })
}

// The ring.

/// A call on a pipe.
#[derive(Debug, Clone, Copy)]
enum FillCall {
    Write(usize),
    Vmsplice(usize),
    Read(usize),
}

/// Calls that show each rule: a page that fills up, a new slot where bytes do not fit, a slot that is never
/// filled up because its page is not the pipe's, and emptied slots.
fn calls() -> [FillCall; 7] {
    let page = page_bytes();
    [
        FillCall::Write(100),
        FillCall::Write(100),
        FillCall::Write(page - 96),
        FillCall::Write(page),
        FillCall::Vmsplice(1),
        FillCall::Write(1),
        FillCall::Read(page + 104),
    ]
}

impl FillCall {
    fn run(self, reader: &OwnedFd, writer: &WriteEnd) -> Result<(), PriceError> {
        let mut bytes = vec![7; self.len()];
        let done = match self {
            Self::Write(_) => rustix::io::write(writer, &bytes),
            Self::Vmsplice(_) => writer.lend(&bytes, SpliceFlags::NONBLOCK),
            Self::Read(_) => rustix::io::read(reader, &mut bytes[..]),
        };
        match done.map_err(PriceError::sys(self.name(), "a pipe"))? {
            moved if moved == self.len() => Ok(()),
            moved => Err(PriceError::Unavailable(format!("{self:?} moved {moved} bytes"))),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Write(_) => "write",
            Self::Vmsplice(_) => "vmsplice",
            Self::Read(_) => "read",
        }
    }

    const fn len(self) -> usize {
        match self {
            Self::Write(len) | Self::Vmsplice(len) | Self::Read(len) => len,
        }
    }
}

/// The state after each call, each found on a pipe of its own, which is full afterwards.
fn fill(slots: u64) -> Result<Vec<PipeFillStep>, PriceError> {
    let (mut head, mut tail) = (0, 0);
    let step = |(at, call): (usize, &FillCall)| {
        let (reader, writer) = pipe::pipe()?;
        let writer = WriteEnd::new(writer)?;
        calls()[..=at].iter().try_for_each(|call| call.run(&reader, &writer))?;
        let held = rustix::io::ioctl_fionread(&reader);
        let held_bytes = Bytes(held.map_err(PriceError::sys("ioctl FIONREAD", "a pipe"))?);
        let occupied = slots - free(&writer)?;
        match call {
            FillCall::Read(_) => tail = head - occupied,
            FillCall::Write(_) | FillCall::Vmsplice(_) => head = tail + occupied,
        }
        Ok(PipeFillStep {
            call: format!("{} {} B", call.name(), call.len()),
            held_bytes,
            head,
            tail,
        })
    };
    calls().iter().enumerate().map(step).collect()
}

/// Slots that are free, by filling each with a byte.
fn free(writer: &WriteEnd) -> Result<u64, PriceError> {
    for count in 0.. {
        match writer.lend(&[7], SpliceFlags::NONBLOCK) {
            Ok(_) => {}
            Err(Errno::AGAIN) => return Ok(count),
            Err(error) => return Err(PriceError::sys("vmsplice", "a pipe")(error)),
        }
    }
    Ok(0)
}

// The prices.

/// One round of everything, nanoseconds.
struct MechanismRound {
    /// Writing and reading 1, 2 and 6 pages.
    copied: [f64; 3],
    /// Passing half a batch, a batch, and a page more.
    lent: [f64; 3],
    thread: SwitchTimes,
    process: SwitchTimes,
    flushed_touch: f64,
}

/// A hand-over to a partner on the same CPU, and the touch of a page after it.
struct SwitchTimes {
    hand_over: f64,
    touch: f64,
}

impl MechanismRound {
    fn take() -> Result<Self, PriceError> {
        let page = page_bytes();
        let copied = |pages: usize| PipeCopyProbe::new(pages * page)?.measure_once();
        let mut region = touched(PAGES)?;
        Ok(Self {
            copied: [copied(1)?, copied(2)?, copied(6)?],
            lent: [lend(BATCH / 2)?, lend(BATCH)?, lend(BATCH + 1)?],
            thread: beside_thread(&region)?,
            process: beside_process(&region)?,
            flushed_touch: touch_after_flushes(&mut region)?,
        })
    }

    fn kept_page(&self) -> f64 {
        self.copied[1] - self.copied[0]
    }

    fn lent_page(&self) -> f64 {
        (self.lent[1] - self.lent[0]) / (BATCH / 2) as f64
    }
}

fn page_bytes() -> usize {
    usize::try_from(page_size::base().bytes()).unwrap_or(usize::MAX)
}

fn touched(pages: usize) -> Result<MemoryRegion, PriceError> {
    let mut region = MemoryRegion::new(Bytes((pages * page_bytes()) as u64), RegionPages::Base)?;
    region.populate()?;
    Ok(region)
}

/// Passes this many base pages and discards them.
fn lend(pages: usize) -> Result<f64, PriceError> {
    let (reader, writer) = pipe::pipe()?;
    pipe::set_capacity(&writer, Bytes((2 * BATCH * page_bytes()) as u64))?;
    let (writer, region) = (WriteEnd::new(writer)?, touched(pages)?);
    let null = File::options().write(true).open("/dev/null");
    let null = null.map_err(|e| SysError::new("open", "/dev/null", e))?;
    let len = region.as_slice().len();
    let transfer = || -> Result<(), Errno> {
        writer.lend(region.as_slice(), SpliceFlags::NONBLOCK)?;
        rustix::pipe::splice(&reader, None, &null, None, len, SpliceFlags::NONBLOCK).map(drop)
    };
    let (ns, done) = time_cpu(|| (0..TRANSFERS).try_for_each(|_| transfer()));
    done.map_err(PriceError::sys("vmsplice", "a pipe"))?;
    Ok(ns / TRANSFERS as f64)
}

/// Touches a word of each page; nanoseconds for one.
fn touch(region: &MemoryRegion) -> f64 {
    let (page, bytes) = (page_bytes(), region.as_slice());
    let start = clock::now();
    for nth in 0..PAGES {
        black_box(bytes[nth * page + nth * 64 % page]);
    }
    clock::now().0.saturating_sub(start.0) as f64 / PAGES as f64
}

/// Two pipes: the ends of this side, and those of the partner.
type PingPong = ((OwnedFd, OwnedFd), (OwnedFd, OwnedFd));

fn ping_pong() -> Result<PingPong, PriceError> {
    let ((ping_out, ping_in), (pong_out, pong_in)) = (pipe::pipe()?, pipe::pipe()?);
    Ok(((ping_in, pong_out), (ping_out, pong_in)))
}

/// Hands over to the partner and back, touching the region after each return.
fn trips(
    (to, from): &(OwnedFd, OwnedFd),
    region: &MemoryRegion,
) -> Result<SwitchTimes, PriceError> {
    let mut touched = 0.0;
    let mut begin = clock::now();
    for trip in 0..WARM + TRIPS {
        if trip == WARM {
            (touched, begin) = (0.0, clock::now());
        }
        send(to)?;
        receive(from)?;
        touched += touch(region);
    }
    let all = clock::now().0.saturating_sub(begin.0) as f64 - touched * PAGES as f64;
    let trips = f64::from(TRIPS);
    Ok(SwitchTimes { hand_over: all / (2.0 * trips), touch: touched / trips })
}

/// The partner is a thread: it has this address space.
fn beside_thread(region: &MemoryRegion) -> Result<SwitchTimes, PriceError> {
    let (mine, theirs) = ping_pong()?;
    std::thread::scope(|scope| {
        let echo = scope.spawn(move || -> Result<(), PriceError> {
            while receive(&theirs.0)? {
                send(&theirs.1)?;
            }
            Ok(())
        });
        let times = trips(&mine, region);
        drop(mine);
        echo.join().map_err(|_| PriceError::ThreadLost)??;
        times
    })
}

/// The partner is a process. It closes its copy of our ends, so that it sees when we are done.
fn beside_process(region: &MemoryRegion) -> Result<SwitchTimes, PriceError> {
    let (mine, theirs) = ping_pong()?;
    let mut mine = Some(mine);
    let worker = ForkedWorker::start(|_| {
        drop(mine.take());
        let mut byte = [0];
        while rustix::io::read(&theirs.0, &mut byte)? == 1 {
            rustix::io::write(&theirs.1, &byte)?;
        }
        Ok(0.0)
    })?;
    let Some(mine) = mine else { return Err(PriceError::ThreadLost) };
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| worker.ask(0));
        let times = trips(&mine, region);
        drop(mine);
        asking.join().map_err(|_| PriceError::ThreadLost)??;
        times
    })
}

/// Touches after this address space was flushed from the TLB.
fn touch_after_flushes(region: &mut MemoryRegion) -> Result<f64, PriceError> {
    let mut other = touched(PAGES)?;
    let mut sum = 0.0;
    for _ in 0..TRIPS {
        // Dirty pages are what the call has to flush.
        other.touch(Bytes(page_bytes() as u64));
        other.advise(Advice::LinuxFree)?;
        sum += touch(region);
    }
    Ok(sum / f64::from(TRIPS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_fills_as_the_kernel_says() {
        let steps = fill(pipe::default_capacity().pages(page_size::base())).unwrap();
        let seen: Vec<_> = steps.iter().map(|s| (s.held_bytes.0, s.head, s.tail)).collect();
        let page = page_size::base().bytes();
        let wanted = [
            (100, 1, 0),
            (200, 1, 0),
            (page + 104, 2, 0),
            (2 * page + 104, 3, 0),
            (2 * page + 105, 4, 0),
            (2 * page + 106, 5, 0),
            (page + 2, 5, 2),
        ];
        assert_eq!(seen, wanted);
    }

    #[test]
    fn every_part_has_a_price() {
        let report = explain(1, &|| false).unwrap();
        let mechanism = report.mechanism.unwrap();
        assert_eq!(mechanism.prices().count(), 9, "{mechanism:?}");
        assert!(mechanism.thread_switch_ns.known().is_some_and(|ns| ns.min > 0.0));
        assert!(explain(1, &|| true).is_err());
    }
}
