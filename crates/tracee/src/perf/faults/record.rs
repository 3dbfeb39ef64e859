//! The records of the fault rings as events: pure functions on bytes.
//!
//! All records ([`super::super::header`]) but samples end with a trailer of thread, time and event
//! number (perf_event_open(2), `sample_id_all`). Which of the three events made a sample is told by
//! its number, the first word. Unknown types are passed over.

use super::tracepoint::Fields;
use crate::perf::header::{for_each_record, is_in_kernel};
use crate::perf::streams;
use crate::perf::words::{Words, halves, word};
use pagewise_kernel::perf::bindings as b;
use pagewise_model::fault::event::{
    Begin, CallStack, Chain, End, ErrorCode, Event, Map, Registers, What,
};
use pagewise_model::{Bytes, Nanos};

/// The events of faults, by what they tell of.
pub(super) type Streams = streams::Streams<Kind>;

/// Thread, time, number of the event.
pub(in crate::perf) const TRAILER_BYTES: usize = 24;

/// Which event a sample is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Begin,
    Minor,
    Major,
    /// The tracepoint before a beginning.
    Code,
}

/// What samples hold beyond thread, time and addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    registers: bool,
    page_size: bool,
    /// Beginnings hold the call chain by frame pointers.
    chain: bool,
}

/// Registers of x86-64 that are recorded, in the order of a sample: RSI, RDI, RSP.
#[cfg(target_arch = "x86_64")]
const REGISTERS: u64 = 1 << 4 | 1 << 5 | 1 << 7;
/// Where instructions are not decoded their registers serve nobody.
#[cfg(not(target_arch = "x86_64"))]
const REGISTERS: u64 = 0;

impl Layout {
    pub(super) const FULL: Self = Self { registers: REGISTERS != 0, page_size: true, chain: false };
    /// For kernels before 5.11.
    pub(super) const NO_PAGE_SIZE: Self =
        Self { registers: REGISTERS != 0, page_size: false, chain: false };
    /// For kernels that do not give registers either.
    pub(super) const LEAN: Self = Self { registers: false, page_size: false, chain: false };

    /// The same with call chains, or without.
    pub(super) const fn with_chain(self, chain: bool) -> Self {
        Self { chain, ..self }
    }

    pub(super) fn sample_type(self, kind: Kind) -> u32 {
        let any = b::PERF_SAMPLE_IDENTIFIER | b::PERF_SAMPLE_TID | b::PERF_SAMPLE_TIME;
        let common = any
            | b::PERF_SAMPLE_ADDR
            | if self.page_size { b::PERF_SAMPLE_DATA_PAGE_SIZE } else { 0 };
        let begin = b::PERF_SAMPLE_IP
            | if self.registers { b::PERF_SAMPLE_REGS_USER } else { 0 }
            | if self.chain { b::PERF_SAMPLE_CALLCHAIN } else { 0 };
        match kind {
            Kind::Code => any | b::PERF_SAMPLE_RAW,
            Kind::Begin => common | begin,
            Kind::Minor | Kind::Major => common,
        }
    }

    pub(super) const fn registers(self) -> u64 {
        if self.registers { REGISTERS } else { 0 }
    }
}

/// Gives each event of `bytes` that counts to `take`; returns how many bytes were understood.
/// `fields` are those of the tracepoints, where there are any.
pub(super) fn parse(
    bytes: &[u8],
    layout: Layout,
    fields: Option<Fields>,
    streams: &mut Streams,
    take: &mut dyn FnMut(Event),
) -> usize {
    for_each_record(bytes, |record, misc, body| {
        let (event, chain) = match record {
            b::PERF_RECORD_SAMPLE => sample(misc, body, layout, fields, streams).unzip(),
            _ => (side_band(record, misc, body, streams), None),
        };
        let stack = event.as_ref().zip(chain).and_then(|(event, chain)| call_stack(event, chain));
        event.into_iter().chain(stack).for_each(&mut *take);
    })
}

/// The event of a sample, and the call chain that it holds, which may be empty.
fn sample(
    misc: u16,
    body: &[u8],
    layout: Layout,
    fields: Option<Fields>,
    streams: &mut Streams,
) -> Option<(Event, Vec<u64>)> {
    let mut words = Words(body);
    let id = words.next()?;
    let kind = streams.kind(id)?;
    let ip_address = if kind == Kind::Begin { words.next()? } else { 0 };
    let (pid, tid) = halves(words.next()?);
    if !streams.accepts(id, tid) {
        return None;
    }
    let at_ns = Nanos(words.next()?);
    let mut chain = Vec::new();
    let what = match kind {
        Kind::Code => What::ErrorCode(error_code(words.0, tid, fields?)?),
        Kind::Begin => {
            let address = words.next()?;
            if layout.chain {
                chain = words.chain()?.1;
            }
            What::Begin(Begin {
                pid,
                tid,
                address,
                ip_address,
                registers: if layout.registers { words.registers()? } else { None },
                page_bytes: words.page_bytes(layout)?,
                in_kernel: is_in_kernel(misc),
            })
        }
        Kind::Minor | Kind::Major => What::End(End {
            tid,
            address: words.next()?,
            page_bytes: words.page_bytes(layout)?,
            is_major: kind == Kind::Major,
        }),
    };
    Some((Event { at_ns, what }, chain))
}

