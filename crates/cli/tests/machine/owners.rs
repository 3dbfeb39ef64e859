//! A hostile neighbour and a second owner: pagewise runs as root while another account, or another pagewise in
//! another namespace, is in its way. Each start by root gives back what a killed run left, so these tests take
//! turns.
mod directories;
mod files;
mod pool;
mod saves;

use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Whether this command succeeds.
fn can(words: &[&str]) -> bool {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Whether this account may make namespaces and switch to another user, as root can. If not, prints that the
/// test is skipped.
fn can_be_hostile(test: &str) -> bool {
    let can = crate::helper::is_root()
        && can(&["unshare", "-n", "-m", "true"])
        && can(&["setpriv", "true"]);
    if !can {
        println!("SKIP {test}: it needs root, namespaces and setpriv");
    }
    can
}

/// `command` as the argument of the command `before`.
fn behind(before: &[&str], command: &Command) -> Command {
    let mut all = Command::new(before[0]);
    all.args(&before[1..]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => all.env(name, value),
            None => all.env_remove(name),
        };
    }
    all.stdin(Stdio::null());
    all
}

/// A network namespace and the process that keeps it alive.
struct Network(Child);

impl Network {
    fn new() -> Self {
        let mut child = Command::new("unshare");
        child.args(["-n", "sh", "-c", "echo ready; exec sleep 600"]).stdout(Stdio::piped());
        let mut child = child.spawn().unwrap();
        crate::helper::first_line(&mut child);
        Self(child)
    }

    /// `command` in this namespace.
    fn holds(&self, command: &Command) -> Command {
        behind(&["nsenter", "-n", "-t", &self.0.id().to_string(), "--"], command)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _status = self.0.wait();
    }
}

/// `command` with an empty home for root, so that the machine's own stays unchanged.
fn with_home_of_root(command: &Command) -> Command {
    let script = "mount -t tmpfs none /root && exec \"$@\"";
    behind(&["unshare", "-m", "sh", "-c", script, "sh"], command)
}

/// Gives a directory to the other user.
fn give(path: &Path) {
    std::os::unix::fs::chown(path, Some(crate::helper::NOBODY), Some(crate::helper::NOBODY))
        .unwrap();
}
