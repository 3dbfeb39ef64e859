//! The page that both halves of a ring share. It holds the number of bytes that the reader has copied, and a
//! bell for a writer that sleeps until that number grows.
//!
//! A memfd under F_SEAL_SHRINK, GROW and SEAL (`fcntl(2)`), so that neither half can take the page from the
//! other (SIGBUS). It holds two numbers and is only ever touched as atomics. The count of bytes is stored
//! with release after the copy and loaded with acquire before the region is written again. The bell is a
//! `futex(2)` word that is 1 while the writer sleeps.
//!
//! Overhead: one store and one swap a read; a system call only when the writer sleeps.

#![allow(unsafe_code, reason = "atomics in memory that two processes share")]

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use rustix::thread::futex;
use std::ffi::c_void;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Both numbers, each on a separate cache line.
#[repr(C)]
#[derive(Debug)]
struct AccountWords {
    copied: CacheLine<AtomicU64>,
    bell: CacheLine<AtomicU32>,
}

#[repr(C, align(128))]
#[derive(Debug)]
struct CacheLine<T>(T);

/// A mapping of the shared page.
#[derive(Debug)]
pub(super) struct RingAccount {
    words: NonNull<AccountWords>,
    file: OwnedFd,
}

// SAFETY: the page is only touched as atomics, from any thread.
unsafe impl Send for RingAccount {}
// SAFETY: as above.
unsafe impl Sync for RingAccount {}

const SIZE: usize = size_of::<AccountWords>();
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

impl RingAccount {
    /// A new page, both numbers 0.
    pub(super) fn new() -> Result<Self, Errno> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create(c"acked", flags)?;
        rustix::fs::ftruncate(&file, SIZE as u64)?;
        rustix::fs::fcntl_add_seals(&file, SEALS)?;
        Self::open(file)
    }

    /// Opens the page of another half. EINVAL for a file that is not such a page.
    pub(super) fn open(file: OwnedFd) -> Result<Self, Errno> {
        let size = rustix::fs::fstat(&file)?.st_size;
        if !rustix::fs::fcntl_get_seals(&file)?.contains(SEALS) || size != SIZE as i64 {
            return Err(Errno::INVAL);
        }
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        let anywhere = std::ptr::null_mut();
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let start =
            unsafe { rustix::mm::mmap(anywhere, SIZE, rights, MapFlags::SHARED, &file, 0) }?;
        let words = NonNull::new(start.cast::<AccountWords>()).ok_or(Errno::NOMEM)?;
        Ok(Self { words, file })
    }

    /// Another mapping of the same page.
    pub(super) fn share(&self) -> Result<Self, Errno> {
        Self::open(self.file()?)
    }

    /// A descriptor of the page.
    pub(super) fn file(&self) -> Result<OwnedFd, Errno> {
        rustix::io::fcntl_dupfd_cloexec(&self.file, 0)
    }

    fn words(&self) -> &AccountWords {
        // SAFETY: the mapping is as long as `AccountWords`, page aligned, never shortened (sealed), and
        // lives as long as `self`; every bit pattern is valid, and all fields are atomics, so
        // changes by another process are allowed.
        unsafe { self.words.as_ref() }
    }

    /// Bytes copied by the reader.
    pub(super) fn copied(&self) -> u64 {
        self.words().copied.0.load(Ordering::Acquire)
    }

    /// Adds bytes that the reader has copied, and wakes a writer that waits for them.
    pub(super) fn add(&self, bytes: u64) {
        self.words().copied.0.fetch_add(bytes, Ordering::SeqCst);
        self.ring();
    }

    /// Wakes a writer that sleeps.
    pub(super) fn ring(&self) {
        if self.words().bell.0.swap(0, Ordering::SeqCst) != 0 {
            // An error means that no thread is waiting.
            let _woken = futex::wake(&self.words().bell.0, futex::Flags::empty(), 1);
        }
    }

    /// Sleeps until the bell rings or `most` is over, unless `copied` reaches `wanted` first.
    pub(super) fn sleep(&self, wanted: u64, most: Duration) {
        let AccountWords { copied, bell } = self.words();
        bell.0.store(1, Ordering::SeqCst);
        if copied.0.load(Ordering::SeqCst) < wanted {
            let most = most.try_into().ok();
            // EAGAIN, EINTR, ETIMEDOUT: the caller looks again in any case.
            let _end = futex::wait(&bell.0, futex::Flags::empty(), 1, most.as_ref());
        }
        bell.0.store(0, Ordering::SeqCst);
    }
}

impl Drop for RingAccount {
    fn drop(&mut self) {
        let start = self.words.as_ptr().cast::<c_void>();
        // SAFETY: mapped by `open` with this size, owned by `self`, and no borrow outlives it.
        let unmapped = unsafe { rustix::mm::munmap(start, SIZE) };
        debug_assert!(unmapped.is_ok(), "munmap of an owned mapping");
    }
}
