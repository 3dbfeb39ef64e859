//! The speed of memory: the roofline that pipe figures are compared with, in GiB/s.
//!
//! Copying and reading use buffers larger than the caches, on huge pages if available, on one core. For the
//! transfer between cores, one thread reads what another has just written, in pieces that fit a private
//! cache; only the reading is timed. One repeat of each is taken after each round of the ladder, so that both
//! saw the same machine state. Not seen: the bandwidth of several cores together. A round takes some 30 ms.

use super::plan::AllowedCpus;
use crate::error::PriceError;
use crate::sample::time;
use crate::stream::{StreamBuffers, rate, sum};
use pagewise_kernel::affinity;
use pagewise_model::bench::pipe::{CpuPlacement, PipeYardsticks};
use pagewise_model::{Bytes, Fact, Measured};
use std::hint::black_box;
use std::sync::mpsc;

/// Larger than the last-level cache of one core's share.
const SET: Bytes = Bytes::mib(64);
/// Bytes passed from core to core at a time: within a private cache.
const PIECE: Bytes = Bytes::kib(256);
/// Pieces of one repeat.
const PIECES: usize = 64;

/// The repeats.
#[derive(Debug)]
pub(super) struct YardstickRounds {
    cpus: AllowedCpus,
    memcpy: Result<Vec<f64>, String>,
    read: Result<Vec<f64>, String>,
    cross: Result<Vec<f64>, String>,
}

impl YardstickRounds {
    pub(super) fn new(cpus: AllowedCpus) -> Self {
        Self { cpus, memcpy: Ok(Vec::new()), read: Ok(Vec::new()), cross: Ok(Vec::new()) }
    }

    /// Takes one repeat of each.
    pub(super) fn step(&mut self) {
        let cpu = self.cpus.first();
        let alone = std::thread::scope(|scope| {
            scope.spawn(move || copy_and_read(cpu)).join().map_err(|_| PriceError::ThreadLost)
        });
        match alone.and_then(|done| done) {
            Ok((copied, read)) => {
                push(&mut self.memcpy, copied);
                push(&mut self.read, read);
            }
            Err(error) => {
                self.memcpy = Err(error.to_string());
                self.read = Err(error.to_string());
            }
        }
        match self.cpus.seats(CpuPlacement::TwoCores) {
            Err(why) => self.cross = Err(why),
            Ok(seats) => match hand_over(seats.writer, seats.reader) {
                Ok(rate) => push(&mut self.cross, rate),
                Err(error) => self.cross = Err(error.to_string()),
            },
        }
    }

    pub(super) fn finish(self) -> PipeYardsticks {
        let fact = |values: Result<Vec<f64>, String>| match values {
            Err(why) => Fact::Missing(why),
            Ok(values) => {
                Measured::from_values(&values).map_or(Fact::missing("not measured"), Fact::Known)
            }
        };
        PipeYardsticks {
            memcpy_gib_per_s: fact(self.memcpy),
            read_gib_per_s: fact(self.read),
            cross_core_gib_per_s: fact(self.cross),
        }
    }
}

fn push(values: &mut Result<Vec<f64>, String>, value: f64) {
    if let Ok(values) = values
        && value.is_finite()
    {
        values.push(value);
    }
}

fn copy_and_read(cpu: Option<u32>) -> Result<(f64, f64), PriceError> {
    if let Some(cpu) = cpu {
        affinity::set(0, &[cpu])?;
    }
    let mut buffers = StreamBuffers::new(SET)?;
    let (copied_ns, ()) = time(|| buffers.copy());
    let (read_ns, ()) = time(|| buffers.read());
    Ok((rate(SET, copied_ns), rate(SET, read_ns)))
}

/// One thread writes pieces, the other reads them; the rate of the reading.
fn hand_over(writer: Option<u32>, reader: Option<u32>) -> Result<f64, PriceError> {
    let pin = |cpu: Option<u32>| cpu.map_or(Ok(()), |cpu| affinity::set(0, &[cpu]));
    let (full_in, full_out) = mpsc::sync_channel::<Vec<u8>>(1);
    let (empty_in, empty_out) = mpsc::sync_channel::<Vec<u8>>(1);
    std::thread::scope(|scope| {
        let writing = scope.spawn(move || -> Result<(), PriceError> {
            pin(writer)?;
            let mut piece = vec![0; usize::try_from(PIECE.0).unwrap_or(0)];
            for number in 0..PIECES {
                black_box(&mut piece).fill(number as u8);
                if full_in.send(piece).is_err() {
                    return Ok(());
                }
                let Ok(back) = empty_out.recv() else { return Ok(()) };
                piece = back;
            }
            Ok(())
        });
        let reading = scope.spawn(move || -> Result<f64, PriceError> {
            pin(reader)?;
            let mut spent = 0.0;
            let mut read = Bytes(0);
            for piece in full_out {
                let (ns, sum) = time(|| sum(black_box(&piece)));
                black_box(sum);
                (spent, read) = (spent + ns, read + Bytes(piece.len() as u64));
                if empty_in.send(piece).is_err() {
                    break;
                }
            }
            Ok(rate(read, spent))
        });
        writing.join().map_err(|_| PriceError::ThreadLost)??;
        reading.join().map_err(|_| PriceError::ThreadLost)?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_rate_or_a_reason() {
        let mut rounds = YardstickRounds::new(AllowedCpus::allowed());
        rounds.step();
        let yardsticks = rounds.finish();
        for fact in [&yardsticks.memcpy_gib_per_s, &yardsticks.read_gib_per_s] {
            let measured = fact.known().expect("memory to copy and read");
            assert!(measured.median > 0.0 && measured.n == 1, "{measured:?}");
        }
        let cross = &yardsticks.cross_core_gib_per_s;
        assert!(cross.known().is_some_and(|m| m.median > 0.0) || cross.reason().is_some());
    }

    #[test]
    fn without_a_round_there_is_no_figure() {
        let none = YardstickRounds::new(AllowedCpus::allowed()).finish();
        assert_eq!(none.read_gib_per_s.reason(), Some("not measured"));
    }
}
