//! One end of a pipe at work, to see what ways of waiting cost: `bench/accept/pipes/waiting` runs two of
//! these beside each other.
//!
//!     waiting produce write|send|give block|adaptive|busy BYTES CHUNK [EVERY_US] | waiting consume read|skip ...
//!
//! Moves BYTES in pieces of CHUNK; with EVERY_US no piece begins sooner than so many us after the
//! one before. The last line on standard error is one of numbers: bytes, ns of wall time and of CPU
//! time of this process from the first byte on, waits that ended spinning and sleeping, ns of each.

use pagewise_lanes::buffer::{BufferPages, Dropped, Frozen};
use pagewise_lanes::pipe::{PipeOptions, Reader, WaitCounts, WaitMode, Writer};
use rustix::time::{ClockId, clock_gettime};
use std::error::Error;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::thread::sleep;
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// What is to be done.
struct Task {
    by: String,
    options: PipeOptions,
    bytes: u64,
    chunk: usize,
    every: Duration,
}

impl Task {
    fn from(words: &[String]) -> Result<Self> {
        let [by, wait, bytes, chunk, rest @ ..] = words else { return Err("too few words".into()) };
        let wait = match wait.as_str() {
            "block" => WaitMode::Block,
            "adaptive" => WaitMode::Adaptive,
            "busy" => WaitMode::Busy,
            other => return Err(format!("no way to wait: {other}").into()),
        };
        let every = rest.first().map_or(Ok(0), |word| word.parse())?;
        Ok(Self {
            by: by.clone(),
            options: PipeOptions::new().wait(wait),
            bytes: bytes.parse()?,
            chunk: chunk.parse()?,
            every: Duration::from_micros(every),
        })
    }

    /// Makes `piece` move one chunk or less after the other, in time.
    fn run(&self, mut piece: impl FnMut(usize) -> Result<u64>) -> Result<Clock> {
        let mut clock = Clock::start(piece(self.chunk.min(self.bytes as usize))?);
        let mut due = clock.began;
        while clock.bytes < self.bytes {
            due += self.every;
            sleep(due.saturating_duration_since(Instant::now()));
            let left = usize::try_from(self.bytes - clock.bytes)?;
            match piece(left.min(self.chunk))? {
                0 => break,
                n => clock.bytes += n,
            }
        }
        Ok(clock)
    }
}

/// Begins with the first piece, so that no start of a process is in it.
struct Clock {
    bytes: u64,
    began: Instant,
    cpu: Duration,
}

impl Clock {
    fn start(bytes: u64) -> Self {
        Self { bytes, began: Instant::now(), cpu: cpu() }
    }

    fn tell(&self, waits: WaitCounts) {
        let numbers = [
            u128::from(self.bytes),
            self.began.elapsed().as_nanos(),
            (cpu() - self.cpu).as_nanos(),
            u128::from(waits.spins),
            u128::from(waits.sleeps),
            waits.spun.as_nanos(),
            waits.slept.as_nanos(),
        ];
        let line = numbers.map(|number| number.to_string()).join(" ");
        let _ignored = writeln!(std::io::stderr(), "{line}");
    }
}

/// CPU time of this process.
fn cpu() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32)
}

fn produce(task: &Task) -> Result<()> {
    let mut writer: Writer =
        task.options.writer(std::io::stdout().as_fd().try_clone_to_owned()?)?;
    let clock = match task.by.as_str() {
        "write" => {
            let bytes = vec![b'x'; task.chunk];
            task.run(|most| Ok(writer.write_all(&bytes[..most]).map(|()| most as u64)?))
        }
        "send" => {
            let bytes = Frozen::build(task.chunk, |space| space.fill(b'x'))?;
            task.run(|most| Ok(writer.send(&bytes, 0..most).map(|_| most as u64)?))
        }
        "give" => {
            let mut region = Dropped::new(2 * task.chunk, BufferPages::Huge)?;
            task.run(|most| {
                region.space(most)?[..most].fill(b'x');
                Ok(writer.give(&mut region, most).map(|_| most as u64)?)
            })
        }
        other => Err(format!("no way to produce: {other}").into()),
    }?;
    clock.tell(writer.waits());
    Ok(())
}

fn consume(task: &Task) -> Result<()> {
    let mut reader: Reader = task.options.reader(std::io::stdin().as_fd().try_clone_to_owned()?)?;
    let clock = match task.by.as_str() {
        "read" => {
            let mut buffer = vec![0; task.chunk];
            task.run(|most| Ok(reader.read(&mut buffer[..most])? as u64))
        }
        "skip" => task.run(|most| Ok(reader.skip(most as u64)?)),
        other => Err(format!("no way to consume: {other}").into()),
    }?;
    clock.tell(reader.waits());
    Ok(())
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.split_first() {
        Some((side, rest)) if side == "produce" => produce(&Task::from(rest)?),
        Some((side, rest)) if side == "consume" => consume(&Task::from(rest)?),
        _ => Err("produce or consume?".into()),
    }
}
