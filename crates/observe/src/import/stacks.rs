//! Equal stacks, counted. Every text and every frame is kept once, and a stack is a row of numbers: what
//! a profile of a million samples takes is what its different stacks take.

use super::Imported;
use pagewise_model::profile::{Clock, ProfiledStack, StackSamples, UserFrame};
use pagewise_model::{Bytes, Nanos};
use pagewise_tracee::perf::texts::Texts;
use rustc_hash::FxHashMap;

/// What is counted at most: no sum of samples or of their times overflows.
const MOST_SAMPLES: u64 = 1 << 48;
/// What perf calls the process of a CPU that has nothing to do; bpftrace adds the CPU.
const IDLE: &str = "swapper";

/// What is remembered of frames' texts at most.
const MOST_SEEN: usize = 1 << 16;

/// What texts of frames are, so that the frequent ones are taken apart once.
#[derive(Debug)]
pub(super) struct Seen<T>(FxHashMap<Box<str>, T>);

impl<T> Default for Seen<T> {
    fn default() -> Self {
        Self(FxHashMap::default())
    }
}

impl<T: Copy> Seen<T> {
    /// What this text is, as `look` finds at the first time.
    pub(super) fn get(&mut self, text: &str, look: impl FnOnce() -> T) -> T {
        if let Some(known) = self.0.get(text) {
            return *known;
        }
        let found = look();
        if self.0.len() < MOST_SEEN {
            self.0.insert(text.into(), found);
        }
        found
    }
}

/// A place in a program: numbers of its texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Frame {
    pub(super) path: u32,
    pub(super) function: Option<u32>,
    /// In the file; the address without one.
    pub(super) offset: u64,
}

/// One stack by the numbers of its parts.
#[derive(Debug, Default)]
pub(super) struct Stack {
    pub(super) process: u32,
    /// Texts, leaf first.
    pub(super) kernel: Vec<u32>,
    /// Frames, innermost first.
    pub(super) user: Vec<u32>,
}

impl Stack {
    /// The empty stack of a process, in the same memory.
    pub(super) fn begin(&mut self, process: u32) {
        self.process = process;
        self.kernel.clear();
        self.user.clear();
    }
}

/// Stacks so far.
#[derive(Debug, Default)]
pub(super) struct Stacks {
    pub(super) texts: Texts,
    frames: Vec<Frame>,
    numbers: FxHashMap<Frame, u32>,
    /// Process, how many texts of the kernel, these, then the frames.
    counts: FxHashMap<Box<[u32]>, u64>,
    row: Vec<u32>,
    total: u64,
    pub(super) unknown_lines: u64,
    /// Of an event that counts nanoseconds: their sum, and its samples.
    pub(super) nanos: u64,
    pub(super) timed: u64,
}

impl Stacks {
    /// The number of a frame.
    pub(super) fn frame(&mut self, frame: Frame) -> u32 {
        let frames = &mut self.frames;
        *self.numbers.entry(frame).or_insert_with(|| {
            frames.push(frame);
            u32::try_from(frames.len() - 1).unwrap_or(u32::MAX)
        })
    }

    /// A sample stands for so many nanoseconds.
    pub(super) fn time(&mut self, nanos: u64) {
        self.nanos = self.nanos.saturating_add(nanos);
        self.timed += 1;
    }

    pub(super) fn add(&mut self, stack: &Stack, count: u64) {
        let count = count.min(MOST_SAMPLES - self.total);
        self.total += count;
        self.row.clear();
        self.row.push(stack.process);
        self.row.push(u32::try_from(stack.kernel.len()).unwrap_or(u32::MAX));
        self.row.extend(&stack.kernel);
        self.row.extend(&stack.user);
        match self.counts.get_mut(self.row.as_slice()) {
            Some(counted) => *counted += count,
            None => drop(self.counts.insert(self.row.as_slice().into(), count)),
        }
    }

    /// All of them, the most frequent first. `period` is what a sample stands for where none said so.
    pub(super) fn finish(mut self, period: Nanos) -> Imported {
        let has_period = self.timed > 0;
        let period_ns = if has_period { Nanos(self.nanos / self.timed) } else { period };
        let counts = std::mem::take(&mut self.counts);
        let mut idle = 0;
        let mut stacks: Vec<ProfiledStack> = Vec::with_capacity(counts.len());
        for (row, count) in counts {
            let stack = self.stack(&row, count);
            match stack.process.starts_with(IDLE) {
                true => idle += count,
                false => stacks.push(stack),
            }
        }
        stacks.sort_by(|a, b| {
            let by_name = || (&a.process, &a.kernel).cmp(&(&b.process, &b.kernel));
            b.count.cmp(&a.count).then_with(by_name)
        });
        let clock = Clock::Tasks { why: "the profile was imported".to_owned() };
        let samples = StackSamples { stacks, period_ns, clock, ..Default::default() };
        let mut notes = Vec::new();
        if idle > 0 {
            notes.push(format!("{idle} samples of idle CPUs ({IDLE}) are left out"));
        }
        Imported { samples, unknown_lines: self.unknown_lines, has_period, notes }
    }

    fn stack(&self, row: &[u32], count: u64) -> ProfiledStack {
        let (head, rest) = row.split_at(2);
        let (kernel, user) = rest.split_at(head[1] as usize);
        let mut frames = Vec::with_capacity(user.len());
        frames.extend(user.iter().filter_map(|frame| self.user(*frame)));
        ProfiledStack {
            process: self.texts.get(head[0]),
            kernel: kernel.iter().map(|text| self.texts.get(*text)).collect(),
            user: frames,
            count,
        }
    }

    fn user(&self, frame: u32) -> Option<UserFrame> {
        let frame = self.frames.get(frame as usize)?;
        Some(UserFrame {
            path: self.texts.get(frame.path),
            offset_bytes: Bytes(frame.offset),
            function: frame.function.map(|text| self.texts.get(text)),
            maker: None,
        })
    }
}
