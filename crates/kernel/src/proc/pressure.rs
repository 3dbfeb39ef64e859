//! `/proc/pressure/{cpu,memory,io}`: the share of time in which work waited (PSI).
//!
//! Averages are percent over 10, 60 and 300 s; totals are microseconds, given here as [`Nanos`].
//! Absent without CONFIG_PSI or with `psi=0`. See `Documentation/accounting/psi.rst`.

use super::{fields, lines, number, read_bytes};
use crate::error::SysError;
use pagewise_model::Nanos;

/// One line: `some` (at least one task waited) or `full` (all did).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PressureShare {
    /// Percent over the last 10 s.
    pub avg10_percent: f64,
    /// Percent over the last 60 s.
    pub avg60_percent: f64,
    /// Percent over the last 300 s.
    pub avg300_percent: f64,
    /// Total waiting time since boot.
    pub total_ns: Nanos,
}

/// Pressure on one resource.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ResourcePressure {
    /// At least one task waited.
    pub some: PressureShare,
    /// All tasks waited; `None` for cpu on older kernels.
    pub full: Option<PressureShare>,
}

/// A file of `/proc/pressure`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum PressureResource {
    Cpu,
    Memory,
    Io,
}

/// Parses the pressure in `text`; `None` without a `some` line.
#[must_use]
pub fn parse(text: &[u8]) -> Option<ResourcePressure> {
    let line = |kind: &[u8]| {
        lines(text).find_map(|l| {
            let mut parts = fields(l);
            (parts.next()? == kind).then(|| parse_share(parts))
        })
    };
    Some(ResourcePressure { some: line(b"some")??, full: line(b"full").flatten() })
}

fn parse_share<'a>(parts: impl Iterator<Item = &'a [u8]>) -> Option<PressureShare> {
    let mut share = PressureShare::default();
    let mut seen = 0;
    for part in parts {
        let equals = part.iter().position(|&b| b == b'=')?;
        let (name, value) = (&part[..equals], &part[equals + 1..]);
        match name {
            b"avg10" => share.avg10_percent = number(value)?,
            b"avg60" => share.avg60_percent = number(value)?,
            b"avg300" => share.avg300_percent = number(value)?,
            b"total" => share.total_ns = Nanos(number::<u64>(value)?.checked_mul(1000)?),
            _ => continue,
        }
        seen += 1;
    }
    (seen == 4).then_some(share)
}

/// The pressure on `resource` now.
pub fn read(resource: PressureResource) -> Result<ResourcePressure, SysError> {
    let path = format!("/proc/pressure/{}", resource.into_str());
    parse(&read_bytes(&path)?).ok_or_else(|| SysError::malformed("read", path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn recorded_pressure() {
        let text = b"some avg10=0.42 avg60=1.17 avg300=0.50 total=5820694\n\
                     full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        let pressure = parse(text).unwrap();
        assert_eq!(pressure.some.avg10_percent, 0.42);
        assert_eq!(pressure.some.total_ns, Nanos(5_820_694_000));
        assert_eq!(pressure.full.unwrap().total_ns, Nanos(7_000));
        assert_eq!(parse(b"full avg10=0.0\n"), None);
        assert_eq!(parse(b"some avg10=0.0 total=1\n"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_accepted(text: Vec<u8>) {
            let _ = parse(&text);
        }
        #[test]
        fn any_near_miss_is_accepted(text in "some( [a-z0-9]{0,6}=?[0-9.]{0,24}){0,5}") {
            let _ = parse(text.as_bytes());
        }
    }
}
