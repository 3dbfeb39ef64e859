//! A busy neighbour: on every second CPU a thread of this process that walks through memory, larger than most caches
//! of a core, for as long as it is there. It runs at the usual priority and may move between CPUs.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Bytes that each thread walks through, and bytes from one touch to the next.
const MEMORY: usize = 32 << 20;
const LINE: usize = 64;

/// The threads, until this is dropped.
pub(super) struct BusyNeighbour {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl BusyNeighbour {
    /// One for a machine, or a part of it, with this many CPUs.
    pub(super) fn start(cpus: u32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let thread = |_| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || walk(&stop))
        };
        let threads = (0..(cpus / 2).max(1)).map(thread).collect();
        Self { stop, threads }
    }
}

fn walk(stop: &AtomicBool) {
    let mut memory = vec![0_u8; MEMORY];
    while !stop.load(Ordering::Relaxed) {
        memory.iter_mut().step_by(LINE).for_each(|byte| *byte = byte.wrapping_add(1));
        black_box(&mut memory);
    }
}

impl Drop for BusyNeighbour {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ended = thread.join();
        }
    }
}
