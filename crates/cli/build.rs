//! Links the programs at a fixed address (docs/decisions/061).

use std::env::var;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is_glibc = var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "gnu");
    let is_static = var("CARGO_CFG_TARGET_FEATURE").is_ok_and(|list| list.contains("crt-static"));
    if is_glibc && !is_static {
        println!("cargo:rustc-link-arg-bins=-no-pie");
    }
}
