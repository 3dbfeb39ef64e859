//! Which code is mapped where in each process, and the names of processes.
//!
//! The kernel reports each new executable mapping, but not what is unmapped. A new mapping replaces the ones
//! that begin inside it. A forked process starts with its parent's mappings.

use super::texts::NumberedTexts;
use pagewise_model::fault::event::MapEvent;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Name of a process whose name was not reported.
const NAMELESS: &str = "?";

/// A place in mapped code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CodeLocation {
    /// Number of its path.
    pub path: u32,
    /// Offset in the file; the address if there is no file.
    pub offset: u64,
    /// Process that generated the code at run time; 0 for code of a file.
    pub maker: i32,
}

#[derive(Debug, Clone, Copy)]
struct ExecutableRange {
    end: u64,
    offset: u64,
    path: u32,
    maker: i32,
}

#[derive(Debug, Clone)]
struct SampledProcess {
    name: u32,
    code: Arc<BTreeMap<u64, ExecutableRange>>,
}

/// All processes of a program.
#[derive(Debug, Default)]
pub struct CodeSpaces {
    processes: HashMap<i32, SampledProcess>,
    texts: NumberedTexts,
    /// Mappings of all processes. Those that a child shares with its parent count once.
    ranges: u64,
}

/// Bytes per mapping in a half-full tree; below, per process in the map while it grows.
const RANGE_BYTES: u64 = 96;
const PROCESS_BYTES: u64 = 128;

impl CodeSpaces {
    fn process(&mut self, pid: i32) -> &mut SampledProcess {
        let texts = &mut self.texts;
        self.processes.entry(pid).or_insert_with(|| SampledProcess {
            name: texts.number(NAMELESS),
            code: Arc::default(),
        })
    }

    /// Upper bound for the bytes of memory that this takes.
    #[must_use]
    pub fn kept_bytes(&self) -> u64 {
        let processes = self.processes.len() as u64 * PROCESS_BYTES;
        processes + self.ranges * RANGE_BYTES + self.texts.kept_bytes()
    }

    /// Subtracts code that no process has any more.
    fn uncount(&mut self, code: Arc<BTreeMap<u64, ExecutableRange>>) {
        self.ranges -= Arc::into_inner(code).map_or(0, |code| code.len() as u64);
    }

    /// Sets the name of process `pid`. With `is_exec` it has executed another program, and its code is
    /// dropped.
    pub fn name(&mut self, pid: i32, name: &str, is_exec: bool) {
        let number = self.texts.number(name);
        let process = self.process(pid);
        process.name = number;
        if is_exec {
            let former = std::mem::take(&mut process.code);
            self.uncount(former);
        }
    }

    /// Adds a mapping if it is executable.
    pub fn map(&mut self, map: &MapEvent) {
        if !map.is_executable {
            return;
        }
        // Code that a compiler generated at run time has no file, only an address.
        let is_file = map.path.starts_with('/') && !map.path.starts_with("//");
        let is_named = is_file || map.path.starts_with('[');
        let path = self.texts.number(if is_named { &map.path } else { "" });
        let offset = if is_named { map.offset_bytes.0 } else { map.start_address };
        let end = map.start_address.saturating_add(map.size_bytes.0);
        let maker = if is_named { 0 } else { map.pid };
        let code = &mut self.process(map.pid).code;
        let copied = if Arc::strong_count(code) > 1 { code.len() as u64 } else { 0 };
        let range = ExecutableRange { end, offset, path, maker };
        let is_new = Arc::make_mut(code).insert(map.start_address, range).is_none();
        self.ranges += copied + u64::from(is_new);
    }

    /// Process `parent_pid` has made process `pid`, or a thread of itself.
    pub fn fork(&mut self, pid: i32, parent_pid: i32) {
        if pid != parent_pid {
            let parent = self.process(parent_pid).clone();
            if let Some(former) = self.processes.insert(pid, parent) {
                self.uncount(former.code);
            }
        }
    }

    /// Number of the name of process `pid`.
    pub fn name_of(&mut self, pid: i32) -> u32 {
        self.process(pid).name
    }

