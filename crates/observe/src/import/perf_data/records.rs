//! The records of a file, in the order of their times.
//!
//! They stand in the file as the buffers of CPUs were emptied, so a mapping may stand behind samples of its
//! code. One pass notes time and place of each record that matters (16 bytes each); sorted, they are read
//! again through blocks that are kept. So memory depends on the number of records, not on their
//! length, and not on rounds that a writer may leave out.

use super::events::PerfDataEvents;
use super::head::{Numbered, PerfDataFile, PerfDataHead, add_event};
use pagewise_kernel::perf::bindings as b;
use std::fs::File;
use std::io::{BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;

pub(super) const HEADER_BYTES: usize = 8;
/// Types of records that perf itself writes (tools/lib/perf/include/perf/event.h).
const ATTRIBUTE: u32 = 64;
const TRACING_DATA: u32 = 66;
const BUILD_ID: u32 = 67;
const AUXTRACE: u32 = 71;
const COMPRESSED: [u32; 2] = [81, 83];
/// Bits of the length of a record in its place.
const LENGTH_BITS: u32 = 16;
/// Size of the read buffer.
const BUFFER: usize = 1 << 20;

/// Every record that is used has at least a header and a word.
const SHORTEST: u16 = 16;

/// A record's time, and its place: offset and length.
type Place = (u64, u64);

/// All records that matter.
#[derive(Debug)]
pub(super) struct PerfDataRecords<'a> {
    /// Records too short for their kind.
    pub(super) damaged: u64,
    places: std::vec::IntoIter<Place>,
    blocks: BlockCache<'a>,
}

/// The head of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordHeader {
    pub(super) kind: u32,
    pub(super) misc: u16,
    size: u16,
}

impl RecordHeader {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let [a, b, c, d, e, f, g, h] = *bytes.first_chunk()?;
        let kind = u32::from_ne_bytes([a, b, c, d]);
        let (misc, size) = (u16::from_ne_bytes([e, f]), u16::from_ne_bytes([g, h]));
        Some(Self { kind, misc, size })
    }

    const fn matters(self) -> bool {
        matches!(
            self.kind,
            b::PERF_RECORD_SAMPLE
                | b::PERF_RECORD_MMAP
                | b::PERF_RECORD_MMAP2
                | b::PERF_RECORD_COMM
                | b::PERF_RECORD_FORK
                | b::PERF_RECORD_LOST
                | b::PERF_RECORD_LOST_SAMPLES
                | b::PERF_RECORD_THROTTLE
                | b::PERF_RECORD_KSYMBOL
        )
    }
}

impl<'a> PerfDataRecords<'a> {
    /// Finds the records. For a pipe's output, also finds what `head` lacks.
    pub(super) fn find(
        source: &PerfDataFile<'a>,
        head: &mut PerfDataHead,
    ) -> Result<(Self, PerfDataEvents), String> {
        let mut walk = RecordPass::start(source, head.begin, head.end)?;
        let mut events = None;
        let (mut places, mut damaged) = (Vec::new(), 0);
        let mut found: Vec<Numbered> = std::mem::take(&mut head.events);
        if !head.was_piped {
            events = Some(PerfDataEvents::new(std::mem::take(&mut found))?);
        }
        while let Some((at, header)) = walk.next()? {
            let body = &walk.record[HEADER_BYTES..];
            match header.kind {
                kind if COMPRESSED.contains(&kind) => {
                    return Err("its records are compressed (perf record -z)".to_owned());
                }
                ATTRIBUTE => add_event(&mut found, body)?,
                BUILD_ID => drop(head.build_ids.take(&walk.record)),
                _ if header.matters() && header.size < SHORTEST => damaged += 1,
                _ if header.matters() => {
                    if events.is_none() {
                        events = Some(PerfDataEvents::new(std::mem::take(&mut found))?);
                    }
                    let is_sample = header.kind == b::PERF_RECORD_SAMPLE;
                    let time = events.as_ref().map_or(0, |events| events.time(is_sample, body));
                    places.push((time, at << LENGTH_BITS | u64::from(header.size)));
                }
                _ => {}
            }
            walk.pass_over_data(header)?;
        }
        places.sort_unstable();
        let events = events.ok_or("it holds no samples")?;
        let places = places.into_iter();
        Ok((Self { damaged, places, blocks: BlockCache::new(source.file) }, events))
    }

