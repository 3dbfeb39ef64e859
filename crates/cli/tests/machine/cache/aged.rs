//! Tests of files that must grow old first. That takes most of a minute, so these tests wait side by side.

use super::{mounts, refused};

#[test]
fn a_file_grows_old_for_those_who_are_not_told_what_of_it_is_on_disk() {
    let tests: [(&str, fn()); 3] = [
        ("whoever may only read", super::whoever_may_only_read_a_file_makes_it_huge),
        ("on an overlay", mounts::a_program_on_an_overlay_is_warmed_for_all_who_see_it),
        ("without a call", refused::what_can_be_done_without_a_call_is_done),
    ];
    std::thread::scope(|scope| {
        for (name, test) in tests {
            let thread = std::thread::Builder::new().name(name.to_owned());
            thread.spawn_scoped(scope, test).unwrap();
        }
    });
}
