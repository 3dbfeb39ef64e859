//! Effects of programs on the outside, and actions that only look like effects.

use super::{look, own, shell};
use pagewise_model::usage::ProgramEnd;
use pagewise_observe::trace::{TraceError, TraceOptions, traced_run};
use pagewise_tracee::launch::ProgramLaunch;
use pagewise_tracee::supervise::LookOptions;
use std::path::Path;

pub(super) fn prepared_dir() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a", "b", "unsorted"] {
        std::fs::write(dir.path().join(name), "2\n1\n").unwrap();
    }
    std::fs::create_dir(dir.path().join("empty")).unwrap();
    dir
}

pub(super) fn effects_are_found() {
    let table = [
        ("echo > a", "truncated", "a"),
        ("echo >> a", "opened for writing", "a"),
        ("mv a c", "renamed", "a"),
        ("cp b new && mv new a", "replaced by renaming", "a"),
        ("rm a", "removed", "a"),
        ("rmdir empty", "removed directory", "empty"),
        ("chmod 600 a", "changed the mode of", "a"),
        ("touch a", "opened for writing", "a"),
        ("sort -o unsorted unsorted", "opened for writing", "unsorted"),
        ("cd empty && rm ../b", "removed", "b"),
        ("ln a a.bak && rm a", "removed", "a"),
        ("ln a hard && mv hard other && rm a", "removed", "a"),
        ("ln a old && cp b new && mv new a", "replaced by renaming", "a"),
        ("ln a hard && echo > hard", "truncated", "hard"),
        ("ln -s a link && echo > link", "truncated", "link"),
        ("chmod 700 .", "changed the mode of", "/"),
        ("cd empty && chmod 700 ..", "changed the mode of", "/"),
        ("exec 3< a && chmod 600 /dev/fd/3", "changed the mode of", "/a"),
        ("kill -CONT $PPID", "sent a signal to", "process"),
    ];
    for (command, action, subject) in table {
        let dir = prepared_dir();
        let seen = look(&shell(dir.path(), command));
        let found = seen.effects.iter().any(|e| e.action == action && e.subject.contains(subject));
        assert!(found, "{command}: {:?}", seen.effects);
    }
}

/// Commands that some machines and file systems lack. Those that work untraced are looked at.
pub(super) fn rarer_effects_are_found() {
    let make = "ipcmk -M 64 | sed 's/.* //' > /dev/shm/$$.id; id=$(cat /dev/shm/$$.id)";
    let remove = "ipcrm -m $id; rm /dev/shm/$$.id";
    let table = [
        ("chattr +A a".to_owned(), vec!["changed attributes of"]),
        (
            "setfattr -n user.x -v y a && setfattr -x user.x a".to_owned(),
            vec!["changed attributes of"; 2],
        ),
        (format!("{make}; {remove}"), vec![]),
    ];
    for (command, actions) in table {
        let dir = prepared_dir();
        let mut plain = std::process::Command::new("sh");
        let plain = plain.args(["-ec", &command]).current_dir(dir.path()).output().unwrap();
        if !plain.status.success() || !plain.stderr.is_empty() {
            println!("SKIP rarer_effects_are_found: {command}: {plain:?}");
            continue;
        }
        let seen = look(&shell(dir.path(), &command));
        let found: Vec<_> = seen.effects.iter().map(|e| e.action.as_str()).collect();
        assert_eq!(found, actions, "{command}: {:?}", seen.effects);
    }
}

/// Shared memory that existed before is not the program's to remove.
pub(super) fn objects_of_others_are_seen_to_go() {
    let made = std::process::Command::new("ipcmk").args(["-M", "64"]).output();
    let text = made.map_or_else(|e| e.to_string(), |out| String::from_utf8(out.stdout).unwrap());
    let Some(id) = text.split_whitespace().last().filter(|id| id.parse::<u32>().is_ok()) else {
        println!("SKIP objects_of_others_are_seen_to_go: {text}");
        return;
    };
    let seen = look(&shell(Path::new("/"), &format!("ipcrm -m {id}")));
    assert_eq!(seen.effects[0].action, "removed shared memory", "{:?}", seen.effects);
    assert_eq!(seen.effects[0].subject, id);
}

