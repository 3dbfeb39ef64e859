//! How to use an order with each compiler and build system, and what the linker cannot do.

use super::forms::Linker;
use crate::page::ReportDocument;
use crate::shell::quote;
use crate::style::TextTone;
use pagewise_model::pieces::OrderUnit;

/// The lines that use the order in `file`, and what the linker does not order.
#[must_use]
pub fn how_section(linker: Linker, by: OrderUnit, file: &str) -> ReportDocument {
    let mut page = ReportDocument::default();
    for (label, lines) in how(linker, by, file) {
        page.heading(label);
        lines.iter().for_each(|line| page.exact(line));
    }
    page.heading("what it cannot do");
    limits(linker, by).iter().for_each(|limit| page.bullet(limit, TextTone::Plain));
    page
}

/// The lines that record with the hooks whose source is in `file`, and what they do not see.
#[must_use]
pub fn hooks_section(file: &str) -> ReportDocument {
    let file = quote(file);
    let mut page = ReportDocument::default();
    page.heading("compile and link, with gcc or clang");
    page.exact(&format!("cc -finstrument-functions *.c {file} -o app"));
    page.exact(&format!("clang -finstrument-functions-after-inlining *.c {file} -o app"));
    page.heading("run, then list what it has written");
    page.exact("PAGEWISE_CALLS=app.calls ./app");
    page.exact("pagewise order record --hooks app.calls -o order.txt");
    page.heading("what they cannot see");
    let limits = [
        "functions of files that were compiled without the option, the C library among them",
        "which functions a build without the option inlines: order emit --for BUILD leaves out what that does not have",
    ];
    limits.iter().for_each(|limit| page.bullet(limit, TextTone::Plain));
    page
}

/// The compiler options for linking with the order in `file`: first the choice of the linker, if it has one.
#[must_use]
pub fn link_options(linker: Linker, file: &str) -> Vec<String> {
    let list = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    match linker {
        Linker::Lld => vec!["-fuse-ld=lld".into(), format!("-Wl,--symbol-ordering-file={file}")],
        Linker::Gold => vec!["-fuse-ld=gold".into(), format!("-Wl,--section-ordering-file={file}")],
        Linker::Ld => vec![format!("-Wl,--section-ordering-file={file}")],
        Linker::LdScript => vec![format!("-Wl,-T,{file}")],
        Linker::Apple => vec![format!("-Wl,-order_file,{file}")],
        Linker::Bolt => list(&["-Wl,--emit-relocs"]),
        Linker::MoldObjects => list(&["-fuse-ld=mold"]),
        Linker::Msvc => vec![format!("/ORDER:@{file}")],
    }
}

/// The compiler options that put each function or variable into its own section.
const fn compile_options(linker: Linker, by: OrderUnit) -> &'static str {
    match (linker, by) {
        (_, OrderUnit::Object) => "",
        (Linker::Msvc, _) => "/Gy",
        (_, OrderUnit::Variable) => "-fdata-sections",
        (_, OrderUnit::Function) => "-ffunction-sections",
    }
}

fn how(linker: Linker, by: OrderUnit, file: &str) -> Vec<(&'static str, Vec<String>)> {
    let quoted = quote(file);
    let compile = compile_options(linker, by);
    match linker {
        Linker::MoldObjects => vec![(
            "join the object files, then link what comes of it",
            vec![
                format!("ld -r --unique -T {quoted} *.o -o ordered.o"),
                "cc -fuse-ld=mold ordered.o -o app".to_owned(),
            ],
        )],
        Linker::Bolt => vec![(
            "link with relocations, then",
            vec![
                "cc -Wl,--emit-relocs *.o -o app".to_owned(),
                format!(
                    "llvm-bolt app -o app.ordered --reorder-functions=user --function-order={quoted}"
                ),
            ],
        )],
        Linker::Msvc => vec![
            ("cl, link", vec![format!("cl {compile} app.c /link /INCREMENTAL:NO /ORDER:@{file}")]),
            ("rustc", vec![format!("rustc -C link-arg=/ORDER:@{quoted} app.rs")]),
            ("cmake", vec![format!("target_link_options(app PRIVATE /ORDER:@{file})")]),
        ],
        _ => builds(linker, by, &link_options(linker, file)),
    }
}

