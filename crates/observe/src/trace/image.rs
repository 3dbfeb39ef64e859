//! One process image of the tree while it lives, and what is read of it before it ends.
//!
//! Memory is read while it still exists: at `exit_group`, at the exit of the last thread, at a deadly signal,
//! or when the next `execve` begins. `/proc/PID/smaps` costs some 10 us per mapping and more for large ones.

use super::files;
use pagewise_kernel::privilege::FilePrivileges;
use pagewise_kernel::proc::{self, fd, io, smaps, stat, status};
use pagewise_model::look::{Allocator, MapChurn, TracedProcess};
use pagewise_model::{Bytes, Nanos};
use pagewise_tracee::{elf, glibc, lending};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::time::Instant;

/// Arguments kept, and how much of each.
const ARGS: usize = 6;
const ARG_CHARS: usize = 80;

/// An image that runs.
#[derive(Debug)]
pub(super) struct RunningImage {
    /// Position in the order of appearance.
    pub(super) order: usize,
    began: Instant,
    faults_before: u64,
    /// Made by fork and not yet by exec: its parent's code.
    pub(super) is_forked: bool,
    pub(super) churn: MapChurn,
    /// The program break, once a call has returned it.
    pub(super) program_break: Option<u64>,
    /// Threads alive now.
    pub(super) threads: u32,
    most_threads: u32,
    /// The data was read at its end, not before an exec that may still fail.
    is_final: bool,
    /// Files whose code it mapped when its memory was read.
    code: Vec<files::Mapped>,
    /// Code of glibc's allocator, once it was looked for.
    malloc: Option<Option<Range<u64>>>,
    seen: TracedProcess,
}

impl RunningImage {
    /// The image of `pid` that has just appeared.
    pub(super) fn new(pid: i32, order: usize, is_forked: bool, faults_before: u64) -> Self {
        let exe = std::fs::read_link(format!("/proc/{pid}/exe"))
            .map_or_else(|_| String::new(), |path| path.to_string_lossy().into_owned());
        let elf = elf::of_executable_of(pid).ok();
        let seen = TracedProcess {
            pid,
            exe,
            args: arguments(pid),
            is_static: elf.is_some_and(|e| e.is_static),
            is_32_bit: elf.is_some_and(|e| e.is_32_bit),
            allocator: elf.map_or(Allocator::Unknown, |e| e.allocator),
            glibc_huge_tunable: None,
            is_python: elf.is_some_and(|e| e.is_python),
            huge_pages_off: false,
            opens_deep: None,
            threads: 1,
            peak_rss_bytes: Bytes(0),
            anon_bytes: Bytes(0),
            anon_huge_bytes: Bytes(0),
            file_bytes: Bytes(0),
            file_cow_bytes: Bytes(0),
            page_table_bytes: Bytes(0),
            minor_faults: 0,
            moved_bytes: None,
            traced_life_ns: Nanos(0),
            churn: MapChurn::default(),
            forks: 0,
            forked_bytes: Bytes(0),
            inherited_bytes: if is_forked { resident(pid) } else { Bytes(0) },
            incomplete: Some("it ended before its memory could be read".to_owned()),
        };
        Self {
            order,
            began: Instant::now(),
            faults_before,
            is_forked,
            churn: MapChurn::default(),
            program_break: None,
            threads: 0,
            most_threads: 0,
            is_final: false,
            code: Vec::new(),
            malloc: None,
            seen,
        }
    }

    /// One thread more.
    pub(super) fn add_thread(&mut self) {
        self.threads += 1;
        self.most_threads = self.most_threads.max(self.threads);
    }

    /// Counts a process that it forked.
    pub(super) fn add_fork(&mut self) {
        self.seen.forks += 1;
        self.seen.forked_bytes += resident(self.seen.pid);
    }

    /// Whether one of these addresses lies in glibc's allocator. `None` if its code is not known.
    pub(super) fn is_called_by_malloc(&mut self, callers: impl Fn() -> Vec<u64>) -> Option<bool> {
        let pid = self.seen.pid;
        let code = self.malloc.get_or_insert_with(|| glibc::malloc_addresses(pid)).as_ref()?;
        Some(callers().iter().any(|address| code.contains(address)))
    }

    /// Reads what it uses, while it still has its memory.
    pub(super) fn read(&mut self) {
        self.read_before_exec();
        self.is_final = self.seen.incomplete.is_none();
    }

