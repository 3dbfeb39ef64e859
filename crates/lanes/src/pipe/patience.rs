//! How long to spin for a peer before sleeping: the decision alone, without clock and kernel.
//!
//! To spin is to buy a wake-up back with processor time; it pays while the peer acts sooner than a
//! sleeper would be woken, some 5 to 50 us. Nothing tells what the peer is about to do, so the
//! next wait is taken to be like those before:
//!
//! - A spin that was rewarded sets the budget to [`GENEROUS`] times what rewarded spins took (a
//!   moving mean), at most [`MOST`].
//! - A spin in vain halves it. Below [`LEAST`] spinning rests, and waits are slept through.
//! - A sleep longer than [`PROMISING`] says that the peer is slow: nothing is tried until sleeps
//!   get shorter. After so many short ones one spin of [`MOST`] is tried again. When that is in
//!   vain although the sleep after it was short, the peer waits for this very processor, and the
//!   next rest is twice as long, up to [`LONGEST_REST`] waits.
//!
//! The rule has the shape of the kernel's own for idle guests (`virt/kvm/kvm_main.c`,
//! `halt_poll_ns`: grow when the wait was short, shrink when it was long). It does not see which
//! processor the peer runs on. A wait costs it a few additions.

use std::time::Duration;

/// Longest spin: beyond the cost of a wake-up sleeping is cheaper.
const MOST: Duration = Duration::from_micros(50);

/// Shortest spin worth its two looks at the clock.
const LEAST: Duration = Duration::from_micros(2);

/// How many times the usual wait is spun before giving up: waits of a stream scatter by about
/// their own length.
const GENEROUS: u32 = 4;

/// Longest sleep that does not prove the peer slow: two ends that wake each other for every
/// pipeful sleep about two wake-ups and the work of one pipeful.
const PROMISING: Duration = Duration::from_micros(200);

/// Waits slept through after spinning was given up for the first time, and at most.
const SHORTEST_REST: u32 = 8;
const LONGEST_REST: u32 = 4 * 1024;

/// What one end of a pipe has learnt about its peer.
#[derive(Debug, Clone)]
pub(super) struct Patience {
    /// How long the next spin may last; zero while spinning rests.
    budget: Duration,
    /// Moving mean of the time that rewarded spins took.
    usual: Duration,
    /// Short sleeps left until one spin is tried.
    rest: u32,
    /// How long the next rest will be.
    next_rest: u32,
}

impl Patience {
    /// Knows nothing: the first wait is a retry.
    pub(super) fn new() -> Self {
        Self { budget: Duration::ZERO, usual: MOST, rest: 0, next_rest: SHORTEST_REST }
    }

    /// How long to spin in the wait that begins now; zero says to sleep at once.
    pub(super) fn budget(&self) -> Duration {
        if self.is_retry() { MOST } else { self.budget }
    }

    /// Whether the spin that begins now is the first after a rest.
    pub(super) fn is_retry(&self) -> bool {
        self.budget.is_zero() && self.rest == 0
    }

    /// The peer acted after `took`, before the budget was used up.
    pub(super) fn rewarded(&mut self, took: Duration) {
        self.usual = (self.usual * 7 + took) / 8;
        self.budget = (self.usual * GENEROUS).clamp(LEAST, MOST);
        self.next_rest = (self.next_rest / 2).max(SHORTEST_REST);
    }

    /// The whole budget was spun in vain; then the peer took `slept` to act.
    pub(super) fn disappointed(&mut self, slept: Duration) {
        self.budget /= 2;
        if self.budget < LEAST {
            self.rest(slept < PROMISING);
        }
    }

    /// Spins no more for a while: a longer one than before if the peer is quick (`is_near`) and
    /// spinning for it still is no use.
    pub(super) fn rest(&mut self, is_near: bool) {
        (self.budget, self.usual) = (Duration::ZERO, MOST);
        self.rest = self.next_rest;
        self.next_rest =
            if is_near { (self.next_rest * 2).min(LONGEST_REST) } else { SHORTEST_REST };
    }

