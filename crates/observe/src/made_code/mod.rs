//! Names of code that was generated while its program ran: functions of scripts, methods of a JVM.
//!
//! Interpreters and compilers write a map for perf, `/tmp/perf-PID.map`: Python from 3.12 on with
//! `PYTHONPERFSUPPORT=1`, node with `--perf-basic-prof`, a JVM at its end with `-XX:+DumpPerfMapAtExit`. A
//! map is read when the first name is needed, at the end of a recording, so that it is complete.
//!
//! The file is named after the number of a process in its own namespace, in its own /tmp. Both are looked up
//! while the process lives ([`MadeCode::meet`]). For a process that was not met, our own /tmp is searched.
//! The file must be a regular one and belong to that process's account or to root, because any account may
//! write to /tmp.
//!
//! Not seen: what an interpreter executes without separate code for each function (Python before 3.12,
//! methods that a JVM interprets); a moved piece whose old place another one has taken by the end. Cost: one
//! read of a file of up to [`MOST_BYTES`] for each process with generated code.

mod map;
mod script;

use map::PerfMap;
use pagewise_kernel::proc::status;
use pagewise_model::fault::event::MapEvent;
use pagewise_model::fault::{MadeFunction, ScriptInterpreter};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, fstat, openat, statat, unlinkat};
use script::ScriptDefinitions;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};

/// How much of a map is read.
const MOST_BYTES: u64 = 64 << 20;
/// Processes that are looked up while they live.
const MOST_PROCESSES: usize = 5000;
/// Most processes whose files are removed.
const MOST_REMOVED: usize = 100_000;

/// A process as it was when it was met.
#[derive(Debug)]
struct MadeCodeProcess {
    /// Its number in its own namespace.
    own_pid: i32,
    /// Its account.
    uid: Option<u32>,
    /// Its /tmp, if that could be opened.
    directory: Option<OwnedFd>,
}

/// The names of made code, by process.
#[derive(Debug, Default)]
pub struct MadeCode {
    processes: HashMap<i32, MadeCodeProcess>,
    /// `None` for those without one.
    maps: HashMap<i32, Option<PerfMap>>,
    scripts: ScriptDefinitions,
    /// Interpreters by name, each with the processes that ran it.
    interpreters: BTreeMap<String, HashSet<i32>>,
    /// Functions of scripts that were named, by process.
    named: HashSet<(i32, u64)>,
}

