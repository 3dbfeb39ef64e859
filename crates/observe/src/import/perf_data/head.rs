//! Metadata of a `perf record` file: where the records are, its events, and the build identifiers of the
//! files that ran (tools/perf/Documentation/perf.data-file-format.txt).

use super::events::PerfDataEvent;
use pagewise_tracee::perf::words::{RecordWords, halves, word};
use std::cell::Cell;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// `PERFILE2`, the identifier, in the byte order of this machine.
const MAGIC: u64 = u64::from_ne_bytes(*b"PERFILE2");
/// Bytes of the header of a file, and of a pipe's.
const HEAD: u64 = 104;
const PIPE_HEAD: u64 = 16;
/// Longest section besides the records. Those of large machines have some megabytes.
const LONGEST_SECTION: u64 = 64 << 20;
/// Events at most, and numbers of them: 512 CPUs with 512 events.
const MOST_EVENTS: usize = 1 << 12;
const MOST_NUMBERS: usize = 1 << 18;
/// Build identifiers at most.
const MOST_BUILD_IDS: usize = 1 << 16;
/// Offset and length of a section.
const SECTION: usize = 16;
/// Number of the feature "build identifiers".
const BUILD_IDS: u32 = 2;
/// Bytes of a build identifier's record before its file name.
const BUILD_ID_HEAD: usize = 36;
/// The record says how long the identifier is; before that was 20.
const SAYS_LENGTH: u16 = 1 << 15;
const USUAL_LENGTH: usize = 20;

/// The build identifiers of files by their paths, in hexadecimal digits.
#[derive(Debug, Default)]
pub(super) struct BuildIds(HashMap<String, String>);

impl BuildIds {
    /// Records that the file at `path` has this identifier, unless it already has one.
    pub(super) fn tell(&mut self, path: &str, id: &[u8]) {
        if self.0.len() < MOST_BUILD_IDS && !self.0.contains_key(path) {
            self.0.insert(path.to_owned(), digits(id));
        }
    }

    pub(super) fn get(&self, path: &str) -> Option<&str> {
        self.0.get(path).map(String::as_str)
    }

    /// Takes a record: type, misc, size, pid, 24 bytes of identifier, name.
    pub(super) fn take(&mut self, record: &[u8]) -> Option<()> {
        let misc = u16::from_ne_bytes(*record.get(4..)?.first_chunk()?);
        let length = match misc & SAYS_LENGTH {
            0 => USUAL_LENGTH,
            _ => usize::from(*record.get(12 + USUAL_LENGTH)?).min(USUAL_LENGTH),
        };
        let id = record.get(12..12 + length)?;
        self.tell(&pagewise_tracee::perf::side_band::name(record, BUILD_ID_HEAD)?, id);
        Some(())
    }
}

/// An event and the numbers that records call it by.
pub(super) type Numbered = (PerfDataEvent, Vec<u64>);

/// What was found.
#[derive(Debug, Default)]
pub(super) struct PerfDataHead {
    /// The events. In a pipe's output they are among the records.
    pub(super) events: Vec<Numbered>,
    pub(super) build_ids: BuildIds,
    /// Where the records begin and end.
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) was_piped: bool,
}

/// A file, how long it is, and how much of it may still be read as sections.
#[derive(Debug)]
pub(super) struct PerfDataFile<'a> {
    pub(super) file: &'a File,
    pub(super) length: u64,
    left: Cell<u64>,
}

impl<'a> PerfDataFile<'a> {
    pub(super) const fn new(file: &'a File, length: u64) -> Self {
        Self { file, length, left: Cell::new(length) }
    }

    /// The bytes of a part. Whatever the file says, all parts together are no longer than the file.
    fn bytes(&self, offset: u64, length: u64, what: &str) -> Result<Vec<u8>, String> {
        let end = offset.checked_add(length).filter(|end| *end <= self.length);
        if end.is_none() {
            return Err(format!("it is cut off: its {what} lies past its end"));
        }
        if length > LONGEST_SECTION {
            return Err(format!("its {what} is {length} bytes long"));
        }
        let left = self.left.get().checked_sub(length);
        self.left.set(left.ok_or_else(|| format!("its {what} overlaps other parts of it"))?);
        let mut bytes = vec![0; usize::try_from(length).map_err(|e| e.to_string())?];
        self.file.read_exact_at(&mut bytes, offset).map_err(|e| e.to_string())?;
        Ok(bytes)
    }
}

