//! The pattern of page uses, from short bursts of single-stepped user code.
//!
//! Every 20 ms, later less often, one running thread is stopped and stepped through some thousand
//! instructions. The pages of each instruction and of its memory operands are computed from the registers
//! before the step. The first instructions of a burst only show what is in use ([`WARM`]). After them the
//! first use of a page is a *jump*. If the page is next to one that the burst has used, it is a step to a
//! *next page*: loops over arrays only do the latter. A page that several bursts used stays in any TLB and is
//! neither.
//!
//! For estimates of misses of the TLB for code, bursts are longer and come sooner ([`BurstPlan::CODE`]), and the
//! pages of their code are kept in order.
//!
//! A step costs 10 to 25 us. All bursts together take at most about 0.4 s (30 s of code) or a tenth of the whole.
//! Not seen: gathers and scatters, accesses inside system calls, which end a burst, and phases between the bursts.

use super::operands_x86_64::{self as operands, LONGEST, NextInstruction};
use iced_x86::InstructionInfoFactory;
use pagewise_kernel::proc::{smaps, stat};
use pagewise_kernel::{affinity, tlb};
use pagewise_model::code_tlb::{CodeBurst, CodeRun, STEPS_TO_FILL, SteppedCode};
use pagewise_model::look::AccessPattern;
use pagewise_model::{Bytes, Fact, PageSize};
use pagewise_tracee::ptrace::{PtraceStop, read_memory, request};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

/// When bursts are taken, and how long they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BurstPlan {
    /// Time between bursts, and before the first one.
    pause: Duration,
    /// The same as a fraction of the time that the program has run, if that is longer.
    later: u32,
    bursts: u32,
    steps: u32,
    /// All stepping together, in a short life.
    budget: Duration,
}

impl BurstPlan {
    /// For the pattern of accesses: the bursts cover more than a minute.
    pub(super) const ACCESSES: Self = Self {
        pause: Duration::from_millis(20),
        later: 8,
        bursts: 60,
        steps: 1000,
        budget: BUDGET,
    };
    /// For misses of the TLB for code: long enough that the first half fills it.
    pub(super) const CODE: Self = Self {
        pause: Duration::from_millis(2),
        later: 16,
        bursts: 200,
        steps: 2 * STEPS_TO_FILL,
        budget: Duration::from_secs(30),
    };
}

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

/// After a burst of code that was cut short, the next comes this part of the time later.
const LATE: u32 = 256;
/// The instruction that calls the kernel.
const SYSCALL: [u8; 2] = [0x0f, 0x05];

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
    plan: BurstPlan,
    pattern: AccessPattern,
    /// Code of the bursts, if it is kept.
    code: Option<Vec<CodeBurst>>,
    first_uses: Vec<FirstUse>,
    /// In how many bursts each page was used.
    bursts_of: HashMap<Page, u32>,
    /// Resident memory of mappings jumped to, and its part on huge pages.
    places: BTreeMap<Place, (Bytes, Bytes)>,
    /// The mappings of each process, and when to read them again.
    mappings: HashMap<i32, (Vec<smaps::SmapsEntry>, Instant)>,
    begin: Instant,
    /// End of the last burst.
    ended: Instant,
    next: Instant,
    spent: Duration,
    factory: InstructionInfoFactory,
}

impl PatternSampler {
    pub(super) fn new(plan: BurstPlan) -> Self {
        let begin = Instant::now();
        Self {
            plan,
            pattern: AccessPattern::default(),
            code: (plan == BurstPlan::CODE).then(Vec::new),
            first_uses: Vec::new(),
            bursts_of: HashMap::new(),
            places: BTreeMap::new(),
            mappings: HashMap::new(),
            begin,
            ended: begin,
            next: begin + plan.pause,
            spent: Duration::ZERO,
            factory: InstructionInfoFactory::new(),
        }
    }

    /// True while there are bursts to take.
    pub(super) fn is_active(&self) -> bool {
        self.pattern.bursts < self.plan.bursts
    }

    /// True when it is time for a burst.
    pub(super) fn is_due(&self) -> bool {
        self.is_active() && Instant::now() >= self.next
    }

