//! How much memory an experiment may take here without harm to other programs.
//!
//! It is the smallest of the available memory of the host (`MemAvailable`) and the remainder in each cgroup
//! above this process, less a fifth. The remainder is `memory.max` or `memory.high` less `memory.current`
//! (v2), or `limit_in_bytes` less `usage_in_bytes` (v1). Inactive file cache counts as free: the kernel drops
//! it before it refuses memory.
//!
//! Not seen: limits of cgroups above a container's view; memory that other programs will take later.

use crate::error::SysError;
use crate::proc::{fields, lines, meminfo, number, own_pid, read_bytes, status};
use pagewise_model::Bytes;
use rustix::process::Resource;
use std::path::{Path, PathBuf};

/// Memory for an experiment, and what limits it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryLimit {
    /// Maximum number of bytes.
    pub bytes: Bytes,
    /// The limiting bound: the available memory of the host, or a cgroup directory.
    pub bound_by: String,
}

impl MemoryLimit {
    /// A sentence that `subject` (`it takes`) is too large; `None` if it is not.
    #[must_use]
    pub fn exceeded(&self, subject: &str, size: Bytes) -> Option<String> {
        let Self { bytes, bound_by } = self;
        (size > *bytes).then(|| format!("{subject} {size}, but {bound_by} leaves only {bytes}"))
    }
}

/// One bound: the memory left under it, before a fifth is subtracted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryHeadroom {
    pub left: Bytes,
    /// Where it was read.
    pub place: String,
}

/// The memory that an experiment may take now.
pub fn experiment_memory() -> Result<MemoryLimit, SysError> {
    Ok(smallest(host()?, cgroup_rooms()))
}

/// Like [`experiment_memory`], for memory of this process itself: its own limits (`RLIMIT_AS`, `RLIMIT_DATA`)
/// count too.
pub fn own_memory() -> Result<MemoryLimit, SysError> {
    let host = host()?;
    let mapped = status::read(own_pid())?.vm_size.unwrap_or_default();
    let mut rooms = cgroup_rooms();
    for (name, resource) in [("RLIMIT_AS", Resource::As), ("RLIMIT_DATA", Resource::Data)] {
        if let Some(limit) = rustix::process::getrlimit(resource).current {
            rooms.push(MemoryHeadroom {
                left: Bytes(limit.saturating_sub(mapped.0)),
                place: name.to_owned(),
            });
        }
    }
    Ok(smallest(host, rooms))
}

/// How much may be read into the page cache, which may have to evict other pages: half of what is left.
pub fn cache_room() -> Result<Bytes, SysError> {
    Ok(Bytes(least(host()?, cgroup_rooms()).left.0 / 2))
}

/// The smallest bound, less a fifth.
#[must_use]
pub fn smallest(host: MemoryHeadroom, cgroups: Vec<MemoryHeadroom>) -> MemoryLimit {
    let least = least(host, cgroups);
    MemoryLimit { bytes: Bytes(least.left.0 / 5 * 4), bound_by: least.place }
}

fn least(host: MemoryHeadroom, cgroups: Vec<MemoryHeadroom>) -> MemoryHeadroom {
    cgroups.into_iter().fold(host, |a, b| if b.left < a.left { b } else { a })
}

fn host() -> Result<MemoryHeadroom, SysError> {
    Ok(MemoryHeadroom { left: meminfo::read()?.available, place: "available memory".to_owned() })
}

fn cgroup_rooms() -> Vec<MemoryHeadroom> {
    let read = |path: &str| read_bytes(path).unwrap_or_default();
    let (own, mounts) = (read("/proc/self/cgroup"), read("/proc/self/mountinfo"));
    let mut rooms = Vec::new();
    for (root, path, files) in memory_cgroups(&own, &mounts) {
        for dir in ancestors(&root, &path) {
            rooms.extend(files.room(&dir));
        }
    }
    rooms
}

/// The directories of this process's cgroup and all above it, nearest first, in each hierarchy that limits
/// memory.
pub(crate) fn memory_groups() -> Vec<(PathBuf, CgroupFiles)> {
    let read = |path: &str| read_bytes(path).unwrap_or_default();
    let found = memory_cgroups(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"));
    let above = |(root, path, files): (PathBuf, PathBuf, CgroupFiles)| {
        ancestors(&root, &path).into_iter().map(move |dir| (dir, files))
    };
    found.into_iter().flat_map(above).collect()
}

/// The directory of this process's cgroup in the version 2 hierarchy.
pub(crate) fn own_group() -> Option<PathBuf> {
    let own = read_bytes("/proc/self/cgroup").ok()?;
    let mounts = read_bytes("/proc/self/mountinfo").ok()?;
    let groups = memory_cgroups(&own, &mounts);
    groups.into_iter().find(|g| g.2 == CgroupFiles::V2).map(|(root, path, _)| root.join(path))
}

/// The files in which one version of cgroups keeps its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CgroupFiles {
    V1,
    V2,
}

