//! Calls that reach other owners' objects, by `tests/programs/outside.c`, and the same calls on the program's
//! own objects.

use super::{built, look, shell};
use pagewise_model::look::{SideEffect, TracedLook};
use pagewise_model::usage::ProgramEnd;
use pagewise_tracee::launch::{OutputSink, ProgramLaunch};
use rustix::io::FdFlags;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::process::{Child, Command};

/// The program, in a new directory where it starts.
struct Outside {
    dir: tempfile::TempDir,
    program: PathBuf,
}

/// Its exit status when this kernel or account lacks a call.
const NO_SUCH_CALL: i32 = 77;

impl Outside {
    fn built(test: &str) -> Option<Self> {
        built(test, "outside").map(|(dir, program)| Self { dir, program })
    }

    /// Makes one of its calls untraced. Returns what it prints, or `None` if the call does not exist here.
    fn plain(&self, words: &[&str]) -> Option<String> {
        let done = Command::new(&self.program).args(words).current_dir(self.dir.path()).output();
        let done = done.unwrap();
        let text = String::from_utf8(done.stdout).unwrap().trim().to_owned();
        let known = done.status.code() != Some(NO_SUCH_CALL);
        assert!(done.status.success() || !known, "{words:?}: {:?}", done.status);
        known.then_some(text)
    }

    /// The effects of one of its calls. `None` if the call does not exist here.
    fn effects(&self, test: &str, words: &[&str]) -> Option<Vec<SideEffect>> {
        let TracedLook { ended, effects, .. } =
            look(&shell(self.dir.path(), &format!("./outside {}", words.join(" "))));
        if ended == ProgramEnd::Exited(NO_SUCH_CALL) {
            println!("SKIP {test}: {words:?}: not allowed here");
            return None;
        }
        assert_eq!(ended, ProgramEnd::Exited(0), "{words:?}");
        Some(effects)
    }
}

/// A process outside the tree.
struct Stranger(Child);

