//! Files of `perf record`, without perf.
//!
//! Uses the samples of the event that counts time, otherwise of the one that counts cycles, otherwise of all
//! events. Mappings, names and forks among the records are applied (`tracee::perf::spaces`), all in time
//! order ([`records`]). Functions come from files with the same build identifier ([`symbols`]). The file may
//! be as perf wrote it, or written to a pipe and saved. Nothing in it is trusted. Decision 51 says why no
//! library reads it.
//!
//! Not seen: callers that were recorded as copies of the stack (`--call-graph dwarf`), names of code that a
//! compiler generated at run time, compressed records (`-z`).
//!
//! Cost: two passes over the file. Memory is bounded, whatever the file says: some 50 MiB, plus its length
//! for the places of its records (16 bytes for one of at least 16), plus twice its length for their content
//! ([`super::stacks`]). All sections together are no longer than the file.

mod events;
mod head;
mod records;
mod symbols;
#[cfg(test)]
mod tests;

use super::ImportedProfile;
use super::stacks::{
    CountedUnit, ENTRY_BYTES, ImportedFrame, ImportedStack, ImportedStacks, check,
};
use events::{PerfDataEvent, PerfDataEvents, PerfDataSample};
use head::PerfDataFile;
use pagewise_kernel::perf::bindings as b;
use pagewise_model::fault::event::MapEvent;
use pagewise_model::{Bytes, Nanos};
use pagewise_tracee::perf::side_band;
use pagewise_tracee::perf::spaces::{CodeLocation, CodeSpaces};
use pagewise_tracee::perf::words::{halves, is_in_kernel, word};
use records::{HEADER_BYTES, PerfDataRecords, RecordHeader};
use rustc_hash::FxHashMap;
use std::fs::File;
use symbols::PerfDataSymbols;

/// The kernel in place of a process.
const KERNEL_PID: i32 = -1;
/// What perf calls the process of an idle CPU.
const IDLE: (i32, &str) = (0, "swapper");
/// A mapping of data (`PERF_RECORD_MISC_MMAP_DATA`), of code that says its build identifier.
const MAPS_DATA: u16 = 1 << 13;
const SAYS_BUILD_ID: u16 = 1 << 14;
/// Most places whose names are kept at a time.
const MOST_PLACES: usize = 1 << 20;

/// Reads a file of `perf record`. `period` is the time that a sample represents if the file does not say it.
///
/// # Errors
/// A sentence: it cannot be read, is damaged, or has content that is not supported.
pub(super) fn read(file: &File, period: Nanos) -> Result<ImportedProfile, String> {
    let length = file.metadata().map_err(|e| e.to_string())?.len();
    let source = PerfDataFile::new(file, length);
    let mut head = head::read(&source)?;
    let (mut records, events) = PerfDataRecords::find(&source, &mut head)?;
    let mut reading = PerfDataReading::new(&events, PerfDataSymbols::new(head.build_ids));
    reading.damaged = records.damaged;
    while let Some((header, record)) = records.next()? {
        reading.take(header, &record[HEADER_BYTES..]);
        check(reading.kept_bytes(), source.length)?;
    }
    Ok(reading.finish(period))
}

/// The state of reading.
struct PerfDataReading<'a> {
    events: &'a PerfDataEvents,
    spaces: CodeSpaces,
    symbols: PerfDataSymbols,
    stacks: ImportedStacks,
    stack: ImportedStack,
    /// Names found before: of places in programs, of places in the kernel.
    frames: FxHashMap<CodeLocation, u32>,
    functions: FxHashMap<u64, u32>,
    of_others: u64,
    damaged: u64,
    lost: u64,
}

impl<'a> PerfDataReading<'a> {
    fn new(events: &'a PerfDataEvents, symbols: PerfDataSymbols) -> Self {
        let mut spaces = CodeSpaces::default();
        spaces.name(IDLE.0, IDLE.1, false);
        Self {
            events,
            spaces,
            symbols,
            stacks: ImportedStacks::default(),
            stack: ImportedStack::default(),
            frames: FxHashMap::default(),
            functions: FxHashMap::default(),
            of_others: 0,
            damaged: 0,
            lost: 0,
        }
    }

