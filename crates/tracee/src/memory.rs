//! Memory that the processes of a tree hold together.
//!
//! It is checked in two steps. `RssAnon` and `RssShmem` of `/proc/PID/status` are counters and cheap to read,
//! but a shared page counts in each process: sixteen workers forked by a process of 1 GiB look like 17 GiB.
//! Only if their sum is too large is it confirmed by `Pss_Anon` and `Pss_Shmem` of `/proc/PID/smaps_rollup`
//! (Linux 5.4), which divide shared pages among the processes that map them. File pages are not counted: the
//! kernel can drop them.
//!
//! Cost: about 30 us per process. A confirmation walks the page tables, some 10 ms per GiB of small pages,
//! and delays faults meanwhile. Memory that is held without being mapped is added (`holdings`).
//!
//! Not seen: pages of hugetlbfs, page tables, and what `holdings` does not see.

use crate::holdings::UnmappedHoldings;
use pagewise_kernel::proc::{self, status};

/// How many more bytes, mapped or not, the processes `pids` together may hold before they reach `most`.
/// `None` if they exceed it.
pub(crate) fn room(pids: &[i32], holdings: &mut UnmappedHoldings, most: u64) -> Option<u64> {
    let sum = |of: fn(i32) -> u64| pids.iter().fold(0_u64, |sum, pid| sum.saturating_add(of(*pid)));
    let mapped = sum(counted);
    let files = holdings.look(pids);
    let pipes = holdings.in_pipes(most.saturating_sub(mapped.saturating_add(files)));
    let counted = mapped.saturating_add(files).saturating_add(pipes);
    most.checked_sub(counted).or_else(|| {
        let sure = most.checked_sub(sum(confirmed).saturating_add(pipes))?;
        sure.checked_sub(holdings.unmapped(pids))
    })
}

/// Resident memory of `pid` without a file, shared or not; 0 if it has ended.
fn counted(pid: i32) -> u64 {
    status::read(pid)
        .map_or(0, |s| [s.rss_anon, s.rss_shmem].into_iter().flatten().map(|b| b.0).sum())
}

/// Proportional share of `pid` in that memory. Falls back to [`counted`] if shares cannot be read.
fn confirmed(pid: i32) -> u64 {
    let text = proc::read_text(format!("/proc/{pid}/smaps_rollup")).ok();
    text.as_deref().and_then(parse_rollup).unwrap_or_else(|| counted(pid))
}

fn parse_rollup(text: &str) -> Option<u64> {
    let share = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
        kib.checked_mul(1024)
    };
    Some(share("Pss_Anon")?.saturating_add(share("Pss_Shmem")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_those_that_belong_to_no_file() {
        let text = "55 ---p 00 00:00 0 [rollup]\nRss: 900 kB\nPss: 70 kB\nPss_Anon:      30 kB\n\
                    Pss_File:      20 kB\nPss_Shmem:     10 kB\nShared_Clean:  7 kB\n";
        assert_eq!(parse_rollup(text), Some(40 * 1024));
        assert_eq!(parse_rollup("Pss: 70 kB\n"), None);
        assert_eq!(parse_rollup(""), None);
    }
}
