//! Equal stacks, counted. Every text and every frame is kept once, and a stack is a row of numbers. So a
//! profile of a million samples takes only as much memory as its distinct stacks.

use super::ImportedProfile;
use pagewise_model::profile::{ProfiledStack, SamplingClock, StackSamples, UserFrame};
use pagewise_model::{Bytes, Nanos};
use pagewise_tracee::perf::texts::NumberedTexts;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Upper bound for counts, so that no sum of samples or of their times overflows.
const MOST_SAMPLES: u64 = 1 << 48;
/// What perf calls the process of a CPU that has nothing to do; bpftrace adds the CPU.
const IDLE: &str = "swapper";

/// Frames of a stack that are kept, from the leaf on: the kernel's limit (perf_event_max_stack) is usually 127.
const MOST_FRAMES: usize = 1024;

/// Memory that a profile may take: this constant, plus this multiple of the bytes read.
const KEPT_ALWAYS: u64 = 16 << 20;
const KEPT_TIMES: u64 = 2;
/// Bytes of a frame, while it is numbered and once it is one of the model.
const FRAME_BYTES: u64 = 256;
/// Bytes of a stack, in addition to its rows of numbers.
const STACK_BYTES: u64 = 192;
const USER_BYTES: u64 = 4 + size_of::<Arc<UserFrame>>() as u64;
const KERNEL_BYTES: u64 = 4 + size_of::<Arc<str>>() as u64;
/// Bytes of an entry in a map of numbers or short texts while the map grows.
pub(super) const ENTRY_BYTES: u64 = 128;

/// Whether a profile of which `read_bytes` were read may keep `kept_bytes`.
pub(super) fn check(kept_bytes: u64, read_bytes: u64) -> Result<(), String> {
    if kept_bytes <= KEPT_ALWAYS + KEPT_TIMES * read_bytes {
        return Ok(());
    }
    Err(format!(
        "its stacks and names differ so much that they take more than {KEPT_TIMES} times its length in memory"
    ))
}

/// Most texts of frames that are remembered.
const MOST_SEEN: usize = 1 << 16;

/// What texts of frames are, so that the frequent ones are taken apart once.
#[derive(Debug)]
pub(super) struct FrameCache<T> {
    all: FxHashMap<Box<str>, T>,
    length: u64,
}

impl<T> Default for FrameCache<T> {
    fn default() -> Self {
        Self { all: FxHashMap::default(), length: 0 }
    }
}

impl<T: Copy> FrameCache<T> {
    /// The value for this text. `look` computes it the first time.
    pub(super) fn get(&mut self, text: &str, look: impl FnOnce() -> T) -> T {
        if let Some(known) = self.all.get(text) {
            return *known;
        }
        let found = look();
        if self.all.len() < MOST_SEEN {
            self.length += text.len() as u64;
            self.all.insert(text.into(), found);
        }
        found
    }

    pub(super) fn kept_bytes(&self) -> u64 {
        self.all.len() as u64 * ENTRY_BYTES + self.length
    }
}

/// What an event counts. The smaller value is the better one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CountedUnit {
    /// Nanoseconds of CPU time, or an unknown unit.
    #[default]
    Time,
    Cycles,
    Other,
}

impl CountedUnit {
    /// The note to report if these samples are the best available.
    pub(super) fn note(self) -> Option<&'static str> {
        let text = "no event of it counts time or cycles: shares are of samples";
        (self == Self::Other).then_some(text)
    }
}

/// A place in a program: numbers of its texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ImportedFrame {
    pub(super) path: u32,
    pub(super) function: Option<u32>,
    /// In the file; the address without one.
    pub(super) offset: u64,
}

/// One stack by the numbers of its parts.
#[derive(Debug, Default)]
pub(super) struct ImportedStack {
    pub(super) process: u32,
    pub(super) counts: CountedUnit,
    /// Texts, leaf first.
    pub(super) kernel: Vec<u32>,
    /// Frames, innermost first.
    pub(super) user: Vec<u32>,
}

impl ImportedStack {
    /// The empty stack of a process, in the same memory.
    pub(super) fn begin(&mut self, process: u32) {
        self.process = process;
        self.kernel.clear();
        self.user.clear();
    }
}

/// Stacks so far.
#[derive(Debug, Default)]
pub(super) struct ImportedStacks {
    pub(super) texts: NumberedTexts,
    frames: Vec<ImportedFrame>,
    numbers: FxHashMap<ImportedFrame, u32>,
    /// Key: process, what is counted, the number of kernel texts, those texts, then the frames.
    counts: FxHashMap<Box<[u32]>, u64>,
    row: Vec<u32>,
    /// Bytes of the distinct stacks.
    kept_bytes: u64,
    total: u64,
    /// The best that samples count.
    taken: Option<CountedUnit>,
    /// Samples whose outermost frames were left out.
    cut: u64,
    pub(super) unknown_lines: u64,
    /// Of an event that counts nanoseconds: their sum, and its samples.
    pub(super) nanos: u64,
    pub(super) timed: u64,
}

