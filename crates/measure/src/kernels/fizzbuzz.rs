//! FizzBuzz at the speed of a pipe: a producer of new bytes (`pagewise bench pipe --producer fizzbuzz`).
//!
//! The lines of 3000 numbers, a cycle, repeat: which are words, and the last three digits of those
//! that are not (3000 is the least common multiple of 15 and 1000). Only the digits before those
//! change, by one for each thousand. So one cycle is formatted for each number of digits, with zeroes
//! (bytes) for its leading digits, and the leading digits of a block of fifteen lines are laid out at their
//! places with zeroes between. A block of output is one or the other, sixty-four bytes at a time. It is
//! written over a region of huge pages, which are given to the pipe. Those that the reader has let go come
//! back; if it still holds one, the kernel copies that page first: no byte changes that a reader may see.
//! Taking them back costs less the fewer mappings a process has.

use pagewise_lanes::buffer::{BufferPages, Dropped};
use pagewise_lanes::pipe::{WaitCounts, Writer};
use std::io::{self, Write};

/// Numbers in a cycle, and how many share their leading digits.
const CYCLE: u64 = 3_000;
const THOUSAND: u64 = 1_000;

/// Digits at the end of a number that a cycle fixes.
const FIXED: usize = 3;

/// Bytes that are handled at once, and room for the longest block.
const WIDTH: usize = 64;
const MOST: usize = 256;

/// Bytes of the region: small enough for a last-level cache, and many times what a pipe holds, so
/// that pages have been let go when their turn comes.
const REGION: usize = 12 * 1024 * 1024;

/// Bytes given at once, as many as the pipe holds: each time the reader may have to be woken. They end on
/// a boundary of pages of any size up to the second.
const PIECE: usize = 1024 * 1024;
const PAGE: usize = 64 * 1024;

/// Numbers of a block of fifteen that are no words.
const PLAIN: usize = 8;

/// Where in a cycle's blocks of fifteen the thousands change: the block, and how many of its
/// plain numbers come before.
const TURNS: [(usize, usize); 2] = [(66, 5), (133, 3)];

/// The words of one number, or nothing.
const fn word(number: u64) -> &'static str {
    match (number.is_multiple_of(3), number.is_multiple_of(5)) {
        (true, true) => "FizzBuzz\n",
        (true, false) => "Fizz\n",
        (false, true) => "Buzz\n",
        (false, false) => "",
    }
}

/// Formats the lines from `first` up to and without `end`, one by one.
fn format(first: u64, end: u64) -> io::Result<Vec<u8>> {
    let mut lines = Vec::new();
    for number in first..end {
        match word(number) {
            "" => writeln!(lines, "{number}")?,
            word => lines.write_all(word.as_bytes())?,
        }
    }
    Ok(lines)
}

/// Lines of numbers with `N` leading digits and three more.
struct Lines<const N: usize>;

impl<const N: usize> Lines<N> {
    /// Where in a block of fifteen the plain numbers begin.
    const STARTS: [usize; PLAIN] = {
        let (mut starts, mut next, mut at, mut line) = ([0; PLAIN], 0, 0, 0);
        while line < 15 {
            let word = word(line).len();
            if word == 0 {
                starts[next] = at;
                next += 1;
            }
            at += if word == 0 { N + FIXED + 1 } else { word };
            line += 1;
        }
        starts
    };

    /// Bytes of a block.
    const BLOCK: usize = Self::STARTS[PLAIN - 1] + N + FIXED + 1;

    /// Sets the leading digits of a block: the first for so many numbers, the second for the rest.
    fn set(overlay: &mut [u8; MOST], first: &[u8; N], before: usize, second: &[u8; N]) {
        for (index, start) in Self::STARTS.into_iter().enumerate() {
            overlay[start..start + N].copy_from_slice(if index < before { first } else { second });
        }
    }