impl CgroupFiles {
    /// The file that contains the limit.
    pub(crate) const fn limit(self) -> &'static str {
        match self {
            Self::V1 => "memory.limit_in_bytes",
            Self::V2 => "memory.max",
        }
    }

    fn room(self, dir: &Path) -> Option<MemoryHeadroom> {
        let value = |file: &str| parse_limit(&read_bytes(dir.join(file)).ok()?);
        let (limit, used) = match self {
            Self::V2 => {
                let limits = [value(self.limit()), value("memory.high")];
                (limits.into_iter().flatten().min()?, value("memory.current")?)
            }
            Self::V1 => (value(self.limit())?, value("memory.usage_in_bytes")?),
        };
        let reclaimable = read_bytes(dir.join("memory.stat")).map_or(0, |s| inactive_file(&s));
        let left = limit.saturating_sub(used.saturating_sub(reclaimable));
        Some(MemoryHeadroom { left: Bytes(left), place: dir.display().to_string() })
    }
}

/// A limit in bytes; `None` for `max` and for the page-rounded 2^63 of v1.
fn parse_limit(text: &[u8]) -> Option<u64> {
    number(text.trim_ascii()).filter(|&n: &u64| n < 1 << 62)
}

fn inactive_file(stat: &[u8]) -> u64 {
    let value = |name: &[u8]| {
        lines(stat).find_map(|line| {
            let mut parts = fields(line);
            if parts.next()? == name { number(parts.next()?) } else { None }
        })
    };
    value(b"total_inactive_file").or_else(|| value(b"inactive_file")).unwrap_or(0)
}

/// Mount point, path below it and version of each hierarchy that may limit the memory of this process.
fn memory_cgroups(own: &[u8], mountinfo: &[u8]) -> Vec<(PathBuf, PathBuf, CgroupFiles)> {
    let mut found = Vec::new();
    for line in lines(own) {
        let text = String::from_utf8_lossy(line);
        let mut parts = text.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let files = match controllers {
            "" => CgroupFiles::V2,
            list if list.split(',').any(|c| c == "memory") => CgroupFiles::V1,
            _ => continue,
        };
        let below = PathBuf::from(path.trim_start_matches('/'));
        found.extend(mount_point(mountinfo, files).map(|root| (root, below, files)));
    }
    found
}

fn mount_point(mountinfo: &[u8], files: CgroupFiles) -> Option<PathBuf> {
    lines(mountinfo).find_map(|line| {
        let text = String::from_utf8_lossy(line);
        let (left, right) = text.split_once(" - ")?;
        let mut kind = right.split(' ');
        let matches = match files {
            CgroupFiles::V2 => kind.next()? == "cgroup2",
            CgroupFiles::V1 => {
                kind.next()? == "cgroup" && kind.nth(1)?.split(',').any(|o| o == "memory")
            }
        };
        matches.then(|| left.split(' ').nth(4).map(PathBuf::from)).flatten()
    })
}

/// `root/path` and every directory above it up to `root`.
fn ancestors(root: &Path, path: &Path) -> Vec<PathBuf> {
    path.ancestors().map(|p| root.join(p)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MOUNTS: &[u8] =
        b"35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:4 - cgroup2 cgroup2 rw\n";

    fn room(left: Bytes, place: &str) -> MemoryHeadroom {
        MemoryHeadroom { left, place: place.to_owned() }
    }

    #[test]
    fn the_least_binds_and_a_fifth_stays() {
        let host = room(Bytes::mib(1000), "host");
        assert_eq!(smallest(host.clone(), vec![]).bytes, Bytes::mib(800));
        let limit = smallest(host, vec![room(Bytes::mib(500), "/a"), room(Bytes::mib(900), "/b")]);
        assert_eq!(limit, MemoryLimit { bytes: Bytes::mib(400), bound_by: "/a".to_owned() });
    }

    #[test]
    fn both_versions_are_found() {
        let own = b"4:memory:/a/b\n3:cpuset:/\n0::/c\n";
        let found = memory_cgroups(own, MOUNTS);
        assert_eq!(found[0], ("/sys/fs/cgroup/memory".into(), "a/b".into(), CgroupFiles::V1));
        assert_eq!(found[1], ("/sys/fs/cgroup/unified".into(), "c".into(), CgroupFiles::V2));
        let dirs = ancestors(&found[0].0, &found[0].1);
        assert_eq!(dirs.len(), 3);
        assert_eq!(dirs[0], Path::new("/sys/fs/cgroup/memory/a/b"));
    }

    #[test]
    fn limits_and_reclaimable_cache() {
        let dir = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| std::fs::write(dir.path().join(file), text).unwrap();
        write("memory.max", "max\n");
        write("memory.current", "600\n");
        assert_eq!(CgroupFiles::V2.room(dir.path()), None);
        write("memory.high", "1000\n");
        write("memory.stat", "anon 1\ninactive_file 100\n");
        assert_eq!(CgroupFiles::V2.room(dir.path()).unwrap().left, Bytes(500));
        write("memory.limit_in_bytes", "9223372036854771712\n");
        write("memory.usage_in_bytes", "600\n");
        assert_eq!(CgroupFiles::V1.room(dir.path()), None);
    }

    #[test]
    fn this_machine_leaves_something() {
        let limit = experiment_memory().unwrap();
        let info = meminfo::read().unwrap();
        assert!(limit.bytes > Bytes(0) && limit.bytes < info.total, "{limit:?}");
        let cache = cache_room().unwrap();
        assert!(cache > Bytes(0) && cache.0 <= info.total.0 / 2, "{cache:?}");
        let own = own_memory().unwrap();
        assert!(own.bytes < info.total, "{own:?}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_accepted(own: Vec<u8>, mounts: Vec<u8>) {
            let _ = memory_cgroups(&own, &mounts);
            let _ = inactive_file(&own);
        }
    }
}
