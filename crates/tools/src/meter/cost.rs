//! The cost of moving the data, for `--json` and `--stats`: CPU time, wake-ups, the share passed by
//! reference, and the side that the transfer waited for.
//!
//! CPU time is that of the whole process, display included (CLOCK_PROCESS_CPUTIME_ID). A wake-up ends a sleep
//! of the thread that moves the data, for either side (`voluntary_ctxt_switches` of the main thread,
//! proc(5)). Reading both costs some 20 us at each display update, and never delays the data.

use super::flow::MeterTally;
use pagewise_kernel::proc::status;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Least share of the time for a side to count as the one that the transfer waits for.
const MOST_OF_IT: f64 = 0.6;

/// The cost so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct MeterCost {
    pub(super) bytes: u64,
    pub(super) by_reference_bytes: u64,
    pub(super) cpu_s: f64,
    pub(super) wakeups: Option<u64>,
    pub(super) source_ns: u64,
    pub(super) sink_ns: u64,
}

impl MeterCost {
    /// Reads the cost now.
    pub(super) fn now(tally: &MeterTally) -> Self {
        let spent = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let pid = i32::try_from(std::process::id()).unwrap_or_default();
        Self {
            bytes: tally.bytes.load(Relaxed),
            by_reference_bytes: tally.spliced.load(Relaxed),
            cpu_s: spent.tv_sec as f64 + spent.tv_nsec as f64 / 1e9,
            wakeups: status::read(pid).ok().and_then(|found| found.voluntary_switches),
            source_ns: tally.source_ns.load(Relaxed),
            sink_ns: tally.sink_ns.load(Relaxed),
        }
    }

    fn gib(&self) -> Option<f64> {
        (self.bytes > 0).then(|| self.bytes as f64 / f64::from(1 << 30))
    }

    pub(super) fn cpu_s_per_gib(&self) -> Option<f64> {
        self.gib().map(|gib| self.cpu_s / gib)
    }

    pub(super) fn wakeups_per_gib(&self) -> Option<f64> {
        Some(self.wakeups? as f64 / self.gib()?)
    }

    pub(super) fn by_reference_share(&self) -> Option<f64> {
        (self.bytes > 0).then(|| self.by_reference_bytes as f64 / self.bytes as f64)
    }

    fn source_share(&self) -> Option<f64> {
        let both = self.source_ns + self.sink_ns;
        (both > 0).then(|| self.source_ns as f64 / both as f64)
    }

    /// The side that takes most of the time; `None` if neither does.
    pub(super) fn waits_for(&self) -> Option<&'static str> {
        match self.source_share()? {
            share if share >= MOST_OF_IT => Some("producer"),
            share if share <= 1.0 - MOST_OF_IT => Some("consumer"),
            _ => None,
        }
    }

    /// The second line of `--stats`.
    pub(super) fn summary(&self, elapsed: Duration) -> String {
        let figure = |figure: Option<f64>, decimals: usize| {
            figure.map_or("--".to_owned(), |figure| format!("{figure:.decimals$}"))
        };
        let percent = |share: Option<f64>| figure(share.map(|share| share * 100.0), 0);
        let waits =
            self.waits_for().map_or(String::new(), |side| format!(": waits for the {side}"));
        format!(
            "{:.3} GiB in {:.3} s; {} CPU-seconds/GiB; {} wake-ups/GiB; {}% by reference; source \
             {}% of the time, sink {}%{waits}\n",
            self.gib().unwrap_or_default(),
            elapsed.as_secs_f64(),
            figure(self.cpu_s_per_gib(), 3),
            figure(self.wakeups_per_gib(), 0),
            percent(self.by_reference_share()),
            percent(self.source_share()),
            percent(self.source_share().map(|share| 1.0 - share)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_no_number() {
        let text = MeterCost::default().summary(Duration::from_secs(1));
        assert!(text.contains("-- CPU-seconds/GiB; -- wake-ups/GiB; --% by reference"), "{text}");
        assert_eq!(MeterCost::default().waits_for(), None);
    }

    #[test]
    fn the_side_that_takes_most_is_named() {
        let cost = MeterCost {
            bytes: 1 << 30,
            by_reference_bytes: 1 << 29,
            cpu_s: 0.25,
            wakeups: Some(7),
            source_ns: 900,
            sink_ns: 100,
        };
        assert_eq!(
            cost.summary(Duration::from_millis(500)),
            "1.000 GiB in 0.500 s; 0.250 CPU-seconds/GiB; 7 wake-ups/GiB; 50% by reference; \
             source 90% of the time, sink 10%: waits for the producer\n"
        );
        assert_eq!(MeterCost { sink_ns: 9000, ..cost }.waits_for(), Some("consumer"));
        assert_eq!(MeterCost { sink_ns: 900, ..cost }.waits_for(), None);
    }
}
