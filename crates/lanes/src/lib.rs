//! Moving bytes between descriptors in the fastest way that is safe for both sides.
//!
//! [`copy()`] moves everything from one descriptor to any other, exactly: no byte is lost, repeated or
//! reordered, whichever way the kernel allows. An error names its side. [`FanOut`] gives the same bytes to
//! many. Both are exact whatever the writer of the source does meanwhile, unless you ask for
//! [`CopyJob::live`]. [`CopyEnd`] describes a descriptor. The choice of the way depends on it and on trying,
//! never on a kernel version.
//!
//! [`pipe`] has the writing and reading ends of a pipe, which grow it and wait efficiently.
//! [`buffer`] holds bytes that can be passed to a pipe by reference and never change afterwards.
//! [`probe`] tests what this kernel really shares.
//!
//! With the feature `choose`, the module `choose` predicts the time of each way to read a file on this
//! machine, and names the fastest. Without it this crate needs only rustix and libc.
//!
//! Units are bytes. Nothing here changes a descriptor's flags, or its offset other than by the bytes
//! moved. Nothing prints.

#![deny(unsafe_code)]
#![warn(missing_docs)]

pub mod buffer;
#[cfg(feature = "choose")]
pub mod choose;
pub mod copy;
mod end;
pub mod pipe;
pub mod probe;

pub use copy::{
    CopyError, CopyJob, CopyOutcome, CopyRoute, CopySide, CopyStep, FanOut, ResumableCopy,
    Uncached, copy,
};
pub use end::{CopyEnd, DescriptorKind};
