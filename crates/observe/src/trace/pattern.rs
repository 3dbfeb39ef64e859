//! The pattern of data accesses, from short bursts of single-stepped user code.
//!
//! About every 20 ms one running thread is stopped and stepped through some hundred instructions;
//! the address of each memory operand is computed from the registers before the step. An access
//! *jumps* when it goes to a page that the burst has not touched, away from the page that the same
//! instruction touched before: table lookups and pointer chases do, loops over arrays do not. A
//! step costs 10 to 25 us, a burst up to 10 ms; all bursts together at most about a second.
//! Not seen: gathers and scatters, accesses inside system calls, phases between the bursts.

use super::operands_x86_64::{self as operands, Access, LONGEST, Step};
use iced_x86::InstructionInfoFactory;
use pagewise_kernel::affinity;
use pagewise_kernel::proc::{smaps, stat};
use pagewise_model::look::AccessPattern;
use pagewise_model::{Bytes, Fact, PageSize};
use pagewise_tracee::ptrace::{Stop, read_memory, request};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

/// Time between bursts, and before the first one.
const PAUSE: Duration = Duration::from_millis(20);
const BURSTS: u32 = 60;
const STEPS: u32 = 400;
/// All stepping together.
const BUDGET: Duration = Duration::from_secs(1);

/// A step that lasts longer may wait for another thread of the tree, which may wait for us.
const LONGEST_STEP: Duration = Duration::from_millis(20);

/// How a burst ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BurstEnd {
    /// The thread is stopped where it may go on.
    Done,
    /// By a stop that is not one of ours and is still to be served.
    Stop(Stop),
    /// The thread is still at its last step.
    Unfinished,
}

/// True for the stop that ends a single step of thread `tid`.
pub(super) fn is_step(tid: i32, stop: Stop) -> bool {
    stop == Stop::Signal(libc::SIGTRAP)
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

/// The part of one mapping that is jumped in.
#[derive(Debug, Clone, Copy)]
struct Range {
    low: u64,
    high: u64,
    resident: Bytes,
    huge: Bytes,
}

/// Takes the bursts and keeps their sums.
pub(super) struct Sampler {
    pattern: AccessPattern,
    /// By process and first address of the mapping.
    ranges: BTreeMap<(i32, u64), Range>,
    next: Instant,
    spent: Duration,
    factory: InstructionInfoFactory,
}

impl Sampler {
    pub(super) fn new() -> Self {
        Self {
            pattern: AccessPattern::default(),
            ranges: BTreeMap::new(),
            next: Instant::now() + PAUSE,
            spent: Duration::ZERO,
            factory: InstructionInfoFactory::new(),
        }
    }

    /// True while there are bursts to take.
    pub(super) fn is_active(&self) -> bool {
        self.pattern.bursts < BURSTS && self.spent < BUDGET
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
        let beside = Beside::new(tid);
        let ended_by = self.steps(tid, &mut burst);
        drop(beside);
        if !matches!(ended_by, BurstEnd::Stop(stop) if stop.is_end()) {
            self.place(pid, &burst.targets);
        }
        self.pattern.bursts += u32::from(burst.instructions > 0);
        self.pattern.instructions += burst.instructions;
        self.pattern.accesses += burst.accesses;
        self.pattern.jumps += burst.targets.len() as u64;
        self.spent += begin.elapsed();
        self.next = Instant::now() + PAUSE;
        ended_by
    }

    fn steps(&mut self, tid: i32, burst: &mut Burst) -> BurstEnd {
        for _ in 0..STEPS {
            let Ok(regs) = request::get_regs(tid) else { return BurstEnd::Done };
            let code = burst.code.at(tid, regs.rip);
            let Step::Plain(accesses) = operands::decode(&code, &regs, &mut self.factory) else {
                return BurstEnd::Done;
            };
            if request::singlestep(tid, 0).is_err() {
                return BurstEnd::Done;
            }
            match wait_for_step(tid) {
                BurstEnd::Stop(stop) if is_step(tid, stop) => burst.count(regs.rip, &accesses),
                other => return other,
            }
        }
        BurstEnd::Done
    }

    /// Sorts the targets of jumps into the mappings they lie in.
    fn place(&mut self, pid: i32, targets: &[u64]) {
        if targets.is_empty() {
            return;
        }
        let entries = smaps::read(pid).unwrap_or_default();
        for &target in targets {
            let Some(entry) = entries.iter().find(|e| e.mapping.contains(target)) else { continue };
            let (resident, huge) = (entry.residency.rss, entry.residency.huge());
            let new = Range { low: target, high: target, resident, huge };
            let range = self.ranges.entry((pid, entry.mapping.start)).or_insert(new);
            range.low = range.low.min(target);
            range.high = range.high.max(target);
            (range.resident, range.huge) = (resident, huge);
        }
    }

    /// The pattern seen; missing when nothing ran long enough.
    pub(super) fn finish(mut self) -> Fact<AccessPattern> {
        if self.pattern.bursts == 0 {
            return Fact::missing("no thread ran in user code long enough to be stepped");
        }
        let page = PageSize::BASE_4K.bytes();
        for range in self.ranges.values() {
            let span = Bytes(range.high - range.low + page).min(range.resident);
            self.pattern.jump_span_bytes += span;
            self.pattern.jump_huge_bytes += range.huge.min(span);
        }
        Fact::Known(self.pattern)
    }
}

/// Our own thread on the CPU that the stepped thread last ran on, until dropped: a step between two
/// CPUs costs four times as much.
struct Beside {
    before: Option<Vec<u32>>,
}

impl Beside {
    fn new(tid: i32) -> Self {
        let there = stat::read(tid).ok().map(|stat| [stat.processor]);
        let before = affinity::get(0).ok();
        let moved = there.is_some_and(|there| affinity::set(0, &there).is_ok());
        Self { before: before.filter(|_| moved) }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // Refused only if the allowed CPUs changed meanwhile; then the kernel's choice stands.
            let _refused = affinity::set(0, before);
        }
    }
}

