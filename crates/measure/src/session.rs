//! One calibration: all prices, round after round, within a budget.
//!
//! It runs on a separate thread pinned to one CPU, so the caller keeps its affinity. The prices of the
//! session are measured each time. The chase comes from the cache if that has a complete and recent one for
//! this machine. Otherwise it is walked (some seconds more) and kept. At most a quarter of the memory that an
//! experiment may take is used. The chase may take all of that, so it runs after everything else has been
//! freed. The caller may stop the calibration, within about a second.

use crate::error::PriceError;
use crate::prices::file::{self, FileFaultProbe, FileReads};
use crate::prices::memory::{
    AnonFaultProbe, CowFaultProbe, ForkTablesProbe, HugeFaultProbe, MapUnmapProbe, PageClearProbe,
};
use crate::prices::pipe_copy::{self, PipeTransfers};
use crate::prices::process::{SpawnProbe, SyscallProbe, WakeupProbe};
use crate::prices::{chase, host};
use crate::prior::{self, MachineKey};
use crate::sample::{PriceProbe, ProbeSeries, StopCheck};
use pagewise_kernel::region::RegionPages;
use pagewise_kernel::{affinity, dirs, limits, machine, page_size};
use pagewise_model::price::{ChasePoint, SessionPrices};
use pagewise_model::{Bytes, Fact, Nanos};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

/// Memory that is touched for one repeat of the fault price, larger than private caches.
const FAULT_SET: Bytes = Bytes::mib(64);
/// Size of the scratch file, and of the buffer that is cleared.
const FILE_SET: Bytes = Bytes::mib(32);
/// Most memory touched in search of memory that the host took back.
const HOST_SET: Bytes = Bytes::mib(512);
/// Fewest repeats of each price, whatever the budget.
const FEWEST_ROUNDS: u32 = 5;
/// Enough repeats for any price.
const MOST_ROUNDS: u32 = 31;

/// Options of a calibration.
#[derive(Debug, Clone)]
pub struct CalibrationOptions {
    /// Time for the prices of the session (1 to 2 s are enough). The chase adds to it if it is not cached.
    pub budget_ns: Nanos,
    /// File that keeps the slow prices; its directory also holds the scratch file.
    pub cache: Option<PathBuf>,
    /// Take the slow prices again even if they are cached.
    pub fresh: bool,
}

impl CalibrationOptions {
    /// Options for prices within this budget, with the slow ones kept in the user's cache directory.
    #[must_use]
    pub fn cached(budget_ns: Nanos) -> Self {
        let cache = dirs::cache_dir().ok().map(|dir| dir.join("prices.json"));
        Self { budget_ns, cache, fresh: false }
    }
}

/// Measures the prices of this machine, until `interrupted` returns true.
///
/// # Errors
/// If a price that every machine has could not be measured. A price that a machine may lack is missing with
/// its reason instead. [`PriceError::Interrupted`] if it was stopped.
pub fn calibrate(
    options: &CalibrationOptions,
    interrupted: &(dyn Fn() -> bool + Sync),
) -> Result<SessionPrices, PriceError> {
    std::thread::scope(|scope| {
        let measuring = scope.spawn(|| run(options, StopCheck(interrupted)));
        measuring.join().map_err(|_| PriceError::ThreadLost)?
    })
}

/// Runs `rounds` rounds of the loop that measures the price of an anonymous fault, for an outside observer.
///
/// # Errors
/// If there is not enough memory.
pub fn touch_pages(rounds: u32) -> Result<(), PriceError> {
    let mut probe = AnonFaultProbe { len: fit(FAULT_SET, most()?) };
    (0..rounds).try_for_each(|_| probe.measure_once().map(drop))
}

/// The most memory that may be taken.
fn most() -> Result<Bytes, PriceError> {
    Ok(Bytes(limits::experiment_memory()?.bytes.0 / 4))
}

/// The part of `wanted` that one price may take of `most`.
fn fit(wanted: Bytes, most: Bytes) -> usize {
    usize::try_from(wanted.0.min(most.0 / 4)).unwrap_or(usize::MAX)
}

fn run(options: &CalibrationOptions, stop: StopCheck<'_>) -> Result<SessionPrices, PriceError> {
    let started = Instant::now();
    let cpus = affinity::get(0)?;
    let own = *cpus.first().ok_or(PriceError::Unavailable("no CPU is available".into()))?;
    affinity::set(0, &[own])?;
    let most = most()?;
    let this = machine::machine();
    let host_set = Bytes(HOST_SET.0.min(most.0));
    let host = this.hypervisor.as_ref().map(|_| {
        host::touch_chunks(RegionPages::Base, host_set, Nanos(options.budget_ns.0 / 5), stop)
    });
    stop.check()?;
    let dir = options.cache.as_deref().and_then(Path::parent);
    let mut table = PriceTable::start(most, dir.unwrap_or(&std::env::temp_dir()), own, &cpus)?;
    table.repeat(started, options.budget_ns, stop)?;
    let mut prices = table.finish()?;
    (prices.chase, prices.prior) = obtain_chase(options, MachineKey::from(&this), most, stop)?;
    prices.host_fault_extra_ns = match host {
        None => Fact::missing("not a virtual machine"),
        Some(Err(error)) => Fact::missing(error.to_string()),
        Some(Ok(costs)) => host::find_extra(&costs, prices.anon_fault_ns.median),
    };
    Ok(prices)
}

