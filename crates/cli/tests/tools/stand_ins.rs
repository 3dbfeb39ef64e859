//! `run --with pipe-tools`: the tools of a pipeline are pagewise's, and nothing else about it changes.

use super::{Draw, PAGEWISE, behind_links, run, said};
use pagewise_model::plan::PipelineTool;
use pagewise_tracee::launch::ProgramLaunch;
use pagewise_tracee::supervise::RunSupervisor;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A shell with the remedies of `list` whose cache is in `place`.
fn with(list: &str, script: &str, place: &Path) -> Command {
    let mut command = Command::new(PAGEWISE);
    command.args(["run", "--with", list, "--", "bash", "-c", script]);
    command.env("XDG_CACHE_HOME", place.join("cache")).env("TMPDIR", place);
    command
}

fn plain(script: &str) -> Command {
    let mut command = Command::new("bash");
    command.args(["-c", script]);
    command
}

/// A shell filter that reads a process's mappings and says whether it runs our tool.
fn whose() -> String {
    let program = behind_links();
    format!("grep -qF '{}' && echo ours || echo theirs", program.display())
}

/// The directory of links that a run made in `place`.
fn links(place: &Path) -> PathBuf {
    let mut made = place.join("cache/pagewise/tools").read_dir().unwrap();
    let one = made.next().unwrap().unwrap().path();
    assert!(made.next().is_none(), "one directory for one program and one set of tools");
    one
}

#[test]
fn a_pipeline_puts_out_and_ends_as_without_them() {
    let place = tempfile::tempdir().unwrap();
    let all: Vec<u8> = (0..=255).collect();
    fs::write(place.path().join("data"), Draw(11).bytes(&all, 3 << 20)).unwrap();
    for script in [
        "cat data | cksum",
        "cat data - < data | cat | tee copy | cksum; cksum < copy",
        "cat missing data | cksum; cat missing; echo $?",
        "tee missing/out < data | cksum; echo ${PIPESTATUS[0]}",
        "cat data data | head -c 1 | od; echo ${PIPESTATUS[0]}",
        "trap '' PIPE; cat data data | head -c 1 | od; echo ${PIPESTATUS[0]}",
        "head -c 9999 data | cat -An | tail -n 1",
        "cat --no-such-option; echo $?",
        "(exec -a other cat data) | cksum",
        "cat >&- data; echo $?",
        "cat < data > /dev/full; echo $?",
        "kill -TERM $$",
    ] {
        let expected = run(plain(script), place.path(), b"");
        for list in ["pipe-tools", "pipe-tools,pipe-grow=256K"] {
            let got = run(with(list, script, place.path()), place.path(), b"");
            assert_eq!(got, expected, "{list}: {script}");
        }
    }
}

#[test]
fn only_what_is_looked_for_in_path_is_ours() {
    let place = tempfile::tempdir().unwrap();
    let whose = whose();
    let ask = |list: &str, cat: &str| {
        let script = format!("{cat} /proc/self/maps | {whose}");
        let done = run(with(list, &script, place.path()), place.path(), b"");
        said(&done).trim().to_owned()
    };
    assert_eq!(ask("pipe-tools", "cat"), "ours");
    assert_eq!(ask("pipe-tools=cat", "env cat"), "ours");
    assert_eq!(ask("pipe-tools=tee", "cat"), "theirs");
    assert_eq!(ask("pipe-tools", "/bin/cat"), "theirs");
    assert_eq!(ask("pipe-tools", "PATH=/usr/bin:/bin cat"), "theirs");
    assert_eq!(ask("pipe-tools", "env -i cat"), "theirs");
    assert_eq!(ask("", "cat"), "theirs");
}

#[test]
fn a_program_without_path_gets_the_one_that_execvp_takes() {
    let place = tempfile::tempdir().unwrap();
    let mut command = Command::new(PAGEWISE);
    command.args(["run", "--with", "pipe-tools", "--", "cat", "/proc/self/environ"]);
    command.env_clear().env("XDG_CACHE_HOME", place.path().join("cache"));
    let environment = said(&run(command, place.path(), b""));
    let path = environment.split('\0').find_map(|entry| entry.strip_prefix("PATH="));
    assert_eq!(path.unwrap(), format!("{}:/bin:/usr/bin", links(place.path()).display()));
}

#[test]
fn links_that_a_killed_start_left_are_mended() {
    let place = tempfile::tempdir().unwrap();
    let script = format!("cat /proc/self/maps | {}", whose());
    let ask = || said(&run(with("pipe-tools", &script, place.path()), place.path(), b""));
    assert_eq!(ask(), "ours\n");
    let links = links(place.path());
    fs::remove_file(links.join("tee")).unwrap();
    fs::remove_file(links.join("cat")).unwrap();
    symlink("/bin/false", links.join("cat")).unwrap();
    assert_eq!(ask(), "ours\n");
    assert_eq!(links.join("tee").read_link().unwrap(), behind_links());
    assert_eq!(links.read_dir().unwrap().count(), 2);
}

#[test]
fn a_directory_that_others_may_write_is_not_used() {
    let place = tempfile::tempdir().unwrap();
    let cache = place.path().join("cache/pagewise");
    fs::create_dir_all(&cache).unwrap();
    fs::set_permissions(&cache, PermissionsExt::from_mode(0o777)).unwrap();
    let run = || run(with("pipe-tools", "command -v cat", place.path()), place.path(), b"");
    let user = rustix::process::geteuid().as_raw();
    let temporary = place.path().join(format!("pagewise-{user}"));
    let found = said(&run());
    assert!(found.starts_with(&*temporary.to_string_lossy()), "{found}");
    assert_eq!(cache.read_dir().unwrap().count(), 0);
    fs::set_permissions(&temporary, PermissionsExt::from_mode(0o777)).unwrap();
    let refused = run();
    assert_eq!(refused.status.code(), Some(125), "{}", said(&refused));
    assert!(said(&refused).contains("can be entered by other users"), "{}", said(&refused));
    assert!(said(&refused).contains("chmod 700"), "{}", said(&refused));
}

#[test]
fn the_kernel_tells_whether_a_tool_was_started() {
    let place = tempfile::tempdir().unwrap();
    // A file that no other test starts. A separate process copies it: a file that is open for writing anywhere,
    // such as in a child between fork and exec, cannot be run.
    let program = place.path().join("pagewise");
    let copied = Command::new("cp").arg(PAGEWISE).arg(&program).status();
    assert!(copied.unwrap().success());
    let cache = format!("XDG_CACHE_HOME={}", place.path().join("cache").display());
    let words = [cache.as_str(), program.to_str().unwrap(), "__helper", "supervise"];
    let mut supervisor = RunSupervisor::start(Path::new("/usr/bin/env"), &words).unwrap();
    let mut started = |tools: &[PipelineTool], script: &str| {
        let mut launch = ProgramLaunch::experiment(["sh", "-c", script].map(Into::into).to_vec());
        launch.settings.tools = tools.to_vec();
        supervisor.run(&launch, &|| false).unwrap().files_opened
    };
    assert!(started(&[PipelineTool::Cat], "cat /dev/null"));
    assert!(started(&PipelineTool::ALL, "for i in 1 2 3; do : | tee /dev/null; done"));
    assert!(!started(&PipelineTool::ALL, "/bin/cat /dev/null"));
    assert!(!started(&PipelineTool::ALL, "command -v cat && test -x \"$(command -v tee)\""));
    assert!(!started(&[PipelineTool::Tee], "cat /dev/null"));
    assert!(!started(&[], "cat /dev/null"));
}
