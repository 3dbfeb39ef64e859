//! FizzBuzz at the speed of a pipe: `fizzbuzz [LAST] | pagewise meter > /dev/null`.
//!
//! The lines of 3000 numbers, a cycle, repeat: which are words, and the last three digits of those
//! that are not (3000 is the least common multiple of 15 and 1000). Only the digits before those
//! change, by one for each thousand. So one cycle is formatted for each number of digits and laid
//! out again and again over a region of huge pages; from then on the leading digits are
//! overwritten where they stand, some sixteen bytes of output to a store, and the pages are given to
//! the pipe. Those that the reader has let go come back as they were, to be overwritten again; if it
//! still holds one, the kernel copies that page first: no byte changes that a reader may see.

use pagewise_lanes::buffer::{Dropped, Pages};
use pagewise_lanes::pipe::Writer;
use std::error::Error;
use std::io::{self, ErrorKind, Write};

/// Numbers in a cycle, and how many share their leading digits.
const CYCLE: u64 = 3_000;
const THOUSAND: u64 = 1_000;

/// Digits at the end of a number that a cycle fixes.
const FIXED: usize = 3;

/// Bytes of a store.
const WORD: usize = 8;

/// Bytes of the region: small enough for a last-level cache, and many times what a pipe holds, so
/// that pages have been let go when their turn comes.
const REGION: usize = 16 * 1024 * 1024;