    /// Writes blocks: what `from` has of them, and the leading digits of `overlay`.
    #[inline(never)]
    fn write_blocks(to: &mut [u8], from: &[u8], overlay: &[u8; MOST]) {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2, as was just found.
            unsafe { Self::merge_by_avx2(to, from, overlay) };
            return;
        }
        Self::merge(to, from, overlay);
    }

    /// The same in registers that are twice as long as those of every x86-64 processor.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn merge_by_avx2(to: &mut [u8], from: &[u8], overlay: &[u8; MOST]) {
        Self::merge(to, from, overlay);
    }

    /// The same in whatever registers the caller may use. The overlay is to stay in them: hence pieces, and
    /// a loop that the compiler can unroll.
    #[inline(always)]
    fn merge(to: &mut [u8], from: &[u8], overlay: &[u8; MOST]) {
        let mut pieces = [[0; WIDTH]; MOST / WIDTH];
        for (index, piece) in pieces.iter_mut().enumerate() {
            piece.copy_from_slice(&overlay[Self::start(index)..][..WIDTH]);
        }
        let blocks = to.chunks_exact_mut(Self::BLOCK).zip(from.chunks_exact(Self::BLOCK));
        for (to, from) in blocks {
            for (index, piece) in pieces.iter().enumerate() {
                if index * WIDTH < Self::BLOCK {
                    let at = Self::start(index);
                    let (to, from) = (&mut to[at..at + WIDTH], &from[at..at + WIDTH]);
                    for byte in 0..WIDTH {
                        to[byte] = from[byte] | piece[byte];
                    }
                }
            }
        }
    }

    /// Where a piece of a block begins. The last ones end with the block and overlap those before.
    const fn start(index: usize) -> usize {
        let at = index * WIDTH;
        if at + WIDTH <= Self::BLOCK { at } else { Self::BLOCK - WIDTH }
    }

    /// Writes a whole cycle, of which `from` has all but the leading digits, and counts them on.
    fn write_cycle(to: &mut [u8], from: &[u8], leading: &mut [u8; N], overlay: &mut [u8; MOST]) {
        let (mut at, mut old) = (0, *leading);
        for (turn, before) in TURNS {
            count(leading);
            // The blocks before the turn, and that in which it lies.
            for (end, before) in [(turn, PLAIN), (turn + 1, before)] {
                let part = at..end * Self::BLOCK;
                Self::set(overlay, &old, before, leading);
                Self::write_blocks(&mut to[part.clone()], &from[part], overlay);
                at = end * Self::BLOCK;
            }
            old = *leading;
        }
        Self::set(overlay, &old, PLAIN, leading);
        Self::write_blocks(&mut to[at..], &from[at..], overlay);
        count(leading);
    }

    /// The lines of a cycle with zeroes for the leading digits.
    fn template(first: u64) -> io::Result<Vec<u8>> {
        let mut cycle = format(first, first + CYCLE)?;
        for block in cycle.chunks_exact_mut(Self::BLOCK) {
            for start in Self::STARTS {
                block[start..start + N].fill(0);
            }
        }
        Ok(cycle)
    }

    /// Writes the lines of whole cycles from `first` up to `end`.
    fn write(first: u64, end: u64, to: &mut impl Output) -> io::Result<()> {
        let template = Self::template(first)?;
        let (mut leading, mut overlay) = (digits(first / THOUSAND), [0; MOST]);
        for _ in 0..(end - first) / CYCLE {
            to.fill(template.len(), |place| {
                Self::write_cycle(place, &template, &mut leading, &mut overlay);
            })?;
        }
        Ok(())
    }
}

/// The last digits of a number.
fn digits<const N: usize>(mut number: u64) -> [u8; N] {
    let mut digits = [b'0'; N];
    for digit in digits.iter_mut().rev() {
        *digit += (number % 10) as u8;
        number /= 10;
    }
    digits
}

/// Adds one.
fn count(digits: &mut [u8]) {
    for digit in digits.iter_mut().rev() {
        if *digit < b'9' {
            *digit += 1;
            return;
        }
        *digit = b'0';
    }
}

