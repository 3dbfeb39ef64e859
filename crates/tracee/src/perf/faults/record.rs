//! Decodes the records of the fault rings to events: pure functions on bytes.
//!
//! All records ([`super::super::words`]) except samples are read by `side_band`. The first word of a sample,
//! its event number, says which of the three events made it. Unknown types are skipped.

use super::tracepoint::TracepointFields;
use crate::perf::side_band::{self, SideBand};
use crate::perf::streams;
use crate::perf::words::{RecordWords, halves, word};
use crate::perf::words::{for_each_record, is_in_kernel};
use pagewise_kernel::perf::bindings as b;
use pagewise_model::fault::event::{
    CallStack, FaultBegin, FaultEnd, FaultErrorCode, FaultEvent, FaultEventPayload,
    OperandRegisters, RecordedStack,
};
use pagewise_model::{Bytes, Nanos};

/// The fault events, by kind.
pub(super) type Streams = streams::EventStreams<FaultEventKind>;

/// The event that a sample belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FaultEventKind {
    Begin,
    Minor,
    Major,
    /// The tracepoint that precedes a beginning.
    Code,
}

/// Content of samples besides thread, time and addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FaultSampleLayout {
    registers: bool,
    page_size: bool,
    /// Beginnings contain the call chain by frame pointers.
    chain: bool,
}

/// Registers of x86-64 that are recorded, in the order of a sample: RSI, RDI, RSP.
#[cfg(target_arch = "x86_64")]
const REGISTERS: u64 = 1 << 4 | 1 << 5 | 1 << 7;
/// Other machines record no registers, because their instructions are not decoded.
#[cfg(not(target_arch = "x86_64"))]
const REGISTERS: u64 = 0;

impl FaultSampleLayout {
    pub(super) const FULL: Self = Self { registers: REGISTERS != 0, page_size: true, chain: false };
    /// For kernels before 5.11, which do not report page sizes.
    pub(super) const NO_PAGE_SIZE: Self =
        Self { registers: REGISTERS != 0, page_size: false, chain: false };
    /// For kernels that do not report registers either.
    pub(super) const LEAN: Self = Self { registers: false, page_size: false, chain: false };

    /// This layout with or without call chains.
    pub(super) const fn with_chain(self, chain: bool) -> Self {
        Self { chain, ..self }
    }

    pub(super) fn sample_type(self, kind: FaultEventKind) -> u32 {
        let any = b::PERF_SAMPLE_IDENTIFIER | b::PERF_SAMPLE_TID | b::PERF_SAMPLE_TIME;
        let common = any
            | b::PERF_SAMPLE_ADDR
            | if self.page_size { b::PERF_SAMPLE_DATA_PAGE_SIZE } else { 0 };
        let begin = b::PERF_SAMPLE_IP
            | if self.registers { b::PERF_SAMPLE_REGS_USER } else { 0 }
            | if self.chain { b::PERF_SAMPLE_CALLCHAIN } else { 0 };
        match kind {
            FaultEventKind::Code => any | b::PERF_SAMPLE_RAW,
            FaultEventKind::Begin => common | begin,
            FaultEventKind::Minor | FaultEventKind::Major => common,
        }
    }

    pub(super) const fn registers(self) -> u64 {
        if self.registers { REGISTERS } else { 0 }
    }
}

/// Passes each event of `bytes` that counts to `take`; returns how many bytes were understood. `fields` are
/// those of the tracepoints, if any.
pub(super) fn parse(
    bytes: &[u8],
    layout: FaultSampleLayout,
    fields: Option<TracepointFields>,
    streams: &mut Streams,
    take: &mut dyn FnMut(FaultEvent),
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

/// The event of a sample, and its call chain, which may be empty.
fn sample(
    misc: u16,
    body: &[u8],
    layout: FaultSampleLayout,
    fields: Option<TracepointFields>,
    streams: &mut Streams,
) -> Option<(FaultEvent, Vec<u64>)> {
    let mut words = RecordWords(body);
    let id = words.next()?;
    let kind = streams.kind(id)?;
    let ip_address = if kind == FaultEventKind::Begin { words.next()? } else { 0 };
    let (pid, tid) = halves(words.next()?);
    if !streams.accepts(id, tid) {
        return None;
    }
    let at_ns = Nanos(words.next()?);
    let mut chain = Vec::new();
    let what = match kind {
        FaultEventKind::Code => FaultEventPayload::ErrorCode(error_code(words.0, tid, fields?)?),
        FaultEventKind::Begin => {
            let address = words.next()?;
            if layout.chain {
                chain = words.call_chain()?.1;
            }
            FaultEventPayload::Begin(FaultBegin {
                pid,
                tid,
                address,
                ip_address,
                registers: if layout.registers { words.registers()? } else { None },
                page_bytes: words.page_bytes(layout)?,
                in_kernel: is_in_kernel(misc),
            })
        }
        FaultEventKind::Minor | FaultEventKind::Major => FaultEventPayload::End(FaultEnd {
            tid,
            address: words.next()?,
            page_bytes: words.page_bytes(layout)?,
            is_major: kind == FaultEventKind::Major,
        }),
    };
    Some((FaultEvent { at_ns, what }, chain))
}

/// The call chain of a beginning as a separate event; `None` if it has none.
fn call_stack(event: &FaultEvent, chain: Vec<u64>) -> Option<FaultEvent> {
    let FaultEventPayload::Begin(begin) = event.what else { return None };
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
        chain: RecordedStack::Walked(chain),
    };
    Some(FaultEvent { at_ns: event.at_ns, what: FaultEventPayload::Stack(stack) })
}

/// The error code from the data of a tracepoint, which begins with its size.
fn error_code(raw: &[u8], tid: i32, fields: TracepointFields) -> Option<FaultErrorCode> {
    const SIZE_BYTES: usize = 4;
    let data = raw.get(SIZE_BYTES..)?;
    let (address, bits) = (word(data, fields.address)?, word(data, fields.error_code)?);
    Some(FaultErrorCode { tid, address, bits })
}

fn side_band(record: u32, misc: u16, body: &[u8], streams: &mut Streams) -> Option<FaultEvent> {
    let (at_ns, told) = side_band::read(record, misc, body, streams)?;
    let what = match told {
        SideBand::Map(map) => FaultEventPayload::Map(map),
        SideBand::Name { pid, is_exec: true, .. } => FaultEventPayload::Exec { pid },
        SideBand::Name { .. } => return None,
        SideBand::Fork { pid, parent_pid } => FaultEventPayload::Fork { pid, parent_pid },
        SideBand::Exit { pid, tid } => FaultEventPayload::Exit { pid, tid },
        SideBand::Lost(records) => FaultEventPayload::Lost { records },
    };
    Some(FaultEvent { at_ns, what })
}

/// The words of a sample, decoded by its layout.
impl RecordWords<'_> {
    /// The size of a page, if the layout contains it.
    fn page_bytes(&mut self, layout: FaultSampleLayout) -> Option<Option<Bytes>> {
        Some(if layout.page_size { Some(Bytes(self.next()?)) } else { None })
    }

    /// First the register ABI (0: no registers), then the registers.
    fn registers(&mut self) -> Option<Option<OperandRegisters>> {
        if self.next()? == 0 {
            return Some(None);
        }
        Some(Some(OperandRegisters {
            source: self.next()?,
            target: self.next()?,
            stack: self.next()?,
        }))
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
