//! Objects of System V interprocess communication, and the modes of the clock: what a control call
//! does to the system.
//!
//! The kernel does not tell whether a `*get` call made the object or found it, so the ids that are
//! there before it are read from `/proc/sysvipc`. That shows our own namespace: objects of another
//! one count as made by the tree.

use super::calls::Ipc;
use pagewise_kernel::proc::read_text;

/// Ids of the objects that exist.
pub(super) fn list(ipc: Ipc) -> Vec<i64> {
    let name = match ipc {
        Ipc::Memory => "shm",
        Ipc::Messages => "msg",
        Ipc::Semaphores => "sem",
    };
    parse(&read_text(format!("/proc/sysvipc/{name}")).unwrap_or_default())
}

fn parse(text: &str) -> Vec<i64> {
    text.lines().filter_map(|line| line.split_whitespace().nth(1)?.parse().ok()).collect()
}

/// True for the command that removes an object, in either of its forms (`IPC_64`).
pub(super) const fn removes(command: u64) -> bool {
    command as i32 & !0x100 == libc::IPC_RMID
}

/// What is said when it succeeds.
pub(super) const fn removed(ipc: Ipc) -> &'static str {
    match ipc {
        Ipc::Memory => "removed shared memory",
        Ipc::Messages => "removed message queue",
        Ipc::Semaphores => "removed semaphores",
    }
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
        assert!(removes(0) && removes(0x100) && !removes(libc::IPC_STAT as u64));
        assert!(!sets_clock(0) && !sets_clock(OFFSET_READ) && sets_clock(2));
    }
}
