//! The processes of a server: their usage and their memory.

use pagewise_kernel::clock;
use pagewise_kernel::proc::{io, net, own_pid, smaps, stat, status, tree};
use pagewise_model::Nanos;
use pagewise_model::service::ServerMemory;

/// Total CPU time, faults and bytes of all its processes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ServerCounts {
    pub(super) user: Nanos,
    pub(super) system: Nanos,
    pub(super) minor_faults: u64,
    pub(super) major_faults: u64,
    pub(super) io: Option<io::IoCounters>,
}

/// The processes of a server.
#[derive(Debug, Clone, Copy)]
pub(super) enum ServerTree {
    /// All below its supervisor.
    Below(i32),
    /// A process that ran already, and all below it.
    From(i32),
}

impl ServerTree {
    /// All of them.
    pub(super) fn pids(self) -> Vec<i32> {
        let (first, root) = match self {
            Self::Below(root) => (None, root),
            Self::From(root) => (Some(root), root),
        };
        first.into_iter().chain(tree::descendants(root).unwrap_or_default()).collect()
    }

    /// It ran before, in another network namespace than ours.
    pub(super) fn is_apart(self) -> bool {
        let Self::From(root) = self else { return false };
        let [own, other] = [own_pid(), root].map(|pid| net::namespace(pid).ok());
        other.is_some() && own != other
    }

    /// Their current memory.
    pub(super) fn holding(self) -> ServerMemory {
        let mut all = ServerMemory::default();
        for pid in self.pids() {
            let resident = smaps::rollup(pid).unwrap_or_default();
            all.pss_bytes += resident.pss;
            all.anon_huge_bytes += resident.anon_huge;
            all.file_huge_bytes += resident.file_pmd;
            let tables = status::read(pid).ok().and_then(|status| status.page_tables);
            all.page_table_bytes += tables.unwrap_or_default();
        }
        all
    }

    /// CPU time of all, those that they have waited for included: to the nanosecond for those that live,
    /// to a tick for the others.
    pub(super) fn cpu(self) -> Nanos {
        let own = |pid: &i32| clock::process_cpu(*pid).unwrap_or_default();
        let children = |pid: &i32| {
            let ended = stat::read(*pid).map_or(0, |s| s.child_user_ticks + s.child_system_ticks);
            clock::ticks(ended, rustix::param::clock_ticks_per_second())
        };
        self.pids().iter().fold(Nanos(0), |sum, pid| sum + own(pid) + children(pid))
    }

    /// What they have used so far.
    pub(super) fn counts(self) -> ServerCounts {
        let mut all =
            ServerCounts { io: Some(io::IoCounters::default()), ..ServerCounts::default() };
        let a_second = rustix::param::clock_ticks_per_second();
        for pid in self.pids() {
            let Ok(stat) = stat::read(pid) else { continue };
            all.user += clock::ticks(stat.user_ticks + stat.child_user_ticks, a_second);
            all.system += clock::ticks(stat.system_ticks + stat.child_system_ticks, a_second);
            all.minor_faults += stat.minor_faults + stat.child_minor_faults;
            all.major_faults += stat.major_faults + stat.child_major_faults;
            all.io = all.io.zip(io::read(pid).ok()).map(|(mut sum, own)| {
                sum.read_chars += own.read_chars;
                sum.write_chars += own.write_chars;
                sum.read_calls += own.read_calls;
                sum.write_calls += own.write_calls;
                sum.storage_read += own.storage_read;
                sum
            });
        }
        all
    }
}
