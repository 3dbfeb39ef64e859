//! `heap-huge=java`: the kernel puts the heap of a Java program on huge pages, and its output is unchanged.

use crate::helper::{Place, said};
use pagewise_kernel::thp;
use std::process::{Command, Output};

/// Most of the 64 MiB that the program fills, in kB.
const MOST: u64 = 48 << 10;

/// The program, which the launcher compiles itself. `None`, after a `SKIP` line, if it cannot show anything
/// here.
fn program() -> Option<String> {
    let has_java = Command::new("java").arg("-version").output().is_ok_and(|o| o.status.success());
    if !has_java || thp::enabled().ok().as_deref() != Some("madvise") {
        println!("SKIP heap-huge=java: no Java, or huge pages are not on request");
        return None;
    }
    Some(format!("{}/../../tests/programs/Heap.java", env!("CARGO_MANIFEST_DIR")))
}

fn huge_kilobytes(done: &Output) -> u64 {
    assert!(done.status.success(), "{}", said(&done.stderr));
    said(&done.stdout).trim().parse().unwrap()
}

#[test]
fn the_heap_of_a_java_program_lies_on_huge_pages_and_nothing_is_reported() {
    let Some(program) = program() else { return };
    let place = Place::new();
    let start = |list: &str, command: &[&str]| {
        let mut run = place.pagewise(&["run", "--with", list, "--"]);
        run.args(command).env_remove("JAVA_TOOL_OPTIONS").output().unwrap()
    };
    let heap = ["java", "-Xms128m", &program];
    let plain = start("place=one", &heap);
    let huge = start("heap-huge", &heap);
    assert!(huge_kilobytes(&plain) < MOST / 4, "{}", said(&plain.stdout));
    assert!(huge_kilobytes(&huge) >= MOST, "{}", said(&huge.stdout));
    assert_eq!(said(&huge.stderr), said(&plain.stderr));
    // The user's own option comes later, so it wins.
    let off = ["java", "-Xms128m", "-XX:-UseTransparentHugePages", &program];
    assert!(huge_kilobytes(&start("heap-huge=java", &off)) < MOST / 4);
}

#[test]
fn a_program_that_starts_java_hands_the_option_on() {
    let Some(program) = program() else { return };
    let place = Place::new();
    let mut run = place.pagewise(&["run", "--with", "heap-huge=java", "--", "sh", "-c"]);
    run.arg(format!("java -Xms128m {program}; exit $?")).env_remove("JAVA_TOOL_OPTIONS");
    let done = run.output().unwrap();
    assert!(huge_kilobytes(&done) >= MOST, "{}", said(&done.stdout));
    assert!(
        said(&done.stderr).contains("Picked up JAVA_TOOL_OPTIONS: -XX:+UseTransparentHugePages")
    );
}