    /// The code at `address` of process `pid`; `None` if there is no code.
    #[must_use]
    pub fn code(&self, pid: i32, address: u64) -> Option<CodeLocation> {
        let (start, range) = self.processes.get(&pid)?.code.range(..=address).next_back()?;
        (address < range.end).then(|| CodeLocation {
            path: range.path,
            offset: range.offset.saturating_add(address - start),
            maker: range.maker,
        })
    }

    /// Path and offset of the code at `address` of process `pid`.
    #[must_use]
    pub fn code_at(&self, pid: i32, address: u64) -> Option<(&str, u64)> {
        self.code(pid, address).map(|code| (self.texts.text(code.path), code.offset))
    }

    /// All processes of which anything was reported.
    #[must_use]
    pub fn processes(&self) -> Vec<i32> {
        let mut all: Vec<i32> = self.processes.keys().copied().collect();
        all.sort_unstable();
        all
    }

    /// The text with this number.
    #[must_use]
    pub fn text(&self, number: u32) -> Arc<str> {
        self.texts.get(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::Bytes;

    fn map(pid: i32, start_address: u64, path: &str) -> MapEvent {
        MapEvent {
            pid,
            start_address,
            size_bytes: Bytes(0x1000),
            offset_bytes: Bytes(0x100),
            is_executable: true,
            is_shared: false,
            path: path.to_owned(),
            file: None,
        }
    }

    fn found(spaces: &CodeSpaces, pid: i32, address: u64) -> Option<(Arc<str>, u64)> {
        let code = spaces.code(pid, address)?;
        Some((spaces.text(code.path), code.offset))
    }

    #[test]
    fn a_child_has_its_parents_code_until_it_executes_another_program() {
        let mut spaces = CodeSpaces::default();
        spaces.name(1, "sh", true);
        spaces.map(&map(1, 0x5000, "/bin/sh"));
        spaces.fork(2, 1);
        let in_shell: Option<(Arc<str>, u64)> = Some((Arc::from("/bin/sh"), 0x110));
        assert_eq!(found(&spaces, 2, 0x5010), in_shell);
        spaces.name(2, "cat", true);
        spaces.map(&map(2, 0x9000, "/bin/cat"));
        assert_eq!((found(&spaces, 2, 0x5010), found(&spaces, 1, 0x5010)), (None, in_shell));
        let (first, second) = (spaces.name_of(1), spaces.name_of(2));
        assert_eq!((&*spaces.text(first), &*spaces.text(second)), ("sh", "cat"));
    }

    #[test]
    fn a_mapping_counts_once_until_it_is_copied() {
        let mut spaces = CodeSpaces::default();
        spaces.map(&map(1, 0x5000, "/bin/sh"));
        spaces.map(&map(1, 0x5000, "/bin/sh"));
        for pid in 2..10 {
            spaces.fork(pid, 1);
        }
        assert_eq!(spaces.ranges, 1);
        spaces.map(&map(2, 0x9000, "/lib/own"));
        assert_eq!(spaces.ranges, 1 + 2);
        spaces.name(2, "cat", true);
        assert_eq!(spaces.ranges, 1);
        spaces.fork(2, 3);
        for pid in 1..10 {
            spaces.name(pid, "cat", true);
        }
        assert_eq!(spaces.ranges, 0);
    }

    #[test]
    fn addresses_outside_of_code_are_none() {
        let mut spaces = CodeSpaces::default();
        spaces.map(&map(1, 0x5000, "//anon"));
        spaces.map(&MapEvent { is_executable: false, ..map(1, 0x8000, "/data") });
        assert_eq!(found(&spaces, 1, 0x5008), Some((Arc::from(""), 0x5008)));
        for address in [0, 0x4fff, 0x6000, 0x8000] {
            assert_eq!(found(&spaces, 1, address), None, "{address:x}");
        }
        assert_eq!(found(&spaces, 9, 0x5008), None);
        let nameless = spaces.name_of(9);
        assert_eq!(&*spaces.text(nameless), NAMELESS);
    }
}