/// How to pass options to the linker with compilers and build systems.
fn builds(linker: Linker, by: OrderUnit, options: &[String]) -> Vec<(&'static str, Vec<String>)> {
    let compile = compile_options(linker, by);
    let words: Vec<String> = options.iter().map(|option| quote(option)).collect();
    let all = words.join(" ");
    let listed = |mark: &str| {
        let words: Vec<String> =
            options.iter().map(|option| format!("{mark}{option}{mark}")).collect();
        words.join(if mark == "'" { ", " } else { " " })
    };
    let mut lines = vec![("cc, gcc, clang", vec![format!("cc {compile} *.c {all} -o app")])];
    // rustc links with lld by default.
    let own = matches!(linker, Linker::Gold | Linker::Ld).then_some("-C linker-features=-lld ");
    let own = own.unwrap_or_default();
    if by == OrderUnit::Function {
        let link: Vec<String> = words.iter().map(|word| format!("-C link-arg={word}")).collect();
        lines.push(("rustc", vec![format!("rustc {own}{} app.rs", link.join(" "))]));
        let print = |option: &String| format!("println!(\"cargo::rustc-link-arg-bins={option}\");");
        lines.push(("cargo, in build.rs", options.iter().map(print).collect()));
    }
    let mut cmake = vec![format!("target_link_options(app PRIVATE {})", listed("\""))];
    let mut meson = format!("executable('app', sources, link_args: [{}])", listed("'"));
    if !compile.is_empty() {
        cmake.insert(0, format!("target_compile_options(app PRIVATE {compile})"));
        meson = meson.replace("link_args", &format!("c_args: ['{compile}'], link_args"));
    }
    lines.push(("cmake", cmake));
    lines.push(("meson", vec![meson]));
    lines
}

fn limits(linker: Linker, by: OrderUnit) -> Vec<&'static str> {
    const EACH: &str = "variables are ordered within .data, .bss, .rodata and .data.rel.ro, and never move to another; literals have no name and stay";
    const GUESSED: &str =
        "it names sections, and the compiler chooses them: --for OBJECT takes their true names";
    const LTO: &str = "with link-time optimisation the linker sees other names and sections: take the order from such a build";
    let mut limits = match linker {
        Linker::Lld => vec![
            "a name that several files define as static moves all of them",
            "it warns of names that it does not find, and links",
        ],
        Linker::Gold => vec![
            GUESSED,
            "what is ordered comes after the rest; names that it does not find are passed over in silence",
            "it left GNU binutils with release 2.44",
        ],
        Linker::Ld => vec![GUESSED, "it needs GNU ld 2.43; ld-script is for older ones"],
        Linker::LdScript => vec![
            GUESSED,
            "a program with a linker script of its own must take the lines into that",
            "names that it does not find are passed over in silence",
        ],
        Linker::MoldObjects => vec![
            "mold and wild take no order of functions: GNU ld joins the object files in order, and they keep it",
            GUESSED,
            "all object files must be in one command; those of archives must be taken out (ar x)",
        ],
        Linker::Bolt => vec![
            "it rewrites the linked program, which grows",
            "it names static functions NAME/FILE/1, which the order does not: they stay where they are",
        ],
        Linker::Apple => vec![
            "names of a recording on Linux fit, C++ included, as long as the library is the same",
        ],
        Linker::Msvc => vec![
            "names of C++ differ from those on Linux; those of C and Rust fit",
            "it orders functions that are COMDATs: compile with /Gy",
        ],
    };
    if by == OrderUnit::Variable {
        limits.push(EACH);
    }
    if by == OrderUnit::Variable && linker == Linker::Lld {
        limits.push("it reads one file: append the order of functions to this one");
    }
    if by != OrderUnit::Object && linker != Linker::Bolt {
        limits.push(LTO);
    }
    limits
}
