//! The reader takes each block out of the pipe in a way that keeps its pages alive. It compares the block once
//! the writer is some blocks ahead.

use crate::block::{Block, Dice};
use crate::child::{fork, wait};
use crate::schemes::Scheme;
use pagewise_lanes::buffer::SendWay;
use rustix::io::Errno;
use rustix::pipe::SpliceFlags;
use std::collections::VecDeque;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// Number of blocks held back before the first is compared.
const HELD: usize = 6;

/// The result of a run.
#[derive(Debug, Default)]
pub struct Tally {
    pub rounds: u64,
    /// Blocks compared. The others were in a pipe that was closed.
    pub compared: u64,
    pub changed: u64,
    pub by_reference: u64,
}

impl Tally {
    pub fn count(&mut self, is_same: bool) {
        self.compared += 1;
        self.changed += u64::from(!is_same);
    }
}

/// Where a block's bytes are until it is compared.
enum Place {
    Pipe(PipeReader, PipeWriter),
    Socket(UnixStream, #[allow(dead_code, reason = "kept open")] UnixStream),
    Child { pid: libc::pid_t, go: PipeWriter },
}

pub struct Adversary {
    pipe: (PipeReader, PipeWriter),
    size: usize,
    lag: usize,
    dice: Dice,
    /// Blocks that are still in `pipe`.
    inside: VecDeque<Block>,
    held: VecDeque<(Block, Place)>,
    spare: Vec<(PipeReader, PipeWriter)>,
    tally: Tally,
}

fn pipe(size: usize) -> (PipeReader, PipeWriter) {
    let (reader, writer) = std::io::pipe().unwrap();
    let _size = rustix::pipe::fcntl_setpipe_size(&writer, size);
    (reader, writer)
}

impl Adversary {
    pub fn new(size: usize, lag: usize) -> Self {
        let pipe = pipe(size);
        let has = rustix::pipe::fcntl_getpipe_size(&pipe.1).unwrap();
        Self {
            pipe,
            size,
            lag: if has < size { 0 } else { lag },
            dice: Dice(0xbad),
            inside: VecDeque::new(),
            held: VecDeque::new(),
            spare: Vec::new(),
            tally: Tally::default(),
        }
    }

    /// Reads what `scheme` sends, for `rounds` rounds or until `changes` blocks have changed.
    pub fn run(mut self, scheme: &mut impl Scheme, rounds: u64, changes: u64) -> Tally {
        while self.tally.rounds < rounds && self.tally.changed < changes {
            let is_closed = self.dice.roll(500) == 0;
            if is_closed {
                self.close_reading_end();
            }
            let (block, sent) = scheme.send(self.tally.rounds, &self.pipe.1);
            self.tally.rounds += 1;
            if is_closed {
                assert_eq!(sent.unwrap_err().errno, Errno::PIPE);
                self.pipe = pipe(self.size);
                continue;
            }
            self.tally.by_reference += u64::from(sent.unwrap() == SendWay::ByReference);
            self.inside.push_back(block);
            if self.inside.len() > self.lag || self.dice.roll(3) > 0 {
                self.take_all();
            }
        }
        while !self.held.is_empty() {
            self.compare_oldest();
        }
        self.tally
    }

    /// Closes the reading end with everything in it. Children hold it too, so they end first.
    fn close_reading_end(&mut self) {
        while self.held.iter().any(|(_, place)| matches!(place, Place::Child { .. })) {
            self.compare_oldest();
        }
        self.inside.clear();
        let (reader, _) = pipe(4096);
        self.pipe.0 = reader;
    }

    fn take_all(&mut self) {
        while let Some(block) = self.inside.pop_front() {
            match self.dice.roll(2_000) {
                0..5 => self.hand_to_child(block),
                5..15 => {
                    self.inside.clear();
                    self.pipe = pipe(self.size);
                }
                15..400 => self.read_now(&block),
                400..1_000 => self.tee(block),
                1_000..1_400 => self.send_through_socket(block),
                _ => self.splice_onward(block),
            }
        }
        while self.held.len() > HELD {
            self.compare_oldest();
        }
    }

    fn read_now(&mut self, block: &Block) {
        let mut bytes = vec![0; block.len()];
        self.pipe.0.read_exact(&mut bytes).unwrap();
        self.tally.count(bytes == block.bytes());
    }

    fn spare_pipe(&mut self) -> (PipeReader, PipeWriter) {
        self.spare.pop().unwrap_or_else(|| pipe(65_536))
    }

    /// Splices a block and reads the part for which there was no room. Returns the number of bytes spliced.
    fn splice(&mut self, block: &Block, to: BorrowedFd<'_>) -> usize {
        let flags = SpliceFlags::NONBLOCK;
        let n = rustix::pipe::splice(&self.pipe.0, None, to, None, block.len(), flags).unwrap();
        if n < block.len() {
            self.read_now(&block.rest(n));
        }
        n
    }

    fn splice_onward(&mut self, block: Block) {
        let (reader, writer) = self.spare_pipe();
        let n = self.splice(&block, writer.as_fd());
        self.held.push_back((block.first(n), Place::Pipe(reader, writer)));
    }

    fn send_through_socket(&mut self, block: Block) {
        let (near, far) = UnixStream::pair().unwrap();
        let n = self.splice(&block, near.as_fd());
        self.held.push_back((block.first(n), Place::Socket(far, near)));
    }

    fn tee(&mut self, block: Block) {
        let (reader, writer) = self.spare_pipe();
        let flags = SpliceFlags::NONBLOCK;
        let n = rustix::pipe::tee(&self.pipe.0, &writer, block.len(), flags).unwrap();
        self.read_now(&block);
        self.held.push_back((block.first(n), Place::Pipe(reader, writer)));
    }

    /// A child holds the pages and compares them on request.
    fn hand_to_child(&mut self, block: Block) {
        let (mut reader, writer) = self.spare_pipe();
        let n = self.splice(&block, writer.as_fd());
        let block = block.first(n);
        let (mut gone, go) = std::io::pipe().unwrap();
        let (expected, mut bytes) = (block.bytes(), vec![0; n]);
        let pid = fork(|| {
            let is_reported = gone.read_exact(&mut [0]).is_ok();
            is_reported && reader.read_exact(&mut bytes).is_ok() && bytes == expected
        });
        self.held.push_back((block, Place::Child { pid, go }));
    }

    fn compare_oldest(&mut self) {
        let Some((block, place)) = self.held.pop_front() else { return };
        let mut bytes = vec![0; block.len()];
        let is_same = match place {
            Place::Pipe(mut reader, writer) => {
                reader.read_exact(&mut bytes).unwrap();
                self.spare.push((reader, writer));
                bytes == block.bytes()
            }
            Place::Socket(mut far, _near) => {
                far.read_exact(&mut bytes).unwrap();
                bytes == block.bytes()
            }
            Place::Child { pid, mut go } => {
                go.write_all(b"!").unwrap();
                wait(pid) == 0
            }
        };
        self.tally.count(is_same);
    }
}
