//! Where CPU time went: samples of whole stacks, and the buckets into which they are sorted.
//!
//! A bucket has two axes: [`What`] was done, and [`Why`], for whom. Each sample is in exactly one, those
//! in user mode too; what no rule knows is [`What::Unclassified`] and is shown with its stacks.

mod bucket;
mod sample;

pub use bucket::{
    Bucket, Compared, DeadRule, FrequentStack, GraphLine, Profile, Sorted, What, Why,
};
pub use sample::{Clock, FollowedProcess, MOST_LISTED, ProfiledStack, StackSamples, UserFrame};
