//! The general registers of an x86-64 thread, as `PTRACE_GETREGS` gives them.

/// The register file; the fields are named as in `<sys/user.h>`.
pub type Regs = libc::user_regs_struct;

/// Base of the fs segment: the thread pointer.
#[must_use]
pub fn fs_base(regs: &Regs) -> u64 {
    regs.fs_base
}

/// Base of the gs segment.
#[must_use]
pub fn gs_base(regs: &Regs) -> u64 {
    regs.gs_base
}

/// A register file of zeros.
#[must_use]
pub const fn cleared() -> Regs {
    Regs {
        r15: 0,
        r14: 0,
        r13: 0,
        r12: 0,
        rbp: 0,
        rbx: 0,
        r11: 0,
        r10: 0,
        r9: 0,
        r8: 0,
        rax: 0,
        rcx: 0,
        rdx: 0,
        rsi: 0,
        rdi: 0,
        orig_rax: 0,
        rip: 0,
        cs: 0,
        eflags: 0,
        rsp: 0,
        ss: 0,
        fs_base: 0,
        gs_base: 0,
        ds: 0,
        es: 0,
        fs: 0,
        gs: 0,
    }
}