    /// The next one, header included.
    pub(super) fn next(&mut self) -> Result<Option<(RecordHeader, &[u8])>, String> {
        let Some((_, place)) = self.places.next() else { return Ok(None) };
        let length = usize::from((place & ((1 << LENGTH_BITS) - 1)) as u16);
        let record = self.blocks.bytes(place >> LENGTH_BITS, length)?;
        // Another program may have changed the file since.
        let header = RecordHeader::parse(record).ok_or("it has changed while it was read")?;
        Ok(Some((header, record)))
    }
}

/// One pass over a file.
struct RecordPass<'a> {
    from: BufReader<&'a File>,
    at: u64,
    end: u64,
    record: Vec<u8>,
}

impl<'a> RecordPass<'a> {
    fn start(source: &PerfDataFile<'a>, begin: u64, end: u64) -> Result<Self, String> {
        if end >> (u64::BITS - LENGTH_BITS) > 0 {
            return Err("it is too large".to_owned());
        }
        let mut from = BufReader::with_capacity(BUFFER, source.file);
        from.seek(SeekFrom::Start(begin)).map_err(|e| e.to_string())?;
        Ok(Self { from, at: begin, end, record: Vec::new() })
    }

    /// Reads the header of the next record. Returns its place too.
    fn next(&mut self) -> Result<Option<(u64, RecordHeader)>, String> {
        let begin = self.at;
        if begin >= self.end {
            return Ok(None);
        }
        self.read(0, HEADER_BYTES)?;
        let header = RecordHeader::parse(&self.record).ok_or("a record has no header")?;
        if usize::from(header.size) < HEADER_BYTES {
            return Err(format!("the record at byte {begin} has no length"));
        }
        self.read(HEADER_BYTES, usize::from(header.size))?;
        Ok(Some((begin, header)))
    }

    /// Reads the bytes of the record from one place in it to another.
    fn read(&mut self, from: usize, to: usize) -> Result<(), String> {
        self.record.resize(to, 0);
        let begin = self.at - from as u64;
        self.from.read_exact(&mut self.record[from..]).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => format!("it is cut off within the record at byte {begin}"),
            _ => error.to_string(),
        })?;
        self.at += (to - from) as u64;
        Ok(())
    }

    /// Two kinds of records are followed by bytes that their length does not count.
    fn pass_over_data(&mut self, header: RecordHeader) -> Result<(), String> {
        let body = self.record.get(HEADER_BYTES..).unwrap_or_default();
        let length = match header.kind {
            AUXTRACE => pagewise_tracee::perf::words::word(body, 0).unwrap_or(0),
            TRACING_DATA => body.first_chunk().map_or(0, |size| {
                u64::from(u32::from_ne_bytes(*size)).next_multiple_of(HEADER_BYTES as u64)
            }),
            _ => return Ok(()),
        };
        self.at =
            self.at.checked_add(length).filter(|at| *at <= self.end).ok_or("it is cut off")?;
        self.from.seek_relative(length.cast_signed()).map_err(|e| e.to_string())
    }
}

/// Bytes of a block, and of the read beyond it: a record that begins in a block may end in the next one.
const BLOCK: u64 = 64 << 10;
const BEYOND: usize = 64 << 10;
/// Blocks kept: 16 MiB, so that the buffers of 128 CPUs can be read in turns.
const KEPT: usize = 128;

/// Parts of a file, each in the slot that its number leads to.
#[derive(Debug)]
struct BlockCache<'a> {
    file: &'a File,
    kept: Vec<(u64, Vec<u8>)>,
}

impl<'a> BlockCache<'a> {
    fn new(file: &'a File) -> Self {
        Self { file, kept: vec![(u64::MAX, Vec::new()); KEPT] }
    }

    fn bytes(&mut self, offset: u64, length: usize) -> Result<&[u8], String> {
        let number = offset / BLOCK;
        let (held, bytes) = &mut self.kept[(number % KEPT as u64) as usize];
        if *held != number {
            *held = u64::MAX;
            bytes.resize(BLOCK as usize + BEYOND, 0);
            let read = read_up_to(self.file, bytes, number * BLOCK)?;
            bytes.truncate(read);
            *held = number;
        }
        let begin = (offset % BLOCK) as usize;
        bytes
            .get(begin..begin + length)
            .ok_or_else(|| "it became shorter while it was read".to_owned())
    }
}

/// Reads until `bytes` are full or the file ends.
fn read_up_to(file: &File, bytes: &mut [u8], offset: u64) -> Result<usize, String> {
    let mut read = 0;
    loop {
        match file.read_at(&mut bytes[read..], offset + read as u64) {
            Ok(0) => return Ok(read),
            Ok(more) => read += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}
