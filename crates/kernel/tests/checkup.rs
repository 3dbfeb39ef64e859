//! The checkup of the current machine. The test is alone in its process, so that it can count descriptors and
//! children.
#![allow(clippy::print_stdout, missing_docs, reason = "the findings are shown with --nocapture")]

use pagewise_kernel::doctor;
use pagewise_kernel::proc::tree;
use pagewise_model::capability::CapabilityAnswer;
use std::collections::BTreeSet;

#[test]
fn every_probe_answers_and_says_what_it_is_for() {
    let own = pagewise_kernel::proc::own_pid();
    let descriptors = || pagewise_kernel::proc::fd::list(own).map(|l| l.len());
    let before = descriptors().expect("own descriptors");
    let start = pagewise_kernel::clock::now();
    let found = doctor::checkup();
    let took = pagewise_kernel::clock::now().0 - start.0;
    for c in &found.capabilities {
        println!("{:16} {:38} {:?} [{}]", c.group, c.name, c.answer, c.gives);
        assert!(!c.gives.is_empty() && !c.name.is_empty());
        assert!(!matches!(c.answer, CapabilityAnswer::Unknown(_)), "{c:?}");
        assert!(c.answer != CapabilityAnswer::Yes || c.unlock.is_none(), "{c:?}");
    }
    for t in &found.traits {
        println!("{:16} {:38} {}", t.group, t.name, t.value);
    }
    for s in &found.spoilers {
        println!("! {} -> {}", s.what, s.remedy);
    }
    println!("took {:.1} ms", took as f64 / 1e6);
    let names: BTreeSet<&str> = found.capabilities.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names.len(), found.capabilities.len(), "names are unique");
    assert!(found.capabilities.len() >= 20);
    assert_eq!(descriptors().expect("own descriptors"), before, "every descriptor is closed");
    assert!(tree::children(own).expect("own children").is_empty(), "every child is reaped");
}
