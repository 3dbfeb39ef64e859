//! How long pairs of servers and their windows took.

use pagewise_model::Nanos;
use pagewise_model::service::{ServerMeasurement, ServerPair, ServiceMode, ServiceWindow};

/// How long a server was there: until ready, warming up, and loaded.
pub(super) fn took(side: &ServerMeasurement) -> Nanos {
    let loaded = took_by(&side.windows);
    let windows = side.windows.len().max(1) as u64;
    side.ready_ns + loaded + Nanos(loaded.0 / windows * u64::from(side.warm_ups))
}

pub(super) fn took_by(windows: &[ServiceWindow]) -> Nanos {
    windows.iter().fold(Nanos(0), |sum, window| sum + window.wall_ns)
}

pub(super) fn pair_took(pair: &ServerPair) -> Nanos {
    let (plain, other) = (took(&pair.plain), took(&pair.other));
    match pair.mode {
        ServiceMode::AtOnce | ServiceMode::Duet => plain.max(other),
        ServiceMode::Restart | ServiceMode::Toggle => plain + other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::service::{LoadReport, ServerMemory};

    fn side(ready: u64, windows: usize) -> ServerMeasurement {
        let window = ServiceWindow {
            cpu_ns: Nanos(1),
            wall_ns: Nanos::secs(2),
            generator_cpu_ns: Nanos(1),
            load: LoadReport::default(),
            at_once: false,
        };
        ServerMeasurement {
            ready_ns: Nanos::secs(ready),
            warm_ups: 3,
            windows: vec![window; windows],
            at_first: ServerMemory::default(),
            at_last: ServerMemory::default(),
        }
    }

    #[test]
    fn a_pair_takes_what_its_servers_took_together_or_in_turn() {
        let pair =
            |mode| ServerPair { arm: "a".into(), mode, plain: side(1, 2), other: side(3, 2) };
        assert_eq!(pair_took(&pair(ServiceMode::Duet)), Nanos::secs(3 + 10));
        assert_eq!(pair_took(&pair(ServiceMode::Restart)), Nanos::secs(1 + 10 + 3 + 10));
        assert_eq!(took(&side(1, 0)), Nanos::secs(1), "without a window");
    }
}
