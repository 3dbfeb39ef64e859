//! The pattern of page uses, from short bursts of single-stepped user code.
//!
//! Every 20 ms, later less often, one running thread is stopped and stepped through some thousand
//! instructions. The pages of each instruction and of its memory operands are computed from the registers
//! before the step. The first instructions of a burst only show what is in use ([`WARM`]). After them the
//! first use of a page is a *jump*. If the page is next to one that the burst has used, it is a step to a
//! *next page*: loops over arrays only do the latter. A page that several bursts used stays in any TLB and is
//! neither.
//!
//! A step costs 10 to 25 us. All bursts together take at most about 0.4 s or a tenth of the whole. Not seen:
//! gathers and scatters, accesses inside system calls, which end a burst, and phases between the bursts.

use super::operands_x86_64::{self as operands, LONGEST, NextInstruction};
use iced_x86::InstructionInfoFactory;
use pagewise_kernel::affinity;
use pagewise_kernel::proc::{smaps, stat};
use pagewise_model::look::AccessPattern;
use pagewise_model::{Bytes, Fact, PageSize};
use pagewise_tracee::ptrace::{PtraceStop, read_memory, request};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

/// Time between bursts, and before the first one.
const PAUSE: Duration = Duration::from_millis(20);
/// The same as a fraction of the program's life, if that is longer: 60 bursts then cover more than a minute.
const LATER: u32 = 8;
const BURSTS: u32 = 60;
const STEPS: u32 = 1000;
/// Instructions after which a burst has seen what a loop keeps in use.
const WARM: u32 = 300;
/// A page used in this many bursts is in permanent use.
const OFTEN: u32 = 3;
/// All stepping together, in a short life; all clearing and counting of accessed bits likewise.
pub(super) const BUDGET: Duration = Duration::from_millis(400);
/// In a longer one they come no sooner than all of it is less than this part of it.
pub(super) const LIVES: u32 = 10;
/// The kernel walks all memory of a process to say what of its mappings is resident: no more often than this
/// multiple of the time that it took before.
const RESIDENCY_REST: u32 = 20;

/// A step that lasts longer may wait for another thread of the tree, which may wait for us.
const LONGEST_STEP: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BurstEnd {
    /// The thread is stopped and may continue.
    Done,
    /// Ended by a stop that is not ours and must still be served.
    Stop(PtraceStop),
    /// The thread is still at its last step.
    Unfinished,
}

/// True for the stop that ends a single step of thread `tid`.
pub(super) fn is_step(tid: i32, stop: PtraceStop) -> bool {
    stop == PtraceStop::Signal(libc::SIGTRAP)
        && request::signal_code(tid)
            .is_ok_and(|code| code == libc::TRAP_TRACE || code == libc::TRAP_BRKPT)
}

fn wait_for_step(tid: i32) -> BurstEnd {
    let begin = Instant::now();
    loop {
        match request::wait(tid, false) {
            Ok(Some((_, stop))) => return BurstEnd::Stop(stop),
            Ok(None) if begin.elapsed() >= LONGEST_STEP => return BurstEnd::Unfinished,
            Ok(None) => std::thread::yield_now(),
            Err(_) => return BurstEnd::Done,
        }
    }
}

/// A page, by process and number.
type Page = (i32, u64);
/// A mapping, by process and first address.
type Place = (i32, u64);

/// The first use of a page by a burst that was warm.
#[derive(Debug, Clone, Copy)]
struct FirstUse {
    page: Page,
    is_jump: bool,
    place: Option<Place>,
}

/// Takes the bursts and keeps their sums.
pub(super) struct PatternSampler {
    pattern: AccessPattern,
    first_uses: Vec<FirstUse>,
    /// In how many bursts each page was used.
    bursts_of: HashMap<Page, u32>,
    /// Resident memory of mappings jumped to, and its part on huge pages.
    places: BTreeMap<Place, (Bytes, Bytes)>,
    /// The mappings of each process, and when to read them again.
    mappings: HashMap<i32, (Vec<smaps::SmapsEntry>, Instant)>,
    begin: Instant,
    next: Instant,
    spent: Duration,
    factory: InstructionInfoFactory,
}

impl PatternSampler {
    pub(super) fn new() -> Self {
        Self {
            pattern: AccessPattern::default(),
            first_uses: Vec::new(),
            bursts_of: HashMap::new(),
            places: BTreeMap::new(),
            mappings: HashMap::new(),
            begin: Instant::now(),
            next: Instant::now() + PAUSE,
            spent: Duration::ZERO,
            factory: InstructionInfoFactory::new(),
        }
    }

    /// True while there are bursts to take.
    pub(super) fn is_active(&self) -> bool {
        self.pattern.bursts < BURSTS
    }

