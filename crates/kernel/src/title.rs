//! The name of this process as `ps` and `pkill` see it.
//!
//! It is stored in two places: the name of the main thread (`PR_SET_NAME`, prctl(2), 15 bytes), and the
//! arguments, which the kernel reads from this process's stack (`/proc/PID/cmdline`). The arguments are
//! overwritten through `/proc/self/mem`, at the address given in `/proc/self/stat`.
//!
//! Only for a process that does not read its arguments any more. If `/proc` is read-only, they stay.

use crate::proc::{fields, number, read_bytes};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Renames this process. Call it in the main thread.
pub fn set(name: &std::ffi::CStr) {
    let _unnamed = rustix::thread::set_name(name);
    let Some((start, len)) = arguments() else { return };
    let mut text = name.to_bytes().to_vec();
    text.truncate(len.saturating_sub(1));
    text.resize(len, 0);
    if let Ok(memory) = File::options().write(true).open("/proc/self/mem") {
        let _as_before = memory.write_all_at(&text, start);
    }
}

/// Address and length of the arguments.
fn arguments() -> Option<(u64, usize)> {
    let text = read_bytes("/proc/self/stat").ok()?;
    let close = text.iter().rposition(|&b| b == b')')?;
    // Fields 48 and 49 of proc_pid_stat(5); the first one after the name is field 3.
    let mut bounds = fields(&text[close + 1..]).skip(48 - 3).map(number::<u64>);
    let (start, end) = (bounds.next()??, bounds.next()??);
    Some((start, usize::try_from(end.checked_sub(start)?).ok()?)).filter(|(start, _)| *start > 0)
}
