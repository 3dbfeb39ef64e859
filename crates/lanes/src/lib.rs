//! Moving bytes between descriptors: the fastest way that is safe for what is on either side.
//!
//! [`copy()`] takes any two descriptors and moves everything from one to the other, exactly: no byte
//! is lost, repeated or reordered, whichever way the kernel allows, and an error says which side it
//! is of; [`Fan`] gives the same bytes to many. Both are exact whatever the writer of the source does
//! meanwhile, unless the caller asks for [`Copy::live`]. [`End`] tells what a descriptor is; the choice of the way rests on it and on trying, never
//! on a kernel version.
//!
//! [`pipe`] has the ends of a pipe, to write to and read from, that grow it and wait well.
//! [`buffer`] holds bytes that can be handed to a pipe by reference and never change afterwards;
//! [`probe`] asks this kernel what is really shared.
//!
//! With the feature `choose`, the module `choose` predicts what each way to read a file takes on this machine,
//! and says which to take. Without it this crate needs rustix and libc only.
//!
//! Units are bytes. Nothing here changes a descriptor's flags or offset but by the bytes moved, and
//! nothing prints.

#![deny(unsafe_code)]

pub mod buffer;
#[cfg(feature = "choose")]
pub mod choose;
pub mod copy;
mod end;
pub mod pipe;
pub mod probe;

pub use copy::{Copied, Copy, CopyError, Fan, Side, Step, Way, copy};
pub use end::{End, Kind};