    /// The wait was slept through for `slept`, without a spin.
    pub(super) fn slept(&mut self, slept: Duration) {
        if slept < PROMISING {
            self.rest = self.rest.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A peer on a simulated clock.
    #[derive(Clone, Copy)]
    enum Peer {
        /// Acts so long after each wait began.
        After(Duration),
        /// Cannot run while we spin; once we sleep it acts after so long.
        OnOurCore(Duration),
    }

    /// What some waits cost: time in spins, time in sleeps, sleeps.
    #[derive(Default)]
    struct Cost {
        spun: Duration,
        slept: Duration,
        sleeps: u32,
    }

    const WAKE: Duration = Duration::from_micros(30);

    fn wait(patience: &mut Patience, peer: Peer, cost: &mut Cost) {
        let budget = patience.budget();
        let (rewarded_after, slept) = match peer {
            Peer::After(after) if after <= budget => (Some(after), Duration::ZERO),
            Peer::After(after) => (None, after - budget + WAKE),
            Peer::OnOurCore(after) => (None, after),
        };
        match rewarded_after {
            Some(took) => {
                cost.spun += took;
                patience.rewarded(took);
            }
            None => {
                cost.spun += budget;
                cost.slept += slept;
                cost.sleeps += 1;
                match budget.is_zero() {
                    true => patience.slept(slept),
                    false => patience.disappointed(slept),
                }
            }
        }
    }

    fn waits(patience: &mut Patience, peer: Peer, count: u32) -> Cost {
        let mut cost = Cost::default();
        (0..count).for_each(|_| wait(patience, peer, &mut cost));
        cost
    }

    const fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    #[test]
    fn a_quick_peer_is_never_slept_for() {
        for after in [Duration::from_nanos(300), us(4), us(12), us(40)] {
            let cost = waits(&mut Patience::new(), Peer::After(after), 10_000);
            assert_eq!(cost.sleeps, 0, "{after:?}");
        }
    }

    #[test]
    fn the_budget_follows_what_spins_take() {
        let mut patience = Patience::new();
        waits(&mut patience, Peer::After(us(1)), 200);
        assert!(patience.budget() < us(6), "{:?}", patience.budget());
        waits(&mut patience, Peer::After(us(4)), 200);
        assert!(patience.budget() > us(12), "{:?}", patience.budget());
    }

    #[test]
    fn a_slow_peer_is_slept_for() {
        for after in [us(300), us(2_000), us(100_000)] {
            let mut patience = Patience::new();
            waits(&mut patience, Peer::After(us(4)), 1_000);
            let cost = waits(&mut patience, Peer::After(after), 10_000);
            let share = cost.spun.as_secs_f64() / (cost.spun + cost.slept).as_secs_f64();
            assert!(share < 0.001, "{after:?}: {share}");
        }
    }

    #[test]
    fn a_core_shared_is_left_to_the_peer() {
        let mut patience = Patience::new();
        for after in [us(5), us(20), us(60)] {
            let learning = waits(&mut patience, Peer::OnOurCore(after), 20_000);
            assert!(learning.spun < us(3_000), "{:?}", learning.spun);
            let cost = waits(&mut patience, Peer::OnOurCore(after), 100_000);
            let share = cost.spun.as_secs_f64() / (cost.spun + cost.slept).as_secs_f64();
            assert!(share < 0.01, "{after:?}: {share}");
        }
    }

    #[test]
    fn spinning_is_taken_up_again_when_the_peer_gets_quick() {
        for after in [us(1), us(4), us(12), us(45)] {
            let mut patience = Patience::new();
            waits(&mut patience, Peer::After(us(2_000)), 10_000);
            let turn = waits(&mut patience, Peer::After(after), 20);
            assert!(turn.sleeps <= SHORTEST_REST, "{after:?}: {}", turn.sleeps);
            assert_eq!(waits(&mut patience, Peer::After(after), 1_000).sleeps, 0);
        }
    }

    #[test]
    fn spinning_is_taken_up_again_when_the_peer_leaves_our_core() {
        let mut patience = Patience::new();
        waits(&mut patience, Peer::OnOurCore(us(20)), 100_000);
        waits(&mut patience, Peer::After(us(4)), LONGEST_REST + 1);
        assert_eq!(waits(&mut patience, Peer::After(us(4)), 1_000).sleeps, 0);
    }

    #[test]
    fn waits_that_scatter_are_mostly_spun_through() {
        let mut patience = Patience::new();
        let mut cost = Cost::default();
        for index in 0..10_000 {
            let after = if index % 20 == 0 { us(500) } else { us(1 + index % 7) };
            wait(&mut patience, Peer::After(after), &mut cost);
        }
        assert!(cost.sleeps < 1_000, "{}", cost.sleeps);
    }
}
