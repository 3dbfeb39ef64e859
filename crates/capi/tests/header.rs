//! `include/pagewise.h` is the header that cbindgen generates from the sources. `UPDATE_GOLDEN=1` writes it
//! again.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test program")]

use cbindgen::{Config, DocumentationStyle, Language, SortKey, Style};
use std::path::Path;

/// The text above the declarations.
const HEAD: &str = "\
/* C interface of pagewise-lanes. Generated from crates/capi/src by crates/capi/tests/header.rs: do not edit.
 *
 * Units are bytes. No function prints, or changes the flags of a descriptor.
 *
 * Errors: a function that fails returns a negative errno, which is not stored in `errno`. The text is in
 * pagewise_error_message(). A result behind a pointer is set only if the function succeeds, unless the
 * function says otherwise. A write to a pipe without a reader returns -EPIPE, and raises SIGPIPE unless the
 * program ignores it. -ENOTRECOVERABLE is a fault of the library itself: free the objects that the call used,
 * and do nothing else with them.
 *
 * Signals: a wait that a handler interrupts ends with -EINTR, and no byte is lost: call again. After a
 * handler that was set with SA_RESTART, the system continues the wait, except in a writer or reader.
 *
 * Threads: functions may be called from any thread. Many threads may use frozen bytes at the same time. Calls
 * on a writer or reader take turns. Only one thread at a time may use a draft or copier. The library starts
 * no threads. After fork(2), a child may use frozen bytes. It has no drafts, and it shares the ends of pipes.
 *
 * Objects belong to the caller until the function that frees them. */";

/// Type names: in Rust, and in C.
const NAMES: [(&str, &str); 7] = [
    ("Copier", "pagewise_copier"),
    ("Copied", "pagewise_copied"),
    ("Draft", "pagewise_draft"),
    ("Frozen", "pagewise_frozen"),
    ("Writer", "pagewise_writer"),
    ("Reader", "pagewise_reader"),
    ("Choice", "pagewise_choice"),
];

fn config() -> Config {
    let mut config = Config {
        language: Language::C,
        cpp_compat: true,
        header: Some(HEAD.to_owned()),
        include_guard: Some("PAGEWISE_H".to_owned()),
        no_includes: true,
        sys_includes: ["stddef.h", "stdint.h"].map(str::to_owned).to_vec(),
        style: Style::Type,
        documentation_style: DocumentationStyle::C,
        usize_is_size_t: true,
        line_length: 100,
        ..Config::default()
    };
    config.function.sort_by = Some(SortKey::None);
    config.constant.sort_by = Some(SortKey::None);
    config.export.rename = NAMES.map(|(ours, theirs)| (ours.to_owned(), theirs.to_owned())).into();
    config
}

fn generated(sources: &Path) -> String {
    let files = ["version.rs", "error.rs", "copy.rs", "frozen.rs", "pipe.rs", "choose.rs"];
    let builder =
        files.iter().fold(cbindgen::Builder::new().with_config(config()), |made, file| {
            made.with_src(sources.join(file))
        });
    let mut text = Vec::new();
    builder.generate().unwrap().write(&mut text);
    String::from_utf8(text).unwrap().replace(" # Safety\n\n ", " Requires: ")
}

#[test]
fn the_header_is_that_of_the_sources() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (made, path) = (generated(&root.join("src")), root.join("include/pagewise.h"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap();
    assert!(made == kept, "{} is out of date: run this test with UPDATE_GOLDEN=1", path.display());
}
