//! The ring against its own reader in the worst case: reads of odd sizes, pauses, children forked while regions
//! are in flight, and readers that leave early.

use crate::attack::Tally;
use crate::block::{Block, Dice, fill};
use crate::child::{fork, wait};
use pagewise_lanes::buffer::acked::{self, RingReader, RingWriter};
use pagewise_lanes::buffer::{BufferPages, SendWay};
use rustix::io::Errno;
use std::io::Read;
use std::sync::mpsc::Receiver;

/// Bytes of a region. The ring has four.
const REGION: usize = 40_960;
/// Rounds of one ring before its reader leaves.
const LIFE: u64 = 20_000;

pub fn run(rounds: u64) -> Tally {
    let mut tally = Tally::default();
    while tally.rounds < rounds {
        let left = (rounds - tally.rounds).min(LIFE);
        let pages = if tally.rounds % 2 == 0 { BufferPages::Base } else { BufferPages::Huge };
        let (writer, reader) = acked::ring(4, REGION, pages).unwrap();
        let (tell, reported) = std::sync::mpsc::channel();
        let consumer = std::thread::spawn(move || consume(reader, &reported));
        produce(writer, left, &mut tally, |block| tell.send(block).unwrap());
        drop(tell);
        let (compared, changed) = consumer.join().unwrap();
        tally.compared += compared;
        tally.changed += changed;
    }
    leaving_early();
    tally
}

fn produce(mut writer: RingWriter, rounds: u64, tally: &mut Tally, mut tell: impl FnMut(Block)) {
    let mut dice = Dice(0xacced);
    for _ in 0..rounds {
        let block = Block::new(tally.rounds, dice.len());
        let mut space = writer.space().unwrap();
        fill(tally.rounds, &mut space[..block.len()]);
        tell(block.clone());
        let sent = space.send(block.len()).unwrap();
        tally.rounds += 1;
        tally.by_reference += u64::from(sent == SendWay::ByReference);
        if dice.roll(2_000) == 0 {
            assert_eq!(wait(fork(|| true)), 0);
        }
    }
}

/// Reads all blocks in pieces. Returns how many there were, and how many had changed.
fn consume(mut reader: RingReader, reported: &Receiver<Block>) -> (u64, u64) {
    let mut dice = Dice(0x9ead);
    let (mut compared, mut changed) = (0, 0);
    for block in reported {
        let mut bytes = vec![0; block.len()];
        let middle = dice.roll(block.len() as u64) as usize;
        reader.read_exact(&mut bytes[..middle]).unwrap();
        if dice.roll(500) == 0 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        reader.read_exact(&mut bytes[middle..]).unwrap();
        compared += 1;
        changed += u64::from(bytes != block.bytes());
    }
    (compared, changed)
}

/// A writer that waits gets an error when the reader leaves, and does not wait for ever.
fn leaving_early() {
    let (mut writer, mut reader) = acked::ring(2, 4096, BufferPages::Base).unwrap();
    let consumer = std::thread::spawn(move || {
        reader.read_exact(&mut [0; 5_000]).unwrap();
    });
    let errno = loop {
        match writer.space().map(|space| space.send(4096)) {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => break error.errno,
            Err(errno) => break errno,
        }
    };
    assert_eq!(errno, Errno::PIPE);
    consumer.join().unwrap();
}
