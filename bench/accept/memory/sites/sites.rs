//! Holds memory in collections that five functions fill, "NAME BYTES" for each: sites

use std::collections::{BTreeMap, VecDeque};

const MIB: usize = 1 << 20;

#[inline(never)]
fn fills_a_table(bytes: usize) -> Vec<u8> {
    vec![1; bytes]
}

#[inline(never)]
fn collects_samples(bytes: usize) -> Vec<u64> {
    (0..bytes as u64 / 8).collect()
}

#[inline(never)]
fn pushes_text(bytes: usize) -> String {
    let mut text = String::with_capacity(bytes);
    while text.len() + 16 <= bytes {
        text.push_str("sixteen letters ");
    }
    text
}

#[inline(never)]
fn boxes_blocks(bytes: usize) -> Vec<Box<[u8; 4000]>> {
    (0..bytes / 4000).map(|nth| Box::new([nth as u8; 4000])).collect()
}

#[inline(never)]
fn queues_numbers(bytes: usize) -> VecDeque<u64> {
    let mut queue = VecDeque::with_capacity(bytes / 8);
    (0..bytes as u64 / 8).for_each(|nth| queue.push_back(nth));
    queue
}

fn main() {
    let table = fills_a_table(48 * MIB);
    let samples = collects_samples(32 * MIB);
    let text = pushes_text(20 * MIB);
    let blocks = boxes_blocks(12 * MIB);
    let queue = queues_numbers(8 * MIB);
    let small: BTreeMap<usize, usize> = (0..100).map(|nth| (nth, nth)).collect();
    println!("fills_a_table {}\ncollects_samples {}", 48 * MIB, 32 * MIB);
    println!("pushes_text {}\nboxes_blocks {}\nqueues_numbers {}", 20 * MIB, 12 * MIB, 8 * MIB);
    let held = table.len() + samples.len() + text.len() + blocks.len() + queue.len() + small.len();
    std::process::exit(i32::from(held == 0));
}
