//! First calls that a program recorded itself: it was compiled with `-finstrument-functions` and linked with
//! [`SOURCE`], which documents the file format in its structures.
//!
//! The file contains the addresses of functions in the order of their first calls, and the file mapped at
//! each range that contains them. Program headers turn these places into addresses, which become names as in
//! a recording. A file that is another build than the one that ran has another build identifier, and is
//! refused. Not seen: a library that replaced another one after that was unloaded.

use super::record::is_named;
use super::starts::{code, function_count, names};
use crate::segments::MappedSegments;
use object::ReadCache;
use pagewise_kernel::file_view::{open_regular, read_at_most};
use pagewise_model::first_calls::{CallRecord, CallSource, CalledObject, FirstCall};
use pagewise_model::{Bytes, Nanos};
use pagewise_tracee::read_ahead::build_id;
use std::collections::HashSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The source that a program is linked with: C or C++.
pub const SOURCE: &str = include_str!("hooks.c");

/// The file format, as [`SOURCE`] defines it. Offsets and lengths are in bytes.
mod form {
    pub(super) const MAGIC: &[u8] = b"pagewise calls 1";
    pub(super) const MODULES_USED: usize = 20;
    pub(super) const CALLS_USED: usize = 24;
    pub(super) const COMMAND: std::ops::Range<usize> = 40..552;
    pub(super) const MODULES: usize = 256;
    pub(super) const MODULE: usize = 1088;
    pub(super) const CALLS: usize = 1 << 19;
    pub(super) const CALL: usize = 24;
    pub(super) const FIRST_MODULE: usize = COMMAND.end;
    pub(super) const FIRST_CALL: usize = FIRST_MODULE + MODULES * MODULE;
    pub(super) const WHOLE: usize = FIRST_CALL + CALLS * CALL;
}

/// Why first calls cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    /// The list, or a program that it names.
    #[error("cannot read `{0}`: {1}")]
    Unreadable(String, String),
    /// It is another file.
    #[error("`{0}` is not a list written by a program with hooks")]
    NotCalls(String),
    /// It is not the program that ran.
    #[error("`{0}` has changed since the run that wrote the list")]
    Changed(String),
}

/// The first calls in `lists`, one after the other. If `only` is not empty, only those of the files in it.
///
/// # Errors
/// [`HookError`] if a list or a program cannot be read, or is a different build.
pub fn read_hooks(lists: &[PathBuf], only: &[String]) -> Result<CallRecord, HookError> {
    let (mut objects, mut left_out, mut command) = (Vec::<HookedObject>::new(), 0, Vec::new());
    for path in lists {
        let list = HookList::read(path)?;
        left_out += list.place(only, &mut objects);
        if command.is_empty() {
            command = list.command();
        }
    }
    let objects = objects.into_iter().map(HookedObject::named).collect::<Result<_, HookError>>()?;
    Ok(CallRecord { command, source: CallSource::Hooks, left_out, objects })
}

/// A list as it was written.
struct HookList(Vec<u8>);

/// Part of a file that was mapped.
struct HookedModule {
    memory: Range<u64>,
    offset: u64,
    build_id: String,
    path: String,
}

/// The called functions of one file: offset in it, time and process.
struct HookedObject {
    path: String,
    build_id: String,
    called: Vec<(u64, Nanos, i32)>,
    seen: HashSet<u64>,
}

impl HookList {
    fn read(path: &Path) -> Result<Self, HookError> {
        let shown = path.display().to_string();
        let bytes = read_at_most(path, Bytes(form::WHOLE as u64))
            .map_err(|error| HookError::Unreadable(shown.clone(), error.source.to_string()))?;
        match bytes.len() == form::WHOLE && bytes.starts_with(form::MAGIC) {
            true => Ok(Self(bytes)),
            false => Err(HookError::NotCalls(shown)),
        }
    }

    fn command(&self) -> Vec<String> {
        let text = self.0.get(form::COMMAND).unwrap_or_default();
        let words = text.split(|byte| *byte == 0).take_while(|word| !word.is_empty());
        words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
    }

