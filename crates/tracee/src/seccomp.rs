//! Instructions for seccomp filters: classic BPF over `struct seccomp_data` (seccomp(2)). It contains number,
//! architecture and arguments of a call, but no memory behind pointers. Pure.

use libc::{BPF_ABS, BPF_JEQ, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W, sock_filter};

/// Architecture of this machine: `AUDIT_ARCH_X86_64` or `AUDIT_ARCH_AARCH64` of `<linux/audit.h>`.
pub const ARCHITECTURE: u32 = if cfg!(target_arch = "x86_64") { 0xc000_003e } else { 0xc000_00b7 };
/// Offset of the call number.
pub const NUMBER_AT: u32 = 0;
pub const ARCHITECTURE_AT: u32 = 4;
/// Offset of the first argument.
pub const ARGUMENTS_AT: u32 = 16;

/// First instructions of a filter for a traced tree. Allows calls by other tables; stops calls that may
/// create an untraced child (`untraced`). Afterwards the call number is loaded.
#[must_use]
pub fn begin() -> Vec<sock_filter> {
    let allow = give(libc::SECCOMP_RET_ALLOW);
    let mut filter =
        vec![load(ARCHITECTURE_AT), jump(BPF_JEQ, ARCHITECTURE, 1, 0), allow, load(NUMBER_AT)];
    filter.extend(untraced_clones());
    filter
}

/// Stops calls that may create an untraced child. The call number must be loaded.
#[must_use]
pub fn untraced_clones() -> [sock_filter; 6] {
    let (allow, stop) = (give(libc::SECCOMP_RET_ALLOW), give(libc::SECCOMP_RET_TRACE));
    [
        jump(BPF_JEQ, libc::SYS_clone3 as u32, 4, 0),
        jump(BPF_JEQ, libc::SYS_clone as u32, 0, 4),
        argument(0),
        jump(BPF_JSET, libc::CLONE_UNTRACED as u32, 1, 0),
        allow,
        stop,
    ]
}

/// Loads the word at `at`.
#[must_use]
pub const fn load(at: u32) -> sock_filter {
    instruction(BPF_LD | BPF_W | BPF_ABS, 0, 0, at)
}

/// Loads the lower half of an argument.
#[must_use]
pub const fn argument(index: u32) -> sock_filter {
    load(ARGUMENTS_AT + 8 * index)
}

/// Ends the filter with `action`.
#[must_use]
pub const fn give(action: u32) -> sock_filter {
    instruction(BPF_RET | BPF_K, 0, 0, action)
}

/// Compares the loaded value with `value` by `test` (`BPF_JEQ`, `BPF_JGE`, `BPF_JSET`). Skips `holds`
/// instructions if the test holds, and `fails` instructions if it does not.
#[must_use]
pub const fn jump(test: u32, value: u32, holds: u8, fails: u8) -> sock_filter {
    instruction(BPF_JMP | test | BPF_K, holds, fails, value)
}

const fn instruction(code: u32, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt, jf, k }
}
