//! The descendants of a process.
//!
//! `/proc/PID/task/TID/children` (CONFIG_PROC_CHILDREN) lists them directly. Without it, the parent field of
//! every `/proc/PID/stat` is used. Neither is a snapshot: a process that forks and dies between two reads can
//! hide its child until the next read. A process whose parent died belongs to the nearest subreaper, so a
//! tree started below a subreaper stays complete.
//!
//! Cost: a full scan takes about 15 us per process on the machine. [`DescendantScanner`] reads only new processes and
//! those inside the tree; each of the others costs about 1 us.

use super::{fields, number, own_pid, pid_path, read_bytes, stat};
use crate::error::SysError;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

/// Direct children of process `pid`.
pub fn children(pid: i32) -> Result<Vec<i32>, SysError> {
    match listed_children(pid) {
        Err(e) if e.errno() == Some(libc::ENOENT) => {
            // Also the result for a process that has ended; then its stat shows that.
            stat::read(pid)?;
            Ok(parents()?.into_iter().filter(|&(_, parent)| parent == pid).map(|p| p.0).collect())
        }
        other => other,
    }
}

/// All descendants of `pid`, parents before children, without `pid` itself.
pub fn descendants(pid: i32) -> Result<Vec<i32>, SysError> {
    match listed_descendants(pid) {
        Err(e) if e.errno() == Some(libc::ENOENT) => {
            stat::read(pid)?;
            DescendantScanner::new(pid).scan()
        }
        other => other,
    }
}

fn listed_descendants(root: i32) -> Result<Vec<i32>, SysError> {
    let mut found = listed_children(root)?;
    let mut next = 0;
    while let Some(&pid) = found.get(next) {
        match listed_children(pid) {
            Ok(more) => found.extend(more),
            // It has ended since its parent was read.
            Err(e) if e.is_gone() => {}
            Err(e) => return Err(e),
        }
        next += 1;
    }
    Ok(found)
}

fn listed_children(pid: i32) -> Result<Vec<i32>, SysError> {
    let dir = pid_path(pid, "task");
    let fail = |e| SysError::new("read_dir", dir.clone(), e);
    let mut found = Vec::new();
    for task in std::fs::read_dir(&dir).map_err(fail)? {
        let text = read_bytes(task.map_err(fail)?.path().join("children"))?;
        found.extend(fields(&text).filter_map(number::<i32>));
    }
    Ok(found)
}

/// The children of this process, for repeated listing. Includes ended ones until they are reaped.
///
/// A child leaves the list when it is reaped and never before. So while no thread reaps, the list is complete
/// and each id in it belongs to that child. The files stay open between two listings.
#[derive(Debug, Default)]
pub struct OwnChildren {
    files: Vec<File>,
}

impl OwnChildren {
    /// The current children, the newest last.
    pub fn list(&mut self) -> Result<Vec<i32>, SysError> {
        if self.files.is_empty() {
            match Self::open() {
                Err(e) if e.errno() == Some(libc::ENOENT) => return children(own_pid()),
                files => self.files = files?,
            }
        }
        let mut found = Vec::new();
        for mut file in &self.files {
            let fail = |e| SysError::new("read", "/proc/self/task/*/children", e);
            let mut text = Vec::new();
            file.seek(SeekFrom::Start(0)).map_err(fail)?;
            file.read_to_end(&mut text).map_err(fail)?;
            found.extend(fields(&text).filter_map(number::<i32>));
        }
        if found.is_empty() {
            // Threads may have been added or removed: the next listing reads them again.
            self.files.clear();
        }
        Ok(found)
    }

    fn open() -> Result<Vec<File>, SysError> {
        let open = |tid: i32| {
            let path = format!("/proc/self/task/{tid}/children");
            File::open(&path).map_err(|e| SysError::new("open", path, e))
        };
        threads(own_pid())?.into_iter().map(open).collect()
    }
}

/// Every current thread of process `pid`.
pub fn threads(pid: i32) -> Result<Vec<i32>, SysError> {
    numbered(&pid_path(pid, "task"))
}

/// Every process id on the machine, in ascending order.
pub fn all() -> Result<Vec<i32>, SysError> {
    let mut pids = numbered("/proc")?;
    pids.sort_unstable();
    Ok(pids)
}

/// Entries of `dir` whose names are numbers.
fn numbered(dir: &str) -> Result<Vec<i32>, SysError> {
    let fail = |e| SysError::new("read_dir", dir, e);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(fail)? {
        let name = entry.map_err(fail)?.file_name();
        found.extend(number::<i32>(std::os::unix::ffi::OsStrExt::as_bytes(name.as_os_str())));
    }
    Ok(found)
}

fn parents() -> Result<BTreeMap<i32, i32>, SysError> {
    Ok(all()?.into_iter().filter_map(|pid| Some((pid, stat::read(pid).ok()?.ppid))).collect())
}

/// The descendants of `root` according to `parents` (child to parent), parents first.
#[must_use]
pub fn below(root: i32, parents: &BTreeMap<i32, i32>) -> Vec<i32> {
    let mut by_parent: HashMap<i32, Vec<i32>> = HashMap::new();
    for (&child, &parent) in parents {
        by_parent.entry(parent).or_default().push(child);
    }
    let mut found = Vec::new();
    let mut seen = BTreeSet::from([root]);
    let mut next = vec![root];
    while let Some(parent) = next.pop() {
        for &child in by_parent.get(&parent).into_iter().flatten() {
            if seen.insert(child) {
                found.push(child);
                next.push(child);
            }
        }
    }
    found
}

