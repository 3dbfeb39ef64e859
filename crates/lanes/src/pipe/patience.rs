//! How long to spin for a peer before sleeping: the decision alone, without clock and kernel.
//!
//! Spinning uses processor time to avoid a wake-up. It pays while the peer acts sooner than a sleeper would
//! be woken, which between two processors takes 5 to 50 us and costs the peer time as well. The peer's next
//! action cannot be known, so the next wait is assumed to be like those before:
//!
//! - While most waits are short (sleeps included, [`SHORT`] at most), every one begins with a spin of up to
//!   [`MOST`]. That is longer, because waits vary: a producer that takes a page fault between quick pieces is
//!   still quick. Each short wait adds one to the trust in the peer, up to [`TRUST`], and each long one takes
//!   [`BLOW`] away. Without trust a spin ends after [`SHORT`], because a longer wait would earn none.
//! - When no trust is left, spinning rests: the end sleeps through its waits. After some sleeps shorter than
//!   [`PROMISING`] one spin is tried. If that wait is again a long one, the next rest is twice as long, up to
//!   [`LONGEST_REST`] sleeps. A slow peer's sleeps are not short, so there is no spinning for it.
//! - A failed spin followed by a short sleep indicates a peer that waits for this very processor: it is quick
//!   only while we sleep. Then the next rest is [`LEAP`] times as long. Such a peer soon gets a spin only
//!   once in thousands of waits.
//!
//! That an end may run on only one processor proves nothing, because the other may be bound to another one.
//! The rule resembles the kernel's own for idle guests (`halt_poll_ns` in `virt/kvm/kvm_main.c`: 200 us at
//! most, more after short waits, less after long ones). It does not see which processor the peer runs on. A
//! wait costs it a few additions.

use std::time::Duration;

/// Longest wait that is worth spinning for: what two wake-ups cost, the peer's and ours.
const SHORT: Duration = Duration::from_micros(100);

/// Longest spin.
const MOST: Duration = Duration::from_micros(200);

/// Most trust, in short waits, and the loss by a long wait. While fewer than a third of the waits are long,
/// some trust is left.
const TRUST: u32 = 8;
const BLOW: u32 = 2;

/// Longest sleep that does not prove the peer slow: two ends that wake each other for every
/// pipeful sleep for two wake-ups and the work on one pipeful.
const PROMISING: Duration = Duration::from_micros(400);

/// Short sleeps before spinning is tried again, the first time and at most.
const SHORTEST_REST: u32 = 2;
const LONGEST_REST: u32 = 4 * 1024;

/// How many times as long the next rest is, and after a sign that the peer shares our processor.
const STEP: u32 = 2;
const LEAP: u32 = 16;

/// What one end of a pipe has learnt about its peer.
#[derive(Debug, Clone)]
pub(super) struct SpinPatience {
    /// Short waits since the last rest, less what long ones took.
    trust: u32,
    /// Short sleeps left before a spin is tried. 0 while spinning.
    rest: u32,
    /// How long the next rest will be.
    next_rest: u32,
}

impl SpinPatience {
    /// Without any knowledge: the first wait spins.
    pub(super) fn new() -> Self {
        Self { trust: 0, rest: 0, next_rest: SHORTEST_REST }
    }

    /// How long to spin in the wait that begins now. Zero means to sleep immediately.
    pub(super) fn budget(&self) -> Duration {
        match (self.rest, self.trust) {
            (0, 0) => SHORT,
            (0, _) => MOST,
            _ => Duration::ZERO,
        }
    }

    /// Records a wait: how long it spun, and how long it then slept. `slept` is zero if the spin succeeded.
    pub(super) fn spun(&mut self, spun: Duration, slept: Duration) {
        if spun + slept <= SHORT {
            self.trust = (self.trust + 1).min(TRUST);
            self.next_rest = SHORTEST_REST;
            return;
        }
        self.trust = self.trust.saturating_sub(BLOW);
        if self.trust == 0 {
            self.rest = self.next_rest;
            let shares_our_core = !slept.is_zero() && slept <= SHORT;
            let growth = if shares_our_core { LEAP } else { STEP };
            self.next_rest = (self.next_rest * growth).min(LONGEST_REST);
        }
    }

