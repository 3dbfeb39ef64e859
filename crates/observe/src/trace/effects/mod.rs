//! Effects of a program on the outside world that a second run may not repeat safely.
//!
//! A call is judged when it begins, by the state at that moment, and counted when it succeeds. Files and
//! names that the tree made in this run are its own; files are identified by device and inode. If the tree
//! makes a second name for a user's file, only the name is the tree's. Not seen: writes through descriptors
//! inherited from the caller, what other programs do on request, and what character devices do.

mod beyond;
mod written;

use super::calls::{FlagsArgument, IpcKind, MARKING, SyscallKind, WRITING};
use super::place::PathArgument;
use super::place::{
    self, Identity, Name, NamedFile, identity, is_device, is_lasting, is_memory, viewed_process,
};
use super::reach;
use pagewise_kernel::page_size;
use pagewise_model::look::SideEffect;
use pagewise_tracee::ptrace::read_u64;
use pagewise_tracee::supervise::LookOptions;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use written::WrittenFiles;

/// What will have happened if the call that was seen to begin succeeds.
#[derive(Debug, Clone, Default)]
pub(super) struct CallIntent {
    /// Action and subject, if it is an effect.
    effect: Option<(String, String)>,
    /// A name that becomes the tree's own.
    names: Option<Name>,
    /// A file that becomes the tree's own.
    makes: Option<PathBuf>,
    /// The result is a descriptor of a new file.
    opens_new: bool,
    /// The result is a descriptor of a file that could not be known before.
    opens_unknown: bool,
    /// The result is an object, new unless it is one of these.
    gets: Option<(IpcKind, Vec<i64>)>,
    /// A large file that then is open for reading.
    reads: Option<(Identity, PathBuf)>,
    /// A file that then is open for writing.
    writes: Option<Identity>,
    /// A file of the tree's that then has this name.
    renames: Option<(Identity, PathBuf)>,
    /// The name of a message queue that becomes the tree's own.
    queue: Option<PathBuf>,
    /// The netlink protocol if the result is a netlink socket.
    pub(super) netlink: Option<i32>,
}

impl CallIntent {
    /// To do this to that.
    pub(super) fn on(action: &str, subject: String) -> Self {
        Self { effect: Some((action.to_owned(), subject)), ..Self::default() }
    }
}

/// Effects and the state used to judge them.
#[derive(Debug, Default)]
pub(super) struct TreeEffects {
    scratch: Vec<PathBuf>,
    /// Every id that was a process or a thread of the tree.
    tree: HashSet<i32>,
    made: HashSet<Identity>,
    names: HashSet<Name>,
    queues: HashSet<PathBuf>,
    objects: HashSet<(IpcKind, i64)>,
    found: Vec<SideEffect>,
    reads: BTreeMap<Identity, PathBuf>,
    writes: HashSet<Identity>,
    written: WrittenFiles,
    /// For the supervisor: there is an effect, or a file was opened for writing.
    has_effects: Arc<AtomicBool>,
}

impl TreeEffects {
    pub(super) fn new(look: &LookOptions) -> Self {
        let scratch = look
            .scratch
            .iter()
            .map(|path| std::fs::canonicalize(path).unwrap_or_else(|_| path.clone()))
            .collect();
        Self { scratch, has_effects: Arc::clone(&look.has_effects), ..Self::default() }
    }

    pub(super) fn into_found(self) -> Vec<SideEffect> {
        self.found
    }

    /// The regular files that the tree wrote and left behind.
    pub(super) fn written(&self) -> Vec<String> {
        self.written.left()
    }

    /// The large files that the tree read and neither made nor wrote.
    pub(super) fn inputs(&self) -> Vec<PathBuf> {
        let is_kept = |of: &Identity| !self.made.contains(of) && !self.writes.contains(of);
        self.reads.iter().filter(|(of, _)| is_kept(of)).map(|(_, path)| path.clone()).collect()
    }

    /// Counts the file behind standard input of `pid` as read, if it is a large file.
    pub(super) fn adopt_input(&mut self, pid: i32) {
        self.reads.extend(place::opened(pid, 0).and_then(|place| large_file(&place)));
    }

    /// Process `pid` and its thread `tid` belong to the tree.
    pub(super) fn join(&mut self, tid: i32, pid: i32) {
        self.tree.extend([tid, pid]);
    }

