//! Weighted stacks as indexed tables, which pprof and OpenTelemetry share: texts, functions, files,
//! locations, samples. Entry 0 of every table is empty, as both formats require for texts.

use pagewise_model::run::SavedRun;
use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::Hash;

/// A counted quantity and its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProfileQuantity {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
}

/// A frame by its names.
#[derive(Debug, Clone)]
pub(crate) struct ProfileFrame<'a> {
    pub(crate) function: Cow<'a, str>,
    /// The file of the code; empty for code without a file.
    pub(crate) file: &'a str,
    /// Offset in the file.
    pub(crate) offset: u64,
    pub(crate) is_kernel: bool,
}

/// A code location: indices of its function and file, and the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ProfileLocation {
    pub(super) function: u32,
    pub(super) file: u32,
    pub(super) offset: u64,
    pub(super) is_kernel: bool,
}

/// A stack with its weights.
#[derive(Debug)]
pub(super) struct ProfileSample {
    /// Index in the texts.
    pub(super) process: u32,
    /// Index of the stack of locations, leaf first.
    pub(super) stack: u32,
    /// One value for each quantity.
    pub(super) values: [u64; 2],
}

/// The number of samples, and their CPU time.
pub(crate) const OF_SAMPLES: [ProfileQuantity; 2] = [
    ProfileQuantity { name: "samples", unit: "count" },
    ProfileQuantity { name: "cpu", unit: "nanoseconds" },
];
pub(crate) const OF_FAULTS: [ProfileQuantity; 2] = [
    ProfileQuantity { name: "faults", unit: "count" },
    ProfileQuantity { name: "latency", unit: "nanoseconds" },
];

/// All tables of a profile.
#[derive(Debug)]
pub(crate) struct ProfileTables {
    pub(super) quantities: [ProfileQuantity; 2],
    /// Sampling period in units of the last quantity; 0 if every event was recorded.
    pub(super) period: u64,
    pub(super) start_unix_ns: u64,
    pub(super) duration_ns: u64,
    pub(super) texts: NumberedValues<String>,
    /// Indices in the texts.
    pub(super) functions: NumberedValues<u32>,
    pub(super) files: NumberedValues<u32>,
    pub(super) locations: NumberedValues<ProfileLocation>,
    pub(super) stacks: NumberedValues<Vec<u32>>,
    pub(super) samples: Vec<ProfileSample>,
    of_stack: HashMap<(u32, u32), usize>,
}

impl ProfileTables {
    /// Tables without samples.
    pub(crate) fn new(quantities: [ProfileQuantity; 2]) -> Self {
        let nowhere = ProfileLocation { function: 0, file: 0, offset: 0, is_kernel: false };
        Self {
            quantities,
            period: 0,
            start_unix_ns: 0,
            duration_ns: 0,
            texts: NumberedValues::beginning_with(String::new()),
            functions: NumberedValues::beginning_with(0),
            files: NumberedValues::beginning_with(0),
            locations: NumberedValues::beginning_with(nowhere),
            stacks: NumberedValues::beginning_with(Vec::new()),
            samples: Vec::new(),
            of_stack: HashMap::new(),
        }
    }

    /// Adds weights to a stack of a process; its frames come leaf first.
    pub(crate) fn add<'a>(
        &mut self,
        process: &str,
        frames: impl Iterator<Item = ProfileFrame<'a>>,
        values: [u64; 2],
    ) {
        let process = self.text(process);
        let frames: Vec<u32> = frames.map(|frame| self.location(frame)).collect();
        let stack = self.stacks.number(frames);
        let samples = &mut self.samples;
        let at = *self.of_stack.entry((process, stack)).or_insert_with(|| {
            samples.push(ProfileSample { process, stack, values: [0; 2] });
            samples.len() - 1
        });
        for (sum, value) in samples[at].values.iter_mut().zip(values) {
            *sum = sum.saturating_add(value);
        }
    }

    /// Sets when the samples of `run` were taken, and the sampling period in nanoseconds of CPU time.
    pub(crate) fn date(&mut self, run: &SavedRun, period: u64) {
        (self.start_unix_ns, self.duration_ns) = (run.started_unix_ns, run.took_ns.0);
        self.period = period;
    }

    /// The quantity of the period: time if samples were taken by it, else the events.
    pub(super) const fn period_of(&self) -> ProfileQuantity {
        let [events, time] = self.quantities;
        if self.period > 0 { time } else { events }
    }

    /// The index of a text.
    pub(super) fn text(&mut self, text: &str) -> u32 {
        self.texts.number(text.to_owned())
    }

    fn location(&mut self, frame: ProfileFrame<'_>) -> u32 {
        let function = self.text(&frame.function);
        let file = self.text(frame.file);
        let function = self.functions.number(function);
        let file = self.files.number(file);
        let (offset, is_kernel) = (frame.offset, frame.is_kernel);
        self.locations.number(ProfileLocation { function, file, offset, is_kernel })
    }
}

/// Distinct values with an index for each.
#[derive(Debug, Default)]
pub(super) struct NumberedValues<T> {
    pub(super) all: Vec<T>,
    numbers: HashMap<T, u32>,
}

impl<T: Clone + Eq + Hash> NumberedValues<T> {
    /// A table with only this entry.
    pub(super) fn beginning_with(first: T) -> Self {
        Self { all: vec![first.clone()], numbers: HashMap::from([(first, 0)]) }
    }

    pub(super) fn number(&mut self, value: T) -> u32 {
        if let Some(number) = self.numbers.get(&value) {
            return *number;
        }
        let number = number(self.all.len());
        self.all.push(value.clone());
        self.numbers.insert(value, number);
        number
    }
}

/// The index of a row. Tables have fewer than 2^32 rows, because more do not fit in memory.
pub(super) fn number(row: usize) -> u32 {
    u32::try_from(row).unwrap_or(u32::MAX)
}
