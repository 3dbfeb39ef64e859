//! Reads and writes the memory of another process, by `process_vm_readv(2)` and `process_vm_writev(2)`.
//! Unlike `/proc/PID/mem` they respect page protections, so a write that the process itself could not make
//! fails here too. Not atomic; about 1 us per call.
#![allow(unsafe_code, reason = "the system calls of this file have no safe form")]

use pagewise_kernel::error::SysError;
use std::io;

/// Reads up to `buffer.len()` bytes at `address` of process `pid`; returns how many were readable.
///
/// # Errors
/// When not even the first byte can be read, or permission is missing.
pub fn read_memory(pid: i32, address: u64, buffer: &mut [u8]) -> Result<usize, SysError> {
    if buffer.is_empty() {
        return Ok(0);
    }
    let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: buffer.len() };
    // SAFETY: `local` covers exactly the exclusively borrowed `buffer`; `remote` is an address in
    // the other process, which the kernel checks.
    let read = unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(read).map_err(|_| failed("process_vm_readv", pid, address))
}

/// Reads one little-endian word.
///
/// # Errors
/// When the eight bytes are not all readable.
pub fn read_u64(pid: i32, address: u64) -> Result<u64, SysError> {
    let mut word = [0; 8];
    match read_memory(pid, address, &mut word)? {
        8 => Ok(u64::from_le_bytes(word)),
        _ => Err(short("process_vm_readv", pid, address)),
    }
}

/// Writes all of `bytes` at `address` of process `pid`.
///
/// # Errors
/// When a part of the range is not writable by the process itself.
pub fn write_memory(pid: i32, address: u64, bytes: &[u8]) -> Result<(), SysError> {
    let local = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: bytes.len() };
    // SAFETY: `local` covers exactly `bytes`, which the kernel only reads. `remote` is an address in the
    // other process, which the kernel checks.
    let written =
        unsafe { libc::process_vm_writev(pid, &raw const local, 1, &raw const remote, 1, 0) };
    match usize::try_from(written) {
        Ok(n) if n == bytes.len() => Ok(()),
        Ok(_) => Err(short("process_vm_writev", pid, address)),
        Err(_) => Err(failed("process_vm_writev", pid, address)),
    }
}

fn failed(call: &'static str, pid: i32, address: u64) -> SysError {
    SysError { call, subject: subject(pid, address), source: io::Error::last_os_error() }
}

fn short(call: &'static str, pid: i32, address: u64) -> SysError {
    let source = io::Error::from_raw_os_error(libc::EFAULT);
    SysError { call, subject: subject(pid, address), source }
}

fn subject(pid: i32, address: u64) -> String {
    format!("{address:#x} of process {pid}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_memory_reads_and_writes() {
        let pid = std::process::id() as i32;
        let mut cell = Box::new(0x1122_3344_5566_7788_u64);
        let address = &raw mut *cell as u64;
        assert_eq!(read_u64(pid, address).unwrap(), 0x1122_3344_5566_7788);
        write_memory(pid, address, &7_u64.to_le_bytes()).unwrap();
        assert_eq!(std::hint::black_box(*cell), 7);
        assert!(read_u64(pid, 8).unwrap_err().to_string().contains("process_vm_readv"));
        assert!(write_memory(pid, own_text(), &[0]).is_err());
    }

    fn own_text() -> u64 {
        own_memory_reads_and_writes as *const () as u64
    }
}
