//! Recorded samples of programs whose work is known, sorted into buckets.

use pagewise_judge::profile::sort;
use pagewise_model::Nanos;
use pagewise_model::profile::{
    ProfileActivity, ProfileReason, ProfiledStack, SortedSamples, StackSamples,
};

/// A recording: one line for each kernel stack, `count: leaf < caller < ...`. User mode has no names.
fn recorded(text: &str) -> SortedSamples {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let stack = |line: &str| {
        let (count, names) = line.split_once(':').expect("count: stack");
        let names = names.split(" < ").map(str::trim).filter(|name| !name.is_empty());
        ProfiledStack {
            process: "recorded".into(),
            kernel: names.map(Into::into).collect(),
            user: Vec::new(),
            count: count.parse().expect("a count"),
        }
    };
    let stacks = lines.map(stack).collect();
    sort(&StackSamples { stacks, period_ns: Nanos(499_979), ..Default::default() })
}

fn of(sorted: &SortedSamples, holds: impl Fn(ProfileActivity, &ProfileReason) -> bool) -> u64 {
    let held = sorted.buckets.iter().filter(|bucket| holds(bucket.what, &bucket.why));
    held.map(|bucket| bucket.samples).sum()
}

fn by_why(sorted: &SortedSamples, why: &ProfileReason) -> u64 {
    of(sorted, |_, own| own == why)
}

fn assert_explained(sorted: &SortedSamples) {
    assert!(sorted.kernel_samples > 300, "{}", sorted.kernel_samples);
    assert!(sorted.unclassified_share() <= 0.03, "{:#?}", sorted.unclassified);
    // No more than a small part is left without a known reason.
    assert!(by_why(sorted, &ProfileReason::Unknown) * 10 <= sorted.kernel_samples, "{sorted:#?}");
}

#[test]
fn a_copy_through_a_pipe() {
    let sorted = recorded(include_str!("../fixtures/recorded/pipe.txt"));
    assert_explained(&sorted);
    assert!(by_why(&sorted, &ProfileReason::Pipe) * 2 > sorted.kernel_samples, "{sorted:#?}");
    for what in [ProfileActivity::Copy, ProfileActivity::Scheduling, ProfileActivity::Allocation] {
        assert!(of(&sorted, |own, why| own == what && *why == ProfileReason::Pipe) > 0, "{what:?}");
    }
}

#[test]
fn reading_a_file() {
    let sorted = recorded(include_str!("../fixtures/recorded/file-read.txt"));
    assert_explained(&sorted);
    assert!(by_why(&sorted, &ProfileReason::FileRead) * 2 > sorted.kernel_samples, "{sorted:#?}");
    let copied =
        of(&sorted, |what, why| what == ProfileActivity::Copy && *why == ProfileReason::FileRead);
    let found =
        of(&sorted, |what, why| what == ProfileActivity::Lookup && *why == ProfileReason::FileRead);
    assert!(copied > found && found > 0, "{sorted:#?}");
    assert_eq!(by_why(&sorted, &ProfileReason::Pipe), 0);
}

#[test]
fn touching_memory() {
    let sorted = recorded(include_str!("../fixtures/recorded/anonymous.txt"));
    assert_explained(&sorted);
    let touched = by_why(&sorted, &ProfileReason::AnonFault);
    let kernel = sorted.buckets.iter().filter(|bucket| bucket.what != ProfileActivity::User);
    let most = kernel.map(|bucket| by_why(&sorted, &bucket.why)).max();
    assert_eq!(most, Some(touched), "{sorted:#?}");
    assert!(of(&sorted, |what, _| what == ProfileActivity::Zeroing) > 0);
    assert!(
        of(&sorted, |what, _| what == ProfileActivity::Unmapping) > 0,
        "it gives the memory back"
    );
}

#[test]
fn a_shell_that_starts_programs() {
    let sorted = recorded(include_str!("../fixtures/recorded/exec.txt"));
    assert_explained(&sorted);
    for why in [
        ProfileReason::Exec,
        ProfileReason::Fork,
        ProfileReason::Exit,
        ProfileReason::FileFault,
        ProfileReason::CowFault,
        ProfileReason::MapCall,
    ] {
        assert!(by_why(&sorted, &why) * 100 > sorted.kernel_samples, "{why:?}: {sorted:#?}");
    }
    assert_eq!(by_why(&sorted, &ProfileReason::Pipe), 0);
}