/// Repeated scans for the descendants of one root, cheap enough for polling.
///
/// A process once found outside the tree is not read again while its id is in use. One found inside stays
/// inside until it ends, whichever process adopts it. A different start time reveals another process with the
/// same id. Not seen: a process inside the tree that reuses the id of one outside which ended between two
/// scans.
#[derive(Debug)]
pub struct DescendantScanner {
    root: i32,
    parents: BTreeMap<i32, i32>,
    /// Start times of the processes inside.
    started: BTreeMap<i32, u64>,
}

impl DescendantScanner {
    /// A scanner for the descendants of `root`.
    #[must_use]
    pub const fn new(root: i32) -> Self {
        Self { root, parents: BTreeMap::new(), started: BTreeMap::new() }
    }

    /// The current descendants, without the root. After an error the next scan goes on from the last one.
    pub fn scan(&mut self) -> Result<Vec<i32>, SysError> {
        let alive = all()?;
        let mut inside = std::mem::take(&mut self.started);
        let has_ended = |pid: &i32, start: &mut u64| {
            stat::read(*pid).map_or_else(|error| error.is_gone(), |stat| stat.start_ticks != *start)
        };
        let ended_or_reused: BTreeSet<i32> =
            inside.extract_if(.., has_ended).map(|(pid, _)| pid).collect();
        let mut parents = BTreeMap::new();
        for &pid in &alive {
            let known = self.parents.get(&pid).filter(|parent| {
                inside.contains_key(&pid)
                    || !ended_or_reused.contains(&pid) && self.is_unchanged(**parent, &alive)
            });
            let parent = known.copied().or_else(|| stat::read(pid).ok().map(|s| s.ppid));
            parents.extend(parent.map(|parent| (pid, parent)));
        }
        // Last, because a parent may have ended during the scan.
        inside.retain(|pid, _| parents.contains_key(pid));
        for pid in inside.keys() {
            if let Some(parent) = parents.get_mut(pid).filter(|parent| !inside.contains_key(parent))
            {
                *parent = self.root;
            }
        }
        let found = below(self.root, &parents);
        for pid in &found {
            let start = inside.get(pid).copied();
            if let Some(start) = start.or_else(|| stat::read(*pid).ok().map(|s| s.start_ticks)) {
                self.started.insert(*pid, start);
            } else {
                // It has ended meanwhile, and may leave its id to a stranger.
                parents.remove(pid);
            }
        }
        self.parents = parents;
        Ok(found)
    }

    /// False if the parent of a process outside may have ended since the last scan.
    fn is_unchanged(&self, parent: i32, alive: &[i32]) -> bool {
        parent == 0 || self.parents.contains_key(&parent) && alive.binary_search(&parent).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stranger_with_the_id_of_a_process_that_has_ended_is_outside() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id().cast_signed();
        let mut scanner = DescendantScanner::new(own_pid());
        assert!(scanner.scan().unwrap().contains(&pid));
        assert!(scanner.scan().unwrap().contains(&pid), "it is still there");
        // Simulates an ended child that had the number of this process's parent.
        let stranger = stat::read(own_pid()).unwrap().ppid;
        scanner.parents.insert(stranger, own_pid());
        let its_start = stat::read(stranger).unwrap().start_ticks;
        scanner.started.insert(stranger, its_start + 1);
        let found = scanner.scan().unwrap();
        assert!(found.contains(&pid) && !found.contains(&stranger), "{found:?}");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn an_orphan_stays_inside_whenever_its_parent_ends() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id().cast_signed();
        let own_parent = stat::read(own_pid()).unwrap().ppid;
        // The parent has ended before the scan, and its id is free, or belongs to a stranger.
        for ended in [i32::MAX, own_parent] {
            let mut scanner = DescendantScanner::new(own_pid());
            assert!(scanner.scan().unwrap().contains(&pid));
            scanner.parents.extend([(pid, ended), (ended, own_pid())]);
            scanner.started.insert(ended, 0);
            for _ in 0..2 {
                let found = scanner.scan().unwrap();
                assert!(found.contains(&pid) && !found.contains(&ended), "{found:?}");
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn an_outsider_stays_outside_when_the_tree_reuses_the_id_of_its_parent() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id().cast_signed();
        let outsider = stat::read(own_pid()).unwrap().ppid;
        let mut scanner = DescendantScanner::new(own_pid());
        scanner.scan().unwrap();
        // Simulates a former parent of the outsider, whose id the child has now.
        scanner.parents.insert(outsider, pid);
        scanner.parents.remove(&pid);
        scanner.started.clear();
        let found = scanner.scan().unwrap();
        assert!(found.contains(&pid) && !found.contains(&outsider), "{found:?}");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn order_and_cycles() {
        let parents = BTreeMap::from([(2, 1), (3, 2), (4, 2), (5, 9), (1, 3)]);
        let mut found = below(1, &parents);
        assert_eq!(found[0], 2);
        found.sort_unstable();
        assert_eq!(found, [2, 3, 4]);
        assert_eq!(below(9, &parents), [5]);
        assert!(below(77, &parents).is_empty());
    }
}
