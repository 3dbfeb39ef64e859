//! Gives the shared library its SONAME, whose number is the one of `pagewise_abi_version`.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libpagewise_capi.so.2");
    println!("cargo::rerun-if-changed=build.rs");
}
