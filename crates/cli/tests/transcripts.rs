//! Transcripts of the program, which are also the examples of its manual: what is typed, what
//! comes back, with which exit code. Saved runs come from `fixtures/runs`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// The state directory of a user who has the runs of `fixtures/runs`.
fn state_with_runs(base: &Path) {
    let runs = base.join("pagewise/runs");
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&runs).unwrap();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs");
    for entry in std::fs::read_dir(fixtures).unwrap().flatten() {
        if entry.path().extension().is_some_and(|e| e == "json") {
            std::fs::copy(entry.path(), runs.join(entry.file_name())).unwrap();
        }
    }
}

#[test]
fn transcripts() {
    let state = tempfile::tempdir().unwrap();
    state_with_runs(state.path());
    trycmd::TestCases::new()
        .env("XDG_STATE_HOME", state.path().to_str().unwrap())
        .env("XDG_CACHE_HOME", state.path().to_str().unwrap())
        .env("HOME", "/nonexistent")
        .env("LC_ALL", "C")
        .env("NO_COLOR", "1")
        .case("tests/transcripts/*.trycmd");
}
