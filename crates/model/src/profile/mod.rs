//! CPU time by samples of whole stacks, sorted into buckets.
//!
//! A bucket has two axes: the work ([`ProfileActivity`]) and its purpose ([`ProfileReason`]). Each sample is in exactly one
//! bucket, also those in user mode. A stack that matches no rule is [`ProfileActivity::Unclassified`] and is shown.

mod bucket;
mod sample;

pub use bucket::{
    CallGraphLine, ComparedTime, DeadRule, FrequentStack, ProfileActivity, ProfileBucket,
    ProfileReason, ProfileReport, SortedSamples,
};
pub use sample::{
    FollowedProcess, MOST_LISTED, ProfiledStack, SamplingClock, StackSamples, UserFrame,
};
