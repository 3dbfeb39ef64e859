//! Jumps through generated code (`bench text`): what one costs by the size of the code, on base pages
//! against huge ones, and from how many pages on the instruction TLB has run out.
//!
//! An element of code lies on one line of each page, and jumps to the next one ([`chain`](crate::kernels)).
//! Two orders, both by chance, each element once in a lap. *Repeated*: every element leads to the same one
//! each time; a branch predictor learns that, the processor fetches ahead, and most of what translation
//! costs is hidden. *Changing*: another order in each lap; where to go on is known when the jump is
//! executed, and what translation costs shows in full. Programs are in between.
//!
//! The line of each page goes through all lines of a page in turn, turned by a hash for each such round, so
//! that all sets of the caches of instructions are used alike on contiguous and on scattered memory. The
//! same lines at the same addresses on larger pages cost the same in caches and branch predictors: the
//! difference is translation.
//!
//! For the knees the elements are 17 base pages apart, because processors join translations of neighbouring
//! pages; on huge pages each has a huge page of its own. Both are set against as many elements on few huge
//! pages. Every sample is a fresh mapping, written, closed to writing, then executed, on a thread pinned to
//! one CPU; rounds in random order; after the run `smaps` must show all of it on pages of the size asked
//! for. What each run adds up proves that every element was executed.
//!
//! Linux gives private memory huge pages where it is advised so, and keeps them when the memory is closed
//! (`change_huge_pmd`); a TLB does not know whether a page is of a file. Not seen: translations that the
//! processor does not need because it has the decoded instructions (op caches are looked up by virtual
//! address on some); in a virtual machine the page size of the host.

mod grid;
mod layout;
mod misses;
mod once;
mod plan;
mod rounds;

pub use plan::{Asked, Parts, Plan};
pub use rounds::run;