    /// Bytes of the file's content in memory, except for the places of its records.
    fn kept_bytes(&self) -> u64 {
        let places = (self.frames.len() + self.functions.len()) as u64 * ENTRY_BYTES;
        let (spaces, symbols) = (self.spaces.kept_bytes(), self.symbols.kept_bytes());
        places + spaces + symbols + self.stacks.kept_bytes()
    }

    /// Processes a record. A record that is too short for its kind is counted.
    fn take(&mut self, header: RecordHeader, body: &[u8]) {
        let taken = match header.kind {
            b::PERF_RECORD_SAMPLE => self.sample(header.misc, body),
            b::PERF_RECORD_MMAP | b::PERF_RECORD_MMAP2 => self.map(header, body),
            b::PERF_RECORD_COMM => self.name(header.misc, body),
            b::PERF_RECORD_FORK => word(body, 0).map(|pids| {
                let (pid, parent_pid) = halves(pids);
                self.spaces.fork(pid, parent_pid);
            }),
            b::PERF_RECORD_LOST => word(body, 8).map(|lost| self.lose(lost)),
            b::PERF_RECORD_LOST_SAMPLES => word(body, 0).map(|lost| self.lose(lost)),
            b::PERF_RECORD_THROTTLE => {
                // It does not hold how many samples are left out: at least one.
                self.lose(1);
                Some(())
            }
            b::PERF_RECORD_KSYMBOL => self.made_in_kernel(body),
            _ => Some(()),
        };
        self.damaged += u64::from(taken.is_none());
    }

    fn lose(&mut self, count: u64) {
        self.lost = self.lost.saturating_add(count);
    }

    fn name(&mut self, misc: u16, body: &[u8]) -> Option<()> {
        let (pid, tid) = halves(word(body, 0)?);
        let is_exec = u32::from(misc) & b::PERF_RECORD_MISC_COMM_EXEC != 0;
        // The name of another thread than the first is that of a thread.
        if is_exec || pid == tid {
            self.spaces.name(pid, &side_band::name(body, 8)?, is_exec);
        }
        Some(())
    }

    fn map(&mut self, header: RecordHeader, body: &[u8]) -> Option<()> {
        let map = match header.kind {
            b::PERF_RECORD_MMAP2 => side_band::mapping(body)?,
            _ => mapping(header.misc, body)?,
        };
        if header.kind == b::PERF_RECORD_MMAP2 && header.misc & SAYS_BUILD_ID != 0 {
            let length = usize::from(*body.get(32)?).min(20);
            self.symbols.identify(&map.path, body.get(36..36 + length)?);
        }
        match map.pid {
            KERNEL_PID => self.symbols.map_kernel(&map),
            _ => self.spaces.map(&map),
        }
        Some(())
    }

    /// Address, length, kind and flags, name.
    fn made_in_kernel(&mut self, body: &[u8]) -> Option<()> {
        let (length, _) = halves(word(body, 8)?);
        let name = side_band::name(body, 16)?;
        self.symbols.made(word(body, 0)?, u64::from(length.cast_unsigned()), name);
        Some(())
    }

    fn sample(&mut self, misc: u16, body: &[u8]) -> Option<()> {
        let Some(event) = self.events.of_sample(body).filter(|e| e.counts == self.events.taken)
        else {
            self.of_others += 1;
            return Some(());
        };
        let mut sample = event.sample(body)?;
        let (kernel, user) = chain(event, misc, &mut sample)?;
        let name = self.spaces.name_of(sample.pid);
        self.stack.counts = event.counts;
        self.stack.begin(self.stacks.texts.number(&self.spaces.text(name)));
        for (depth, address) in kernel.into_iter().enumerate() {
            let function = self.function(called_from(depth, address));
            self.stack.kernel.push(function);
        }
        for (depth, address) in user.into_iter().enumerate() {
            // An address outside of code ends the chain: a program without frame pointers uses the register
            // for something else.
            let Some(code) = self.spaces.code(sample.pid, called_from(depth, address)) else {
                break;
            };
            let frame = self.frame(code);
            self.stack.user.push(frame);
        }
        self.stacks.add(&self.stack, 1);
        let says =
            (event.counts == CountedUnit::Time && sample.period > 0).then_some(sample.period);
        if let Some(nanos) = says.or_else(|| event.period_ns()) {
            self.stacks.time(nanos);
        }
        Some(())
    }

