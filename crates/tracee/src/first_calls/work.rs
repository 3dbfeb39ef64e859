//! The work on each program of a traced tree: setting breakpoints, handling hits, removing breakpoints.

use super::code_x86_64::{BREAK, at, met};
use super::object::{HEAD, ObjectFunctions};
use super::pins::CpuPins;
use super::space::{BreakpointSpace, CodeMapping};
use super::trap::{Action, SigtrapState};
use super::{CodeFile, FindStarts, FirstCallHit, FirstCalls};
use crate::elf::{self, Key};
use crate::follow::{NewThread, TraceWork, ignore_gone};
use crate::mapped_file;
use crate::ptrace::{Regs, read_memory, request};
use pagewise_kernel::clock;
use pagewise_kernel::file_view::open_regular;
use pagewise_kernel::proc::maps::{self, Mapping};
use pagewise_model::Nanos;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// `si_code` of signals that the processor causes, including `int3`.
const FROM_KERNEL: i32 = 0x80;

/// Memory shared by one or more processes.
type Shared = Rc<RefCell<BreakpointSpace>>;

/// A call whose exit is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AwaitedCall {
    /// Maps executable memory.
    Map,
    /// Makes memory executable.
    Protect,
    /// Chooses the CPUs of a thread.
    Choose { thread: i32 },
    /// Reads the CPUs of a thread that is pinned to the tracer's CPU.
    Ask,
    /// Sets the action of SIGTRAP.
    Act(Action),
    /// May change which signals are blocked.
    Mask,
}

/// Code of a file in memory.
#[derive(Debug)]
struct LoadedCode<'a> {
    file: &'a File,
    path: &'a Path,
    is_executable: bool,
    memory: Range<u64>,
    offset: u64,
}

pub(super) struct FirstCallRecorder<'a, 'b> {
    root: i32,
    starts: &'a mut FindStarts<'b>,
    began: Option<Nanos>,
    /// Address spaces by process id.
    spaces: HashMap<i32, Shared>,
    objects: Vec<ObjectFunctions>,
    /// Index among the objects, by file.
    known: HashMap<Key, usize>,
    /// Files that are not wanted, by file, whether it is the executable of its process, and whether the
    /// process is the first.
    unwanted: HashSet<(Key, bool, bool)>,
    calls: Vec<FirstCallHit>,
    traps: SigtrapState,
    pins: CpuPins,
}

impl<'a, 'b> FirstCallRecorder<'a, 'b> {
    /// Starts for the tree of `root`, which has not run yet.
    pub(super) fn new(root: i32, starts: &'a mut FindStarts<'b>) -> Self {
        Self {
            root,
            starts,
            began: None,
            spaces: HashMap::new(),
            objects: Vec::new(),
            known: HashMap::new(),
            unwanted: HashSet::new(),
            calls: Vec::new(),
            traps: SigtrapState::default(),
            pins: CpuPins::new(root),
        }
    }

    pub(super) fn finish(self) -> FirstCalls {
        let object = |object: ObjectFunctions| {
            let functions = object.len();
            (object.path, functions)
        };
        FirstCalls { objects: self.objects.into_iter().map(object).collect(), calls: self.calls }
    }

