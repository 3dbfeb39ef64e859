//! The text of running processes: the mappings, which parts are huge, present or no longer the file's, and
//! what the page cache holds of the files.
//!
//! `PAGEMAP_SCAN` shows which slots have pages and which are mapped by one entry (Linux 6.7). The words of
//! `pagemap` show which pages are present and which are copies. Both require the right to trace the process.
//! The process is not stopped: what it maps or touches meanwhile may be missed. Sums come from `smaps`.
//!
//! Files count if a process maps them executable, with their read-only mappings. Executable memory of no
//! file, anonymous or shared, is code that the process has generated. If it is anonymous, its address serves
//! as its offset, as in the kernel (`vm_pgoff`).

use libc::ESRCH;
use pagewise_kernel::cached_file::PageCacheFile;
use pagewise_kernel::pagemap::Pagemap;
use pagewise_kernel::proc::maps::Mapping;
use pagewise_kernel::proc::{maps, meminfo, smaps, stat, status, tree};
use pagewise_kernel::{SysError, page_size, thp};
use pagewise_model::text::{CacheSeen, SlotSeen, TextAreaKind, TextMappingSeen};
use pagewise_model::text_report::{TextCount, TextStatus};
use pagewise_model::{Bytes, Fact};
use std::collections::BTreeMap;
use std::io::Error;
use std::path::Path;

/// A process and the files whose code it maps.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessCode {
    pub name: String,
    /// It does without huge pages (`PR_SET_THP_DISABLE`).
    pub is_disabled: bool,
    /// When it was started, in ticks since the boot.
    pub start_ticks: u64,
    /// The files, the largest text first.
    pub files: Vec<FileSeen>,
    /// The code that it has generated, by address.
    pub generated: Vec<TextMappingSeen>,
}

/// One file with its mappings.
#[derive(Debug, Clone, PartialEq)]
pub struct FileSeen {
    /// Its path, as the process sees it.
    pub path: String,
    /// The mappings, by address.
    pub mappings: Vec<TextMappingSeen>,
    /// The state of the file in the page cache.
    pub cache: CacheSeen,
}

impl FileSeen {
    fn text(&self) -> u64 {
        let text = self.mappings.iter().filter(|mapping| mapping.kind == TextAreaKind::Text);
        text.map(|mapping| mapping.end - mapping.start).sum()
    }
}

/// Looks at process `pid`.
///
/// # Errors
/// If it does not exist, has ended meanwhile, has no memory of its own, or may not be looked at.
pub fn look(pid: i32) -> Result<ProcessCode, SysError> {
    let began = stat::read(pid)?;
    let mappings = maps::read(pid)?;
    if mappings.is_empty() {
        return Err(no_memory(pid, "maps"));
    }
    let pagemap = Pagemap::open(pid)?;
    let (generated, mappings): (Vec<Mapping>, Vec<Mapping>) =
        mappings.into_iter().partition(is_generated);
    let generated = generated.iter().map(|mapping| generated_seen(&pagemap, mapping));
    let generated = generated.collect::<Result<_, _>>()?;
    let mut files = Vec::new();
    for mappings in of_code(mappings) {
        files.push(file(pid, &pagemap, &mappings)?);
    }
    files.sort_by_key(|file| std::cmp::Reverse(file.text()));
    is_still(pid, began.start_ticks)?;
    // A kernel without huge pages reports the same for every process.
    let is_disabled = status::read(pid)?.thp_enabled == Some(false) && thp::enabled().is_ok();
    let (name, start_ticks) = (began.comm, began.start_ticks);
    Ok(ProcessCode { name, is_disabled, start_ticks, files, generated })
}

fn no_memory(pid: i32, file: &str) -> SysError {
    let why = Error::other("it has no memory: it is a kernel thread, or has ended");
    SysError::new("read", format!("/proc/{pid}/{file}"), why)
}

/// Fails unless the process is the one that was started then. Its number may have been reused.
pub(super) fn is_still(pid: i32, start_ticks: u64) -> Result<(), SysError> {
    if stat::read(pid)?.start_ticks == start_ticks {
        return Ok(());
    }
    Err(SysError::new("read", format!("/proc/{pid}"), Error::from_raw_os_error(ESRCH)))
}

