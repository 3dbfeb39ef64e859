//! Samples which processes of this host pay for pages: rates between two reads of `/proc`.
//!
//! For every process one file is read in each interval (`/proc/PID/stat`, proc(5)). For those that are shown,
//! two more are read: `status`, and `smaps_rollup`, which walks the page table of the process and is read
//! only if its resident set is at most [`LARGEST_WALK`]. No process is stopped. Without rights only the
//! rollup of other accounts is missing. Not seen: processes that begin and end within an interval, and usage
//! in it by reaped children.

use pagewise_kernel::SysError;
use pagewise_kernel::clock;
use pagewise_kernel::proc::{meminfo, pressure, smaps, stat, status, tree, vmstat};
use pagewise_model::top::{HostCounts, TopHost, TopProcess, TopSample};
use pagewise_model::{Bytes, Nanos};
use std::collections::HashMap;

/// Typical price of a minor fault, in seconds. It is 0.25 to 1 us depending on processor and kernel, more on
/// a guest whose host must back the page.
const FAULT_SECONDS: f64 = 0.5e-6;
/// Page tables of larger processes are not walked: at some 30 ns a page that would take milliseconds.
const LARGEST_WALK: Bytes = Bytes::gib(8);

/// The usage of a process at the last read.
#[derive(Debug, Clone, Copy)]
struct LastUsage {
    start_ticks: u64,
    minor: u64,
    major: u64,
    ticks: u64,
}

/// The state of all reads so far.
#[derive(Debug)]
pub struct TopSampler {
    at: Nanos,
    host: HostCounts,
    seen: HashMap<i32, LastUsage>,
}

impl TopSampler {
    /// The first look.
    ///
    /// # Errors
    /// Where `/proc` cannot be read.
    pub fn start() -> Result<Self, SysError> {
        let mut sampler =
            Self { at: clock::now(), host: HostCounts::default(), seen: HashMap::new() };
        sampler.look(0)?;
        Ok(sampler)
    }

    /// Reads again: what has happened since the last read, with the `most` processes that pay most.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn look(&mut self, most: usize) -> Result<TopSample, SysError> {
        let cpu = clock::thread_cpu();
        let now = clock::now();
        let interval = Nanos(now.0.saturating_sub(self.at.0));
        let seconds = interval.as_secs().max(1e-9);
        let (mut rows, mut seen) = (Vec::new(), HashMap::new());
        for pid in tree::all()? {
            let Ok(now) = stat::read(pid) else { continue };
            let fresh = LastUsage {
                start_ticks: now.start_ticks,
                minor: now.minor_faults,
                major: now.major_faults,
                ticks: now.user_ticks + now.system_ticks,
            };
            seen.insert(pid, fresh);
            let before = self.seen.get(&pid).filter(|old| old.start_ticks == fresh.start_ticks);
            let before =
                before.copied().unwrap_or(LastUsage { minor: 0, major: 0, ticks: 0, ..fresh });
            rows.push(row(pid, now.comm, &before, &fresh, seconds));
        }
        let processes = u32::try_from(rows.len()).unwrap_or(u32::MAX);
        rows.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
        rows.retain(|row| weight(row) > 0.0);
        rows.truncate(most);
        rows.iter_mut().for_each(details);
        let host = self.host_rates(seconds);
        (self.at, self.seen) = (now, seen);
        let own_cpu_ns = Nanos(clock::thread_cpu().0.saturating_sub(cpu.0));
        Ok(TopSample { interval_ns: interval, processes, host, rows, own_cpu_ns })
    }

    fn host_rates(&mut self, seconds: f64) -> TopHost {
        let counters = vmstat::read().unwrap_or_default();
        let fresh = HostCounts {
            faults: counters.get("pgfault"),
            major: counters.get("pgmajfault"),
            huge: counters.get("thp_fault_alloc"),
            huge_refused: counters.get("thp_fault_fallback"),
        };
        let rate =
            |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?) as f64 / seconds);
        let memory = meminfo::read().ok();
        let pressure = pressure::read(pressure::PressureResource::Memory).ok();
        let host = TopHost {
            counts: fresh,
            faults_per_second: rate(fresh.faults, self.host.faults),
            major_per_second: rate(fresh.major, self.host.major),
            huge_per_second: rate(fresh.huge, self.host.huge),
            memory_bytes: memory.map(|memory| memory.total),
            available_bytes: memory.map(|memory| memory.available),
            table_bytes: counters
                .get("nr_page_table_pages")
                .map(|pages| Bytes(pages * pagewise_kernel::page_size::base().bytes())),
            pressure_percent: pressure.map(|pressure| pressure.some.avg10_percent),
        };
        self.host = fresh;
        host
    }
}