/// Writes cycles of numbers with `digits` digits; with fewer than four there are none.
fn write_cycles(digits: usize, first: u64, end: u64, to: &mut impl Output) -> io::Result<()> {
    match digits {
        4 => Lines::<1>::write(first, end, to),
        5 => Lines::<2>::write(first, end, to),
        6 => Lines::<3>::write(first, end, to),
        7 => Lines::<4>::write(first, end, to),
        8 => Lines::<5>::write(first, end, to),
        9 => Lines::<6>::write(first, end, to),
        10 => Lines::<7>::write(first, end, to),
        11 => Lines::<8>::write(first, end, to),
        12 => Lines::<9>::write(first, end, to),
        13 => Lines::<10>::write(first, end, to),
        14 => Lines::<11>::write(first, end, to),
        15 => Lines::<12>::write(first, end, to),
        16 => Lines::<13>::write(first, end, to),
        17 => Lines::<14>::write(first, end, to),
        18 => Lines::<15>::write(first, end, to),
        19 => Lines::<16>::write(first, end, to),
        _ => Lines::<17>::write(first, end, to),
    }
}

/// Writes the lines from 1 up to and without `end`.
fn fizzbuzz(end: u64, to: &mut impl Output) -> io::Result<()> {
    let mut first = 1_u64;
    for digits in 1.. {
        let last = 10_u64.checked_pow(digits).map_or(end, |limit| limit.min(end));
        // What stands before and behind whole cycles.
        let cycles = first.next_multiple_of(CYCLE).min(last);
        let behind = (last - last % CYCLE).max(cycles);
        to.lines(&format(first, cycles)?)?;
        if cycles < behind {
            write_cycles(digits as usize, cycles, behind, to)?;
        }
        to.lines(&format(behind, last)?)?;
        first = last;
        if first == end {
            break;
        }
    }
    Ok(())
}

/// Where lines go.
trait Output {
    /// Writes lines that are formatted.
    fn lines(&mut self, lines: &[u8]) -> io::Result<()>;

    /// Writes `len` bytes, which `fill` sets, all of them.
    fn fill(&mut self, len: usize, fill: impl FnOnce(&mut [u8])) -> io::Result<()>;
}

/// The lines from 1 on, given to a pipe piece by piece from one region.
#[derive(Debug)]
pub(crate) struct FizzBuzzWriter {
    writer: Writer,
    region: Dropped,
    /// Bytes of the region that hold lines of this round.
    at: usize,
    /// The last of these, which were not given yet.
    held: usize,
    /// Bytes still to give.
    left: u64,
}

impl FizzBuzzWriter {
    /// A writer on huge pages if there are any.
    pub(crate) fn new(writer: Writer) -> io::Result<Self> {
        Ok(Self::with_region(writer, Dropped::returning(REGION, BufferPages::Huge)?))
    }

    fn with_region(writer: Writer, region: Dropped) -> Self {
        Self { writer, region, at: 0, held: 0, left: 0 }
    }

    /// Gives the first `bytes` bytes of all lines.
    pub(crate) fn write_first(&mut self, bytes: u64) -> io::Result<()> {
        self.left = bytes;
        match fizzbuzz(u64::MAX, self) {
            Err(_) if self.left == 0 => Ok(()),
            other => other,
        }
    }

    pub(crate) fn waits(&self) -> WaitCounts {
        self.writer.waits()
    }

    /// Page size of the region.
    pub(crate) fn page_size(&self) -> io::Result<usize> {
        self.region.page_size()
    }

    /// Gives `len` bytes. An error when that was the last of them.
    fn give(&mut self, len: usize) -> io::Result<()> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX);
        self.writer.give(&mut self.region, len.min(most))?;
        self.held -= len;
        self.left -= len.min(most) as u64;
        if self.left > 0 { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }
}

impl Output for FizzBuzzWriter {
    fn lines(&mut self, lines: &[u8]) -> io::Result<()> {
        for some in lines.chunks(self.region.capacity()) {
            self.fill(some.len(), |place| place.copy_from_slice(some))?;
        }
        Ok(())
    }