/// Executable memory of no file: anonymous, or shared under a name outside of any file system.
fn is_generated(mapping: &Mapping) -> bool {
    const SHARED: [&str; 3] = ["/memfd:", "/dev/zero", "/SYSV"];
    let name = mapping.path.to_string_lossy();
    // The device of such memory has no driver number.
    let is_shared = mapping.device.0 == 0 && SHARED.iter().any(|prefix| name.starts_with(prefix));
    mapping.perms.exec && (mapping.is_anonymous() || is_shared)
}

fn generated_seen(pagemap: &Pagemap, mapping: &Mapping) -> Result<TextMappingSeen, SysError> {
    let seen = mapping_seen(pagemap, mapping)?;
    let offset = if mapping.is_anonymous() { seen.start } else { seen.offset };
    Ok(TextMappingSeen { offset, ..seen })
}

/// The read-only mappings of each file that is mapped executable.
fn of_code(mappings: Vec<Mapping>) -> Vec<Vec<Mapping>> {
    let mut files: BTreeMap<((u32, u32), u64), Vec<Mapping>> = BTreeMap::new();
    let fixed = mappings.into_iter().filter(|m| m.is_file() && m.perms.read && !m.perms.write);
    for mapping in fixed {
        files.entry((mapping.device, mapping.inode)).or_default().push(mapping);
    }
    let is_code = |mappings: &Vec<Mapping>| mappings.iter().any(|mapping| mapping.perms.exec);
    files.into_values().filter(is_code).collect()
}

fn file(pid: i32, pagemap: &Pagemap, mappings: &[Mapping]) -> Result<FileSeen, SysError> {
    let seen = mappings.iter().map(|mapping| mapping_seen(pagemap, mapping));
    let seen: Vec<TextMappingSeen> = seen.collect::<Result<_, _>>()?;
    let first = &mappings[0];
    Ok(FileSeen {
        path: first.path.to_string_lossy().into_owned(),
        mappings: seen,
        cache: cache_of(pid, first),
    })
}

fn mapping_seen(pagemap: &Pagemap, mapping: &Mapping) -> Result<TextMappingSeen, SysError> {
    let kind = if mapping.perms.exec { TextAreaKind::Text } else { TextAreaKind::ReadOnly };
    let (start, end, offset) = (mapping.start, mapping.end, mapping.offset);
    let huge = page_size::huge().bytes();
    let mut slots = Vec::new();
    if let Some(first) = start.checked_next_multiple_of(huge).filter(|first| *first < end) {
        let ranges = pagemap.populated(start, end)?;
        let mut rest = ranges.as_slice();
        for at in (first..end).step_by(huge as usize).filter(|at| end - at >= huge) {
            rest = &rest[rest.partition_point(|range| range.end.0 <= at)..];
            slots.push(match rest.first() {
                Some(range) if range.start.0.saturating_sub(at) < huge => {
                    slot(pagemap, at, range.is_huge && range.contains(at))?
                }
                _ => SlotSeen::default(),
            });
        }
    }
    Ok(TextMappingSeen { kind, start, end, offset, slots })
}

/// One whole slot.
fn slot(pagemap: &Pagemap, at: u64, is_huge: bool) -> Result<SlotSeen, SysError> {
    let pages = page_size::huge().bytes() / page_size::base().bytes();
    let entries = pagemap.read(at, pages as usize)?;
    let present = entries.iter().filter(|entry| entry.is_present());
    // A page swapped out of a file mapping was a copy.
    let private = entries.iter().filter(|entry| {
        let is_gone = entry.is_swapped() && !entry.is_guard();
        is_gone || (entry.is_present() && !entry.is_of_file_or_shared())
    });
    Ok(SlotSeen {
        is_huge,
        present_pages: present.count() as u64,
        private_pages: private.count() as u64,
    })
}

