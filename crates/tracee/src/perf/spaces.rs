//! Which code a process has mapped where, and what it is called.
//!
//! The kernel tells of each executable mapping that is made, not of what is unmapped: a new one
//! replaces what it begins in. A forked process has its parent's.

use super::texts::Texts;
use pagewise_model::fault::event::Map;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Name of a process of which none was told.
const NAMELESS: &str = "?";

/// Code of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code {
    /// Number of its path.
    pub path: u32,
    /// Where in the file; the address where there is none.
    pub offset: u64,
    /// Process that made it as it ran; 0 for the code of a file.
    pub maker: i32,
}

#[derive(Debug, Clone, Copy)]
struct Range {
    end: u64,
    offset: u64,
    path: u32,
    maker: i32,
}

#[derive(Debug, Clone)]
struct Process {
    name: u32,
    code: Arc<BTreeMap<u64, Range>>,
}

/// All processes of a program.
#[derive(Debug, Default)]
pub struct Spaces {
    processes: HashMap<i32, Process>,
    texts: Texts,
    /// Of all processes, those that a child has in common with its parent once.
    ranges: u64,
}

/// What a mapping takes in a tree that is half full, and a process in the map while it grows.
const RANGE_BYTES: u64 = 96;
const PROCESS_BYTES: u64 = 128;

impl Spaces {
    fn process(&mut self, pid: i32) -> &mut Process {
        let texts = &mut self.texts;
        self.processes
            .entry(pid)
            .or_insert_with(|| Process { name: texts.number(NAMELESS), code: Arc::default() })
    }

    /// Bytes of memory that all this takes, at most.
    #[must_use]
    pub fn kept_bytes(&self) -> u64 {
        let processes = self.processes.len() as u64 * PROCESS_BYTES;
        processes + self.ranges * RANGE_BYTES + self.texts.kept_bytes()
    }

    /// Code that nobody has any more is no longer counted.
    fn uncount(&mut self, code: Arc<BTreeMap<u64, Range>>) {
        self.ranges -= Arc::into_inner(code).map_or(0, |code| code.len() as u64);
    }

    /// Process `pid` has this name; it is another program if it has executed one.
    pub fn name(&mut self, pid: i32, name: &str, is_exec: bool) {
        let number = self.texts.number(name);
        let process = self.process(pid);
        process.name = number;
        if is_exec {
            let former = std::mem::take(&mut process.code);
            self.uncount(former);
        }
    }

    /// A mapping was made; only what may be executed counts.
    pub fn map(&mut self, map: &Map) {
        if !map.is_executable {
            return;
        }
        // Code that a compiler made at run time has no file, and its address is all there is.
        let is_file = map.path.starts_with('/') && !map.path.starts_with("//");
        let is_named = is_file || map.path.starts_with('[');
        let path = self.texts.number(if is_named { &map.path } else { "" });
        let offset = if is_named { map.offset_bytes.0 } else { map.start_address };
        let end = map.start_address.saturating_add(map.size_bytes.0);
        let maker = if is_named { 0 } else { map.pid };
        let code = &mut self.process(map.pid).code;
        let copied = if Arc::strong_count(code) > 1 { code.len() as u64 } else { 0 };
        let range = Range { end, offset, path, maker };
        let is_new = Arc::make_mut(code).insert(map.start_address, range).is_none();
        self.ranges += copied + u64::from(is_new);
    }

    /// Process `parent_pid` has made process `pid`, or a thread of its own.
    pub fn fork(&mut self, pid: i32, parent_pid: i32) {
        if pid != parent_pid {
            let parent = self.process(parent_pid).clone();
            if let Some(former) = self.processes.insert(pid, parent) {
                self.uncount(former.code);
            }
        }
    }

    /// The number of the name of process `pid`.
    pub fn name_of(&mut self, pid: i32) -> u32 {
        self.process(pid).name
    }

    /// The code at `address` of process `pid`; `None` where there is none.
    #[must_use]
    pub fn code(&self, pid: i32, address: u64) -> Option<Code> {
        let (start, range) = self.processes.get(&pid)?.code.range(..=address).next_back()?;
        (address < range.end).then(|| Code {
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

    /// All of which something was told.
    #[must_use]
    pub fn processes(&self) -> Vec<i32> {
        let mut all: Vec<i32> = self.processes.keys().copied().collect();
        all.sort_unstable();
        all
    }

    /// The text of a number.
    #[must_use]
    pub fn text(&self, number: u32) -> Arc<str> {
        self.texts.get(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::Bytes;

    fn map(pid: i32, start_address: u64, path: &str) -> Map {
        Map {
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

    fn found(spaces: &Spaces, pid: i32, address: u64) -> Option<(Arc<str>, u64)> {
        let code = spaces.code(pid, address)?;
        Some((spaces.text(code.path), code.offset))
    }

    #[test]
    fn a_child_has_its_parents_code_until_it_executes_another_program() {
        let mut spaces = Spaces::default();
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
        let mut spaces = Spaces::default();
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
        let mut spaces = Spaces::default();
        spaces.map(&map(1, 0x5000, "//anon"));
        spaces.map(&Map { is_executable: false, ..map(1, 0x8000, "/data") });
        assert_eq!(found(&spaces, 1, 0x5008), Some((Arc::from(""), 0x5008)));
        for address in [0, 0x4fff, 0x6000, 0x8000] {
            assert_eq!(found(&spaces, 1, address), None, "{address:x}");
        }
        assert_eq!(found(&spaces, 9, 0x5008), None);
        let nameless = spaces.name_of(9);
        assert_eq!(&*spaces.text(nameless), NAMELESS);
    }
}
