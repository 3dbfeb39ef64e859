//! `/proc/cpuinfo`: model and features of the first processor.
//!
//! The file differs by architecture: x86 has `vendor_id`, `model name`, `flags`; arm64 has
//! `CPU implementer`, `CPU part`, `Features` and no name. About 50 us per CPU to read.

use super::{fields, lines, named, number, read_bytes};
use crate::error::SysError;
use std::collections::BTreeSet;

/// Data of the first processor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CpuInfo {
    /// `GenuineIntel`, `AuthenticAMD`, or the implementer code of arm64 (`0x41`).
    pub vendor: String,
    /// Name, if the kernel gives one; otherwise implementer and part.
    pub model_name: String,
    /// Family (x86).
    pub family: Option<u32>,
    /// Model (x86).
    pub model: Option<u32>,
    /// Flags or features.
    pub flags: BTreeSet<String>,
}

impl CpuInfo {
    /// True when the processor has `flag`.
    #[must_use]
    pub fn has(&self, flag: &str) -> bool {
        self.flags.contains(flag)
    }
}

/// The first processor in `text`.
#[must_use]
pub fn parse(text: &[u8]) -> CpuInfo {
    let mut info = CpuInfo::default();
    let mut part = None;
    let string = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let mut begun = false;
    for (name, value) in lines(text).filter_map(named) {
        match name {
            b"processor" if begun => break,
            b"processor" => begun = true,
            b"vendor_id" | b"CPU implementer" => info.vendor = string(value),
            b"model name" => info.model_name = string(value),
            b"CPU part" => part = Some(string(value)),
            b"cpu family" => info.family = number(value),
            b"model" => info.model = number(value),
            b"flags" | b"Features" => info.flags = fields(value).map(string).collect(),
            _ => {}
        }
    }
    if info.model_name.is_empty() {
        info.model_name = match part {
            Some(part) => format!("implementer {} part {part}", info.vendor),
            None => "unknown processor".to_owned(),
        };
    }
    info
}

/// The first processor of this machine.
pub fn read() -> Result<CpuInfo, SysError> {
    read_bytes("/proc/cpuinfo").map(|text| parse(&text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn recorded_processors() {
        let x86 = parse(include_bytes!("../../../../fixtures/proc/x86_64-cpuinfo"));
        assert_eq!((x86.vendor.as_str(), x86.family), ("GenuineIntel", Some(6)));
        assert_eq!(x86.model_name, "Intel(R) Xeon(R) Processor");
        assert!(x86.has("pdpe1gb") && !x86.has("la57"));
        let arm = parse(include_bytes!("../../../../fixtures/proc/aarch64-cpuinfo"));
        assert_eq!(arm.model_name, "implementer 0x41 part 0xd0c");
        assert!(arm.has("atomics"));
        assert_eq!(parse(b"").model_name, "unknown processor");
    }

    proptest! {
        #[test]
        fn any_bytes_are_accepted(text: Vec<u8>) {
            let _ = parse(&text);
        }
    }
}