    fn function(&mut self, address: u64) -> u32 {
        if let Some(known) = self.functions.get(&address) {
            return *known;
        }
        let number = self.stacks.texts.number(self.symbols.of_kernel(address));
        keep(&mut self.functions, address, number)
    }

    fn frame(&mut self, code: CodeLocation) -> u32 {
        if let Some(known) = self.frames.get(&code) {
            return *known;
        }
        let path = self.spaces.text(code.path);
        let function = self.symbols.of_program(&path, code.offset);
        let texts = &mut self.stacks.texts;
        let frame = ImportedFrame {
            path: texts.number(&path),
            // The same function at two places is the same frame.
            offset: if function.is_some() { 0 } else { code.offset },
            function: function.map(|name| texts.number(&name)),
        };
        let number = self.stacks.frame(frame);
        keep(&mut self.frames, code, number)
    }

    fn finish(self, period: Nanos) -> ImportedProfile {
        let first = self.events.first_taken();
        let mut imported = self.stacks.finish(period);
        imported.samples.lost = self.lost;
        let notes = &mut imported.notes;
        notes.extend(self.symbols.missing());
        if self.of_others > 0 {
            notes.push(format!("{} samples of other events are left out", self.of_others));
        }
        if first.is_some_and(PerfDataEvent::copies_stacks) {
            notes.push(
                "callers were recorded as copies of the stack, which are not unwound here; \
                 perf script | pagewise profile --import - has them"
                    .to_owned(),
            );
        }
        if self.damaged > 0 {
            notes.push(format!("{} records are too short for their kind", self.damaged));
        }
        imported
    }
}

/// Keeps a result, unless the cache is full.
fn keep<K: std::hash::Hash + Eq>(all: &mut FxHashMap<K, u32>, key: K, number: u32) -> u32 {
    if all.len() >= MOST_PLACES {
        all.clear();
    }
    all.insert(key, number);
    number
}

/// All entries but the innermost are return addresses, which may lie past the end of the function.
const fn called_from(depth: usize, address: u64) -> u64 {
    if depth == 0 { address } else { address.saturating_sub(1) }
}

/// Addresses in the kernel, leaf first, and in the program, innermost first.
fn chain(
    event: &PerfDataEvent,
    misc: u16,
    sample: &mut PerfDataSample<'_>,
) -> Option<(Vec<u64>, Vec<u64>)> {
    let (mut kernel, mut user) = match event.has_chain() {
        true => sample.rest.call_chain()?,
        false => (Vec::new(), Vec::new()),
    };
    match is_in_kernel(misc) {
        true if kernel.is_empty() => kernel.push(sample.ip_address),
        true => {}
        false => {
            kernel.clear();
            if user.is_empty() {
                user.push(sample.ip_address);
            }
        }
    }
    Some((kernel, user))
}

/// A mapping of the older kind: pid and tid, start, length, offset, name.
fn mapping(misc: u16, body: &[u8]) -> Option<MapEvent> {
    Some(MapEvent {
        pid: halves(word(body, 0)?).0,
        start_address: word(body, 8)?,
        size_bytes: Bytes(word(body, 16)?),
        offset_bytes: Bytes(word(body, 24)?),
        is_executable: misc & MAPS_DATA == 0,
        is_shared: false,
        path: side_band::name(body, 32)?,
        file: None,
    })
}
