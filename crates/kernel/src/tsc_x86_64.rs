//! The time-stamp counter of x86-64, and its rate by `CLOCK_MONOTONIC`.
//!
//! The page of a perf event has factors between this counter and perf's own clock, but none for
//! `CLOCK_MONOTONIC`, which the kernel slews to the time of servers. So two pairs of readings, before and after
//! the times to convert, give the mean rate between them. A pair is exact to about 20 ns: the closest of some
//! tries counts. Over 10 ms the rate is then exact to 4 millionths. If the machine is suspended between the pairs,
//! the rate is wrong. A pair costs about 1 us.

use crate::clock;
use crate::proc::cpuinfo::{self, CpuInfo};
use crate::proc::read_text;
use pagewise_model::Nanos;
use pagewise_model::units::TscRate;

/// The clocks that the kernel finds usable. It removes a counter whose rate it saw change.
const CLOCKS: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
/// Properties of the processor that the counter needs, with what is wrong without them.
const PROPERTIES: [(&str, &str); 2] = [
    ("constant_tsc", "its rate changes with the frequency of the core"),
    ("nonstop_tsc", "it may stop in idle states"),
];
const TRIES: usize = 10;

/// Why the counter cannot measure time here; `None` if it has one rate, on all CPUs.
#[must_use]
pub fn unsteady() -> Option<String> {
    let read = || Ok::<_, crate::SysError>((cpuinfo::read()?, read_text(CLOCKS)?));
    match read() {
        Ok((info, clocks)) => unsteady_by(&info, &clocks),
        Err(error) => Some(error.to_string()),
    }
}

fn unsteady_by(info: &CpuInfo, clocks: &str) -> Option<String> {
    if let Some((flag, why)) = PROPERTIES.iter().find(|(flag, _)| !info.has(flag)) {
        return Some(format!("{why} (no {flag} in /proc/cpuinfo)"));
    }
    let is_usable = clocks.split_ascii_whitespace().any(|clock| clock == "tsc");
    let clocks = clocks.trim();
    (!is_usable).then(|| format!("the kernel does not rely on it, only on {clocks}"))
}

/// The counter and `CLOCK_MONOTONIC` at the same moment.
#[derive(Debug, Clone, Copy)]
pub struct TscReading {
    cycles: u64,
    time: Nanos,
}

impl TscReading {
    #[must_use]
    pub fn now() -> Self {
        let pair = || {
            let before = clock::now().0;
            let cycles = counter();
            let between = clock::now().0.saturating_sub(before);
            (between, Self { cycles, time: Nanos(before + between / 2) })
        };
        let first = pair();
        let closer =
            |best: (u64, Self), next: (u64, Self)| if next.0 < best.0 { next } else { best };
        (1..TRIES).map(|_| pair()).fold(first, closer).1
    }

    /// The mean rate from this reading until now.
    #[must_use]
    pub fn rate_until_now(self) -> TscRate {
        let now = Self::now();
        TscRate {
            cycles: now.cycles.saturating_sub(self.cycles),
            time: Nanos(now.time.0.saturating_sub(self.time.0)),
        }
    }
}

fn counter() -> u64 {
    // SAFETY: reads a counter that every x86-64 processor has, and touches no memory.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_of_no_constant_rate_is_refused_with_the_reason() {
        let mut info = cpuinfo::parse(include_bytes!("../../../fixtures/proc/x86_64-cpuinfo"));
        info.flags.extend(["constant_tsc", "nonstop_tsc"].map(str::to_owned));
        assert_eq!(unsteady_by(&info, "kvm-clock tsc acpi_pm \n"), None);
        let why = unsteady_by(&info, "hpet acpi_pm \n").unwrap();
        assert_eq!(why, "the kernel does not rely on it, only on hpet acpi_pm");
        info.flags.remove("nonstop_tsc");
        assert!(unsteady_by(&info, "tsc").is_some_and(|why| why.contains("no nonstop_tsc")));
        info.flags.remove("constant_tsc");
        assert!(unsteady_by(&info, "tsc").is_some_and(|why| why.contains("no constant_tsc")));
    }

    #[test]
    #[allow(clippy::print_stdout, reason = "a test says why it is skipped")]
    fn two_measured_rates_agree() {
        if let Some(why) = unsteady() {
            return println!("SKIP two_measured_rates_agree: {why}");
        }
        let rate = || {
            let begin = TscReading::now();
            let until = clock::now().0 + Nanos::millis(20).0;
            while clock::now().0 < until {
                std::hint::spin_loop();
            }
            begin.rate_until_now().cycles_in(Nanos::secs(1))
        };
        let (one, other) = (rate(), rate());
        // From an ancient to an impossible processor.
        assert!((100_000_000..20_000_000_000).contains(&one), "{one} Hz");
        assert!(one.abs_diff(other) < one / 1000, "{one} and {other} Hz");
    }
}
