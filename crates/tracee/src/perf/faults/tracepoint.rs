//! The processor's error code of a fault: the tracepoints `exceptions:page_fault_user` and
//! `exceptions:page_fault_kernel`.
//!
//! They fire right before the event of the beginning, in the same thread. They contain the address and the
//! error code that the processor pushed (arch/x86/mm/fault.c, `trace_page_fault_entries`). Their numbers and
//! layout are in tracefs, which is usually readable by root only. Reading the fields of an event needs
//! CAP_PERFMON or a `perf_event_paranoid` of -1. Cost: one more record of 64 bytes per fault, about 0.4 us.
//! x86-64 only: other machines have other codes.

use pagewise_kernel::proc::{read_number, read_text};

const DIRECTORIES: [&str; 2] =
    ["/sys/kernel/tracing/events/exceptions", "/sys/kernel/debug/tracing/events/exceptions"];

/// The two tracepoints, which have the same fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FaultTracepoints {
    /// Numbers for perf_event_open(2): faults in user mode and in the kernel.
    pub(super) ids: [u64; 2],
    pub(super) fields: TracepointFields,
}

/// Offsets of the fields in the data of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TracepointFields {
    pub(super) address: usize,
    pub(super) error_code: usize,
}

impl FaultTracepoints {
    /// Finds the tracepoints; `None` if they do not exist or may not be read.
    pub(super) fn find() -> Option<Self> {
        if cfg!(not(target_arch = "x86_64")) {
            return None;
        }
        DIRECTORIES.iter().find_map(|directory| {
            let number = |name: &str| {
                let id = read_number(format!("{directory}/{name}/id")).ok()?;
                u64::try_from(id).ok()
            };
            let ids = [number("page_fault_user")?, number("page_fault_kernel")?];
            let format = read_text(format!("{directory}/page_fault_user/format")).ok()?;
            Some(Self { ids, fields: fields(&format)? })
        })
    }
}

/// Parses lines like `field:unsigned long address; offset:8; size:8; signed:0;`.
fn fields(format: &str) -> Option<TracepointFields> {
    let offset = |name: &str| {
        let line = format.lines().find(|line| declared(line) == Some(name))?;
        let value = |key: &str| line.split(';').find_map(|part| part.trim().strip_prefix(key));
        if value("size:")? != "8" {
            return None;
        }
        value("offset:")?.parse().ok()
    };
    Some(TracepointFields { address: offset("address")?, error_code: offset("error_code")? })
}

/// The name of the field that a line declares.
fn declared(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("field:")?.split(';').next()?.rsplit(' ').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "name: page_fault_user\nID: 190\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:unsigned long address;\toffset:8;\tsize:8;\tsigned:0;\n\
        \tfield:unsigned long ip;\toffset:16;\tsize:8;\tsigned:0;\n\
        \tfield:unsigned long error_code;\toffset:24;\tsize:8;\tsigned:0;\n\n\
        print fmt: \"address=%ps ip=%ps error_code=0x%lx\", REC->address";

    #[test]
    fn the_fields_are_where_the_format_says() {
        assert_eq!(fields(FORMAT), Some(TracepointFields { address: 8, error_code: 24 }));
        assert_eq!(fields(&FORMAT.replace("error_code;", "code;")), None);
        assert_eq!(fields(&FORMAT.replace("size:8", "size:4")), None);
        assert_eq!(fields(""), None);
    }
}