    /// Whether `id` is or was a process or thread of the tree.
    pub(super) fn is_in_tree(&self, id: i32) -> bool {
        self.tree.contains(&id)
    }

    /// The file behind descriptor `fd` of `pid`, its standard output, belongs to the run. Devices are never
    /// its own.
    pub(super) fn adopt_output(&mut self, pid: i32, fd: i32) {
        if place::opened(pid, fd).is_some_and(|place| !place.is_device()) {
            self.adopt(pid, fd);
        }
    }

    /// What descriptor `fd` of `pid` leads to was made by the tree.
    fn adopt(&mut self, pid: i32, fd: i32) {
        let meta = std::fs::metadata(format!("/proc/{pid}/fd/{fd}"));
        self.made.extend(meta.ok().map(|meta| identity(&meta)));
    }

    /// Judges a call that begins; `None` when nothing can follow from it.
    pub(super) fn begin(
        &self,
        tid: i32,
        pid: i32,
        kind: SyscallKind,
        args: &[u64; 6],
        number: i64,
    ) -> Option<CallIntent> {
        match kind {
            SyscallKind::Open(named, flags) => self.begin_open(tid, named, flags, args),
            SyscallKind::OpenHandle => {
                Some(CallIntent { opens_unknown: true, ..CallIntent::default() })
            }
            SyscallKind::Remove(named) => {
                let place = place::named(tid, named, args)?;
                let removed = place.own.as_ref()?;
                let action = if removed.is_dir() { "removed directory" } else { "removed" };
                self.own_effect(action, &place)
            }
            SyscallKind::Rename => self.begin_rename(tid, args, number),
            SyscallKind::Make(named) => Some(make(place::named(tid, named, args)?)),
            SyscallKind::Bind => Some(make(place::of_path(tid, &reach::bound_path(tid, args)?))),
            SyscallKind::Link(named) => {
                let names = place::named(tid, named, args)?.name;
                Some(CallIntent { names, ..CallIntent::default() })
            }
            SyscallKind::Change(named, action) => {
                self.node_effect(action, &place::named(tid, named, args)?)
            }
            SyscallKind::Ioctl if MARKING.contains(&(args[1] as u32)) => {
                self.node_effect("changed attributes of", &place::opened(tid, args[0] as i32)?)
            }
            SyscallKind::ChangeOpen(action) => {
                self.node_effect(action, &place::opened(tid, args[0] as i32)?)
            }
            SyscallKind::Memory => self.begin_map(tid, args),
            _ => self.begin_beyond(tid, pid, kind, args, number),
        }
    }

    /// A call by a table that is not understood, `None` when that is known of `pid` already.
    pub(super) fn begin_foreign(&self, pid: i32) -> Option<CallIntent> {
        self.begin_unseen(pid, FOREIGN_CALLS)
    }

    /// The call came back with `result`.
    pub(super) fn end(&mut self, tid: i32, pid: i32, intent: CallIntent, result: i64) {
        let under_way = result == i64::from(-libc::EINPROGRESS);
        if result < 0 && !under_way {
            return;
        }
        if intent.opens_new {
            self.adopt(tid, result as i32);
        }
        if (intent.opens_new || intent.writes.is_some())
            && let Some(place) = place::opened(tid, result as i32)
            && !self.is_free(&place.led())
        {
            self.written.add(&place);
            self.has_effects.store(true, Ordering::Relaxed);
        }
        if let Some((file, to)) = intent.renames {
            self.written.rename(file, to);
        }
        if let Some(path) = intent.makes {
            let meta = std::fs::symlink_metadata(&path);
            self.made.extend(meta.ok().map(|meta| identity(&meta)));
        }
        self.names.extend(intent.names);
        self.queues.extend(intent.queue);
        self.reads.extend(intent.reads);
        self.writes.extend(intent.writes);
        if let Some((ipc, before)) = intent.gets
            && !before.contains(&result)
        {
            self.objects.insert((ipc, result));
        }
        if intent.opens_unknown
            && let Some(place) = place::opened(tid, result as i32)
            && let Some(CallIntent { effect: Some(effect), .. }) =
                self.target_effect("opened for writing", &place)
        {
            self.note(pid, effect);
        }
        if let Some(effect) = intent.effect {
            self.note(pid, effect);
        }
    }

