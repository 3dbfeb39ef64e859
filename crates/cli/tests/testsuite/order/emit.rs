//! `order emit`: each installed linker accepts its form of the order and follows it.

use super::{lines, objects, order};
use crate::helper::{Place, compile, said};
use pagewise_observe::order::read_functions;
use std::path::Path;
use std::process::Command;

/// Differs from the order of the files, from the order of calls, and from the reverse of either.
const ORDER: [&str; 6] = ["helper", "third", "first", "main", "second", "construct"];
const SECTIONS: &[&str] = &["-ffunction-sections", "-fdata-sections"];

/// The order in the form of `linker`, written to the path returned. `words` are further arguments of `order
/// emit`.
fn emit(place: &Place, linker: &str, names: &[&str], words: &[&str]) -> String {
    let list = place.path().join("names");
    std::fs::write(&list, format!("# an order\n{}\n", names.join("\n"))).unwrap();
    let file = place.path().join(linker);
    let file = file.to_str().unwrap();
    let all = ["emit", list.to_str().unwrap(), "--linker", linker, "-o", file];
    let how = lines(&order(place, &[&all, words].concat()));
    assert!(how.iter().any(|line| line.contains(file)), "{how:?}");
    file.to_owned()
}

/// Links the object files with these options. False if that linker is not installed.
fn link(place: &Place, what: &str, inputs: &[&Path], options: &[&str]) -> bool {
    let program = place.path().join("app");
    let done = Command::new("cc").args(inputs).args(options).arg("-o").arg(&program).output();
    let done = done.unwrap();
    if !done.status.success() {
        let why = said(&done.stderr);
        assert!(
            why.contains("cannot find") || why.contains("unrecognized") || why.contains("unknown"),
            "{why}"
        );
        println!("SKIP order for {what}: {}", why.lines().next().unwrap_or_default());
        return false;
    }
    let ran = Command::new(&program).output().unwrap();
    assert_eq!(said(&ran.stdout), "244\n", "{what}");
    true
}

/// The functions of [`ORDER`] in the sequence that the linked program has.
fn laid_out(place: &Place) -> Vec<String> {
    let functions = read_functions(&place.path().join("app")).unwrap();
    let names = functions.into_iter().map(|function| function.name);
    names.filter(|name| ORDER.contains(&name.as_str())).collect()
}

#[test]
fn installed_linkers_follow_their_form() {
    let place = Place::new();
    let Some([main, part]) = objects(&place, SECTIONS) else { return };
    for (linker, options) in [
        ("lld", vec!["-fuse-ld=lld", "-Wl,--fatal-warnings", "-Wl,--symbol-ordering-file="]),
        ("gold", vec!["-fuse-ld=gold", "-Wl,--section-ordering-file="]),
        ("ld", vec!["-fuse-ld=bfd", "-Wl,--section-ordering-file="]),
        ("ld-script", vec!["-fuse-ld=bfd", "-Wl,-T,"]),
        ("ld-script", vec!["-fuse-ld=lld", "-Wl,-T,"]),
    ] {
        // Two joined recordings: lld warns of a duplicate name.
        let file = emit(&place, linker, &[ORDER, ORDER].concat(), &[]);
        let (last, rest) = options.split_last().unwrap();
        let last = format!("{last}{file}");
        let options = [rest, &[last.as_str()]].concat();
        if link(&place, linker, &[&main, &part], &options) {
            assert_eq!(laid_out(&place), ORDER, "{linker} {options:?}");
        }
    }
}

#[test]
fn mold_follows_joined_objects() {
    let place = Place::new();
    let Some([main, part]) = objects(&place, SECTIONS) else { return };
    let file = emit(&place, "mold-objects", &ORDER, &[]);
    let joined = place.path().join("ordered.o");
    let words = ["-r", "--unique", "-T", &file];
    let done = Command::new("ld").args(words).args([&main, &part]).arg("-o").arg(&joined).output();
    assert!(done.unwrap().status.success());
    for (what, option) in [("mold", "-fuse-ld=mold"), ("ld after ld -r", "-fuse-ld=bfd")] {
        if link(&place, what, &[&joined], &[option]) {
            assert_eq!(laid_out(&place), ORDER, "{what}");
        }
    }
}