/// The chase, and whether it came from the cache.
fn obtain_chase(
    options: &CalibrationOptions,
    key: MachineKey,
    most: Bytes,
    stop: StopCheck<'_>,
) -> Result<(Vec<ChasePoint>, bool), PriceError> {
    let sets: Vec<Bytes> = chase::sets_within(most).collect();
    let cache = options.cache.as_deref();
    let kept = cache.filter(|_| !options.fresh).and_then(|path| prior::read(path, &key, &sets));
    if let Some(points) = kept {
        return Ok((points, true));
    }
    let points = chase::walk_sets(&sets, stop)?;
    if let Some(path) = cache {
        // Without the file the next session walks again, which is all that is lost.
        let _ = prior::write(path, key, &points);
    }
    Ok((points, false))
}

/// The repeats of all prices of a session.
struct PriceTable {
    anon: ProbeSeries<AnonFaultProbe>,
    zero: ProbeSeries<PageClearProbe>,
    file_fault: ProbeSeries<FileFaultProbe>,
    cow: ProbeSeries<CowFaultProbe>,
    huge: ProbeSeries<HugeFaultProbe>,
    pipe_copy: PipeTransfers,
    file_reads: FileReads,
    syscall: ProbeSeries<SyscallProbe>,
    map_unmap: ProbeSeries<MapUnmapProbe>,
    cross: ProbeSeries<WakeupProbe>,
    same: ProbeSeries<WakeupProbe>,
    spawn: ProbeSeries<SpawnProbe>,
    fork_tables: ProbeSeries<ForkTablesProbe>,
}

impl PriceTable {
    fn start(most: Bytes, dir: &Path, own: u32, cpus: &[u32]) -> Result<Self, PriceError> {
        let file_len = fit(FILE_SET, most).next_multiple_of(file::BLOCK);
        let file = Rc::new(file::create_cached(dir, file_len, file::BLOCK)?);
        let page = usize::try_from(page_size::base().bytes()).unwrap_or(file::BLOCK);
        let paged = Rc::new(file::create_cached(dir, file_len, page)?);
        // These fork, so they start first. Their children then share no page with what the others write.
        let file_fault = ProbeSeries::start(FileFaultProbe::new(paged, file_len));
        let cow = ProbeSeries::start(CowFaultProbe::new(Rc::clone(&file), file_len / 2));
        let fork_tables = ProbeSeries::start(ForkTablesProbe::new(file_len));
        let other = cpus.iter().copied().find(|&cpu| cpu != own);
        let cross = other.map(WakeupProbe::with_partner_on);
        let one_cpu = || PriceError::Unavailable("there is only one CPU to run on".to_owned());
        Ok(Self {
            anon: ProbeSeries::start(Ok(AnonFaultProbe { len: fit(FAULT_SET, most) })),
            zero: ProbeSeries::start(PageClearProbe::new(file_len)),
            file_fault,
            cow,
            huge: ProbeSeries::start(Ok(HugeFaultProbe)),
            pipe_copy: pipe_copy::start(),
            file_reads: file::start_reads(&file, file_len),
            syscall: ProbeSeries::start(Ok(SyscallProbe)),
            map_unmap: ProbeSeries::start(Ok(MapUnmapProbe)),
            cross: ProbeSeries::start(cross.ok_or_else(one_cpu)),
            same: ProbeSeries::start(Ok(WakeupProbe::with_partner_on(own))),
            spawn: ProbeSeries::start(SpawnProbe::new()),
            fork_tables,
        })
    }

    fn repeat(
        &mut self,
        started: Instant,
        budget: Nanos,
        stop: StopCheck<'_>,
    ) -> Result<(), PriceError> {
        for round in 0..MOST_ROUNDS {
            if round >= FEWEST_ROUNDS && started.elapsed() >= budget.duration() {
                break;
            }
            stop.check()?;
            self.step();
        }
        Ok(())
    }

    fn step(&mut self) {
        self.anon.step();
        self.zero.step();
        self.file_fault.step();
        self.cow.step();
        self.huge.step();
        self.pipe_copy.step();
        self.file_reads.step();
        self.syscall.step();
        self.map_unmap.step();
        self.cross.step();
        self.same.step();
        self.spawn.step();
        self.fork_tables.step();
    }

    /// The prices, without those that are not of the table.
    fn finish(self) -> Result<SessionPrices, PriceError> {
        let file_fault_pages = self.file_fault.probe().map_or(1.0, FileFaultProbe::pages_per_fault);
        Ok(SessionPrices {
            anon_fault_ns: self.anon.finish()?,
            zero_page_ns: self.zero.finish()?,
            file_fault_ns: self.file_fault.finish()?,
            file_fault_pages,
            cow_fault_ns: self.cow.finish()?,
            huge_fault_ns: self.huge.finish_fact(),
            pipe_transfers: self.pipe_copy.finish()?,
            file_reads: self.file_reads.finish()?,
            syscall_ns: self.syscall.finish()?,
            map_unmap_ns: self.map_unmap.finish()?,
            wakeup_cross_ns: self.cross.finish_fact(),
            wakeup_same_ns: self.same.finish()?,
            spawn_ns: self.spawn.finish_fact(),
            fork_page_ns: self.fork_tables.finish_fact(),
            chase: Vec::new(),
            host_fault_extra_ns: Fact::missing("not examined yet"),
            prior: false,
        })
    }
}
