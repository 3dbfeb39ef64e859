//! Transcripts of the program, which are also the examples of its manual: the command, its output and its exit
//! code. Saved runs come from `fixtures/runs`.

use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::LazyLock;

/// The root of the repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The state directory of a user with the runs of a directory of fixtures.
fn state_with(fixtures: &str) -> tempfile::TempDir {
    let state = tempfile::tempdir().unwrap();
    let runs = state.path().join("pagewise/runs");
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&runs).unwrap();
    for entry in std::fs::read_dir(Path::new(ROOT).join(fixtures)).unwrap().flatten() {
        if entry.path().extension().is_some_and(|e| e == "json") {
            std::fs::copy(entry.path(), runs.join(entry.file_name())).unwrap();
        }
    }
    state
}

/// The directory where all commands run, with the files that the manual's examples use.
static PLACE: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("data.bin"), vec![7; 8 << 20]).unwrap();
    std::fs::write(place.path().join("calls.txt"), "start\nread_options\nmain\n").unwrap();
    std::fs::copy(Path::new(ROOT).join("tests/programs/twins.c"), place.path().join("app.c"))
        .unwrap();
    std::os::unix::fs::symlink(Path::new(ROOT).join("fixtures"), place.path().join("fixtures"))
        .unwrap();
    std::env::set_current_dir(place.path()).unwrap();
    place
});

/// Runs the transcripts that match `cases`, as that user.
fn replay(state: &Path, cases: &str) {
    LazyLock::force(&PLACE);
    let tests = trycmd::TestCases::new();
    tests
        .env("XDG_STATE_HOME", state.to_str().unwrap())
        .env("XDG_CACHE_HOME", state.to_str().unwrap())
        .env("HOME", "/nonexistent")
        .env("LC_ALL", "C")
        .env("NO_COLOR", "1")
        .case(format!("{ROOT}/{cases}"));
}

#[test]
fn transcripts() {
    let state = state_with("fixtures/runs");
    replay(state.path(), "crates/cli/tests/transcripts/*.trycmd");
}

#[test]
fn the_manual_shows_what_comes_back() {
    let pages = std::fs::read_dir(Path::new(ROOT).join("docs/commands")).unwrap();
    let commands = pages.map(|page| format!("commands/{}", page.unwrap().file_name().display()));
    for page in commands.chain(["apply.md".to_owned()]) {
        // Examples from several pages run at the same time. Some save a run, and `history` would show it.
        let state = state_with("fixtures/runs");
        replay(state.path(), &format!("docs/{page}"));
    }
}

#[test]
fn the_cookbook_shows_its_sessions() {
    let state = state_with("fixtures/cookbook");
    replay(state.path(), "docs/cookbook/*.md");
}
