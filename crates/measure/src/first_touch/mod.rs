//! First touches of memory (`bench memory`): what a page costs until it can be used, under every way to get
//! it, in nanoseconds for each base page used.
//!
//! Every sample is a fresh mapping: made, touched once in each page used, given back, each part on the wall
//! clock, because what a program waits for is wall time and several threads wait for each other. The
//! points are gone through in rounds, each in a new random order, so that a disturbance of some seconds
//! hits one sample of many points. The kernel proves what was had: its own count of minor faults against
//! the number that the way must take, the size of the pages by `smaps`, and what was mapped before the
//! first touch.
//!
//! A virtual machine's free memory may not be there: its host takes free blocks back and faults them in
//! anew. `host.rs` touches and frees memory before each mapping, so that the figures are the guest's own, and
//! tells the host's part apart.
//!
//! Files and forks are measured in children (`child.rs`), because a touch of a mapped file may be `SIGBUS`.
//!
//! Linux maps anonymous memory in mm/memory.c (`do_anonymous_page`), huge pages in mm/huge_memory.c, populates
//! in mm/gup.c. Not seen: faults that wait for a device or for reclaim, and pages of other NUMA nodes.

mod anonymous;
mod child;
mod cow;
mod file;
mod host;
mod plan;
mod pool;
mod present;
mod pressure;
mod rounds;
mod spent;
mod split;
mod taken;
mod userfault;
mod ways;

pub use plan::{Asked, Plan, words};
pub use rounds::run;