    /// The same before an exec that may still fail.
    pub(super) fn read_before_exec(&mut self) {
        let pid = self.seen.pid;
        match read_memory_use(&mut self.seen) {
            Ok(code) => {
                self.seen.incomplete = None;
                self.code = code;
            }
            Err(error) => self.seen.incomplete = Some(error.to_string()),
        }
        if let Ok(elf) = elf::of_process(pid) {
            (self.seen.allocator, self.seen.is_static) = (elf.allocator, elf.is_static);
        }
        if self.seen.allocator == Allocator::Glibc {
            self.seen.glibc_huge_tunable = glibc::has_huge_tunable_in(pid);
            let opener = lending::deep_opener_of(pid);
            self.seen.opens_deep = opener.map(|path| path.to_string_lossy().into_owned());
        }
        let io = io::read(pid).ok();
        self.seen.moved_bytes = io.map(|counted| counted.read_chars + counted.write_chars);
        if let Some(faults) = minor_faults(pid) {
            self.seen.minor_faults = faults.saturating_sub(self.faults_before);
        }
    }

    /// True when its memory has been read at its end.
    pub(super) const fn is_read(&self) -> bool {
        self.is_final
    }

    /// Files whose code it maps.
    pub(super) fn code(&self) -> &[files::Mapped] {
        &self.code
    }

    /// The image that follows a fork by exec takes over the fork's beginnings.
    pub(super) fn take_over(&mut self, before: &Self) {
        self.order = before.order;
        self.began = before.began;
        self.faults_before = before.faults_before;
    }

    /// Its facts, complete.
    pub(super) fn close(mut self) -> (usize, TracedProcess) {
        self.seen.traced_life_ns = self.began.elapsed().into();
        self.seen.threads = self.most_threads.max(1);
        self.seen.churn = self.churn;
        (self.order, self.seen)
    }
}

/// Current anonymous memory of process `pid`. 0 if it cannot be read.
fn resident(pid: i32) -> Bytes {
    status::read(pid).ok().and_then(|status| status.rss_anon).unwrap_or(Bytes(0))
}

/// Minor faults of process `pid` so far.
pub(super) fn minor_faults(pid: i32) -> Option<u64> {
    stat::read(pid).ok().map(|stat| stat.minor_faults)
}

/// Reads what it uses into `seen`. Returns the files whose code it maps.
fn read_memory_use(
    seen: &mut TracedProcess,
) -> Result<Vec<files::Mapped>, pagewise_kernel::error::SysError> {
    let status = status::read(seen.pid)?;
    let entries = smaps::read(seen.pid)?;
    let or_zero = |value: Option<Bytes>| value.unwrap_or(Bytes(0));
    seen.peak_rss_bytes = or_zero(status.peak_rss);
    seen.huge_pages_off = status.thp_enabled == Some(false);
    seen.anon_bytes = or_zero(status.rss_anon);
    seen.file_bytes = or_zero(status.rss_file) + or_zero(status.rss_shmem);
    seen.page_table_bytes = or_zero(status.page_tables);
    let sum = |of: &dyn Fn(&smaps::SmapsEntry) -> Bytes| {
        entries.iter().map(of).fold(Bytes(0), |total, bytes| total + bytes)
    };
    seen.anon_huge_bytes = sum(&|entry| entry.residency.anon_huge);
    seen.file_cow_bytes =
        sum(&|entry| if entry.mapping.is_file() { entry.residency.anonymous } else { Bytes(0) });
    Ok(files::of_code(&entries))
}

/// Counts the kinds of descriptors that `pid` holds into `kinds`.
pub(super) fn count_descriptors(pid: i32, kinds: &mut BTreeMap<String, u64>) {
    for descriptor in fd::list(pid).unwrap_or_default() {
        *kinds.entry(descriptor.target.kind().to_owned()).or_default() += 1;
    }
}

/// The executable of `pid`, if it would run with rights that its caller does not have.
pub(super) fn rights_of_its_own(pid: i32) -> Option<String> {
    let link = format!("/proc/{pid}/exe");
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    let rights = FilePrivileges::of(Path::new(&link)).ok()?;
    let path = || std::fs::read_link(&link).map(|p| p.to_string_lossy().into_owned());
    rights.exceed(user.as_raw(), group.as_raw()).then(|| path().unwrap_or(link.clone()))
}

fn arguments(pid: i32) -> Vec<String> {
    proc::arguments(pid).into_iter().take(ARGS).map(shorten).collect()
}

fn shorten(arg: String) -> String {
    if arg.chars().count() <= ARG_CHARS {
        return arg;
    }
    arg.chars().take(ARG_CHARS).chain("...".chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_image_reads() {
        let pid = std::process::id() as i32;
        let mut image = RunningImage::new(pid, 3, false, 0);
        image.add_thread();
        image.read();
        assert!(image.is_read());
        let (order, seen) = image.close();
        assert_eq!(order, 3);
        assert!(seen.peak_rss_bytes > Bytes(0) && seen.minor_faults > 0);
        assert!(seen.moved_bytes > Some(Bytes(0)));
        assert!(!seen.args.is_empty() && seen.exe.starts_with('/'));
        assert!(seen.file_cow_bytes > Bytes(0));
    }

    #[test]
    fn long_arguments_are_cut() {
        assert_eq!(shorten("x".repeat(100)).chars().count(), ARG_CHARS + 3);
        assert_eq!(shorten("short".into()), "short");
    }
}