pub(super) fn harmless_commands_have_no_effects() {
    let table = [
        "touch new && rm new",
        "echo x > new && cat new > new2 && mv new2 new && echo >> new && chmod 600 new",
        "mkdir d && echo > d/x && mv d e && rm e/x && rmdir e",
        "ln -s a link && rm link && ln a hard && rm hard",
        "sort -S 16k -T empty unsorted",
        "cat a b unsorted | sort | uniq -c > /dev/null",
        "echo x > /dev/null; echo y > /dev/stdout; echo z >&2",
        "sleep 5 & kill $!; wait; true",
        "kill -0 $PPID",
        "echo 500 > /proc/self/oom_score_adj",
        "touch -c missing; rm -f missing; mv missing other 2>/dev/null; true",
    ];
    let binds = own(&["binds"])[0].to_string_lossy().into_owned() + " binds $PWD/socket";
    for command in table.into_iter().chain([&*binds]) {
        let dir = prepared_dir();
        let seen = look(&shell(dir.path(), command));
        assert!(seen.effects.is_empty(), "{command}: {:?}", seen.effects);
        assert_eq!(seen.ended, ProgramEnd::Exited(0), "{command}");
    }
    let dir = prepared_dir();
    let look = LookOptions { scratch: vec![dir.path().to_owned()], ..LookOptions::default() };
    let options = TraceOptions { look, ..TraceOptions::default() };
    let seen = traced_run(&shell(dir.path(), "rm a; echo > b"), &options).unwrap();
    assert!(seen.effects.is_empty(), "{:?}", seen.effects);
}

/// A path in mounts that only the program has is resolved in those mounts.
pub(super) fn own_mounts_are_looked_into() {
    let dir = prepared_dir();
    let below = |name: &str| dir.path().join(name).display().to_string();
    let bind = format!("mount --bind {} {}", dir.path().display(), below("empty"));
    let command = |then: &str| format!("unshare -rm sh -c '{bind} && {then}'");
    let plain = std::process::Command::new("sh").args(["-c", &command("true")]).output().unwrap();
    if !plain.status.success() {
        println!("SKIP own_mounts_are_looked_into: {}", String::from_utf8_lossy(&plain.stderr));
        return;
    }
    let removes = shell(dir.path(), &command(&format!("rm {}", below("empty/a"))));
    let seen = match traced_run(&removes, &TraceOptions::default()) {
        Err(error @ TraceError::Setuid { .. }) => {
            println!("SKIP own_mounts_are_looked_into: {error}");
            return;
        }
        other => other.unwrap(),
    };
    let found = seen.effects.iter().any(|e| e.action == "removed" && e.subject.ends_with("/a"));
    assert!(found && !dir.path().join("a").exists(), "{seen:?}");
}

/// `getpid` and `exit` by the 32-bit table.
pub(super) fn calls_of_other_tables_are_reported() {
    use std::os::unix::fs::PermissionsExt;
    let header: [u32; 21] = [
        0x464c_457f,
        0x0001_0101,
        0,
        0,
        0x0003_0002,
        1,
        0x0804_8054,
        52,
        0,
        0,
        0x0020_0034,
        1,
        0,
        1,
        0,
        0x0804_8000,
        0x0804_8000,
        100,
        100,
        5,
        0,
    ];
    let code = *b"\xb8\x14\0\0\0\xcd\x80\xb8\x01\0\0\0\x31\xdb\xcd\x80";
    let image: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).chain(code).collect();
    let dir = tempfile::tempdir().unwrap();
    let (path, written) = (dir.path().join("narrow"), dir.path().join("image"));
    std::fs::write(&written, image).unwrap();
    // A separate process copies it: a child that another thread starts would hold it open for writing.
    let copied = std::process::Command::new("cp").args([&written, &path]).status();
    assert!(copied.unwrap().success());
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    if !std::process::Command::new(&path).status().is_ok_and(|status| status.success()) {
        println!("SKIP calls_of_other_tables_are_reported: no 32-bit program runs here");
        return;
    }
    let seen = look(&ProgramLaunch::experiment(vec![path.into_os_string()]));
    assert_eq!(seen.ended, ProgramEnd::Exited(0));
    assert_eq!(seen.effects.len(), 1, "{:?}", seen.effects);
    assert!(
        seen.effects[0].action.contains("32-bit") && seen.effects[0].subject.contains("narrow")
    );
}
