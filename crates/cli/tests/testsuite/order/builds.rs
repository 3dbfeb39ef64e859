//! `order builds`: what each option leaves of a small program, and builds that fail.

use super::{objects, order};
use crate::helper::{Place, await_gone, only_turn, said};
use pagewise_model::builds::{BuildComparison, BuildSeen};
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use std::process::{Output, Stdio};

/// The builds of `words`, counted. `None`, after a message, where faults cannot be recorded.
fn counted(place: &Place, words: &[&str]) -> Option<BuildComparison> {
    let done = order(place, &[&["builds", "--runs", "2", "--no-time", "--json"], words].concat());
    if done.status.code() == Some(3) {
        println!("SKIP order builds: {}", said(&done.stderr));
        return None;
    }
    assert!(done.status.success(), "{}", said(&done.stderr));
    assert_eq!(place.scratches(), [] as [std::path::PathBuf; 0]);
    Some(serde_json::from_slice(&done.stdout).unwrap())
}

/// What was seen of a build; `None` if there is no such row.
fn find<'a>(comparison: &'a BuildComparison, name: &str) -> Option<&'a BuildSeen> {
    comparison.builds.iter().find(|build| build.name == name)?.seen.known()
}

fn source(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs");
    root.join(name).to_str().unwrap().to_owned()
}

#[test]
fn garbage_and_twins_go_where_the_linker_can() {
    let (_turn, place) = (only_turn(), Place::new());
    let Some(_) = objects(&place, &[]) else { return };
    let source = source("twins.c");
    let words = ["--", "cc", "-O1", &source, "-o", "{out}", "---", "{}"];
    let Some(all) = counted(&place, &words) else { return };
    let code =
        |name: &str| find(&all, name).unwrap_or_else(|| panic!("{name}: {all:?}")).code_bytes;
    // `garbage` and `more_garbage` are more than 64 bytes in any build.
    assert!(code("gc-sections").0 + 64 < code("plain").0, "{all:?}");
    assert!(code("all of them") <= code("gc-sections") && find(&all, "-Os").is_some(), "{all:?}");
    let plain = find(&all, "plain").unwrap();
    assert!(plain.faults.len() == 2 && plain.faults[0] > plain.file_faults[0], "{plain:?}");
    let touched = &plain.touched;
    assert!(touched.code_pages > 0 && touched.pages > touched.code_pages, "{touched:?}");
    assert!(touched.windows >= 1.0, "{touched:?}");
    let pages = touched.sizes.iter().map(|one| one.memory_bytes.0 / one.page_bytes.0);
    let pages: Vec<u64> = pages.collect();
    assert!(pages[0] == touched.pages && pages.is_sorted_by(|a, b| b <= a), "{touched:?}");
    // One of them is what the linker does anyway.
    let same = |name: &str| find(&all, name).is_some_and(|one| one.same_as.is_some());
    assert!(same("separate-code") || same("noseparate-code"), "{all:?}");
    match ["lld", "gold", "mold"].into_iter().find(|name| find(&all, name).is_some()) {
        Some(linker) => assert!(code(&format!("{linker} icf=all")) < code(linker), "{all:?}"),
        None if plain.linker != "GNU ld" => assert!(code("icf=all") < code("plain"), "{all:?}"),
        None => {
            let row = all.builds.iter().find(|build| build.name == "icf").unwrap();
            assert!(row.seen.reason().unwrap().contains("cannot fold"), "{row:?}");
            println!("SKIP folding of twins: this linker cannot, and no other is installed");
        }
    }
}

#[test]
fn a_link_takes_an_order_and_the_options_of_the_linker_only() {
    let (_turn, place) = (only_turn(), Place::new());
    let Some([main, part]) = objects(&place, &["-ffunction-sections"]) else { return };
    let list = place.path().join("list");
    std::fs::write(&list, "helper\nthird\nfirst\nmain\nsecond\nconstruct\n").unwrap();
    let [main, part, list] = [&main, &part, &list].map(|path| path.to_str().unwrap());
    let link = ["cc", "-fuse-ld=bfd", main, part, "-o", "{out}"];
    let words = [&["--order", list, "--"], &link[..], &["---", "{}"]].concat();
    let Some(all) = counted(&place, &words) else { return };
    assert!(find(&all, "-Os").is_none() && find(&all, "order").is_some(), "{all:?}");
    let code = |name: &str| find(&all, name).unwrap().code_bytes;
    assert!(code("gc-sections") < code("plain"), "`never` and `never_either` are garbage");
    let last = all.builds.last().unwrap();
    assert!(last.name == "all of them" && last.seen.known().is_some(), "{last:?}");
    assert!(last.command.iter().any(|word| word == "-Wl,--gc-sections"), "{last:?}");
}

