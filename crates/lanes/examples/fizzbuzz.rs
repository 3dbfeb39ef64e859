//! FizzBuzz at the speed of a pipe: `fizzbuzz [LAST] | pagewise meter > /dev/null`.
//!
//! The lines of 3000 numbers, a cycle, repeat: which are words, and the last three digits of those
//! that are not (3000 is the least common multiple of 15 and 1000). Only the digits before those
//! change, by one for each thousand. So a buffer of cycles is formatted once for each number of
//! digits; from then on the leading digits are overwritten where they stand, which is one store for
//! some sixteen bytes of output. The buffer stays within a core's second-level cache and is copied
//! into the pipe by [`Writer`], so that it can be changed as soon as `write` returns.

use pagewise_lanes::pipe::Writer;
use std::error::Error;
use std::io::{self, ErrorKind, Write};

/// Numbers in a cycle, and how many share their leading digits.
const CYCLE: u64 = 3_000;
const THOUSAND: u64 = 1_000;

/// Digits at the end of a number that a cycle fixes.
const FIXED: usize = 3;

/// Bytes of a buffer, or one cycle less.
const BUFFER: usize = 384 * 1024;

/// Most digits of a number.
const DIGITS: usize = 20;

/// Those of fifteen numbers, the first of them divisible by 15, that are no words.
const PLAIN: [usize; 8] = [1, 2, 4, 7, 8, 11, 13, 14];

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

/// A block of fifteen lines whose numbers have `D` digits.
struct Block<const D: usize>;

impl<const D: usize> Block<D> {
    /// Where the plain numbers begin.
    const STARTS: [usize; PLAIN.len()] = {
        let (mut starts, mut next, mut at, mut line) = ([0; PLAIN.len()], 0, 0, 0);
        while line < 15 {
            let word = word(line).len();
            if word == 0 {
                starts[next] = at;
                next += 1;
            }
            at += if word == 0 { D + 1 } else { word };
            line += 1;
        }
        starts
    };

    /// Bytes of all lines.
    const LEN: usize = Self::STARTS[PLAIN.len() - 1] + D + 1;

    /// Bytes of a cycle.
    const CYCLE: usize = Self::LEN * (CYCLE / 15) as usize;

    /// Sets the leading digits of the plain numbers from `from` up to `to`.
    fn set(block: &mut [u8], leading: &Leading, from: usize, to: usize) {
        let digits = &leading.0[DIGITS - (D - FIXED)..];
        for start in &Self::STARTS[from..to] {
            block[*start..start + D - FIXED].copy_from_slice(digits);
        }
    }

    /// Sets the leading digits of a whole cycle and counts them on.
    fn set_cycle(cycle: &mut [u8], leading: &mut Leading) {
        let mut turns = TURNS.iter().peekable();
        for (index, block) in cycle.chunks_exact_mut(Self::LEN).enumerate() {
            match turns.next_if(|turn| turn.0 == index) {
                None => Self::set(block, leading, 0, PLAIN.len()),
                Some((_, before)) => {
                    Self::set(block, leading, 0, *before);
                    leading.count();
                    Self::set(block, leading, *before, PLAIN.len());
                }
            }
        }
        leading.count();
    }

    /// Writes the lines of whole cycles from `first` up to `end`.
    fn write(first: u64, end: u64, to: &mut impl Write) -> io::Result<()> {
        let at_once = (BUFFER / Self::CYCLE).max(1) as u64 * CYCLE;
        let at_once = at_once.min(end - first);
        let mut buffer = format(first, first + at_once)?;
        let mut leading = Leading::of((first + at_once) / THOUSAND);
        let mut done = first;
        loop {
            to.write_all(&buffer)?;
            done += at_once.min(end - done);
            let cycles = (end - done).min(at_once) / CYCLE;
            if cycles == 0 {
                return Ok(());
            }
            buffer.truncate(cycles as usize * Self::CYCLE);
            for cycle in buffer.chunks_exact_mut(Self::CYCLE) {
                Self::set_cycle(cycle, &mut leading);
            }
        }
    }
}

/// The digits before the last three, with zeroes before them.
struct Leading([u8; DIGITS]);

impl Leading {
    fn of(mut number: u64) -> Self {
        let mut digits = [b'0'; DIGITS];
        for digit in digits.iter_mut().rev() {
            *digit += (number % 10) as u8;
            number /= 10;
        }
        Self(digits)
    }

    /// Adds one.
    fn count(&mut self) {
        for digit in self.0.iter_mut().rev() {
            if *digit < b'9' {
                *digit += 1;
                return;
            }
            *digit = b'0';
        }
    }
}

/// Writes cycles of numbers with `digits` digits; with fewer than four there are none.
fn write_cycles(digits: usize, first: u64, end: u64, to: &mut impl Write) -> io::Result<()> {
    match digits {
        4 => Block::<4>::write(first, end, to),
        5 => Block::<5>::write(first, end, to),
        6 => Block::<6>::write(first, end, to),
        7 => Block::<7>::write(first, end, to),
        8 => Block::<8>::write(first, end, to),
        9 => Block::<9>::write(first, end, to),
        10 => Block::<10>::write(first, end, to),
        11 => Block::<11>::write(first, end, to),
        12 => Block::<12>::write(first, end, to),
        13 => Block::<13>::write(first, end, to),
        14 => Block::<14>::write(first, end, to),
        15 => Block::<15>::write(first, end, to),
        16 => Block::<16>::write(first, end, to),
        17 => Block::<17>::write(first, end, to),
        18 => Block::<18>::write(first, end, to),
        19 => Block::<19>::write(first, end, to),
        _ => Block::<DIGITS>::write(first, end, to),
    }
}

/// Writes the lines from 1 up to and without `end`.
fn fizzbuzz(end: u64, to: &mut impl Write) -> io::Result<()> {
    let mut first = 1_u64;
    for digits in 1.. {
        let last = 10_u64.checked_pow(digits).map_or(end, |limit| limit.min(end));
        // What stands before and behind whole cycles.
        let cycles = first.next_multiple_of(CYCLE).min(last);
        let behind = (last - last % CYCLE).max(cycles);
        to.write_all(&format(first, cycles)?)?;
        if cycles < behind {
            write_cycles(digits as usize, cycles, behind, to)?;
        }
        to.write_all(&format(behind, last)?)?;
        first = last;
        if first == end {
            break;
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let last: u64 = std::env::args().nth(1).map_or(Ok(u64::MAX - 1), |word| word.parse())?;
    match fizzbuzz(last.saturating_add(1), &mut Writer::stdout()?) {
        // Whoever reads has had enough, as with yes(1).
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        ended => Ok(ended?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn every_end_is_kept() {
        for end in [1, 2, 15, 16, 999, 1_000, 2_999, 3_000, 3_001, 9_999, 10_000, 12_000, 12_001] {
            let mut lines = Vec::new();
            fizzbuzz(end, &mut lines).unwrap();
            assert!(lines == simply(end).as_bytes(), "{end}");
        }
    }

    #[test]
    fn long_numbers_count_on() {
        // Two buffers and a piece of a third, across a carry through all leading digits.
        for (digits, first) in [(9, 300_000_000), (10, 9_999_999_000_u64.next_multiple_of(3_000))] {
            let first = first - 80 * CYCLE;
            let mut lines = Vec::new();
            write_cycles(digits, first, first + 50 * CYCLE, &mut lines).unwrap();
            assert!(lines == format(first, first + 50 * CYCLE).unwrap(), "{digits}");
        }
    }
}
