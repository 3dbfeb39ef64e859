//! Known programs: which functions cause their faults, in which phase the faults come, and which are churn.

use super::*;

const PAGES: u64 = 4000;

/// The program, built with these options. `None` without a C compiler or without such libraries.
fn built(place: &Place, options: &[&str]) -> Option<PathBuf> {
    let program = place.path().join("fault_callers");
    let options = [&["-O1"], options].concat();
    compile("fault_callers.c", &options, &program).then_some(program)
}

fn recorded(place: &Place, program: &Path, options: &[&str], words: &[&str]) -> Output {
    let mut command = place.pagewise(&["faults"]);
    command.args(options).arg("--").arg(program).args(words).output().unwrap()
}

/// The report on the faults of `HOW PAGES [TIMES]`. `None` if that cannot be tested here.
fn report(test: &str, build: &[&str], options: &[&str], words: &[&str]) -> Option<Value> {
    let place = Place::new();
    let Some(program) = built(&place, build) else {
        println!("SKIP {test}: no C compiler, or no static libraries");
        return None;
    };
    let done = recorded(&place, &program, &[&["--json"], options].concat(), words);
    if refused(test, &done) {
        return None;
    }
    assert_eq!(done.status.code(), Some(0), "{}", said(&done.stderr));
    let run: Value = serde_json::from_slice(&done.stdout).unwrap();
    Some(run["faults"].clone())
}

/// Faults by the function reported as their cause.
fn behind(functions: &Value) -> Vec<(String, u64)> {
    let one = |f: &Value| {
        let name = f["site"]["function"].as_str().unwrap_or_default().to_owned();
        (name, f["tally"]["faults"].as_u64().unwrap())
    };
    functions.as_array().unwrap().iter().map(one).collect()
}

fn of(functions: &[(String, u64)], name: &str) -> u64 {
    functions.iter().filter(|(function, _)| function == name).map(|(_, faults)| faults).sum()
}

fn is_walked() -> bool {
    let is = cfg!(target_arch = "x86_64");
    if !is {
        println!("SKIP callers: stacks are walked on x86-64");
    }
    is
}

#[test]
fn the_caller_of_the_c_library_is_named_and_not_memset() {
    if !is_walked() {
        return;
    }
    let pages = PAGES.to_string();
    for (build, how, function) in [
        (&[][..], "fill", "fill_buffer"),
        (&["-static"][..], "fill", "fill_buffer"),
        (&[][..], "copy", "copy_text"),
    ] {
        let test = "the_caller_of_the_c_library_is_named";
        let Some(report) = report(test, build, &[], &[how, &pages]) else { continue };
        let callers = &report["callers"]["known"];
        let functions = behind(&callers["functions"]);
        let found = of(&functions, function);
        assert!(found > PAGES * 9 / 10, "{how} {build:?}: {callers}");
        assert_eq!(of(&functions, "memset"), 0, "{functions:?}");
        let unnamed = callers["unnamed"].as_array().unwrap().iter();
        let unnamed: u64 = unnamed.map(|g| g["tally"]["faults"].as_u64().unwrap()).sum();
        let named = callers["named"]["faults"].as_u64().unwrap();
        assert_eq!(named + unnamed, report["total"]["faults"].as_u64().unwrap(), "{callers}");
    }
}

#[test]
fn without_stacks_it_is_said_that_callers_are_not_known() {
    let test = "without_stacks_it_is_said";
    let Some(report) = report(test, &[], &["--stacks", "none"], &["fill", "100"]) else { return };
    let why = report["callers"]["missing"].as_str().unwrap_or_default();
    assert!(why.contains("--stacks"), "{}", report["callers"]);
}

#[test]
fn stacks_of_every_fault_reach_from_main_to_the_page() {
    if !is_walked() {
        return;
    }
    let test = "stacks_of_every_fault";
    for (stacks, build) in [("dwarf", &[][..]), ("fp", &["-fno-omit-frame-pointer"][..])] {
        let place = Place::new();
        let Some(program) = built(&place, build) else {
            println!("SKIP {test}: no C compiler");
            return;
        };
        let options = ["--stacks", stacks, "--format", "folded"];
        let done = recorded(&place, &program, &options, &["fill", "300"]);
        if refused(test, &done) {
            return;
        }
        let text = said(&done.stdout);
        // The C library keeps no frame pointer. The chain then lacks memset, but not main.
        let chain = if stacks == "fp" { "main;" } else { "main;fill_buffer;" };
        let weight = |line: &str| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
        let whole =
            text.lines().filter(|line| line.contains(chain) && line.contains("[anonymous]"));
        let whole: u64 = whole.map(weight).sum();
        // Copied stacks may be lost if the recorder was late. The report counts the lost ones.
        assert!(whole >= if stacks == "fp" { 290 } else { 50 }, "{stacks}: {text}");
    }
}

#[test]
fn a_loop_over_mappings_is_churn_of_its_function() {
    let test = "a_loop_over_mappings_is_churn";
    let Some(report) = report(test, &[], &[], &["loop", "400", "30"]) else { return };
    let reasons = report["churn"]["by_reason"].as_array().unwrap();
    let remapped = reasons.iter().find(|group| group["kind"] == "remapped");
    let remapped = remapped.map_or(0, |group| group["tally"]["faults"].as_u64().unwrap());
    assert!((29 * 400..29 * 400 + 100).contains(&remapped), "{}", report["churn"]);
    if is_walked() {
        let functions = behind(&report["churn"]["functions"]);
        assert!(of(&functions, "use_and_unmap") > 29 * 400 * 9 / 10, "{functions:?}");
    }
}

#[test]
fn every_fault_is_in_one_phase() {
    let pages = PAGES.to_string();
    let test = "every_fault_is_in_one_phase";
    for (build, has_loader) in [(&[][..], true), (&["-static", "-no-pie"][..], false)] {
        let Some(report) = report(test, build, &[], &["fill", &pages]) else { continue };
        let phases = report["by_phase"].as_array().unwrap();
        let of = |name: &str| {
            let phase = phases.iter().find(|phase| phase["kind"] == name);
            phase.map_or(0, |phase| phase["tally"]["faults"].as_u64().unwrap())
        };
        let sum: u64 = phases.iter().map(|p| p["tally"]["faults"].as_u64().unwrap()).sum();
        assert_eq!(sum, report["total"]["faults"].as_u64().unwrap());
        assert!(of("main") + of("steady") >= PAGES, "{phases:?}");
        if cfg!(target_arch = "x86_64") {
            assert_eq!(of("loader") > 0 && of("relocation") > 0, has_loader, "{phases:?}");
        }
    }
}
