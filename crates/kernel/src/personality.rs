//! Address randomisation for programs that this thread starts (personality(2)).
//!
//! The flag `ADDR_NO_RANDOMIZE` belongs to a thread. Its children inherit it, and exec places image,
//! libraries, heap and stack accordingly (fs/binfmt_elf.c; mm/util.c, `arch_pick_mmap_layout`). A running
//! program is not affected. A set-user-id program clears it. The machine-wide setting is
//! `kernel.randomize_va_space`. Seccomp profiles of containers often refuse the call.

use crate::error::SysError;
use crate::proc::read_number;

/// Argument that reads the flags without changing them.
const ASK: libc::c_ulong = 0xffff_ffff;
const NO_RANDOMIZE: libc::c_int = libc::ADDR_NO_RANDOMIZE;

/// Whether programs started from here run without address randomisation.
#[must_use]
pub fn has_fixed_addresses() -> bool {
    let is_off = read_number("/proc/sys/kernel/randomize_va_space").is_ok_and(|level| level == 0);
    is_off || flags().is_ok_and(|flags| flags & NO_RANDOMIZE != 0)
}

/// Disables address randomisation for programs that this thread, and its later children, start.
///
/// # Errors
/// When the call is refused.
pub fn fix_addresses() -> Result<(), SysError> {
    let flags = flags()? | NO_RANDOMIZE;
    set(libc::c_ulong::from(flags.cast_unsigned())).map(|_before| ())
}

fn flags() -> Result<libc::c_int, SysError> {
    set(ASK)
}

/// Sets the flags and returns the previous ones.
fn set(flags: libc::c_ulong) -> Result<libc::c_int, SysError> {
    // SAFETY: the call takes a number and changes no memory.
    let before = unsafe { libc::personality(flags) };
    match before {
        -1 => Err(SysError::last("personality", format!("flags {flags:#x}"))),
        before => Ok(before),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_fixed_for_what_the_thread_starts_and_for_no_other() {
        let before = flags().unwrap();
        let in_child = |fix: bool| {
            std::thread::spawn(move || {
                if fix {
                    fix_addresses().unwrap();
                    assert!(has_fixed_addresses());
                }
                let done = std::process::Command::new("cat").arg("/proc/self/personality").output();
                let text = String::from_utf8(done.unwrap().stdout).unwrap();
                libc::c_int::from_str_radix(text.trim(), 16).unwrap()
            })
        };
        assert_eq!(in_child(true).join().unwrap(), before | NO_RANDOMIZE);
        assert_eq!(in_child(false).join().unwrap(), before);
        assert_eq!(flags().unwrap(), before);
    }
}