/// Offset and length that stand at byte `at`.
fn section(bytes: &[u8], at: usize) -> Option<(u64, u64)> {
    Some((word(bytes, at)?, word(bytes, at.checked_add(8)?)?))
}

/// Reads everything besides the records.
pub(super) fn read(source: &PerfDataFile<'_>) -> Result<PerfDataHead, String> {
    let mut bytes = source.bytes(0, PIPE_HEAD, "head")?;
    if word(&bytes, 0) != Some(MAGIC) {
        return Err("it was recorded on a machine of another byte order".to_owned());
    }
    if word(&bytes, 8) == Some(PIPE_HEAD) {
        let end = source.length;
        return Ok(PerfDataHead {
            begin: PIPE_HEAD,
            end,
            was_piped: true,
            ..PerfDataHead::default()
        });
    }
    bytes.extend(source.bytes(PIPE_HEAD, HEAD - PIPE_HEAD, "head")?);
    let field = |at| section(&bytes, at).unwrap_or_default();
    let (begin, length) = field(40);
    if length == 0 {
        return Err("it holds no records: perf record did not come to its end".to_owned());
    }
    let end = begin.checked_add(length).filter(|end| *end <= source.length);
    let end = end.ok_or("it is cut off: its records lie past its end")?;
    let attr_bytes = word(&bytes, 16).unwrap_or(0);
    let events = events(source, attr_bytes, field(24))?;
    let build_ids = build_ids(source, end, word(&bytes, 72).unwrap_or(0))?;
    Ok(PerfDataHead { events, build_ids, begin, end, was_piped: false })
}

/// The attributes, each followed by the location of its identifiers.
fn events(
    source: &PerfDataFile<'_>,
    each: u64,
    (offset, length): (u64, u64),
) -> Result<Vec<Numbered>, String> {
    let bytes = source.bytes(offset, length, "list of events")?;
    let each = usize::try_from(each).ok().filter(|each| *each > SECTION);
    let each = each.ok_or("its events have no size")?;
    let mut all = Vec::new();
    for entry in bytes.chunks_exact(each) {
        let (attr, ids) = entry.split_at(each - SECTION);
        let event = PerfDataEvent::parse(attr).ok_or("an event of it is too short")?;
        let (offset, length) = section(ids, 0).unwrap_or_default();
        let bytes = source.bytes(offset, length, "list of event numbers")?;
        add(&mut all, event, &bytes)?;
    }
    Ok(all)
}

/// Adds an event and its numbers.
fn add(all: &mut Vec<Numbered>, event: PerfDataEvent, ids: &[u8]) -> Result<(), String> {
    let known: usize = all.iter().map(|(_, numbers)| numbers.len()).sum();
    if known + ids.len() / size_of::<u64>() > MOST_NUMBERS || all.len() >= MOST_EVENTS {
        return Err("it names more events than a machine can count".to_owned());
    }
    all.push((event, RecordWords(ids).collect()));
    Ok(())
}

/// Adds the event of a record that was written to a pipe: its attribute, then its numbers.
pub(super) fn add_event(all: &mut Vec<Numbered>, body: &[u8]) -> Result<(), String> {
    let size = word(body, 0).and_then(|word| usize::try_from(halves(word).1).ok());
    let parts = size.and_then(|size| body.split_at_checked(size));
    let event = parts.and_then(|(attr, ids)| Some((PerfDataEvent::parse(attr)?, ids)));
    let (event, ids) = event.ok_or("an event of it is too short")?;
    add(all, event, ids)
}

/// The section of build identifiers. The table of sections follows the records, in the order of the bits of
/// `features`.
fn build_ids(source: &PerfDataFile<'_>, behind: u64, features: u64) -> Result<BuildIds, String> {
    let mut all = BuildIds::default();
    if features & 1 << BUILD_IDS == 0 {
        return Ok(all);
    }
    let before = u64::from((features & ((1 << BUILD_IDS) - 1)).count_ones());
    let table = behind.saturating_add(before * SECTION as u64);
    let entry = source.bytes(table, SECTION as u64, "table of sections")?;
    let (offset, length) = section(&entry, 0).unwrap_or_default();
    let bytes = source.bytes(offset, length, "list of build identifiers")?;
    let mut left = &bytes[..];
    while let Some(size) = left.get(6..8) {
        let size = usize::from(u16::from_ne_bytes([size[0], size[1]]));
        let Some((record, rest)) = left.split_at_checked(size).filter(|_| size > 0) else { break };
        all.take(record);
        left = rest;
    }
    Ok(all)
}

/// An identifier in hexadecimal digits.
pub(super) fn digits(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}