    /// Calls `what` for all code that process `pid` has mapped from files within `memory`.
    fn each_code(
        &mut self,
        pid: i32,
        memory: &Range<u64>,
        what: &mut dyn FnMut(&mut Self, LoadedCode<'_>),
    ) {
        let Ok(maps) = maps::read(pid) else { return };
        let is_code = |mapping: &&Mapping| {
            let inside = memory.start < mapping.end && mapping.start < memory.end;
            inside && mapping.is_file() && mapping.perms.exec && !mapping.perms.shared
        };
        let key = |meta: &fs::Metadata| (meta.dev(), meta.ino());
        let exe = fs::metadata(format!("/proc/{pid}/exe")).ok().as_ref().map(key);
        for mapping in maps.iter().filter(is_code) {
            let Ok(file) = mapped_file::open(pid, mapping) else { continue };
            let is_executable = exe.is_some() && file.metadata().ok().as_ref().map(key) == exe;
            let (memory, offset) = (mapping.start..mapping.end, mapping.offset);
            let path = Path::new(&mapping.path);
            what(self, LoadedCode { file: &file, path, is_executable, memory, offset });
        }
    }

    /// Sets breakpoints in all code that process `pid` has mapped from files within `memory`.
    fn arm_all(&mut self, pid: i32, memory: &Range<u64>) {
        let Some(space) = self.space(pid) else { return };
        self.each_code(pid, memory, &mut |recorder, code| recorder.arm(&space, code));
    }

    /// Process `pid` was forked, but from which memory is unknown.
    fn adopt(&mut self, pid: i32) {
        let Ok(space) = BreakpointSpace::open(pid, false) else { return };
        let space = Rc::new(RefCell::new(space));
        self.each_code(pid, &(0..u64::MAX), &mut |recorder, code| {
            let key = code.file.metadata().ok().map(|meta| elf::key(&meta));
            if let Some(object) = key.and_then(|key| recorder.known.get(&key)) {
                let LoadedCode { memory, offset, .. } = code;
                space.borrow_mut().adopt(CodeMapping { memory, offset, object: *object });
            }
        });
        self.spaces.insert(pid, space);
    }

    fn space(&self, pid: i32) -> Option<Shared> {
        self.spaces.get(&pid).cloned()
    }

    /// Sets breakpoints in code if those of its file are wanted and not set yet.
    fn arm(&mut self, space: &Shared, code: LoadedCode<'_>) {
        let is_first = space.borrow().is_first;
        if let Some(object) = self.object(&code, is_first) {
            let LoadedCode { memory, offset, .. } = code;
            let region = CodeMapping { memory, offset, object };
            if space.borrow().covers(&region) {
                return;
            }
            // A process killed meanwhile has no memory left.
            ignore_gone(space.borrow_mut().arm(region, &mut self.objects[object]));
        }
    }

    /// Index of a file among those whose functions are wanted.
    fn object(&mut self, code: &LoadedCode<'_>, is_first: bool) -> Option<usize> {
        let key = elf::key(&code.file.metadata().ok()?);
        let asked = (key, code.is_executable, is_first);
        if self.known.contains_key(&key) || self.unwanted.contains(&asked) {
            return self.known.get(&key).copied();
        }
        let LoadedCode { file, path, is_executable, .. } = *code;
        let Some(starts) = (self.starts)(&CodeFile { file, path, is_executable, is_first }) else {
            self.unwanted.insert(asked);
            return None;
        };
        self.objects.push(ObjectFunctions::new(path.to_owned(), starts));
        self.known.insert(key, self.objects.len() - 1);
        Some(self.objects.len() - 1)
    }

    /// A mapping was made, of code from a file or of something else.
    fn mapped(&mut self, pid: i32, regs: &Regs) {
        let memory = regs.rax..regs.rax.saturating_add(regs.rsi);
        let Some(space) = self.space(pid) else { return };
        space.borrow_mut().forget(&memory);
        let flags = regs.r10 as i32;
        let is_private = flags & libc::MAP_TYPE == libc::MAP_PRIVATE;
        if flags & libc::MAP_ANONYMOUS != 0 || !is_private {
            return;
        }
        let link = PathBuf::from(format!("/proc/{pid}/fd/{}", regs.r8 as i32));
        if let (Ok((file, _)), Ok(path)) = (open_regular(&link), fs::read_link(&link)) {
            let (file, path) = (&file, path.as_path());
            let code = LoadedCode { file, path, is_executable: false, memory, offset: regs.r9 };
            self.arm(&space, code);
        }
    }

    /// Memory was made executable: code of a file, or code that the program generated.
    fn protected(&mut self, pid: i32, regs: &Regs) {
        let memory = regs.rdi..regs.rdi.saturating_add(regs.rsi);
        let (Some(space), Ok(maps)) = (self.space(pid), maps::read(pid)) else { return };
        for made in maps.iter().filter(|mapping| !mapping.is_file()) {
            space.borrow_mut().forget(&(made.start.max(memory.start)..made.end.min(memory.end)));
        }
        self.arm_all(pid, &memory);
    }

    /// Handles a thread that hit a breakpoint. Returns the signal to resume it with; `None` if the breakpoint
    /// is the program's own. `pending` is the signal that was delivered in place of the breakpoint's, or 0.
    fn meet(&mut self, tid: i32, pid: i32, pending: i32) -> Option<i32> {
        let regs = request::get_regs(tid).ok()?;
        let address = met(&regs);
        if pending != 0 && !is_at_break(pid, &regs) {
            return None;
        }
        let space = self.space(pid)?;
        let place = space.borrow().find(address);
        let function = place.and_then(|(object, offset)| {
            let (place, byte) = self.objects[object].at(offset)?;
            Some((object, offset, place, byte))
        });
        let byte = match function {
            Some((.., byte)) => byte,
            None => self.copied(pid, address)?,
        };
        // Another thread may have hit it at the same time, so the byte is written again.
        space.borrow().write(address, &[byte]).ok()?;
        let regs = at(&regs, address);
        request::set_regs(tid, &regs).ok()?;
        let signal = self.traps.put_back(tid, pid, &regs, pending).unwrap_or(pending);
        if let Some((object, offset, place, _)) = function
            && self.objects[object].call(place)
        {
            let began = self.began.unwrap_or_default();
            let at_ns = Nanos(clock::now().0.saturating_sub(began.0));
            self.calls.push(FirstCallHit { object, offset, at_ns, pid });
        }
        Some(signal)
    }

    /// The original byte at `address`, in code that the program copied together with a breakpoint.
    fn copied(&self, pid: i32, address: u64) -> Option<u8> {
        let mut code = [BREAK; HEAD];
        read_memory(pid, address, &mut code).ok()?;
        let all = || self.objects.iter().flat_map(|object| object.copied(&code));
        let likest = all().map(|copied| copied.bytes).max()?;
        let mut bytes = all().filter(|copied| copied.bytes == likest).map(|copied| copied.first);
        let byte = bytes.next()?;
        // Functions that differ only in this byte are ambiguous: no result.
        bytes.all(|other| other == byte).then_some(byte)
    }
}

impl TraceWork for FirstCallRecorder<'_, '_> {
    type Call = AwaitedCall;