    fn note(&mut self, pid: i32, (action, subject): (String, String)) {
        self.has_effects.store(true, Ordering::Relaxed);
        let effect = SideEffect { action, subject, pid };
        if !self.found.contains(&effect) {
            self.found.push(effect);
        }
    }

    /// A file that is mapped shared and writable. If the tree opened it for writing, that open was the
    /// effect.
    fn begin_map(&self, tid: i32, args: &[u64; 6]) -> Option<CallIntent> {
        let place = place::opened(tid, args[4] as i32)?;
        let known = self.writes.contains(&identity(place.target.as_ref()?));
        (!known).then(|| self.target_effect("mapped for writing", &place))?
    }

    fn begin_open(
        &self,
        tid: i32,
        named: PathArgument,
        flags: FlagsArgument,
        args: &[u64; 6],
    ) -> Option<CallIntent> {
        let flags = match flags {
            FlagsArgument::Argument(index) => args[index],
            FlagsArgument::Structure => read_u64(tid, args[2]).ok()?,
            FlagsArgument::Creat => WRITING,
        };
        let place = place::named(tid, named, args)?;
        if flags & WRITING == 0 {
            let reads = Some(large_file(&place)?);
            return Some(CallIntent { reads, ..CallIntent::default() });
        }
        let writes = place.target.as_ref().map(identity);
        let intent = self.begin_write(flags, place)?;
        Some(CallIntent { writes, ..intent })
    }

    fn begin_write(&self, flags: u64, place: NamedFile) -> Option<CallIntent> {
        match &place.target {
            None => {
                // A dangling link is an existing name. Its target is new.
                let names = place.name.filter(|_| place.own.is_none());
                Some(CallIntent { opens_new: true, names, ..CallIntent::default() })
            }
            Some(meta) if meta.is_dir() => {
                Some(CallIntent { opens_new: true, ..CallIntent::default() })
            }
            Some(meta) if meta.is_file() && flags & libc::O_TRUNC as u64 != 0 => {
                self.target_effect("truncated", &place)
            }
            Some(_) if flags & (libc::O_WRONLY | libc::O_RDWR) as u64 != 0 => {
                self.target_effect("opened for writing", &place)
            }
            Some(_) => None,
        }
    }

    fn begin_rename(&self, tid: i32, args: &[u64; 6], number: i64) -> Option<CallIntent> {
        let (from, to) = if number == old_rename() {
            (PathArgument::Path, PathArgument::SecondPath)
        } else {
            (PathArgument::At, PathArgument::ThirdAt)
        };
        let (from, to) = (place::named(tid, from, args)?, place::named(tid, to, args)?);
        let mut intent = self
            .own_effect("renamed", &from)
            .or_else(|| self.own_effect("replaced by renaming", &to))
            .unwrap_or_default();
        intent.renames = from.own.as_ref().map(|own| (identity(own), to.shown));
        intent.names = to.name.filter(|_| intent.effect.is_none());
        Some(intent)
    }

    /// The effect on the object with this name itself, unless it is the tree's own.
    fn own_effect(&self, action: &str, place: &NamedFile) -> Option<CallIntent> {
        let own = place.own.as_ref()?;
        let node = if is_device(own) { " the device node" } else { "" };
        let named = place.name.as_ref().is_some_and(|name| self.names.contains(name));
        if named || self.made.contains(&identity(own)) || self.is_free(&place.shown) {
            return None;
        }
        effect(&format!("{action}{node}"), place.shown.display().to_string())
    }

    /// The effect on the metadata of the name's target. A device, pipe or socket has metadata too, if it has
    /// a name.
    fn node_effect(&self, action: &str, place: &NamedFile) -> Option<CallIntent> {
        let target = place.target.as_ref()?;
        if is_lasting(target) || action == TIMES {
            return self.target_effect(action, place);
        }
        let led = place.led();
        let free =
            !led.is_absolute() || self.made.contains(&identity(target)) || self.is_free(&led);
        (!free).then(|| effect(action, led.display().to_string()))?
    }

    /// The effect on the name's target, unless it is the tree's own.
    fn target_effect(&self, action: &str, place: &NamedFile) -> Option<CallIntent> {
        let target = place.target.as_ref()?;
        if self.made.contains(&identity(target)) || !is_lasting(target) {
            return None;
        }
        let led = place.led();
        if is_memory(&led, target) || self.is_free(&led) {
            return None;
        }
        let is_view = viewed_process(&place.shown).is_some();
        let shown = if is_view { &led } else { &place.shown };
        effect(action, shown.display().to_string())
    }