fn row(pid: i32, name: String, before: &LastUsage, now: &LastUsage, seconds: f64) -> TopProcess {
    let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
    let minor_per_second = rate(now.minor, before.minor);
    let ticks = rate(now.ticks, before.ticks);
    TopProcess {
        pid,
        name,
        cpus: ticks / rustix::param::clock_ticks_per_second() as f64,
        minor_per_second,
        major_per_second: rate(now.major, before.major),
        fault_cpus: minor_per_second * FAULT_SECONDS,
        resident_bytes: None,
        anonymous_bytes: None,
        table_bytes: None,
        huge_bytes: None,
        prediction: None,
    }
}

/// The order of the rows: what faults cost, a wait for the disk counted as 100 us, and then CPU time.
fn weight(row: &TopProcess) -> f64 {
    const DISK_SECONDS: f64 = 100e-6;
    const LESSER: f64 = 1e-3;
    row.fault_cpus + row.major_per_second * DISK_SECONDS + row.cpus * LESSER
}

/// Details that are read only for processes that are shown. A process that has ended meanwhile keeps its
/// rates.
fn details(row: &mut TopProcess) {
    let Ok(status) = status::read(row.pid) else { return };
    (row.resident_bytes, row.table_bytes) = (status.rss, status.page_tables);
    row.anonymous_bytes = status.rss_anon;
    if status.rss.is_some_and(|rss| rss <= LARGEST_WALK) {
        row.huge_bytes = smaps::rollup(row.pid).ok().map(|memory| memory.anon_huge);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_differences_over_the_interval() {
        let before = LastUsage { start_ticks: 1, minor: 100, major: 1, ticks: 50 };
        let now = LastUsage { minor: 2100, major: 5, ticks: 250, ..before };
        let row = row(7, "x".into(), &before, &now, 2.0);
        assert_eq!((row.minor_per_second, row.major_per_second), (1000.0, 2.0));
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        assert!((row.cpus - 100.0 / ticks).abs() < 1e-9);
        assert!((row.fault_cpus - 0.0005).abs() < 1e-9);
    }

    #[test]
    fn who_faults_comes_before_who_computes() {
        let seen = |minor, ticks| LastUsage { start_ticks: 1, minor, major: 0, ticks };
        let of = |minor, ticks| row(1, "x".into(), &seen(0, 0), &seen(minor, ticks), 1.0);
        assert!(weight(&of(20_000, 10)) > weight(&of(10, 100)));
        assert!(weight(&of(0, 100)) > weight(&of(0, 10)));
    }

    #[test]
    fn our_own_touches_are_seen() {
        let mut sampler = TopSampler::start().unwrap();
        let page = pagewise_kernel::page_size::base().bytes() as usize;
        // Beyond the largest block that malloc takes from its heap, where pages may have been touched before.
        const PAGES: usize = 10_000;
        let mut fresh = vec![0u8; PAGES * page];
        fresh.iter_mut().step_by(page).for_each(|byte| *byte = 1);
        std::hint::black_box(&fresh);
        let top = sampler.look(usize::MAX).unwrap();
        let own = top.rows.iter().find(|row| row.pid == std::process::id() as i32).unwrap();
        let faults = own.minor_per_second * top.interval_ns.as_secs();
        // Huge pages need fewer faults, so the count is compared only without them.
        let huge = own.huge_bytes.unwrap_or(Bytes(0));
        assert!(faults >= PAGES as f64 || huge > Bytes(0), "{faults} faults, {huge} huge");
        assert!(own.resident_bytes.unwrap() >= Bytes((PAGES * page) as u64));
        assert!(top.host.memory_bytes.is_some() && top.processes > 1);
    }
}