    /// A wait was slept through.
    pub(super) fn slept(&mut self, took: Duration) {
        if took < PROMISING {
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
        /// Acts this long after each wait began.
        After(Duration),
        /// Cannot run while we spin. Once we sleep, it acts after this long.
        OnOurCore(Duration),
    }

    /// What some waits cost: time in spins, time in sleeps, sleeps.
    #[derive(Default)]
    struct Cost {
        spun: Duration,
        slept: Duration,
        sleeps: u32,
    }

    impl Cost {
        fn share_spun(&self) -> f64 {
            self.spun.as_secs_f64() / (self.spun + self.slept).as_secs_f64()
        }
    }

    const WAKE: Duration = Duration::from_micros(60);

    fn wait(patience: &mut SpinPatience, peer: Peer, cost: &mut Cost) {
        let budget = patience.budget();
        let (spun, slept) = match peer {
            Peer::After(after) if after <= budget => (after, Duration::ZERO),
            Peer::After(after) => (budget, after - budget + WAKE),
            Peer::OnOurCore(after) => (budget, after),
        };
        cost.spun += spun;
        cost.slept += slept;
        cost.sleeps += u32::from(!slept.is_zero());
        match budget.is_zero() {
            true => patience.slept(slept),
            false => patience.spun(spun, slept),
        }
    }

    fn waits(patience: &mut SpinPatience, peer: Peer, count: u32) -> Cost {
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
            let cost = waits(&mut SpinPatience::new(), Peer::After(after), 10_000);
            assert_eq!(cost.sleeps, 0, "{after:?}");
        }
    }

    #[test]
    fn a_slow_peer_is_slept_for() {
        for after in [us(150), us(300), us(400), us(2_000), us(100_000)] {
            let mut patience = SpinPatience::new();
            waits(&mut patience, Peer::After(us(4)), 1_000);
            let cost = waits(&mut patience, Peer::After(after), 20_000);
            assert!(cost.share_spun() < 0.002, "{after:?}: {}", cost.share_spun());
        }
    }

    #[test]
    fn a_slow_peer_that_is_sometimes_less_slow_is_slept_for() {
        let (mut patience, mut cost) = (SpinPatience::new(), Cost::default());
        for index in 0..20_000 {
            let after = us(250 + index * 7_919 % 400);
            wait(&mut patience, Peer::After(after), &mut cost);
        }
        assert!(cost.share_spun() < 0.002, "{}", cost.share_spun());
    }

    #[test]
    fn a_core_shared_is_left_to_the_peer() {
        let mut patience = SpinPatience::new();
        for after in [us(5), us(20), us(60)] {
            let learning = waits(&mut patience, Peer::OnOurCore(after), 20_000);
            assert!(learning.spun <= us(1_000), "{:?}", learning.spun);
            let cost = waits(&mut patience, Peer::OnOurCore(after), 100_000);
            assert!(cost.share_spun() < 0.01, "{after:?}: {}", cost.share_spun());
        }
    }

    #[test]
    fn a_core_shared_is_known_after_few_spins() {
        let mut patience = SpinPatience::new();
        let first = waits(&mut patience, Peer::OnOurCore(us(20)), 600);
        assert_eq!(first.spun, 4 * SHORT);
        let slow = waits(&mut SpinPatience::new(), Peer::OnOurCore(us(300)), 600);
        assert!(slow.spun > first.spun, "a long sleep is no sign of a shared core");
    }

    #[test]
    fn spinning_is_taken_up_again_when_the_peer_gets_quick() {
        for after in [us(1), us(4), us(12), us(45)] {
            let mut patience = SpinPatience::new();
            waits(&mut patience, Peer::After(us(2_000)), 10_000);
            let turn = waits(&mut patience, Peer::After(after), 20);
            assert!(turn.sleeps <= 2 * SHORTEST_REST, "{after:?}: {}", turn.sleeps);
            assert_eq!(waits(&mut patience, Peer::After(after), 1_000).sleeps, 0);
        }
    }

    #[test]
    fn spinning_is_taken_up_again_when_the_peer_leaves_our_core() {
        let mut patience = SpinPatience::new();
        waits(&mut patience, Peer::OnOurCore(us(20)), 100_000);
        waits(&mut patience, Peer::After(us(4)), LONGEST_REST + 1);
        assert_eq!(waits(&mut patience, Peer::After(us(4)), 1_000).sleeps, 0);
    }

    #[test]
    fn a_quick_peer_that_sometimes_takes_a_fault_is_never_slept_for() {
        let (mut patience, mut cost) = (SpinPatience::new(), Cost::default());
        for index in 0..10_000 {
            let after = if index % 8 == 7 { us(150) } else { us(1 + index % 9) };
            wait(&mut patience, Peer::After(after), &mut cost);
        }
        assert_eq!(cost.sleeps, 0);
    }

    #[test]
    fn pauses_between_bursts_do_not_end_the_spinning_in_them() {
        let (mut patience, mut cost) = (SpinPatience::new(), Cost::default());
        for index in 0..10_000 {
            let after = if index % 20 == 0 { us(50_000) } else { us(1 + index % 7) };
            wait(&mut patience, Peer::After(after), &mut cost);
        }
        assert!((500..510).contains(&cost.sleeps), "{}", cost.sleeps);
        assert!(cost.share_spun() < 0.01, "{}", cost.share_spun());
    }
}