    fn number(&self, at: usize) -> u32 {
        let bytes = self.0.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u32::from_le_bytes)
    }

    fn word(&self, at: usize) -> u64 {
        u64::from(self.number(at)) | u64::from(self.number(at + 4)) << 32
    }

    fn modules(&self) -> Vec<HookedModule> {
        let used = (self.number(form::MODULES_USED) as usize).min(form::MODULES);
        let places = (0..used).map(|at| form::FIRST_MODULE + at * form::MODULE);
        let ready = places.filter(|at| self.number(at + 24) == 1);
        let module = |at: usize| {
            let id = at + 32..at + 32 + (self.number(at + 28) as usize).min(32);
            let id = self.0.get(id).unwrap_or_default();
            let path = self.0.get(at + 64..at + form::MODULE).unwrap_or_default();
            let path = path.split(|byte| *byte == 0).next().unwrap_or_default();
            HookedModule {
                memory: self.word(at)..self.word(at + 8),
                offset: self.word(at + 16),
                build_id: id.iter().map(|byte| format!("{byte:02x}")).collect(),
                path: String::from_utf8_lossy(path).into_owned(),
            }
        };
        ready.map(module).collect()
    }

    /// Adds calls to the files that contain them. Returns the number of calls in no file.
    fn place(&self, only: &[String], objects: &mut Vec<HookedObject>) -> u64 {
        let modules = self.modules();
        let used = self.number(form::CALLS_USED) as usize;
        let mut unplaced = used.saturating_sub(form::CALLS) as u64;
        let is_wanted =
            |path: &str| only.is_empty() || only.iter().any(|name| is_named(name, Path::new(path)));
        for at in (0..used.min(form::CALLS)).map(|at| form::FIRST_CALL + at * form::CALL) {
            let (function, ns) = (self.word(at), self.word(at + 8));
            let (pid, is_ready) = (self.number(at + 16) as i32, self.number(at + 20) == 1);
            let module = modules.iter().find(|m| is_ready && m.memory.contains(&function));
            match module {
                Some(module) if is_wanted(&module.path) => {
                    let offset = function - module.memory.start + module.offset;
                    HookedObject::of(module, objects).call(offset, Nanos(ns), pid);
                }
                Some(_) => {}
                None => unplaced += 1,
            }
        }
        unplaced
    }
}