    /// True when it is time for a burst.
    pub(super) fn is_due(&self) -> bool {
        self.is_active() && Instant::now() >= self.next
    }

    /// Nothing was running: later.
    pub(super) fn put_off(&mut self) {
        self.next = Instant::now() + PAUSE / 4;
    }

    /// Steps thread `tid` of process `pid`, which is stopped.
    pub(super) fn burst(&mut self, pid: i32, tid: i32) -> BurstEnd {
        let begin = Instant::now();
        let mut burst = Burst::default();
        let beside = AffinityGuard::new(tid);
        let ended_by = self.steps(tid, &mut burst);
        drop(beside);
        if !matches!(ended_by, BurstEnd::Stop(stop) if stop.is_end()) {
            self.take(pid, &burst);
        }
        self.pattern.bursts += u32::from(!burst.touched.is_empty());
        self.pattern.instructions += burst.instructions;
        self.pattern.accesses += burst.accesses;
        self.spent += begin.elapsed();
        self.next = Instant::now() + PAUSE.max(self.begin.elapsed() / LATER);
        if self.spent > BUDGET {
            self.next = self.next.max(self.begin + self.spent * LIVES);
        }
        ended_by
    }

    fn steps(&mut self, tid: i32, burst: &mut Burst) -> BurstEnd {
        for step in 0..STEPS {
            let Ok(regs) = request::get_regs(tid) else { return BurstEnd::Done };
            let code = burst.code.at(tid, regs.rip);
            let NextInstruction::Plain(accesses) =
                operands::decode(&code, &regs, &mut self.factory)
            else {
                return BurstEnd::Done;
            };
            if request::singlestep(tid, 0).is_err() {
                return BurstEnd::Done;
            }
            match wait_for_step(tid) {
                BurstEnd::Stop(stop) if is_step(tid, stop) => {
                    burst.count(regs.rip, &accesses, step >= WARM);
                }
                other => return other,
            }
        }
        BurstEnd::Done
    }

    /// Adds the pages that a burst of process `pid` used, and the mappings that it jumped to.
    fn take(&mut self, pid: i32, burst: &Burst) {
        for page in &burst.touched {
            *self.bursts_of.entry((pid, *page)).or_default() += 1;
        }
        let has_jumps = burst.first_uses.iter().any(|(_, is_jump)| *is_jump);
        let is_due = self.mappings.get(&pid).is_none_or(|(_, due)| Instant::now() >= *due);
        if has_jumps && is_due {
            let begin = Instant::now();
            let entries = smaps::read(pid).unwrap_or_default();
            let due = Instant::now() + begin.elapsed() * RESIDENCY_REST;
            self.mappings.insert(pid, (entries, due));
        }
        let entries = self.mappings.get(&pid).map_or(&[][..], |(entries, _)| entries);
        for &(page, is_jump) in &burst.first_uses {
            let address = page * PageSize::BASE_4K.bytes();
            let entry = entries.iter().find(|e| is_jump && e.mapping.contains(address));
            let place = entry.map(|e| (pid, e.mapping.start));
            if let (Some(place), Some(entry)) = (place, entry) {
                self.places.insert(place, (entry.residency.rss, entry.residency.huge()));
            }
            self.first_uses.push(FirstUse { page: (pid, page), is_jump, place });
        }
    }

    /// The pattern seen; missing when nothing ran long enough.
    pub(super) fn finish(mut self) -> Fact<AccessPattern> {
        if self.pattern.bursts == 0 {
            return Fact::missing("no thread ran long enough in user code");
        }
        let mut jumped_in = BTreeSet::new();
        for first in &self.first_uses {
            if self.bursts_of.get(&first.page).is_some_and(|bursts| *bursts >= OFTEN) {
                continue;
            }
            self.pattern.jumps += u64::from(first.is_jump);
            self.pattern.next_pages += u64::from(!first.is_jump);
            jumped_in.extend(first.place);
        }
        for place in jumped_in {
            let (resident, huge) = self.places.get(&place).copied().unwrap_or_default();
            self.pattern.jump_span_bytes += resident;
            self.pattern.jump_huge_bytes += huge.min(resident);
        }
        Fact::Known(self.pattern)
    }
}

/// Pins our own thread to the CPU that the stepped thread last ran on, until dropped: a step between two CPUs
/// costs four times as much.
struct AffinityGuard {
    before: Option<Vec<u32>>,
}

impl AffinityGuard {
    fn new(tid: i32) -> Self {
        let there = stat::read(tid).ok().map(|stat| [stat.processor]);
        let before = affinity::get(0).ok();
        let moved = there.is_some_and(|there| affinity::set(0, &there).is_ok());
        Self { before: before.filter(|_| moved) }
    }
}

impl Drop for AffinityGuard {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // Refused only if the allowed CPUs changed meanwhile; then the kernel's choice stands.
            let _refused = affinity::set(0, before);
        }
    }
}