#[test]
fn linkers_are_named_by_the_file() {
    let (_turn, place) = (only_turn(), Place::new());
    let Some(_) = objects(&place, &[]) else { return };
    let source = source("twins.c");
    let names = ["bfd", "gold", "lld", "mold"];
    let mut words = names.iter().flat_map(|name| ["--name", name]).collect::<Vec<_>>();
    let choices = names.map(|name| format!("-fuse-ld={name}"));
    for (at, choice) in choices.iter().enumerate() {
        words.extend([if at == 0 { "--" } else { "---" }, "cc", choice, &source, "-o", "{out}"]);
    }
    words.extend(["---", "{}"]);
    let Some(all) = counted(&place, &words) else { return };
    for (name, want) in names.into_iter().zip(["GNU ld", "gold", "LLD", "mold"]) {
        match find(&all, name) {
            Some(seen) => assert!(seen.linker.contains(want), "{name}: {}", seen.linker),
            None => println!("SKIP linker {name}: not installed"),
        }
    }
}

fn refused(place: &Place, words: &[&str], why: &str) {
    let done = order(place, &[&["builds", "--no-time", "--runs", "1"], words].concat());
    assert_eq!(done.status.code(), Some(2), "{}", said(&done.stderr));
    assert!(said(&done.stderr).contains(why), "{}", said(&done.stderr));
    assert_eq!(place.scratches(), [] as [std::path::PathBuf; 0]);
}

#[test]
fn a_build_that_fails_is_a_row_unless_it_is_the_first() {
    let (_turn, place) = (only_turn(), Place::new());
    let Some(_) = objects(&place, &[]) else { return };
    let source = source("twins.c");
    let good = ["cc", &source, "-o", "{out}"];
    let bad = ["cc", &source, "-Wl,--no-such-option", "-o", "{out}"];
    let ends = ["sh", "-c", "echo 'int main(void) { return 7; }' | cc -x c - -o {out}"];
    let builds = [&good[..], &["---"], &bad, &["---"], &ends].concat();
    let names = ["--name", "good", "--name", "bad", "--name", "ends"];
    let Some(all) = counted(&place, &[&names[..], &["--"], &builds, &["---", "{}"]].concat())
    else {
        return;
    };
    let why = |name: &str| {
        let found = all.builds.iter().find(|build| build.name == name).unwrap();
        found.seen.reason().unwrap().to_owned()
    };
    assert!(find(&all, "good").is_some());
    assert!(why("bad").starts_with("not built: exit status: 1 ") && why("bad").contains("option"));
    assert_eq!(why("ends"), "it ends with exit status 7, the first with exit status 0");
    refused(&place, &[&["--"], &bad[..], &["---", "{}"]].concat(), "the first build: not built");
    let nothing = ["--", "true", "{out}", "---", "{}"];
    refused(&place, &nothing, "not built: {out}: No such file");
    refused(&place, &["--", "cc", "a.c", "---", "{}"], "does not contain {out}");
    refused(&place, &["--", "cc", "-o", "{out}", "---", "true"], "does not contain {}");
    refused(&place, &["--", "cc", "-o", "{out}"], "give a build and the command to start");
}

/// Starts a build that does not end, interrupts it, and waits for the end of pagewise.
fn interrupted(place: &Place) -> Output {
    let mark = place.path().join("began");
    let script = format!("echo > {}; sleep 60 # {{out}}", mark.display());
    let words = ["order", "builds", "--quiet", "--", "sh", "-c", &script, "---", "{}"];
    let mut command = place.pagewise(&words);
    let front = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while !mark.exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&front), Signal::INT).unwrap();
    front.wait_with_output().unwrap()
}

#[test]
fn an_interrupt_ends_the_build_and_leaves_nothing() {
    let (_turn, place) = (only_turn(), Place::new());
    let done = interrupted(&place);
    assert_eq!(done.status.code(), Some(130), "{}", said(&done.stderr));
    assert!(await_gone(&place) && place.scratches().is_empty());
}
