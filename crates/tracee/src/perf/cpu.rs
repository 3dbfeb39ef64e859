//! The CPUs that events must be opened on, and the processor's make.

use std::ops::RangeInclusive;

/// Numbers of the online CPUs (`/sys/devices/system/cpu/online`); CPU 0 where that is unreadable.
pub(super) fn online() -> Vec<u32> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let cpus = parse_list(&text);
    if cpus.is_empty() { vec![0] } else { cpus }
}

/// Parses a list such as `0-3,8,10-11`; parts of another form are passed over.
fn parse_list(text: &str) -> Vec<u32> {
    text.trim().split(',').filter_map(parse_range).flatten().take(1 << 16).collect()
}

fn parse_range(part: &str) -> Option<RangeInclusive<u32>> {
    let (first, last) = part.split_once('-').unwrap_or((part, part));
    Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
}

/// Maker, family and model of the processor from the text of `/proc/cpuinfo`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Make {
    pub(super) vendor: String,
    pub(super) family: u32,
    pub(super) model: u32,
}

impl Make {
    /// The make of this machine's first processor.
    pub(super) fn of_this_machine() -> Self {
        Self::parse(&std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default())
    }

    /// Reads the first processor's lines.
    fn parse(cpuinfo: &str) -> Self {
        let field = |name: &str| {
            cpuinfo
                .lines()
                .filter_map(|line| line.split_once(':'))
                .find(|(key, _)| key.trim() == name)
                .map_or("", |(_, value)| value.trim())
        };
        Self {
            vendor: field("vendor_id").to_owned(),
            family: field("cpu family").parse().unwrap_or(0),
            model: field("model").parse().unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_parse() {
        assert_eq!(parse_list("0-1\n"), [0, 1]);
        assert_eq!(parse_list("0,2-3,7"), [0, 2, 3, 7]);
        assert_eq!(parse_list("3-1"), [] as [u32; 0]);
        assert_eq!(parse_list("none"), [] as [u32; 0]);
        assert!(parse_list("0-4294967295").len() <= 1 << 16);
    }

    #[test]
    fn the_make_is_read_from_the_first_processor() {
        let text = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 26\nmodel\t\t: 2\n\
                    model name\t: AMD EPYC\n\nprocessor\t: 1\nvendor_id\t: Other\n";
        let make = Make { vendor: "AuthenticAMD".into(), family: 26, model: 2 };
        assert_eq!(Make::parse(text), make);
        assert_eq!(Make::parse(""), Make::default());
    }
}
