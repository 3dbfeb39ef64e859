//! Buffers whose type makes reuse safe, so that their bytes can be passed by reference.
//!
//! A pipe can hold references to pages instead of copies (`vmsplice(2)`, `splice(2)`). A later write to
//! such a page changes what the reader gets, and nothing shows when the last reference is gone: the
//! reader may have sent it on to another pipe or a socket. An empty pipe proves nothing. So:
//!
//! | type | why its bytes never change after they were passed on | for |
//! |---|---|---|
//! | [`Frozen`] | they cannot be written: sealed by the kernel, or read only | content that is sent repeatedly |
//! | [`Dropped`] | the sender has other pages afterwards | new data in large pieces |
//! | [`Dropped::returning`] | a write copies pages that are still referenced | data that changes little, from a small process |
//! | [`acked`] | they are reused only after their own reader has copied them | your own reader |
//! | `std::io::Write` | they are copied | everything else |
//!
//! All sizes are bytes. Memory is mapped, never heap, so no allocator can reuse it. Forked children do
//! not inherit writable memory. SPLICE_F_GIFT is never set. If the kernel refuses to take references
//! (a filter answers EPERM, a kernel has no vmsplice, the descriptor is not a pipe), bytes are copied by
//! `write(2)`, and [`SendWay`] shows it. [`crate::pipe::Writer`] sends and gives with an adaptive wait; the
//! methods here sleep in the call.
//!
//! Not seen: what a reader does with the bytes and, except for the ring, when it is done.

pub mod acked;
mod draft;
mod dropped;
mod frozen;
mod proof;
pub(crate) mod region;
mod returning;
mod sealed;
mod send;
mod still;

pub use draft::Draft;
pub use dropped::Dropped;
pub use frozen::{Frozen, FrozenStore};
pub use region::BufferPages;
pub(crate) use returning::faults as minor_faults;
#[cfg(test)]
pub(crate) use returning::tests::only_sharer;
pub use send::{SendError, SendWay};