    fn is_free(&self, path: &Path) -> bool {
        viewed_process(path).is_some_and(|pid| self.is_in_tree(pid))
            || self.scratch.iter().any(|prefix| path.starts_with(prefix))
    }
}

/// Said of a change that does not matter to a device, pipe or socket.
const TIMES: &str = "changed the times of";
/// Reported for a process whose calls are not understood.
const FOREIGN_CALLS: &str = "made 32-bit calls, which pagewise cannot trace, in";

#[cfg(target_arch = "x86_64")]
const fn old_rename() -> i64 {
    libc::SYS_rename
}

/// A regular file that is large enough for a huge page, and its path.
fn large_file(place: &NamedFile) -> Option<(Identity, PathBuf)> {
    let target = place.target.as_ref()?;
    let is_large = target.is_file() && target.len() >= page_size::huge().bytes();
    is_large.then(|| (identity(target), place.led()))
}

fn effect(action: &str, subject: String) -> Option<CallIntent> {
    Some(CallIntent::on(action, subject))
}

fn make(place: NamedFile) -> CallIntent {
    CallIntent { names: place.name, makes: Some(place.path), ..CallIntent::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::FileTypeExt;

    fn opens_for_writing(path: &Path) -> Option<CallIntent> {
        let path = [path.as_os_str().as_bytes(), b"\0"].concat();
        let args = [path.as_ptr() as u64, libc::O_WRONLY as u64, 0, 0, 0, 0];
        let kind = SyscallKind::Open(PathArgument::Path, FlagsArgument::Argument(1));
        let pid = std::process::id() as i32;
        TreeEffects::default().begin(pid, pid, kind, &args, libc::SYS_open)
    }

    #[test]
    #[allow(clippy::print_stdout, reason = "a test says why it could not run")]
    fn block_devices_are_written_and_others_are_not() {
        assert!(opens_for_writing(Path::new("/dev/null")).is_none());
        let is_block = |path: &PathBuf| {
            std::fs::metadata(path).is_ok_and(|meta| meta.file_type().is_block_device())
        };
        let mut devices = std::fs::read_dir("/dev").unwrap().flatten().map(|entry| entry.path());
        let Some(device) = devices.find(is_block) else {
            println!("SKIP block_devices_are_written_and_others_are_not: none here");
            return;
        };
        let effect = opens_for_writing(&device).unwrap().effect.unwrap();
        assert_eq!(effect, ("opened for writing".into(), device.display().to_string()));
    }

    #[test]
    fn the_signal_of_a_thread_is_its_third_argument() {
        let mut effects = TreeEffects::default();
        effects.join(7, 7);
        let sends = |number: i64, args: [u64; 6]| {
            let kind = super::super::calls::kind(number).unwrap();
            effects.begin(7, 7, kind, &args, number).is_some()
        };
        for number in [libc::SYS_tgkill, libc::SYS_rt_tgsigqueueinfo] {
            assert!(!sends(number, [8, 9, 0, 15, 0, 0]) && sends(number, [8, 0, 15, 0, 0, 0]));
        }
        assert!(!sends(libc::SYS_tkill, [8, 0, 15, 0, 0, 0]));
    }

    #[test]
    fn objects_of_others_are_not_to_be_removed() {
        let mut effects = TreeEffects::default();
        let gets = Some((IpcKind::Memory, vec![7]));
        effects.end(1, 1, CallIntent { gets: gets.clone(), ..CallIntent::default() }, 7);
        effects.end(1, 1, CallIntent { gets, ..CallIntent::default() }, 8);
        assert!(effects.object_effect(IpcKind::Memory, 7, "removed").is_some());
        assert!(effects.object_effect(IpcKind::Memory, 8, "removed").is_none());
        assert!(effects.object_effect(IpcKind::Semaphores, 8, "removed").is_some());
    }

    #[test]
    fn foreign_calls_are_reported_once() {
        let mut effects = TreeEffects::default();
        let pid = std::process::id() as i32;
        let intent = effects.begin_foreign(pid).unwrap();
        effects.end(pid, pid, intent.clone(), i64::from(-libc::ENOSYS));
        assert!(effects.begin_foreign(pid).is_some());
        effects.end(pid, pid, intent, 0);
        assert!(effects.begin_foreign(pid).is_none());
    }
}