/// The page cache state of the file of a mapping of process `pid`.
fn cache_of(pid: i32, mapping: &Mapping) -> CacheSeen {
    let look = || -> Result<CacheSeen, String> {
        let file = opened(pid, mapping)?;
        let kind = file.file_system().map_err(|e| e.to_string())?;
        let slots = file.slots().map_err(|e| e.to_string())?;
        Ok(CacheSeen { slots: Fact::Known(slots), base_pages_alone: kind.base_pages_alone() })
    };
    look().unwrap_or_else(|why| CacheSeen { slots: Fact::Missing(why), base_pages_alone: None })
}

/// The file of a mapping, by the name that the process has for it.
fn opened(pid: i32, mapping: &Mapping) -> Result<PageCacheFile, String> {
    let name = mapping.path.to_string_lossy();
    let candidates = [format!("/proc/{pid}/root{name}"), name.clone().into_owned()];
    let open = |path: &String| PageCacheFile::open(Path::new(path)).ok();
    let file = candidates.iter().find_map(open).ok_or("the file cannot be opened by its name")?;
    let listed = file.view().and_then(|view| view.listed()).map_err(|e| e.to_string())?;
    if (listed.device, listed.inode) == (mapping.device, mapping.inode) {
        Ok(file)
    } else {
        Err("its name belongs to another file now".to_owned())
    }
}

/// What of executable mappings is huge: of each process that may be looked at, or of each file of one.
///
/// # Errors
/// When `/proc` cannot be read, or the process asked for not be looked at.
pub fn count_text(pid: Option<i32>) -> Result<TextStatus, SysError> {
    let totals = meminfo::read()?.huge;
    let (counts, other_file_pmd_bytes) = (Vec::new(), Bytes(0));
    let mut status = TextStatus { pid, counts, other_file_pmd_bytes, hidden_processes: 0, totals };
    match pid {
        Some(pid) => {
            let entries = smaps::read(pid)?;
            if entries.is_empty() {
                return Err(no_memory(pid, "smaps"));
            }
            status.counts = files_of(pid, &entries);
            status.other_file_pmd_bytes = not_text(&entries);
        }
        None => {
            for pid in tree::all()? {
                match smaps::read(pid) {
                    Ok(entries) => {
                        status.counts.extend(process_of(pid, &entries));
                        status.other_file_pmd_bytes += not_text(&entries);
                    }
                    Err(error) if error.is_gone() => {}
                    Err(_) => status.hidden_processes += 1,
                }
            }
        }
    }
    status.counts.sort_by_key(|count| std::cmp::Reverse((count.huge(), count.text_bytes)));
    Ok(status)
}

fn counted(pid: i32, name: String) -> TextCount {
    TextCount {
        name,
        pid,
        text_bytes: Bytes(0),
        resident_bytes: Bytes(0),
        file_pmd_bytes: Bytes(0),
        shmem_pmd_bytes: Bytes(0),
        anon_huge_bytes: Bytes(0),
    }
}

fn add(count: &mut TextCount, entry: &smaps::SmapsEntry) {
    count.text_bytes += entry.mapping.size();
    count.resident_bytes += entry.residency.rss;
    count.file_pmd_bytes += entry.residency.file_pmd;
    count.shmem_pmd_bytes += entry.residency.shmem_pmd;
    count.anon_huge_bytes += entry.residency.anon_huge;
}

fn executable(entries: &[smaps::SmapsEntry]) -> impl Iterator<Item = &smaps::SmapsEntry> {
    entries.iter().filter(|entry| entry.mapping.perms.exec)
}

/// What of other mappings is of files and huge.
fn not_text(entries: &[smaps::SmapsEntry]) -> Bytes {
    let other = entries.iter().filter(|entry| !entry.mapping.perms.exec);
    other.fold(Bytes(0), |sum, entry| sum + entry.residency.file_pmd)
}

/// The sum over a process. `None` for kernel threads.
fn process_of(pid: i32, entries: &[smaps::SmapsEntry]) -> Option<TextCount> {
    let name = stat::read(pid).map(|stat| stat.comm).unwrap_or_default();
    let mut count = counted(pid, name);
    executable(entries).for_each(|entry| add(&mut count, entry));
    (count.text_bytes > Bytes(0)).then_some(count)
}