/// The call chain of a beginning, where it has one, as an event of its own.
fn call_stack(event: &Event, chain: Vec<u64>) -> Option<Event> {
    let What::Begin(begin) = event.what else { return None };
    if chain.is_empty() {
        return None;
    }
    let stack = CallStack {
        pid: begin.pid,
        tid: begin.tid,
        address: begin.address,
        ip_address: begin.ip_address,
        in_kernel: begin.in_kernel,
        faults: 1,
        chain: Chain::Walked(chain),
    };
    Some(Event { at_ns: event.at_ns, what: What::Stack(stack) })
}

/// From the data of a tracepoint, with its size in front of it.
fn error_code(raw: &[u8], tid: i32, fields: Fields) -> Option<ErrorCode> {
    const SIZE_BYTES: usize = 4;
    let data = raw.get(SIZE_BYTES..)?;
    let (address, bits) = (word(data, fields.address)?, word(data, fields.error_code)?);
    Some(ErrorCode { tid, address, bits })
}

fn side_band(record: u32, misc: u16, body: &[u8], streams: &mut Streams) -> Option<Event> {
    let trailer = body.len().checked_sub(TRAILER_BYTES)?;
    let at_ns = Nanos(word(body, trailer + 8)?);
    let is_loss = matches!(record, b::PERF_RECORD_LOST | b::PERF_RECORD_LOST_SAMPLES);
    let (about, id) = (halves(word(body, trailer)?).1, word(body, trailer + 16)?);
    if !is_loss && !streams.accepts(id, about) {
        return None;
    }
    let body = &body[..trailer];
    let what = match record {
        b::PERF_RECORD_MMAP2 => What::Map(mapping(body)?),
        b::PERF_RECORD_COMM if u32::from(misc) & b::PERF_RECORD_MISC_COMM_EXEC != 0 => {
            What::Exec { pid: halves(word(body, 0)?).0 }
        }
        b::PERF_RECORD_FORK => {
            let (pid, parent_pid) = halves(word(body, 0)?);
            What::Fork { pid, parent_pid }
        }
        b::PERF_RECORD_EXIT => {
            let (pid, tid) = (halves(word(body, 0)?).0, halves(word(body, 8)?).0);
            streams.forget(tid);
            What::Exit { pid, tid }
        }
        b::PERF_RECORD_LOST => What::Lost { records: word(body, 8)? },
        b::PERF_RECORD_LOST_SAMPLES => What::Lost { records: word(body, 0)? },
        // How many it leaves out is not told: at least one.
        b::PERF_RECORD_THROTTLE => What::Lost { records: 1 },
        _ => return None,
    };
    Some(Event { at_ns, what })
}

/// A mapping: pid and tid, start, length, offset, device, inode, generation, protection and flags, name.
pub(in crate::perf) fn mapping(body: &[u8]) -> Option<Map> {
    const NAME_AT: usize = 64;
    let (protection, flags) = halves(word(body, 56)?);
    let name = body.get(NAME_AT..)?.split(|byte| *byte == 0).next()?;
    Some(Map {
        pid: halves(word(body, 0)?).0,
        start_address: word(body, 8)?,
        size_bytes: Bytes(word(body, 16)?),
        offset_bytes: Bytes(word(body, 24)?),
        is_executable: protection & libc::PROT_EXEC != 0,
        is_shared: flags & libc::MAP_SHARED != 0,
        path: String::from_utf8_lossy(name).into_owned(),
    })
}

/// What the words of a sample mean by its layout.
impl Words<'_> {
    /// The size of a page, where the layout has one.
    fn page_bytes(&mut self, layout: Layout) -> Option<Option<Bytes>> {
        Some(if layout.page_size { Some(Bytes(self.next()?)) } else { None })
    }

    /// Which registers there are (0: none), then the registers.
    fn registers(&mut self) -> Option<Option<Registers>> {
        if self.next()? == 0 {
            return Some(None);
        }
        Some(Some(Registers { source: self.next()?, target: self.next()?, stack: self.next()? }))
    }
}

#[cfg(test)]
#[path = "tests.rs"]
pub(super) mod tests;
