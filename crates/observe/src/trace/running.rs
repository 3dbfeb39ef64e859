//! Processes that already run, observed from outside: nothing is stopped or traced.
//!
//! Their mapping calls are not seen, but their traces are. If faults fill more memory than a process has
//! grown by, the difference was given back before. A large anonymous mapping was made by one call.

use super::files::TreeFiles;
use super::image::{self, RunningImage};
use pagewise_kernel::page_size;
use pagewise_kernel::proc::{maps, status, tree};
use pagewise_model::look::{TracedLook, TracedProcess};
use pagewise_model::usage::ProgramEnd;
use pagewise_model::{Bytes, Fact};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Smallest anonymous mapping that counts as large ([`pagewise_model::look::MapChurn`]).
const LARGE: Bytes = Bytes::mib(8);
/// Why something is not known of them.
const NOT_TRACED: &str = "the processes were running already";

/// A look at processes over some time.
#[derive(Debug, Default)]
pub struct RunningLook {
    /// Faults and resident memory of each when the look began.
    before: BTreeMap<i32, (u64, Bytes)>,
    seen: Vec<TracedProcess>,
    files: TreeFiles,
}

impl RunningLook {
    /// Begins a look at these processes.
    #[must_use]
    pub fn begin(pids: &[i32]) -> Self {
        let before = |pid: &i32| Some((*pid, (image::minor_faults(*pid)?, resident(*pid))));
        Self { before: pids.iter().filter_map(before).collect(), ..Self::default() }
    }

    /// Ends it, while they still run.
    pub fn end(&mut self, pids: &[i32]) {
        for pid in pids {
            let (faults, rss) = self.before.get(pid).copied().unwrap_or_default();
            let mut image = RunningImage::new(*pid, 0, false, faults);
            image.read();
            self.files.note_code(image.code());
            let (_, mut seen) = image.close();
            if let Some(path) = as_started(&seen) {
                seen.exe = path;
            }
            let filled = Bytes(seen.minor_faults.saturating_mul(page_size::base().bytes()));
            let grown = resident(*pid).0.saturating_sub(rss.0);
            seen.churn.munmap_bytes = Bytes(filled.0.saturating_sub(grown));
            seen.churn.large_mmap_calls = large_mappings(*pid);
            let threads = tree::threads(*pid).map_or(1, |threads| threads.len());
            seen.threads = u32::try_from(threads).unwrap_or(u32::MAX);
            self.seen.push(seen);
        }
    }

    /// The observations. The processes have ended by then, so that they do not count as holders of files.
    #[must_use]
    pub fn finish(self, ended: ProgramEnd) -> TracedLook {
        TracedLook {
            most_processes: u32::try_from(self.seen.len()).unwrap_or(u32::MAX),
            processes: self.seen,
            pipes: Vec::new(),
            pipe_calls: Default::default(),
            effects: Vec::new(),
            files: self.files.finish(Vec::new()),
            pattern: Fact::missing(NOT_TRACED),
            written: Vec::new(),
            footprint: Fact::missing(NOT_TRACED),
            stepped: None,
            descriptor_kinds: BTreeMap::new(),
            checkpoint_bytes: None,
            ended,
        }
    }
}

/// Its file by the name that started it, if that is a link to a differently named file, such as redis-server
/// to redis-check-rdb. Uses its first argument, which programs extend but seldom replace.
fn as_started(seen: &TracedProcess) -> Option<String> {
    let word = seen.args.first()?.split_whitespace().next()?.trim_end_matches(':');
    let path = Path::new(&seen.exe).with_file_name(Path::new(word).file_name()?);
    let file = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    let is_it = file(&path).is_some_and(|found| Some(found) == file(Path::new(&seen.exe)));
    is_it.then(|| path.display().to_string())
}

fn resident(pid: i32) -> Bytes {
    let status = status::read(pid).ok();
    status.and_then(|status| status.rss_anon).unwrap_or_default()
}

fn large_mappings(pid: i32) -> u64 {
    let all = maps::read(pid).unwrap_or_default();
    let is_large =
        |one: &&maps::Mapping| !one.is_file() && !one.perms.shared && one.size() >= LARGE;
    all.iter().filter(is_large).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_kernel::proc::own_pid;

    #[test]
    fn memory_that_is_filled_again_and_again_was_given_back() {
        let pid = own_pid();
        let mut look = RunningLook::begin(&[pid]);
        let mut sum = 0u64;
        for round in 0..4u8 {
            // Above glibc's largest threshold of 32 MiB, so each block is a separate mapping.
            let block = vec![round + 1; 64 << 20];
            sum += block.iter().step_by(1000).map(|byte| u64::from(*byte)).sum::<u64>();
        }
        assert!(sum > 0);
        look.end(&[pid]);
        let traced = look.finish(ProgramEnd::Exited(0));
        let [own] = &traced.processes[..] else { panic!("{traced:?}") };
        assert!(own.churn.munmap_bytes >= Bytes::mib(192), "{:?}", own.churn);
        assert!(own.incomplete.is_none() && !own.exe.is_empty());
    }

    #[test]
    fn a_program_has_the_name_that_it_was_started_by() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        // By another process: while this one writes a file, its children may hold it open (ETXTBSY).
        let copied =
            std::process::Command::new("cp").args(["/bin/sleep"]).arg(at("check")).status();
        assert!(copied.unwrap().success());
        std::os::unix::fs::symlink("check", at("server")).unwrap();
        for name in ["server", "check"] {
            let mut child = std::process::Command::new(at(name)).arg("60").spawn().unwrap();
            let pid = i32::try_from(child.id()).unwrap();
            // The kernel lets the parent go on before the words are in place.
            while fs::read(format!("/proc/{pid}/cmdline")).unwrap().is_empty() {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            let mut look = RunningLook::begin(&[pid]);
            look.end(&[pid]);
            child.kill().and_then(|()| child.wait()).unwrap();
            let traced = look.finish(ProgramEnd::Exited(0));
            assert_eq!(Path::new(&traced.processes[0].exe), at(name));
        }
    }

    #[test]
    fn threads_of_a_running_process_are_counted() {
        let (pid, (end, wait)) = (own_pid(), std::sync::mpsc::channel::<()>());
        let sleeper = std::thread::spawn(move || wait.recv());
        let mut look = RunningLook::begin(&[pid]);
        look.end(&[pid]);
        drop(end);
        assert!(sleeper.join().unwrap().is_err());
        let traced = look.finish(ProgramEnd::Exited(0));
        assert!(traced.processes[0].threads >= 2, "{traced:?}");
    }
}