impl MadeCode {
    /// Process `pid` lives and generates code: records where its map will be.
    pub fn meet(&mut self, pid: i32) {
        if self.processes.contains_key(&pid) || self.processes.len() >= MOST_PROCESSES {
            return;
        }
        let Ok(status) = status::read(pid) else { return };
        let root = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, format!("/proc/{pid}/root"), root, Mode::empty());
        // A link in another namespace would lead through ours.
        let inside = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = root.and_then(|root| openat(root, "tmp", inside, Mode::empty())).ok();
        let own_pid = status.own_pid.unwrap_or(pid);
        self.processes.insert(pid, MadeCodeProcess { own_pid, uid: status.euid, directory });
    }

    /// Notes that a process executes the code of an interpreter.
    pub fn see(&mut self, map: &MapEvent) {
        if map.is_executable
            && let Some(name) = interpreter(&map.path)
        {
            self.interpreters.entry(name.to_owned()).or_default().insert(map.pid);
        }
    }

    /// The function at `address` of process `pid`, which made it.
    pub fn function(&mut self, pid: i32, address: u64) -> Option<MadeFunction> {
        if !self.maps.contains_key(&pid) {
            let map = self.open(pid).map(|file| PerfMap::parse(&contents(file)));
            self.maps.insert(pid, map);
        }
        let (start, name) = self.maps.get(&pid)?.as_ref()?.find(address)?;
        let function = self.scripts.function(name);
        if function.is_script {
            self.named.insert((pid, start));
        }
        Some(function)
    }

    /// The interpreters that were seen, and how many functions each has named.
    #[must_use]
    pub fn interpreters(&self) -> Vec<ScriptInterpreter> {
        let one = |(name, pids): (&String, &HashSet<i32>)| ScriptInterpreter {
            name: name.clone(),
            functions: self.named.iter().filter(|(pid, _)| pids.contains(pid)).count() as u64,
            has_map: pids.iter().take(MOST_PROCESSES).any(|pid| self.open(*pid).is_some()),
        };
        self.interpreters.iter().map(one).collect()
    }

    /// The directory of the files of process `pid`, its own number, and its account. `None` if its /tmp is
    /// not known.
    fn place(&self, pid: i32) -> Option<(OwnedFd, i32, u32)> {
        let own = || rustix::process::geteuid().as_raw();
        match self.processes.get(&pid) {
            Some(met) => {
                let directory = met.directory.as_ref()?.try_clone().ok()?;
                Some((directory, met.own_pid, met.uid.unwrap_or_else(own)))
            }
            None => {
                let ours = openat(CWD, "/tmp", OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
                Some((ours.ok()?, pid, own()))
            }
        }
    }

    fn open(&self, pid: i32) -> Option<File> {
        let (directory, own_pid, uid) = self.place(pid)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let flags = flags | OFlags::CLOEXEC;
        let file = openat(directory, name(own_pid), flags, Mode::empty()).ok()?;
        let stat = fstat(&file).ok()?;
        let is_regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        (is_regular && [uid, 0].contains(&stat.st_uid)).then(|| File::from(file))
    }

    /// Removes the maps of `pids` that were written since `since` (seconds since 1970), and the logs that
    /// node also writes into its working directory.
    pub fn remove_files(&self, pids: &HashSet<i32>, since: i64) {
        for pid in pids.iter().take(MOST_REMOVED) {
            if let Some((directory, own_pid, uid)) = self.place(*pid) {
                remove(directory, &name(own_pid), uid, since);
            }
        }
        let logs = std::fs::read_dir(".").into_iter().flatten().flatten();
        for log in logs.filter_map(|entry| entry.file_name().into_string().ok()) {
            let pid = log_of(&log).filter(|pid| pids.contains(pid));
            if let Some((_, _, uid)) = pid.and_then(|pid| self.place(pid)) {
                remove(CWD, &log, uid, since);
            }
        }
    }
}

/// The name of the map of the process with this number.
fn name(own_pid: i32) -> String {
    format!("perf-{own_pid}.map")
}

/// The process that wrote a log of this name: `isolate-0xADDRESS-PID-v8.log`.
fn log_of(name: &str) -> Option<i32> {
    let rest = name.strip_prefix("isolate-0x")?.strip_suffix("-v8.log")?;
    rest.split_once('-')?.1.split('-').next_back()?.parse().ok()
}

/// Removes a regular file of account `uid` that was written since `since`.
fn remove(directory: impl AsFd, name: &str, uid: u32, since: i64) {
    let stat = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW);
    let is_ours = stat.is_ok_and(|stat| {
        let is_regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        is_regular && stat.st_uid == uid && stat.st_mtime >= since
    });
    if is_ours {
        // Left behind it does no harm.
        let _removed = unlinkat(&directory, name, AtFlags::empty());
    }
}

fn contents(file: File) -> Vec<u8> {
    let mut bytes = Vec::new();
    // The bytes before an error are still useful.
    let _size = file.take(MOST_BYTES).read_to_end(&mut bytes);
    bytes
}

