//! CPU time by samples of whole stacks, sorted into buckets.
//!
//! A bucket has two axes: the work ([`What`]) and its purpose ([`Why`]). Each sample is in exactly one
//! bucket, also those in user mode. A stack that matches no rule is [`What::Unclassified`] and is shown.

mod bucket;
mod sample;

pub use bucket::{
    Bucket, Compared, DeadRule, FrequentStack, GraphLine, Profile, Sorted, What, Why,
};
pub use sample::{Clock, FollowedProcess, MOST_LISTED, ProfiledStack, StackSamples, UserFrame};
