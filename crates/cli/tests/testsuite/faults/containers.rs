//! Functions of a process in another mount namespace, where its path names another program.

use super::*;
use crate::helper::{is_root, open_place};
use std::io::{BufRead, BufReader};

/// Not root, and used by no other process.
const USER: u32 = 65001;

/// A program whose function of this name faults and runs for ever. It says `ready` first.
fn program(name: &str, to: &Path) -> bool {
    let source = format!(
        "#include <stdio.h>\n#include <sys/mman.h>\n\
         __attribute__((noinline)) void {name}(volatile char *at) \
         {{ for (long i = 0; i < 1 << 21; i += 4096) at[i] = 1; }}\n\
         int main(void) {{ puts(\"ready\"); fflush(stdout); for (;;) {{ \
         char *at = mmap(0, 1 << 21, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); \
         madvise(at, 1 << 21, MADV_NOHUGEPAGE); {name}(at); munmap(at, 1 << 21); }} }}\n"
    );
    let file = to.with_extension("c");
    std::fs::write(&file, source).unwrap();
    let built = Command::new("cc").args(["-g", "-O1", "-o"]).args([to, &file]).output();
    built.is_ok_and(|done| done.status.success())
}

/// Runs `inside` as `user` in its own mount namespace at the path `at`. In this namespace the path names
/// another file.
fn contained(inside: &Path, at: &Path, user: Option<u32>) -> Option<Child> {
    let script = "mount -t tmpfs none \"$2\" && cp \"$1\" \"$3\" && shift 3 && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(inside);
    command.arg(at.parent().unwrap()).arg(at);
    if let Some(user) = user {
        let id = [format!("--reuid={user}"), format!("--regid={user}")];
        command.arg("setpriv").args(id).args(["--clear-groups", "--"]);
    }
    command.arg(at);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    if line == "ready\n" {
        return Some(child);
    }
    child.wait().unwrap();
    None
}

#[test]
fn functions_of_a_process_in_a_container_are_its_own() {
    let test = "functions_of_a_process_in_a_container_are_its_own";
    let place = open_place("pagewise-container-");
    let (inside, mounted) = (place.path().join("inside"), place.path().join("mounted"));
    std::fs::create_dir(&mounted).unwrap();
    let at = mounted.join("app");
    if !program("within_container", &inside) || !program("outside_container", &at) {
        return println!("SKIP {test}: no C compiler");
    }
    let users: &[Option<u32>] = if is_root() { &[None, Some(USER)] } else { &[None] };
    for user in users {
        let Some(mut child) = contained(&inside, &at, *user) else {
            return println!("SKIP {test}: no mount namespace");
        };
        for words in [&["faults"][..], &["profile", "--graph", "user"]] {
            let mut command = Command::new(place.path().join("pagewise"));
            command.args(words).args(["-p", &child.id().to_string(), "--for", "0.5s"]);
            command.env("HOME", place.path());
            if let Some(user) = user {
                command.uid(*user).gid(*user).env("XDG_STATE_HOME", place.path().join("state"));
            }
            let done = command.output().unwrap();
            let text = said(&done.stdout) + &said(&done.stderr);
            assert!(!text.contains("outside_container"), "{user:?} {words:?}: {text}");
            if done.status.code() == Some(3) || text.contains("no samples:") {
                println!("SKIP {test} as {user:?} {words:?}: {text}");
                continue;
            }
            assert!(text.contains("within_container"), "{user:?} {words:?}: {text}");
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
