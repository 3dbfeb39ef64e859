//! Directories of pagewise in places where another account may write: as root with a user's home (`sudo -E`),
//! in shared directories, in a user namespace.

use super::{behind, can, can_be_hostile, give, with_home_of_root};
use crate::helper::{NOBODY, as_nobody, kept_prices, only_turn, open_place, said};
use std::fs::{DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

/// A command that starts `script` with the `cat` of pagewise first in PATH, and `home` as the home.
fn with_tools(place: &Path, home: &Path, script: &str) -> Command {
    let mut command = Command::new(place.join("pagewise"));
    command.args(["run", "--with", "pipe-tools", "--", "sh", "-c", script]);
    command.env("HOME", home).env("TMPDIR", place).env("LC_ALL", "C").stdin(Stdio::null());
    command.env_remove("XDG_CACHE_HOME").env_remove("XDG_STATE_HOME");
    command
}

fn home_of_nobody(place: &Path) -> std::path::PathBuf {
    let home = place.join("home");
    DirBuilder::new().mode(0o755).create(&home).unwrap();
    give(&home);
    home
}

#[test]
fn a_user_plants_no_tool_that_runs_as_root() {
    let _turn = only_turn();
    const TEST: &str = "a_user_plants_no_tool_that_runs_as_root";
    if !can_be_hostile(TEST) {
        return;
    }
    let place = open_place("pagewise-owners-");
    let home = home_of_nobody(place.path());
    // During the run the user renames every directory on the path that the user may rename.
    let hostile = format!(
        "there=$(command -v cat); tools=${{there%/*}}\n\
         plant='d={home}; mv $d/.cache $d/old; mkdir -p \"$1\"; \
         printf \"#!/bin/sh\\necho planted as $(id -u)\\n\" > \"$1/cat\"; chmod +x \"$1/cat\"'\n\
         setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups sh -c \"$plant\" sh \"$tools\" \
         2>/dev/null\n\
         echo \"$there\"; echo fine | cat",
        home = home.display()
    );
    for cache in [None, Some(home.join(".cache")), Some(home.join("link"))] {
        let _made = std::os::unix::fs::symlink(home.join(".cache"), home.join("link"));
        let mut command = with_tools(place.path(), &home, &hostile);
        if let Some(cache) = &cache {
            command.env("XDG_CACHE_HOME", cache);
        }
        let done = with_home_of_root(&command).output().unwrap();
        let (text, reported) = (said(&done.stdout), said(&done.stderr));
        assert!(text.ends_with("fine\n") && !text.contains("planted"), "{text}{reported}");
        assert!(!text.contains(home.to_str().unwrap()), "{text}{reported}");
        assert!(text.contains("/tools/"), "our cat is still found: {text}{reported}");
        let _gone = std::fs::remove_dir_all(home.join(".cache"));
    }
}

/// `command` with the measurements of this machine in root's own cache, if there are any: measuring takes
/// seconds.
fn with_prices(command: &Command) -> Command {
    let script = "(cd /root && mkdir -pm 700 .cache/pagewise && cp \"$0\" .cache/pagewise) 2>&-; exec \"$@\"";
    let kept = kept_prices();
    behind(&["sh", "-c", script, kept.to_str().unwrap()], command)
}

#[test]
fn root_makes_nothing_in_the_home_of_a_user() {
    let _turn = only_turn();
    const TEST: &str = "root_makes_nothing_in_the_home_of_a_user";
    if !can_be_hostile(TEST) {
        return;
    }
    let place = open_place("pagewise-owners-");
    let home = home_of_nobody(place.path());
    let mut saves = with_tools(place.path(), &home, "true");
    saves = {
        let mut command = behind(&["env"], &saves);
        command.env("HOME", &home);
        command
    };
    let profile = {
        let mut command = Command::new(place.path().join("pagewise"));
        command.args(["profile", "--", "true"]).env("HOME", &home).stdin(Stdio::null());
        command.env_remove("XDG_CACHE_HOME").env_remove("XDG_STATE_HOME");
        with_prices(&command)
    };
    for command in [&saves, &profile] {
        let done = with_home_of_root(command).output().unwrap();
        assert_eq!(done.status.code(), Some(0), "{}", said(&done.stderr));
        assert_eq!(home.read_dir().unwrap().count(), 0, "{command:?}");
        assert!(!said(&done.stderr).contains("directory"), "{}", said(&done.stderr));
    }
    // The same if the home does not exist.
    let missing = place.path().join("missing");
    let done = with_home_of_root(&with_tools(place.path(), &missing, "command -v cat")).output();
    let done = done.unwrap();
    assert!(!missing.exists() && said(&done.stdout).contains("/tools/"), "{}", said(&done.stdout));
}

#[test]
fn tools_lie_where_no_other_account_can_rename() {
    let _turn = only_turn();
    const TEST: &str = "tools_lie_where_no_other_account_can_rename";
    if !can_be_hostile(TEST) {
        return;
    }
    let place = open_place("pagewise-owners-");
    let home = home_of_nobody(place.path());
    // Without the sticky bit, any account that may write there can rename the home.
    std::fs::set_permissions(place.path(), Permissions::from_mode(0o777)).unwrap();
    let found = |command: &Command| {
        let done = behind(&["env"], command).output().unwrap();
        (said(&done.stdout), said(&done.stderr))
    };
    let nobodys = |home: &Path| {
        let command = with_tools(place.path(), home, "command -v cat");
        let mut words = as_nobody(Path::new("env"));
        words.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            if let Some(value) = value {
                words.env(name, value);
            } else {
                words.env_remove(name);
            }
        }
        words.env("TMPDIR", "/tmp");
        words
    };
    let (text, reported) = found(&nobodys(&home));
    assert!(!text.starts_with(home.to_str().unwrap()), "{text}{reported}");
    let _gone = std::fs::remove_dir_all(format!("/tmp/pagewise-{NOBODY}"));
    // With the sticky bit, as in /tmp, no other account can.
    std::fs::set_permissions(place.path(), Permissions::from_mode(0o1777)).unwrap();
    let (text, reported) = found(&nobodys(&home));
    assert!(text.starts_with(home.to_str().unwrap()), "{text}{reported}");
    // In a user namespace the owner of the parent directories is not mapped.
    if !can(&["unshare", "-U", "-r", "true"]) {
        return println!("SKIP {TEST}: no user namespaces");
    }
    let inside =
        behind(&["unshare", "-U", "-r", "--"], &with_tools(place.path(), &home, "command -v cat"));
    let mut words = as_nobody(Path::new("env"));
    words
        .arg(inside.get_program())
        .args(inside.get_args())
        .env("HOME", &home)
        .env("TMPDIR", "/tmp");
    words.env_remove("XDG_CACHE_HOME").env_remove("XDG_STATE_HOME");
    let (text, reported) = found(&words);
    assert!(text.starts_with(home.to_str().unwrap()), "{text}{reported}");
}