    fn fill(&mut self, len: usize, fill: impl FnOnce(&mut [u8])) -> io::Result<()> {
        if self.at + len > self.region.capacity() {
            self.give(self.held)?;
            self.region.renew()?;
            self.at = 0;
        }
        fill(&mut self.region.as_mut_slice()[self.held..][..len]);
        (self.at, self.held) = (self.at + len, self.held + len);
        match self.held {
            held if held as u64 >= self.left => self.give(held),
            held if held >= PIECE => self.give(held - self.at % PAGE),
            _ => Ok(()),
        }
    }
}

/// The first `len` bytes of all lines, each formatted by itself: what the others are compared with.
pub(crate) fn plain(len: usize) -> Vec<u8> {
    let mut lines = String::with_capacity(len + 32);
    for number in 1_u64.. {
        if lines.len() >= len {
            break;
        }
        match (number % 3, number % 5) {
            (0, 0) => lines.push_str("FizzBuzz\n"),
            (0, _) => lines.push_str("Fizz\n"),
            (_, 0) => lines.push_str("Buzz\n"),
            _ => lines.push_str(&format!("{number}\n")),
        }
    }
    lines.truncate(len);
    lines.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    impl Output for Vec<u8> {
        fn lines(&mut self, lines: &[u8]) -> io::Result<()> {
            self.write_all(lines)
        }

        fn fill(&mut self, len: usize, fill: impl FnOnce(&mut [u8])) -> io::Result<()> {
            let start = self.len();
            self.resize(start + len, 0);
            fill(&mut self[start..]);
            Ok(())
        }
    }

    /// The lines up to and without `end`.
    fn simply(end: u64) -> Vec<u8> {
        let digits = |number: u64| number.to_string().len() as u64 + 1;
        let len = (1..end).map(|n| match (n % 3, n % 5) {
            (0, 0) => 9,
            (0, _) | (_, 0) => 5,
            _ => digits(n),
        });
        plain(len.sum::<u64>() as usize)
    }

    #[test]
    fn a_hundred_thousand_lines_and_more() {
        let mut lines = Vec::new();
        fizzbuzz(123_457, &mut lines).unwrap();
        assert!(lines == simply(123_457));
    }

    #[test]
    fn rounds_of_a_region_are_the_same_lines() {
        for bytes in [1, 4096, 98_303, 98_304, 2_345_678] {
            let (mut reader, writer) = io::pipe().unwrap();
            let writing = std::thread::spawn(move || {
                let region = Dropped::returning(96 * 1024, BufferPages::Base).unwrap();
                let mut lines = FizzBuzzWriter::with_region(Writer::new(writer).unwrap(), region);
                lines.write_first(bytes).unwrap();
            });
            let mut text = Vec::new();
            reader.read_to_end(&mut text).unwrap();
            writing.join().unwrap();
            assert!(text == plain(bytes as usize), "{bytes}");
        }
    }

    #[test]
    fn every_end_is_kept() {
        for end in [1, 2, 15, 16, 999, 1_000, 2_999, 3_000, 3_001, 9_999, 10_000, 12_000, 12_001] {
            let mut lines = Vec::new();
            fizzbuzz(end, &mut lines).unwrap();
            assert!(lines == simply(end), "{end}");
        }
    }

    #[test]
    fn long_numbers_count_on() {
        // Some buffers and a piece of one, across a carry through many leading digits.
        for (digits, round) in
            [(9, 200_000_000_u64), (10, 4_000_000_000), (20, 11 * 10_u64.pow(18))]
        {
            let first = round.next_multiple_of(CYCLE) - 20 * CYCLE;
            let mut lines = Vec::new();
            write_cycles(digits, first, first + 50 * CYCLE, &mut lines).unwrap();
            assert!(lines == format(first, first + 50 * CYCLE).unwrap(), "{digits}");
        }
    }
}
