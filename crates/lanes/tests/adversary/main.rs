//! An adversarial reader against every buffer. It splices its input onward, tees it, sends it through a socket,
//! leaves it in the pipe, hands it to a forked child, or closes the pipe early. It compares only after the
//! writer has refilled its memory. Not one byte may have changed. The same reader must catch the double buffer
//! that relies only on an emptied pipe.
//!
//! `PAGEWISE_ADVERSARY_ROUNDS` sets the rounds for each kind of buffer. Each kind prints one line.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking and prints its figures"
)]

mod attack;
mod block;
#[path = "../child/mod.rs"]
mod child;
mod ring;
mod schemes;

use attack::Adversary;
use pagewise_lanes::buffer::{BufferPages, Dropped, FrozenStore};
use pagewise_lanes::probe::{ProbeAnswer, ProbeSink, ProbeSource, ask};
use schemes::{Copied, DoubleBuffer, Drops, Freezes, Scheme};
use std::time::Instant;

/// Rounds for each kind of buffer, unless the environment sets another number.
const ROUNDS: u64 = 3_000;

fn rounds() -> u64 {
    let asked = std::env::var("PAGEWISE_ADVERSARY_ROUNDS");
    asked.ok().and_then(|text| text.parse().ok()).unwrap_or(ROUNDS)
}

fn survives(name: &str, scheme: &mut impl Scheme) {
    let _alone = child::alone();
    let (start, rounds) = (Instant::now(), rounds());
    let tally = Adversary::new(scheme.pipe_size(), scheme.lag()).run(scheme, rounds, u64::MAX);
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "ADVERSARY {name}: rounds {} blocks compared {} changed {} by reference {} seconds {seconds:.2}",
        tally.rounds, tally.compared, tally.changed, tally.by_reference
    );
    assert_eq!((tally.rounds, tally.changed), (rounds, 0));
    assert!(tally.compared > rounds / 2, "{tally:?}");
}

#[test]
fn frozen_bytes_never_change() {
    let (small, large) = (90_000, 300_000); // the large lie on huge pages, where there are some
    survives("frozen-sealed", &mut Freezes::new(small, FrozenStore::Sealed));
    survives("frozen-sealed-large", &mut Freezes::new(large, FrozenStore::Sealed));
    survives("frozen-private", &mut Freezes::new(small, FrozenStore::Private));
    survives("frozen-private-large", &mut Freezes::new(large, FrozenStore::Private));
}

#[test]
fn dropped_bytes_never_change() {
    survives("dropped-base", &mut Drops::new(Dropped::new, BufferPages::Base));
    survives("dropped-huge", &mut Drops::new(Dropped::new, BufferPages::Huge));
}

#[test]
fn returning_bytes_never_change() {
    survives("returning-base", &mut Drops::new(Dropped::returning, BufferPages::Base));
    survives("returning-huge", &mut Drops::new(Dropped::returning, BufferPages::Huge));
}

#[test]
fn copied_bytes_never_change() {
    survives("copied", &mut Copied::default());
}

#[test]
fn ring_bytes_never_change() {
    let _alone = child::alone();
    let (start, rounds) = (Instant::now(), rounds());
    let tally = ring::run(rounds);
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "ADVERSARY acked: rounds {} blocks compared {} changed {} by reference {} seconds {seconds:.2}",
        tally.rounds, tally.compared, tally.changed, tally.by_reference
    );
    assert_eq!((tally.rounds, tally.changed), (rounds, 0));
    assert!(tally.compared > rounds / 2, "{tally:?}");
}

/// Tests the tests: they must catch the known unsafe buffer at once.
#[test]
fn the_double_buffer_is_caught() {
    if ask(ProbeSource::Private, ProbeSink::Pipe) != ProbeAnswer::Shared {
        println!("SKIP the_double_buffer_is_caught: vmsplice does not share pages here");
        return;
    }
    let _alone = child::alone();
    let mut scheme = DoubleBuffer::new();
    let start = Instant::now();
    let tally = Adversary::new(scheme.pipe_size(), scheme.lag()).run(&mut scheme, 10_000, 1);
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "ADVERSARY double-buffer: rounds {} blocks compared {} changed {} by reference {} seconds {seconds:.4}",
        tally.rounds, tally.compared, tally.changed, tally.by_reference
    );
    assert!(tally.changed > 0, "{tally:?}");
}