/// The name of the interpreter that a file implements.
pub(crate) fn interpreter(path: &str) -> Option<&str> {
    // Another file of the same path has a number behind it.
    let file = path.rsplit('/').next()?.split(" (").next()?;
    match file {
        "node" | "nodejs" => Some("node"),
        "libjvm.so" => Some("java"),
        _ if file.starts_with("libnode.so") => Some("node"),
        _ => {
            let python = file.strip_prefix("lib").unwrap_or(file);
            let version = python.strip_prefix("python3.")?;
            let end = version.find(|c: char| !c.is_ascii_digit()).unwrap_or(version.len());
            python.get(.."python3.".len() + end).filter(|_| end > 0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    /// A known process whose /tmp is `directory`.
    fn met(pid: i32, directory: &Path, uid: u32) -> MadeCode {
        let directory = File::open(directory).ok().map(OwnedFd::from);
        let process = MadeCodeProcess { own_pid: 7, uid: Some(uid), directory };
        MadeCode { processes: HashMap::from([(pid, process)]), ..MadeCode::default() }
    }

    fn own_uid() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    #[test]
    fn the_map_is_named_by_the_number_in_its_own_namespace() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("perf-7.map"), "1000 10 int Job.fill(int)\n").unwrap();
        let mut made = met(4_000_000, directory.path(), own_uid());
        let found = made.function(4_000_000, 0x1008).map(|found| found.function);
        assert_eq!(found.as_deref(), Some("int Job.fill(int)"));
        assert_eq!(made.function(4_000_000, 0x1010), None);
    }

    #[test]
    fn recorded_maps_name_the_functions_of_their_scripts() {
        let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/made-code");
        let cases = [
            ("python-3.13", 0x7f0e_c9bf_6cf5, "Store.grow (/srv/app/job.py)", None, true),
            ("python-3.13", 0x7f17_1df2_e66a, "_exists (<frozen os>)", None, true),
            ("node-20", 0x25be_fa71_1dfe, "fill", Some(("/srv/app/job.js", 1)), true),
            ("node-20", 0x1a0_76c0, "BytecodeHandler:Wide", None, false),
            ("java-17", 0x7f40_7140_1000, "int Job2.fill(byte[])", None, true),
            ("java-17", 0x7f40_7893_8c00, "StubRoutines (1)", None, false),
        ];
        for (map, address, function, source, is_script) in cases {
            let directory = tempfile::tempdir().unwrap();
            let from = recorded.join(format!("{map}.map"));
            std::fs::copy(from, directory.path().join("perf-7.map")).unwrap();
            let mut made = met(9, directory.path(), own_uid());
            let found = made.function(9, address).unwrap();
            let line = found.source.as_ref().map(|source| (source.file.as_str(), source.line));
            assert_eq!(
                (found.function.as_str(), line, found.is_script),
                (function, source, is_script)
            );
        }
    }

    #[test]
    fn files_of_others_links_and_pipes_are_no_maps() {
        let directory = tempfile::tempdir().unwrap();
        let (map, real) = (directory.path().join("perf-7.map"), directory.path().join("real"));
        std::fs::write(&real, "1000 10 int Job.fill(int)\n").unwrap();
        symlink(&real, &map).unwrap();
        assert_eq!(met(1, directory.path(), own_uid()).function(1, 0x1000), None, "a link");
        std::fs::remove_file(&map).unwrap();
        rustix::fs::mkfifoat(CWD, &map, Mode::from_raw_mode(0o600)).unwrap();
        assert_eq!(met(1, directory.path(), own_uid()).function(1, 0x1000), None, "a pipe");
        std::fs::remove_file(&map).unwrap();
        std::fs::copy(&real, &map).unwrap();
        assert!(met(1, directory.path(), own_uid()).function(1, 0x1000).is_some());
        // Root's files are believed by everybody.
        let of_another = met(1, directory.path(), own_uid() + 1).function(1, 0x1000);
        assert_eq!(of_another.is_some(), own_uid() == 0);
    }

    #[test]
    fn only_maps_written_since_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let map = directory.path().join("perf-7.map");
        std::fs::write(&map, "").unwrap();
        let written = std::os::unix::fs::MetadataExt::mtime(&map.metadata().unwrap());
        let made = met(1, directory.path(), own_uid());
        made.remove_files(&HashSet::from([1]), written + 1);
        assert!(map.exists(), "it was there before");
        met(1, directory.path(), own_uid() + 1).remove_files(&HashSet::from([1]), written);
        assert!(map.exists(), "it is somebody else's");
        made.remove_files(&HashSet::from([1]), written);
        assert!(!map.exists());
    }

    #[test]
    fn interpreters_are_known_by_their_files() {
        let cases = [
            ("/usr/bin/python3.11", Some("python3.11")),
            ("/opt/lib/libpython3.13.so.1.0", Some("python3.13")),
            ("/usr/bin/node", Some("node")),
            ("/usr/lib/jvm/java-17/lib/server/libjvm.so", Some("java")),
            ("/usr/bin/python3.", None),
            ("/lib/libc.so.6", None),
            ("", None),
        ];
        for (path, name) in cases {
            assert_eq!(interpreter(path), name, "{path}");
        }
        assert_eq!(log_of("isolate-0x38defc90-3006-v8.log"), Some(3006));
        assert_eq!(log_of("isolate-0x38defc90-v8.log"), None);
    }
}
