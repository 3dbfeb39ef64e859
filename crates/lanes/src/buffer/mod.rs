//! Buffers whose type makes reuse safe, so that their bytes can be handed over by reference.
//!
//! A pipe can hold references to pages instead of copies (`vmsplice(2)`, `splice(2)`). Whoever
//! writes such a page afterwards changes what the reader gets, and nothing tells when the last
//! reference is gone: the reader may have sent it on to another pipe or a socket. An empty pipe
//! proves nothing. So:
//!
//! | type | why its bytes never change after they were handed over | for |
//! |---|---|---|
//! | [`Frozen`] | nobody can write them: sealed by the kernel, or read only | what is sent again and again |
//! | [`Dropped`] | whoever gave them has other pages afterwards | new data in large pieces |
//! | [`Dropped::returning`] | a write copies what anybody still refers to | data that changes little, from a small process |
//! | [`acked`] | they are lent again when its own reader has copied them | a reader of ours |
//! | `std::io::Write` | they are copied | everything else |
//!
//! All sizes are bytes. Memory is mapped, never heap, so no allocator can reuse it; what can be
//! written is not inherited by forked children; SPLICE_F_GIFT is never set. Where the kernel
//! refuses to take references (a filter answers EPERM, a kernel has no vmsplice, the descriptor is
//! no pipe) bytes are copied by `write(2)`, and [`Sent`] tells so. [`crate::pipe::Writer`] sends
//! and gives with an adaptive wait; the methods here sleep in the call.
//!
//! Not seen: what a reader does with the bytes and, but for the ring, when it is done.

pub mod acked;
mod dropped;
mod frozen;
mod proof;
pub(crate) mod region;
mod returning;
mod sealed;
mod send;
mod still;

pub use dropped::Dropped;
pub use frozen::{Frozen, Store};
pub use region::Pages;
pub use send::{SendError, Sent};
