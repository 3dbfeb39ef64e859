//! Objects of System V interprocess communication, key rings, quotas and the modes of the clock: what a
//! control call does to the system.
//!
//! The kernel does not report whether a `*get` call made the object or found it, so the existing ids are read
//! from `/proc/sysvipc` before the call. That shows only our own namespace: objects of another one count as
//! made by the tree.

use super::calls::IpcKind;
use pagewise_kernel::proc::read_text;

/// Ids of the objects that exist.
pub(super) fn list(ipc: IpcKind) -> Vec<i64> {
    let name = match ipc {
        IpcKind::Memory => "shm",
        IpcKind::Messages => "msg",
        IpcKind::Semaphores => "sem",
    };
    parse(&read_text(format!("/proc/sysvipc/{name}")).unwrap_or_default())
}

fn parse(text: &str) -> Vec<i64> {
    text.lines().filter_map(|line| line.split_whitespace().nth(1)?.parse().ok()).collect()
}

/// The phrase for what a control command changes. `None` if it changes nothing.
pub(super) const fn changed(ipc: IpcKind, command: u64) -> Option<&'static str> {
    // A command has two forms (`IPC_64`).
    match (ipc, command as i32 & !0x100) {
        (IpcKind::Memory, libc::IPC_RMID) => Some("removed shared memory"),
        (IpcKind::Messages, libc::IPC_RMID) => Some("removed message queue"),
        (IpcKind::Semaphores, libc::IPC_RMID) => Some("removed semaphores"),
        (IpcKind::Memory, libc::IPC_SET | libc::SHM_LOCK | libc::SHM_UNLOCK) => {
            Some("changed shared memory")
        }
        (IpcKind::Messages, libc::IPC_SET) => Some("changed message queue"),
        (IpcKind::Semaphores, libc::IPC_SET | libc::SETVAL | libc::SETALL) => {
            Some("changed semaphores")
        }
        _ => None,
    }
}

/// True for a ring of keys that only the caller's thread or process has.
pub(super) const fn is_own_ring(ring: u64) -> bool {
    matches!(ring as i32, libc::KEY_SPEC_THREAD_KEYRING | libc::KEY_SPEC_PROCESS_KEYRING)
}

/// True for commands of quotactl(2) that only query, or sync memory to disk.
pub(super) const fn asks_for_quota(command: u64) -> bool {
    const ASK: [u32; 9] = [
        0x80_0001, 0x80_0004, 0x80_0005, 0x80_0007, 0x80_0009, // Q_SYNC and Q_GET*
        0x5803, 0x5805, 0x5808, 0x5809, // Q_XGET*
    ];
    let command = command as u32 >> 8;
    let mut at = 0;
    while at < ASK.len() {
        if ASK[at] == command {
            return true;
        }
        at += 1;
    }
    false
}

/// Asks for the offset only: `ADJ_OFFSET_SS_READ`.
const OFFSET_READ: u32 = 0xa001;

/// True for modes of adjtimex(2) that set something.
pub(super) const fn sets_clock(modes: u32) -> bool {
    modes != 0 && modes != OFFSET_READ
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read() {
        let text = "       key      shmid perms\n         0         32   600\n 12  -5  1\n";
        assert_eq!(parse(text), [32, -5]);
    }

    #[test]
    fn questions_change_nothing() {
        for ipc in [IpcKind::Memory, IpcKind::Messages, IpcKind::Semaphores] {
            assert!(changed(ipc, 0).is_some() && changed(ipc, 0x100).is_some());
            assert!(changed(ipc, libc::IPC_SET as u64).is_some());
            assert!(changed(ipc, libc::IPC_STAT as u64).is_none());
        }
        assert!(changed(IpcKind::Semaphores, libc::SETVAL as u64).is_some());
        assert!(changed(IpcKind::Semaphores, libc::GETVAL as u64).is_none());
        assert!(is_own_ring(-2_i64 as u64) && !is_own_ring(-3_i64 as u64) && !is_own_ring(77));
        let command = |name: u64| name << 8 | 1;
        assert!(asks_for_quota(command(0x80_0007)) && asks_for_quota(command(0x5803)));
        assert!(!asks_for_quota(command(0x80_0008)) && !asks_for_quota(command(0x80_0002)));
        assert!(!sets_clock(0) && !sets_clock(OFFSET_READ) && sets_clock(2));
    }
}