/// Sums of one burst.
#[derive(Default)]
struct Burst {
    instructions: u64,
    accesses: u64,
    /// Addresses that were jumped to.
    targets: Vec<u64>,
    touched: HashSet<u64>,
    /// The page each operand touched last, by the address of its instruction and its place there.
    before: HashMap<(u64, usize), u64>,
    code: Code,
}

impl Burst {
    fn count(&mut self, ip: u64, accesses: &[Access]) {
        self.instructions += 1;
        self.accesses += accesses.len() as u64;
        for (operand, access) in accesses.iter().enumerate() {
            let page = access.address / PageSize::BASE_4K.bytes();
            let is_new = self.touched.insert(page);
            let before = self.before.insert((ip, operand), page);
            let away = before.is_some_and(|before| before.abs_diff(page) > 1);
            if is_new && away && !access.is_near {
                self.targets.push(access.address);
            }
        }
    }
}

/// Pages of code, read once per burst.
#[derive(Default)]
struct Code {
    pages: HashMap<u64, Vec<u8>>,
}

impl Code {
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
        // It is gone, and there is nothing left to step.
        assert_eq!(wait_for_step(pid), BurstEnd::Done);
    }

    fn far(address: u64) -> Access {
        Access { address, is_near: false }
    }

    #[test]
    fn walks_do_not_jump_and_lookups_do() {
        let mut walk = Burst::default();
        for index in 0..4000 {
            walk.count(0x10, &[far(0x10_0000 + index * 8)]);
        }
        assert_eq!((walk.accesses, walk.targets.len()), (4000, 0));
        let mut lookup = Burst::default();
        for index in 0..100 {
            lookup
                .count(0x10, &[far(index * 0x51_0000), Access { address: 1 << 40, is_near: true }]);
        }
        // The first one has nothing before it, the near accesses are never jumps.
        assert_eq!(lookup.targets.len(), 99);
        lookup.count(0x10, &[far(0)]);
        assert_eq!(lookup.targets.len(), 99);
    }

    #[test]
    fn two_arrays_in_one_loop_do_not_jump() {
        let mut burst = Burst::default();
        for index in 0..2000 {
            burst.count(0x10, &[far(0x10_0000 + index * 8)]);
            burst.count(0x14, &[far(0x9000_0000 + index * 8)]);
        }
        assert_eq!(burst.targets.len(), 0);
    }

    #[test]
    fn a_copy_by_one_instruction_does_not_jump() {
        let mut burst = Burst::default();
        for index in 0..2000 {
            burst.count(0x10, &[far(0x10_0000 + index * 8), far(0x9000_0000 + index * 8)]);
        }
        assert_eq!((burst.accesses, burst.targets.len()), (4000, 0));
    }
}