impl Stranger {
    fn new() -> Self {
        Self(Command::new("sleep").arg("600").spawn().unwrap())
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Calls on objects that existed before, each with the word that creates such an object.
const ON_OBJECTS: [(&str, &str, &str); 9] = [
    ("messages", "messages", "sent a message to queue"),
    ("messages", "messages=take", "took a message from queue"),
    ("messages", "messages=set", "changed message queue"),
    ("semaphores", "semaphores", "changed semaphores"),
    ("semaphores", "semaphores=set", "changed semaphores"),
    ("memory", "memory", "attached to write shared memory"),
    ("queue", "queue", "sent a message to queue"),
    ("queue", "queue=take", "took a message from queue"),
    ("queue", "queue=unlink", "removed message queue"),
];

/// Calls on another process.
const ON_PROCESSES: [(&str, &str); 9] = [
    ("limits", "changed the limits of"),
    ("priority", "changed the priority of"),
    ("affinity", "changed the CPUs of"),
    ("scheduler", "changed the scheduling of"),
    ("attributes", "changed the scheduling of"),
    ("io-priority", "changed the I/O priority of"),
    ("write-memory", "wrote to the memory of"),
    ("attach", "attached to"),
    ("oom-score", "opened for writing"),
];

/// Calls on the machine.
const ON_THE_MACHINE: [(&str, &str); 8] = [
    ("netlink", "changed the network by netlink"),
    ("netlink=message", "changed the network by netlink"),
    ("netlink=send", "changed the network by netlink"),
    ("netlink=write", "changed the network by netlink"),
    ("netlink=copy", "changed the network by netlink"),
    ("interface", "changed the network by ioctl"),
    ("keys", "changed keys"),
    ("ring", "used io_uring, which pagewise cannot trace, in"),
];

pub(super) fn calls_beyond_the_tree_are_effects() {
    const TEST: &str = "calls_beyond_the_tree_are_effects";
    let Some(outside) = Outside::built(TEST) else { return };
    let only = |words: &[&str], wanted: &str, of: &str| {
        let Some(effects) = outside.effects(TEST, words) else { return };
        let as_wanted = matches!(&effects[..], [e] if e.action == wanted && e.subject.contains(of));
        assert!(as_wanted, "{words:?}: {effects:?}");
    };
    for (object, call, wanted) in ON_OBJECTS {
        let name = format!("/pagewise-test-{}", std::process::id());
        let make = format!("make={object}");
        let Some(id) = outside.plain(&[&make, &name]) else {
            println!("SKIP {TEST}: {object}: not allowed here");
            continue;
        };
        let id = if id.is_empty() { name } else { id };
        only(&[call, &id], wanted, &id);
        if call != "queue=unlink" {
            outside.plain(&[&format!("take-away={object}"), &id]).unwrap();
        }
    }
    let stranger = Stranger::new();
    let pid = stranger.0.id().to_string();
    for (call, wanted) in ON_PROCESSES {
        only(&[call, &pid], wanted, &pid);
    }
    for (call, wanted) in ON_THE_MACHINE {
        only(&[call], wanted, "");
    }
    let file = dir_with_inherited(&outside);
    only(&["map"], "mapped for writing", "inherited");
    drop(file);
}

/// A file that the program gets as descriptor 9.
fn dir_with_inherited(outside: &Outside) -> impl Drop + use<> {
    struct Nine(rustix::fd::OwnedFd);
    impl Drop for Nine {
        fn drop(&mut self) {
            rustix::io::fcntl_setfd(&self.0, FdFlags::CLOEXEC).unwrap();
        }
    }
    let path = outside.dir.path().join("inherited");
    std::fs::write(&path, "once").unwrap();
    let file = File::options().read(true).write(true).open(path).unwrap();
    let nine = rustix::io::fcntl_dupfd_cloexec(file.as_fd(), 9).unwrap();
    assert_eq!(nine.as_raw_fd(), 9, "a test of this program holds descriptor 9");
    rustix::io::fcntl_setfd(&nine, FdFlags::empty()).unwrap();
    Nine(nine)
}

pub(super) fn the_same_on_things_of_ones_own_is_none() {
    const TEST: &str = "the_same_on_things_of_ones_own_is_none";
    let Some(outside) = Outside::built(TEST) else { return };
    let objects = ON_OBJECTS.map(|(_, call, _)| call);
    let processes = ON_PROCESSES.map(|(call, _)| call);
    let processes = processes.into_iter().filter(|call| *call != "attach");
    let rest = [
        "memory=read",
        "semaphores=read",
        "ask-limits",
        "netlink=ask",
        "interface=ask",
        "keys=own",
    ];
    for call in objects.into_iter().chain(processes).chain(rest) {
        let Some(effects) = outside.effects(TEST, &[call]) else { continue };
        assert!(effects.is_empty(), "{call}: {effects:?}");
    }
    // Questions about other processes change nothing.
    let stranger = Stranger::new();
    let pid = stranger.0.id().to_string();
    assert_eq!(outside.effects(TEST, &["ask-limits", &pid]), Some(vec![]));
    let segment = outside.plain(&["make=memory"]).unwrap();
    assert_eq!(outside.effects(TEST, &["memory=read", &segment]), Some(vec![]));
    outside.plain(&["take-away=memory", &segment]).unwrap();
    let file = dir_with_inherited(&outside);
    assert_eq!(outside.effects(TEST, &["map=private"]), Some(vec![]));
    drop(file);
}

/// A node like /dev/null in a directory of the test. It is the program's standard output, as /dev/null is in a
/// timed run.
pub(super) fn device_nodes_are_effects() {
    const TEST: &str = "device_nodes_are_effects";
    let Some(outside) = Outside::built(TEST) else { return };
    let node = outside.dir.path().join("null");
    let make = || {
        let made = Command::new("mknod").arg(&node).args(["c", "1", "3"]).output().unwrap();
        made.status.success()
    };
    if !make() {
        println!("SKIP {TEST}: no device node can be made");
        return;
    }
    let table = [
        ("node=replace null", "replaced by renaming the device node"),
        ("node=remove null", "removed the device node"),
        ("node=rename null", "renamed the device node"),
        ("node=mode null", "changed the mode of"),
    ];
    for (call, wanted) in table {
        if std::fs::symlink_metadata(&node).is_ok() {
            std::fs::remove_file(&node).unwrap();
        }
        assert!(make());
        let launch = shell(outside.dir.path(), &format!("./outside {call}"));
        let effects =
            look(&ProgramLaunch { stdout: OutputSink::File(node.clone()), ..launch }).effects;
        let [effect] = &effects[..] else { panic!("{call}: {effects:?}") };
        assert_eq!((effect.action.as_str(), effect.subject.ends_with("/null")), (wanted, true));
    }
    for call in ["node", "node=remove", "node=rename", "node=mode"] {
        assert_eq!(outside.effects(TEST, &[call]), Some(vec![]), "{call}");
        for name in ["node", "renamed", "regular"] {
            let _gone = std::fs::remove_file(outside.dir.path().join(name));
        }
    }
}

/// Files of the kernel's settings count as files. Of the files about processes, only those of the tree are
/// free.
pub(super) fn settings_of_the_kernel_are_effects() {
    const TEST: &str = "settings_of_the_kernel_are_effects";
    let Some(outside) = Outside::built(TEST) else { return };
    let pid = std::process::id();
    let settings = [
        "/proc/sys/kernel/threads-max".to_owned(),
        "/sys/kernel/mm/transparent_hugepage/enabled".to_owned(),
        "/sys/fs/cgroup/cgroup.procs".to_owned(),
        format!("/proc/{pid}/oom_score_adj"),
        format!("/proc/{pid}/mem"),
    ];
    for path in settings {
        if File::options().write(true).open(&path).is_err() {
            println!("SKIP {TEST}: {path}: not to be written here");
            continue;
        }
        let effects = outside.effects(TEST, &["open", &path]).unwrap();
        let [effect] = &effects[..] else { panic!("{path}: {effects:?}") };
        assert_eq!((effect.action.as_str(), &effect.subject), ("opened for writing", &path));
    }
    for path in ["/proc/self/oom_score_adj", "/proc/self/comm", "/proc/thread-self/comm"] {
        assert_eq!(outside.effects(TEST, &["open", path]), Some(vec![]), "{path}");
    }
}