    fn begin(&mut self, new: NewThread) {
        self.traps.begin(&new);
        self.pins.begin(&new);
        if new.tid != new.pid {
            return;
        }
        let Some(birth) = new.birth else { return self.adopt(new.pid) };
        let Some(maker) = self.space(birth.maker) else { return };
        if birth.shares_memory {
            self.spaces.insert(new.pid, maker);
            return;
        }
        let copy = maker.borrow().copy(new.pid);
        if let Ok(space) = copy {
            self.spaces.insert(new.pid, Rc::new(RefCell::new(space)));
        }
    }

    fn executed(&mut self, pid: i32) -> Option<AwaitedCall> {
        self.spaces.remove(&pid);
        self.began.get_or_insert_with(clock::now);
        self.traps.executed(pid);
        self.pins.executed(pid);
        if let Ok(space) = BreakpointSpace::open(pid, pid == self.root) {
            self.spaces.insert(pid, Rc::new(RefCell::new(space)));
            self.arm_all(pid, &(0..u64::MAX));
        }
        None
    }

    fn entered(&mut self, tid: i32, pid: i32) -> Option<AwaitedCall> {
        let regs = request::get_regs(tid).ok()?;
        match regs.orig_rax as i64 {
            libc::SYS_mmap => Some(AwaitedCall::Map),
            libc::SYS_mprotect | libc::SYS_pkey_mprotect => Some(AwaitedCall::Protect),
            libc::SYS_sched_setaffinity => Some(AwaitedCall::Choose { thread: meant(&regs, tid) }),
            libc::SYS_sched_getaffinity => {
                self.pins.is_held(meant(&regs, tid)).then_some(AwaitedCall::Ask)
            }
            libc::SYS_rt_sigaction => SigtrapState::asked(pid, &regs).map(AwaitedCall::Act),
            libc::SYS_rt_sigprocmask | libc::SYS_rt_sigreturn => Some(AwaitedCall::Mask),
            _ => None,
        }
    }

    fn left(&mut self, tid: i32, pid: i32, call: AwaitedCall) {
        if call == AwaitedCall::Mask {
            // After rt_sigreturn(2) the registers hold no result of a call.
            return self.traps.look(tid);
        }
        let Ok(regs) = request::get_regs(tid) else { return };
        if (-4095..0).contains(&(regs.rax as i64)) {
            return;
        }
        match call {
            AwaitedCall::Map => self.mapped(pid, &regs),
            AwaitedCall::Protect => self.protected(pid, &regs),
            AwaitedCall::Choose { thread } => self.pins.chosen(thread),
            AwaitedCall::Ask => self.pins.answer(tid, &regs),
            AwaitedCall::Act(action) => self.traps.acted(pid, action),
            AwaitedCall::Mask => {}
        }
    }

    fn signalled(&mut self, tid: i32, pid: i32, signal: i32) -> i32 {
        let Some(code) =
            (signal == libc::SIGTRAP).then(|| request::signal_code(tid).ok()).flatten()
        else {
            return signal;
        };
        if self.traps.entered(tid, code) {
            return 0;
        }
        // A pending SIGTRAP sent by a process hides that of a breakpoint.
        let pending = match code {
            FROM_KERNEL => Some(0),
            ..=0 => Some(signal),
            _ => None,
        };
        if let Some(next) = pending.and_then(|pending| self.meet(tid, pid, pending)) {
            return next;
        }
        self.traps.delivered(pid);
        signal
    }

    fn stops_in_handler(&mut self, tid: i32, signal: i32) -> bool {
        // A blocked one goes back into its queue.
        let waits = signal == libc::SIGTRAP && self.traps.is_blocked(tid);
        !waits && self.traps.enters(tid, signal)
    }

    fn ended(&mut self, tid: i32) {
        self.spaces.remove(&tid);
        self.traps.ended(tid);
        self.pins.ended(tid);
    }
}

/// Whether a thread that received a SIGTRAP has executed a breakpoint: it is in no call, and the previous
/// byte is a breakpoint.
fn is_at_break(pid: i32, regs: &Regs) -> bool {
    let mut byte = [0];
    let is_in_call = regs.orig_rax as i64 >= 0;
    !is_in_call && read_memory(pid, met(regs), &mut byte).is_ok() && byte == [BREAK]
}

/// The thread that the first argument of an affinity call refers to.
fn meant(regs: &Regs, caller: i32) -> i32 {
    match regs.rdi as i32 {
        0 => caller,
        other => other,
    }
}