    /// Nothing was running: later.
    pub(super) fn put_off(&mut self) {
        self.next = Instant::now() + self.plan.pause / 4;
    }

    /// Whether code is kept, and nothing else looked at between the bursts.
    pub(super) const fn keeps_code(&self) -> bool {
        self.code.is_some()
    }

    /// Steps thread `tid` of process `pid`, which is stopped. `over_calls`: every call of interest stops the thread
    /// by itself, so that bursts of code may go on after the others.
    pub(super) fn burst(&mut self, pid: i32, tid: i32, over_calls: bool) -> BurstEnd {
        let begin = Instant::now();
        let mut burst = Burst::default();
        let beside = AffinityGuard::new(tid);
        let ended_by = self.steps(tid, over_calls && self.keeps_code(), &mut burst);
        drop(beside);
        if !matches!(ended_by, BurstEnd::Stop(stop) if stop.is_end()) {
            self.take(pid, &burst);
        }
        self.pattern.bursts += u32::from(!burst.touched.is_empty());
        self.pattern.instructions += burst.instructions;
        self.pattern.accesses += burst.accesses;
        let is_whole = ended_by == BurstEnd::Done && burst.steps == self.plan.steps;
        if let Some(code) = &mut self.code {
            code.push(CodeBurst { after_ns: (begin - self.ended).into(), runs: burst.runs });
        }
        self.spent += begin.elapsed();
        self.ended = Instant::now();
        let ran = (self.ended - self.begin).saturating_sub(self.spent);
        let later = if is_whole || !self.keeps_code() { ran / self.plan.later } else { ran / LATE };
        self.next = self.ended + self.plan.pause.max(later);
        if self.spent > self.plan.budget {
            self.next = self.next.max(self.begin + self.spent * LIVES);
        }
        ended_by
    }

    fn steps(&mut self, tid: i32, over_calls: bool, burst: &mut Burst) -> BurstEnd {
        for step in 0..self.plan.steps {
            let Ok(regs) = request::get_regs(tid) else { return BurstEnd::Done };
            let code = burst.code.at(tid, regs.rip);
            let accesses = match operands::decode(&code, &regs, &mut self.factory) {
                NextInstruction::Plain(accesses) => accesses,
                NextInstruction::Leave if over_calls && code.starts_with(&SYSCALL) => Vec::new(),
                NextInstruction::Leave => return BurstEnd::Done,
            };
            if request::singlestep(tid, 0).is_err() {
                return BurstEnd::Done;
            }
            match wait_for_step(tid) {
                BurstEnd::Stop(stop) if is_step(tid, stop) => {
                    burst.count(regs.rip, &accesses, step >= WARM);
                    burst.steps = step + 1;
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

    /// The code of the bursts, if it was kept.
    pub(super) fn take_code(&mut self) -> Option<SteppedCode> {
        self.code.take().map(|bursts| SteppedCode { tlb: tlb::code(), bursts })
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
    steps: u32,
    instructions: u64,
    accesses: u64,
    /// Pages used for the first time when warm, and whether by a jump.
    first_uses: Vec<(u64, bool)>,
    touched: HashSet<u64>,
    /// Pages of its code, in order.
    runs: Vec<CodeRun>,
    code: BurstCode,
}

impl Burst {
    fn count(&mut self, ip: u64, accesses: &[u64], is_warm: bool) {
        let page = ip / PageSize::BASE_4K.bytes();
        match self.runs.last_mut() {
            Some(CodeRun(last, instructions)) if *last == page => *instructions += 1,
            _ => self.runs.push(CodeRun(page, 1)),
        }
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
    fn code_is_kept_page_by_page() {
        let mut burst = Burst::default();
        for ip in [0x1ffc, 0x1fff, 0x2003, 0x2000, 0x1000] {
            burst.count(ip, &[], false);
        }
        assert_eq!(burst.runs, [CodeRun(1, 2), CodeRun(2, 2), CodeRun(1, 1)]);
    }

    #[test]
    fn pages_that_several_bursts_use_are_kept() {
        let mut sampler = PatternSampler::new(BurstPlan::ACCESSES);
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