#[test]
fn rust_lld_orders_functions_of_rust() {
    let place = Place::new();
    let source = place.path().join("app.rs");
    let text = "#[inline(never)] #[no_mangle] fn first() -> i32 { second() + 4 }\n\
                #[inline(never)] #[no_mangle] fn second() -> i32 { std::process::id() as i32 & 1 }\n\
                fn main() { println!(\"{}\", first() & 0 | 244); }\n";
    std::fs::write(&source, text).unwrap();
    let program = place.path().join("app");
    for names in [["second", "first"], ["first", "second"]] {
        let file = emit(&place, "lld", &names, &[]);
        let option = format!("link-arg=-Wl,--symbol-ordering-file={file}");
        let built = Command::new("rustc")
            .arg("-O")
            .args(["-C", &option, "-o"])
            .args([&program, &source])
            .output();
        if !built.as_ref().is_ok_and(|done| done.status.success()) {
            println!("SKIP order for rustc: {built:?}");
            return;
        }
        assert_eq!(laid_out(&place)[..2], names);
    }
}

#[test]
fn sections_and_later_names_are_found_in_a_build() {
    let place = Place::new();
    let Some([main, part]) = objects(&place, SECTIONS) else { return };
    let files = ["--for", main.to_str().unwrap(), part.to_str().unwrap()];
    let text = std::fs::read_to_string(emit(&place, "gold", &ORDER, &files)).unwrap();
    assert!(text.starts_with(".text.helper\n.text.third\n"), "{text}");
    assert!(!text.contains("hot."), "the true sections are known: {text}");
    let former = ["helper.isra.0", "third.llvm.123", "gone"];
    let text = std::fs::read_to_string(emit(&place, "lld", &former, &files)).unwrap();
    assert_eq!(text, "helper\nthird\n");
    assert!(link(&place, "a plain link", &[&main, &part], &[]));
    let program = place.path().join("app");
    let text = emit(&place, "lld", &former, &["--for", program.to_str().unwrap()]);
    assert_eq!(std::fs::read_to_string(text).unwrap(), "helper\nthird\n");
}

#[test]
fn variables_and_object_files_go_where_they_are_told() {
    let place = Place::new();
    let Some([main, part]) = objects(&place, SECTIONS) else { return };
    let (main_name, part_name) = (main.to_str().unwrap(), part.to_str().unwrap());
    let file = emit(&place, "ld-script", &[part_name, main_name], &["--by", "object"]);
    if link(
        &place,
        "ld-script by object",
        &[&main, &part],
        &["-fuse-ld=bfd", &format!("-Wl,-T,{file}")],
    ) {
        let order = laid_out(&place);
        let at = |name: &str| order.iter().position(|known| known == name);
        assert!(at("third") < at("main"), "{order:?}");
    }
    let variables = ["unused_variable", "constructed", "table"];
    let words = ["--by", "variable", "--for", main_name, part_name];
    let file = emit(&place, "ld-script", &variables, &words);
    let option = format!("-Wl,-T,{file}");
    assert!(link(&place, "ld-script by variable", &[&main, &part], &["-fuse-ld=bfd", &option]));
    let refused = order(&place, &["emit", &file, "--linker", "bolt", "--by", "variable"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(said(&refused.stderr).contains("takes no order of variables"));
}

#[test]
fn a_linker_that_is_given_joined_functions_does_not_follow() {
    let place = Place::new();
    let Some([main, part]) = objects(&place, &[]) else { return };
    let file = emit(&place, "lld", &ORDER, &[]);
    let option = format!("-Wl,--symbol-ordering-file={file}");
    if link(&place, "lld without sections", &[&main, &part], &["-fuse-ld=lld", &option]) {
        assert_ne!(laid_out(&place), ORDER, "the test of forms could not fail");
    }
    assert!(compile("order.c", &["-c"], &main));
}
