//! What it costs to pin pages of a process (`bench pin`): to find the frames of a piece of its memory in the
//! page table and to hold them, on base pages against huge ones.
//!
//! The kernel pins wherever it is to use memory of a process by itself: vmsplice, direct I/O, registered
//! buffers, reading another process. Nothing measures that alone without a kernel built for it
//! (`CONFIG_GUP_TEST`, which is asked where it is there), so it is found by differences:
//! - vmsplice of a piece into a pipe that is then emptied into /dev/null, against tee of as many slots into
//!   the same pipe: slots and counters are the same, only the page table is not asked
//!   (`iov_iter_get_pages2`, `get_user_pages_fast`);
//! - registering the piece with io_uring and giving it back (`pin_user_pages_fast`, for long);
//! - process_vm_readv of our own memory (`pin_user_pages_remote`), which copies: against the same copy in
//!   user space, by the instruction that the kernel copies with.
//!
//! Pieces of 4 KiB to 1 MiB go in turn through 2 MiB, so that frames are as cold or warm as in a stream. A
//! piece's price is a line over its pages: the rise is the price of a page, what is left that of the call.
//!
//! Every sample is a fresh mapping whose page size the kernel has shown, on a thread pinned to one CPU, in
//! rounds of random order; the clock is that thread's CPU time. Not seen: direct I/O (its pins drown in the
//! device), contention for the counters of frames (one thread), pages that must be faulted in first.

mod means;
mod once;
mod plan;
mod rounds;

pub use plan::{Asked, Plan};
pub use rounds::run;
