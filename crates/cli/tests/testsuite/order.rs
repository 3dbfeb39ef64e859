//! `pagewise order` on programs that are compiled and linked here.
mod builds;
mod check;
mod close;
mod emit;
mod hooks;
mod predict;
mod record;
mod variables;

use crate::helper::{Place, compile, said};
use std::path::PathBuf;
use std::process::Output;

/// The object files of the small program. `None`, after a message, without a C compiler.
fn objects(place: &Place, options: &[&str]) -> Option<[PathBuf; 2]> {
    let files = ["main.o", "part.o"].map(|name| place.path().join(name));
    let options = [&["-O1", "-c"], options].concat();
    let part = [&options[..], &["-DPART"]].concat();
    if !compile("order.c", &options, &files[0]) || !compile("order.c", &part, &files[1]) {
        println!("SKIP order: no C compiler with {options:?}");
        return None;
    }
    Some(files)
}

/// `pagewise order` with these words.
fn order(place: &Place, words: &[&str]) -> Output {
    place.pagewise(&[&["order"], words].concat()).output().unwrap()
}

/// Standard output of a successful command, in lines.
fn lines(done: &Output) -> Vec<String> {
    assert!(done.status.success(), "{}", said(&done.stderr));
    said(&done.stdout).lines().map(str::to_owned).collect()
}
