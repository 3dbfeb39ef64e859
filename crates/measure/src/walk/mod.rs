//! Walks through memory (`bench tlb`): what a load costs that needs the one before, by size of set, by
//! order and by page size; and what of it is address translation.
//!
//! Two kinds of paths. **Lists** fill a set with elements side by side, as programs' lists and trees
//! do: what they cost is caches and translation together. **Lines** are one cache line each on so many
//! pages; the same number of lines packed together costs the same in the caches and nearly nothing in
//! translation, so the difference is translation, and where it rises a TLB has run out. Base pages are
//! taken 17 apart: processors join translations of neighbouring pages into one entry, which would
//! show more entries than there are, and an odd distance still reaches every set of a TLB. The lines
//! of successive pages go through all sets of the first cache in turn.
//!
//! Every sample is a fresh mapping, made, linked, walked and given back on a thread pinned to one CPU;
//! the points are gone through in rounds, each in a new random order, so that the free pages are
//! mixed in between and a disturbance of some seconds hits one sample of many points. After the walk
//! `smaps` must show all of the mapping on pages of the size that was asked for, or there is no sample.
//!
//! Linux gives anonymous memory huge pages where it is advised so (mm/huge_memory.c), and pages of a
//! pool by `MAP_HUGETLB`. Not seen: loads that overlap, as those of most programs do (they hide much of
//! what is measured here); instruction TLBs; in a virtual machine, the page size of the host, save by
//! what translation costs.

mod bandwidth;
mod grid;
mod layout;
mod once;
mod plan;
mod rounds;

pub(crate) use grid::{apart, steps};
pub use plan::{Asked, Parts, Plan};
pub use rounds::run;
