//! Facts made up for tests (feature `constructed`), each the least that it can be: tests name what
//! matters to them and take the rest from here with `..`.

use crate::look::{Allocator, MapChurn, ProcessSeen};
use crate::machine::Machine;
use crate::measured::Fact;
use crate::units::{Bytes, Nanos, PageSize};
use crate::usage::{Ended, Usage};

/// A machine of two CPUs that is no guest and gives huge pages on request, seen by no root.
#[must_use]
pub fn machine() -> Machine {
    Machine {
        kernel: "6.12".to_owned(),
        arch: "x86_64".to_owned(),
        cpu_model: "none".to_owned(),
        cpus: vec![0, 1],
        base_page_bytes: PageSize::BASE_4K,
        huge_page_bytes: Fact::Known(PageSize::PMD_2M),
        memory_bytes: Bytes::gib(8),
        thp_enabled: Fact::Known("madvise".to_owned()),
        thp_defrag: Fact::Known("madvise".to_owned()),
        hypervisor: None,
        pipe_max_bytes: Bytes::mib(1),
        perf_event_paranoid: Fact::Known(2),
        uid: 1000,
    }
}

/// A program on glibc that used nothing, where `/proc/PID/io` could not be read.
#[must_use]
pub fn process() -> ProcessSeen {
    ProcessSeen {
        pid: 1,
        exe: "/bin/program".to_owned(),
        args: Vec::new(),
        is_static: false,
        allocator: Allocator::Glibc,
        glibc_huge_tunable: None,
        threads: 1,
        peak_rss_bytes: Bytes(0),
        anon_bytes: Bytes(0),
        anon_huge_bytes: Bytes(0),
        file_bytes: Bytes(0),
        file_cow_bytes: Bytes(0),
        page_table_bytes: Bytes(0),
        minor_faults: 0,
        moved_bytes: None,
        traced_life_ns: Nanos(1),
        churn: MapChurn::default(),
        incomplete: None,
    }
}

/// A run that used nothing and ended well, where `/proc/PID/io` could not be read.
#[must_use]
pub const fn usage() -> Usage {
    Usage {
        wall_ns: Nanos(0),
        user_ns: Nanos(0),
        sys_ns: Nanos(0),
        peak_rss_bytes: Bytes(0),
        minor_faults: 0,
        major_faults: 0,
        voluntary_switches: 0,
        involuntary_switches: 0,
        read_bytes: None,
        written_bytes: None,
        read_calls: None,
        write_calls: None,
        device_read_bytes: None,
        ended: Ended::Exited(0),
    }
}