impl HookedObject {
    fn of<'a>(module: &HookedModule, objects: &'a mut Vec<Self>) -> &'a mut Self {
        let known = objects.iter().position(|object| object.path == module.path);
        let at = known.unwrap_or_else(|| {
            objects.push(Self {
                path: module.path.clone(),
                build_id: module.build_id.clone(),
                called: Vec::new(),
                seen: HashSet::new(),
            });
            objects.len() - 1
        });
        &mut objects[at]
    }

    fn call(&mut self, offset: u64, at: Nanos, pid: i32) {
        if self.seen.insert(offset) {
            self.called.push((offset, at, pid));
        }
    }

    /// The same with the names that the file has now.
    fn named(self) -> Result<CalledObject, HookError> {
        let unreadable = |why: String| HookError::Unreadable(self.path.clone(), why);
        let (file, _length) = open_regular(Path::new(&self.path))
            .map_err(|error| unreadable(error.source.to_string()))?;
        if !self.build_id.is_empty() && build_id(&file).as_ref() != Some(&self.build_id) {
            return Err(HookError::Changed(self.path.clone()));
        }
        let cache = ReadCache::new(&file);
        let elf = object::File::parse(&cache).map_err(|error| unreadable(error.to_string()))?;
        let segments = MappedSegments::from_elf(&elf);
        let address = |offset: u64| segments.address(offset).unwrap_or(offset);
        let addresses: Vec<u64> = self.called.iter().map(|(at, ..)| address(*at)).collect();
        let named = names(&file, &addresses).into_iter().zip(&addresses);
        let calls = named.zip(&self.called).map(|(((name, bytes), address), (_, at_ns, pid))| {
            FirstCall { name, address: *address, bytes, at_ns: *at_ns, pid: *pid }
        });
        let calls = calls.collect();
        let (functions, code) = (function_count(&elf), code(&elf));
        Ok(CalledObject { path: self.path, functions, code, calls })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
        bytes[at..at + value.len()].copy_from_slice(value);
    }

    /// A list of these calls, all mapped from `path` at 0x10000.
    fn list(path: &Path, build_id: &[u8], calls: &[u64]) -> Vec<u8> {
        let mut bytes = vec![0; form::WHOLE];
        put(&mut bytes, 0, form::MAGIC);
        put(&mut bytes, form::MODULES_USED, &2_u32.to_le_bytes());
        put(&mut bytes, form::CALLS_USED, &(calls.len() as u32).to_le_bytes());
        put(&mut bytes, form::COMMAND.start, b"app\0--version\0");
        // The first module was never completed.
        let at = form::FIRST_MODULE + form::MODULE;
        put(&mut bytes, at, &0x10000_u64.to_le_bytes());
        put(&mut bytes, at + 8, &0x90000_u64.to_le_bytes());
        put(&mut bytes, at + 24, &1_u32.to_le_bytes());
        put(&mut bytes, at + 28, &(build_id.len() as u32).to_le_bytes());
        put(&mut bytes, at + 32, build_id);
        put(&mut bytes, at + 64, path.to_str().unwrap().as_bytes());
        for (number, function) in calls.iter().enumerate() {
            let at = form::FIRST_CALL + number * form::CALL;
            put(&mut bytes, at, &function.to_le_bytes());
            put(&mut bytes, at + 16, &7_u32.to_le_bytes());
            put(&mut bytes, at + 20, &1_u32.to_le_bytes());
        }
        bytes
    }

    fn read(bytes: &[u8], only: &[String]) -> Result<CallRecord, HookError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("calls");
        std::fs::write(&path, bytes).unwrap();
        read_hooks(&[path.clone(), path], only)
    }

    #[test]
    fn calls_are_placed_once_in_their_order_and_the_rest_is_counted() {
        let own = std::env::current_exe().unwrap();
        let calls = [0x30000, 0x10040, 0x30000, 0xa0000];
        let seen = read(&list(&own, &[], &calls), &[]).unwrap();
        assert_eq!(seen.command, ["app", "--version"]);
        let [object] = &seen.objects[..] else { panic!("{seen:?}") };
        assert_eq!((object.calls.len(), seen.left_out), (2, 2));
        assert_eq!((object.calls[1].address, object.calls[1].pid), (0x40, 7));
        assert!(object.functions > 100 && object.path == own.to_str().unwrap());
        let other = read(&list(&own, &[], &calls), &["elsewhere".to_owned()]).unwrap();
        assert!(other.objects.is_empty() && other.left_out == 2, "{other:?}");
    }

    #[test]
    fn a_program_that_became_a_fifo_is_not_waited_for() {
        let place = tempfile::tempdir().unwrap();
        let fifo = crate::bounded::fifo(place.path(), "app");
        let list = list(&fifo, &[], &[0x10040]);
        let why = crate::bounded::soon(move || read(&list, &[]).unwrap_err().to_string());
        assert_eq!(why, format!("cannot read `{}`: not a regular file", fifo.display()));
    }

    #[test]
    fn another_build_and_another_file_are_refused() {
        let own = std::env::current_exe().unwrap();
        let changed = read(&list(&own, &[1; 20], &[0x10040]), &[]);
        assert!(matches!(changed, Err(HookError::Changed(_))), "{changed:?}");
        let gone = read(&list(Path::new("/nonexistent/app"), &[], &[0x10040]), &[]);
        assert!(matches!(gone, Err(HookError::Unreadable(..))), "{gone:?}");
        assert!(matches!(read(b"pagewise calls 1", &[]), Err(HookError::NotCalls(_))));
        assert!(matches!(read(&[0; form::WHOLE], &[]), Err(HookError::NotCalls(_))));
    }
}