/// Bytes given at once, and what they end on: a boundary of pages of any size up to this.
const PIECE: usize = 128 * 1024;
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

    /// Sets the leading digits of all plain numbers of some blocks. Not inlined: the digits are
    /// to be in memory, from where they are taken four or eight at a time, and not in a register each.
    #[inline(never)]
    fn set_blocks(blocks: &mut [u8], leading: &[u8; N]) {
        for block in blocks.chunks_exact_mut(Self::BLOCK) {
            for start in Self::STARTS {
                Self::set_number(block, start, leading);
            }
        }
    }

    /// Sets the leading digits of the number at `start`. Where they are fewer than a word but the
    /// line is not, the word is stored as a whole: digits of odd lengths would take two stores.
    #[inline(always)]
    fn set_number(block: &mut [u8], start: usize, leading: &[u8; N]) {
        if N < WORD && N + FIXED >= WORD {
            let place = &mut block[start..start + WORD];
            let mut word = [0; WORD];
            word.copy_from_slice(place);
            word[..N].copy_from_slice(leading);
            place.copy_from_slice(&word);
        } else {
            block[start..start + N].copy_from_slice(leading);
        }
    }

    /// Sets the leading digits of a whole cycle and counts them on.
    fn set_cycle(cycle: &mut [u8], leading: &mut [u8; N]) {
        let mut rest = cycle;
        let mut done = 0;
        for (turn, before) in TURNS {
            let (blocks, behind) = rest.split_at_mut((turn - done) * Self::BLOCK);
            Self::set_blocks(blocks, leading);
            let (block, behind) = behind.split_at_mut(Self::BLOCK);
            for (index, start) in Self::STARTS.into_iter().enumerate() {
                if index == before {
                    count(leading);
                }
                Self::set_number(block, start, leading);
            }
            (rest, done) = (behind, turn + 1);
        }
        Self::set_blocks(rest, leading);
        count(leading);
    }

    /// Writes the lines of whole cycles from `first` up to `end`.
    fn write(first: u64, end: u64, to: &mut impl Output) -> io::Result<()> {
        let cycle = format(first, first + CYCLE)?;
        let mut leading = digits(first / THOUSAND);
        for _ in 0..(end - first) / CYCLE {
            to.cycle(&cycle, |lines| Self::set_cycle(lines, &mut leading))?;
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

    /// Writes a cycle: `set` gets a place where `cycle` lies, with any leading digits.
    fn cycle(&mut self, cycle: &[u8], set: impl FnOnce(&mut [u8])) -> io::Result<()>;
}

/// A pipe that is given a region piece by piece.
struct Given {
    writer: Writer,
    region: Dropped,
    /// Bytes of the region that hold lines of this round.
    at: usize,
    /// The last of these, which were not given yet.
    held: usize,
    /// Bytes from the region's start on which cycles lie one after the other, and those of one.
    laid: usize,
    cycle: usize,
}

impl Given {
    fn new(writer: Writer, region: Dropped) -> Self {
        Self { writer, region, at: 0, held: 0, laid: 0, cycle: 0 }
    }

    /// The next bytes of the region.
    fn place(&mut self, len: usize) -> &mut [u8] {
        &mut self.region.as_mut_slice()[self.held..][..len]
    }

    /// The next bytes of the region hold lines.
    fn advance(&mut self, len: usize) -> io::Result<()> {
        (self.at, self.held) = (self.at + len, self.held + len);
        match self.held >= PIECE {
            true => self.give(self.held - self.at % PAGE),
            false => Ok(()),
        }
    }

    fn give(&mut self, len: usize) -> io::Result<()> {
        self.writer.give(&mut self.region, len)?;
        self.held -= len;
        Ok(())
    }

    /// Starts again at the region's beginning.
    fn restart(&mut self) -> io::Result<()> {
        self.give(self.held)?;
        self.at = 0;
        Ok(self.region.renew()?)
    }
}

impl Output for Given {
    fn lines(&mut self, mut lines: &[u8]) -> io::Result<()> {
        self.cycle = 0;
        while !lines.is_empty() {
            if self.at == self.region.capacity() {
                self.restart()?;
            }
            let (some, rest) = lines.split_at(lines.len().min(self.region.capacity() - self.at));
            self.place(some.len()).copy_from_slice(some);
            self.advance(some.len())?;
            lines = rest;
        }
        Ok(())
    }

    fn cycle(&mut self, cycle: &[u8], set: impl FnOnce(&mut [u8])) -> io::Result<()> {
        let len = cycle.len();
        if self.cycle != len {
            (self.laid, self.cycle) = (0, len);
            self.restart()?;
        } else if self.at + len > self.region.capacity() {
            self.restart()?;
        }
        let is_new = self.at == self.laid;
        let place = self.place(len);
        if is_new {
            place.copy_from_slice(cycle);
        }
        set(place);
        self.laid = self.laid.max(self.at + len);
        self.advance(len)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let last: u64 = std::env::args().nth(1).map_or(Ok(u64::MAX - 1), |word| word.parse())?;
    let region = Dropped::returning(REGION, Pages::Huge)?;
    let mut output = Given::new(Writer::stdout()?, region);
    match fizzbuzz(last.saturating_add(1), &mut output).and_then(|()| output.give(output.held)) {
        // Whoever reads has had enough, as with yes(1).
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        ended => Ok(ended?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    impl Output for Vec<u8> {
        fn lines(&mut self, lines: &[u8]) -> io::Result<()> {
            self.write_all(lines)
        }

        fn cycle(&mut self, cycle: &[u8], set: impl FnOnce(&mut [u8])) -> io::Result<()> {
            let start = self.len();
            self.write_all(cycle)?;
            set(&mut self[start..]);
            Ok(())
        }
    }

    /// The lines as they are told to a child.
    fn simply(end: u64) -> String {
        (1..end)
            .map(|number| match () {
                () if number % 15 == 0 => String::from("FizzBuzz\n"),
                () if number % 5 == 0 => String::from("Buzz\n"),
                () if number % 3 == 0 => String::from("Fizz\n"),
                () => format!("{number}\n"),
            })
            .collect()
    }

    #[test]
    fn a_hundred_thousand_lines_and_more() {
        let mut lines = Vec::new();
        fizzbuzz(123_457, &mut lines).unwrap();
        assert!(lines == simply(123_457).as_bytes());
    }

    #[test]
    fn rounds_of_a_region_are_the_same_lines() {
        let (mut reader, writer) = io::pipe().unwrap();
        let writing = std::thread::spawn(move || {
            let region = Dropped::returning(96 * 1024, Pages::Base).unwrap();
            let mut output = Given::new(Writer::new(writer).unwrap(), region);
            fizzbuzz(400_001, &mut output).and_then(|()| output.give(output.held)).unwrap();
        });
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        writing.join().unwrap();
        assert!(text == simply(400_001));
    }

    #[test]
    fn every_end_is_kept() {
        for end in [1, 2, 15, 16, 999, 1_000, 2_999, 3_000, 3_001, 9_999, 10_000, 12_000, 12_001] {
            let mut lines = Vec::new();
            fizzbuzz(end, &mut lines).unwrap();
            assert!(lines == simply(end).as_bytes(), "{end}");
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
