//! The small C programs of the tests.

use std::path::Path;
use std::process::Command;

/// Builds one of the small C programs. False without a C compiler or without libraries that the options need.
pub(crate) fn compile(source: &str, options: &[&str], to: &Path) -> bool {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs").join(source);
    let built = Command::new("cc").args(options).arg("-o").args([to, &source]).output();
    built.is_ok_and(|done| done.status.success())
}