impl ImportedStacks {
    /// The number of a frame.
    pub(super) fn frame(&mut self, frame: ImportedFrame) -> u32 {
        let frames = &mut self.frames;
        *self.numbers.entry(frame).or_insert_with(|| {
            frames.push(frame);
            u32::try_from(frames.len() - 1).unwrap_or(u32::MAX)
        })
    }

    /// A sample represents `nanos` nanoseconds.
    pub(super) fn time(&mut self, nanos: u64) {
        self.nanos = self.nanos.saturating_add(nanos);
        self.timed += 1;
    }

    /// What all this takes in memory until its end.
    pub(super) fn kept_bytes(&self) -> u64 {
        self.kept_bytes + self.texts.kept_bytes() + self.frames.len() as u64 * FRAME_BYTES
    }

    pub(super) fn add(&mut self, stack: &ImportedStack, count: u64) {
        let count = count.min(MOST_SAMPLES - self.total);
        self.total += count;
        let kernel = &stack.kernel[..stack.kernel.len().min(MOST_FRAMES)];
        let user = &stack.user[..stack.user.len().min(MOST_FRAMES - kernel.len())];
        if kernel.len() + user.len() < stack.kernel.len() + stack.user.len() {
            self.cut += count;
        }
        self.row.clear();
        self.row.push(stack.process);
        self.row.push(stack.counts as u32);
        self.taken = self.taken.map_or(Some(stack.counts), |taken| Some(taken.min(stack.counts)));
        self.row.push(u32::try_from(kernel.len()).unwrap_or(u32::MAX));
        self.row.extend(kernel);
        self.row.extend(user);
        match self.counts.get_mut(self.row.as_slice()) {
            Some(counted) => *counted += count,
            None => {
                self.counts.insert(self.row.as_slice().into(), count);
                let frames = KERNEL_BYTES * kernel.len() as u64 + USER_BYTES * user.len() as u64;
                self.kept_bytes += STACK_BYTES + frames;
            }
        }
    }

    /// All stacks, the most frequent first. `period` is the time that a sample represents if none said so.
    pub(super) fn finish(mut self, period: Nanos) -> ImportedProfile {
        let has_period = self.timed > 0;
        let period_ns = if has_period { Nanos(self.nanos / self.timed) } else { period };
        let counts = std::mem::take(&mut self.counts);
        self.numbers = FxHashMap::default();
        let frames: Vec<Arc<UserFrame>> =
            self.frames.iter().map(|frame| Arc::new(self.user(*frame))).collect();
        let taken = self.taken.unwrap_or_default();
        let (mut idle, mut of_others) = (0, 0);
        let mut stacks: Vec<ProfiledStack> = Vec::with_capacity(counts.len());
        for (row, count) in counts {
            if row[1] != taken as u32 {
                of_others += count;
                continue;
            }
            let stack = self.stack(&frames, &row, count);
            match stack.process.starts_with(IDLE) {
                true => idle += count,
                false => stacks.push(stack),
            }
        }
        stacks.sort_unstable_by(|a, b| {
            let by_name = || (&a.process, &a.kernel).cmp(&(&b.process, &b.kernel));
            b.count.cmp(&a.count).then_with(by_name)
        });
        let clock = SamplingClock::Tasks { why: "the profile was imported".to_owned() };
        let samples = StackSamples { stacks, period_ns, clock, ..Default::default() };
        let mut notes: Vec<String> = taken.note().map(str::to_owned).into_iter().collect();
        if of_others > 0 {
            notes.push(format!("{of_others} samples of other events are left out"));
        }
        if idle > 0 {
            notes.push(format!("{idle} samples of idle CPUs ({IDLE}) are left out"));
        }
        if self.cut > 0 {
            notes.push(format!(
                "{} samples have their {MOST_FRAMES} innermost frames only",
                self.cut
            ));
        }
        ImportedProfile { samples, unknown_lines: self.unknown_lines, has_period, notes }
    }

    fn stack(&self, frames: &[Arc<UserFrame>], row: &[u32], count: u64) -> ProfiledStack {
        let (head, rest) = row.split_at(3);
        let (kernel, user) = rest.split_at(head[2] as usize);
        let user = user.iter().map(|frame| Arc::clone(&frames[*frame as usize])).collect();
        ProfiledStack {
            process: self.texts.get(head[0]),
            kernel: kernel.iter().map(|text| self.texts.get(*text)).collect(),
            user,
            count,
        }
    }

    fn user(&self, frame: ImportedFrame) -> UserFrame {
        UserFrame {
            path: self.texts.get(frame.path),
            offset_bytes: Bytes(frame.offset),
            function: frame.function.map(|text| self.texts.get(text)),
            maker: None,
        }
    }
}