/// The pages that one burst used.
#[derive(Default)]
struct Burst {
    instructions: u64,
    accesses: u64,
    /// Pages used for the first time when warm, and whether by a jump.
    first_uses: Vec<(u64, bool)>,
    touched: HashSet<u64>,
    code: BurstCode,
}

impl Burst {
    fn count(&mut self, ip: u64, accesses: &[u64], is_warm: bool) {
        if is_warm {
            self.instructions += 1;
            self.accesses += accesses.len() as u64;
        }
        for address in std::iter::once(&ip).chain(accesses) {
            let page = address / PageSize::BASE_4K.bytes();
            if self.touched.insert(page) && is_warm {
                let beside = [page.wrapping_sub(1), page.wrapping_add(1)];
                self.first_uses.push((page, !beside.iter().any(|p| self.touched.contains(p))));
            }
        }
    }
}

/// Pages of code, read once per burst.
#[derive(Default)]
struct BurstCode {
    pages: HashMap<u64, Vec<u8>>,
}

impl BurstCode {
    /// The bytes at `address`, at most one instruction's.
    fn at(&mut self, tid: i32, address: u64) -> Vec<u8> {
        let page = PageSize::BASE_4K.bytes();
        let mut bytes = self
            .page(tid, address / page * page)
            .get((address % page) as usize..)
            .unwrap_or_default()
            .to_vec();
        if bytes.len() < LONGEST {
            bytes.extend(self.page(tid, (address / page + 1) * page));
        }
        bytes.truncate(LONGEST);
        bytes
    }

    fn page(&mut self, tid: i32, start: u64) -> &[u8] {
        self.pages.entry(start).or_insert_with(|| {
            let mut bytes = vec![0; PageSize::BASE_4K.bytes() as usize];
            let read = read_memory(tid, start, &mut bytes).unwrap_or(0);
            bytes.truncate(read);
            bytes
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_does_not_end_is_left() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id() as i32;
        request::seize(pid, 0).unwrap();
        assert_eq!(wait_for_step(pid), BurstEnd::Unfinished);
        child.kill().unwrap();
        assert!(!child.wait().unwrap().success());
        // The process no longer exists, so there is nothing left to step.
        assert_eq!(wait_for_step(pid), BurstEnd::Done);
    }

    /// Jumps and steps to a next page of a burst with these accesses by one instruction.
    fn kinds(accesses: impl Iterator<Item = Vec<u64>>) -> (usize, usize) {
        let mut burst = Burst::default();
        for (step, accesses) in accesses.enumerate() {
            burst.count(0x10, &accesses, step >= WARM as usize);
        }
        let jumps = burst.first_uses.iter().filter(|(_, is_jump)| *is_jump).count();
        (jumps, burst.first_uses.len() - jumps)
    }

    #[test]
    fn walks_do_not_jump_and_lookups_do() {
        assert_eq!(kinds((0..2348).map(|i| vec![0x10_0000 + i * 8])), (0, 4));
        assert_eq!(kinds((0..400).map(|i| vec![i * 0x51_0000, 1 << 40])), (100, 0));
        assert_eq!(kinds((0..400).map(|i| vec![(i % 200) * 0x51_0000])), (0, 0), "all seen before");
    }

    #[test]
    fn two_arrays_in_one_loop_do_not_jump() {
        let pairs = (0..1000).map(|i| vec![0x10_0000 + i * 8, 0x9000_0000 + i * 8]);
        assert_eq!(kinds(pairs), (0, 2));
        let turns =
            (0..1000).map(|i| vec![if i % 2 == 0 { 0x10_0000 } else { 0x9000_0000 } + i * 8]);
        assert_eq!(kinds(turns), (0, 2));
    }

    #[test]
    fn an_instruction_that_is_done_once_may_jump() {
        let mut burst = Burst::default();
        burst.count(0x10, &[], false);
        burst.count(0x20, &[0x7000_0000], true);
        burst.count(0x9_0000, &[0x7000_0008], true);
        let pages: Vec<u64> = burst.first_uses.iter().map(|(page, _)| *page).collect();
        assert_eq!(pages, [0x7_0000, 0x90], "data, and code");
    }

    #[test]
    fn pages_that_several_bursts_use_are_kept() {
        let mut sampler = PatternSampler::new();
        for round in 0..3 {
            let mut burst = Burst::default();
            burst.count(0x10, &[0x5000_0000, 0x6000_0000 + round * 0x10_0000], true);
            sampler.take(0, &burst);
            sampler.pattern.bursts += 1;
        }
        let Fact::Known(pattern) = sampler.finish() else { panic!("three bursts") };
        assert_eq!((pattern.jumps, pattern.next_pages), (3, 0));
    }
}