/// The sums by file; memory of no file is one.
fn files_of(pid: i32, entries: &[smaps::SmapsEntry]) -> Vec<TextCount> {
    let mut files: BTreeMap<String, TextCount> = BTreeMap::new();
    for entry in executable(entries) {
        let path = entry.mapping.path.to_string_lossy().into_owned();
        let name = if path.is_empty() { "memory of no file".to_owned() } else { path };
        add(files.entry(name.clone()).or_insert_with(|| counted(pid, name)), entry);
    }
    files.into_values().collect()
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test says why it is skipped")]
mod tests {
    use super::*;
    use pagewise_kernel::proc::own_pid;

    #[test]
    fn this_process_maps_its_own_program() {
        let seen = match look(own_pid()) {
            Ok(seen) => seen,
            Err(error) => return println!("SKIP this_process_maps_its_own_program: {error}"),
        };
        assert!(!seen.is_disabled);
        let own = std::env::current_exe().unwrap().canonicalize().unwrap();
        let file = seen.files.iter().find(|file| Path::new(&file.path) == own).unwrap();
        let text = file.mappings.iter().find(|mapping| mapping.kind == TextAreaKind::Text).unwrap();
        let huge = page_size::huge().bytes();
        let whole = (text.end / huge).saturating_sub(text.start.div_ceil(huge));
        assert_eq!(text.slots.len() as u64, whole);
        assert!(file.cache.slots.known().is_some(), "{:?}", file.cache);
        assert!(seen.files.windows(2).all(|pair| pair[0].text() >= pair[1].text()));
    }

    #[test]
    fn sums_by_file_are_those_of_the_process() {
        let files = count_text(Some(own_pid())).unwrap();
        let all = count_text(None).unwrap();
        let own = all.counts.iter().find(|count| count.pid == own_pid()).unwrap();
        let sum = files.counts.iter().fold(Bytes(0), |sum, file| sum + file.text_bytes);
        // The text of the vDSO and of libraries does not change between the two.
        assert_eq!((sum, own.pid), (own.text_bytes, own_pid()));
        assert!(own.resident_bytes <= own.text_bytes);
        assert!(all.totals.anon_huge_bytes.is_some());
    }

    #[test]
    fn huge_pages_of_files_are_all_accounted_for() {
        let smaps = "\
400000-c00000 r-xp 00000000 08:01 7 /usr/bin/x
Rss: 8192 kB
FilePmdMapped: 8192 kB
c00000-e00000 r--p 00800000 08:01 7 /usr/bin/x
Rss: 2048 kB
FilePmdMapped: 2048 kB
";
        let entries = smaps::parse(smaps.as_bytes());
        let sum = entries.iter().fold(Bytes(0), |sum, entry| sum + entry.residency.file_pmd);
        let [text] = &files_of(1, &entries)[..] else { panic!("one file") };
        assert_eq!((text.file_pmd_bytes, not_text(&entries)), (Bytes::mib(8), Bytes::mib(2)));
        assert_eq!(text.file_pmd_bytes + not_text(&entries), sum);
        // The same for this process, whatever it maps.
        let (status, entries) =
            (count_text(Some(own_pid())).unwrap(), smaps::read(own_pid()).unwrap());
        let sum = entries.iter().fold(Bytes(0), |sum, entry| sum + entry.residency.file_pmd);
        let text = status.counts.iter().fold(Bytes(0), |sum, count| sum + count.file_pmd_bytes);
        assert_eq!(text + status.other_file_pmd_bytes, sum);
    }

    #[test]
    fn what_is_no_process_with_memory_is_reported() {
        assert!(look(i32::MAX).unwrap_err().is_gone());
        assert!(count_text(Some(i32::MAX)).is_err());
        // Process 2 is the parent of kernel threads, outside of containers.
        if stat::read(2).is_ok_and(|stat| stat.comm == "kthreadd") {
            assert!(look(2).is_err());
        }
    }
}
