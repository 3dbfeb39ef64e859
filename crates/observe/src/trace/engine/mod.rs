//! The loop that serves the stops of a traced tree, and its bookkeeping of threads and images.

mod call_stops;
mod sampling;

use super::calls;
use super::descriptors::TreeDescriptors;
use super::effects::TreeEffects;
use super::files::TreeFiles;
use super::footprint::FootprintRecord;
use super::image::{RunningImage, count_descriptors, minor_faults, rights_of_its_own};
use super::pattern::{self, BurstPlan, PatternSampler};
use super::pipes::TreePipes;
use super::thread::TracedThread;
use super::{TraceError, TraceOptions};
use pagewise_kernel::proc::status;
use pagewise_model::Fact;
use pagewise_model::look::{TracedLook, TracedProcess};
use pagewise_model::usage::ProgramEnd;
use pagewise_tracee::inject;
use pagewise_tracee::ptrace::{PtraceStop, request};
use pagewise_tracee::wait;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

/// At which calls the tree stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StopMode {
    /// At those that the filter picks.
    Filter,
    /// At all.
    EveryCall,
}

pub(super) struct TraceEngine {
    root: i32,
    mode: StopMode,
    threads: HashMap<i32, TracedThread>,
    images: BTreeMap<i32, RunningImage>,
    closed: Vec<(usize, TracedProcess)>,
    appeared: usize,
    most: u32,
    pipes: TreePipes,
    effects: TreeEffects,
    descriptors: TreeDescriptors,
    files: TreeFiles,
    kinds: BTreeMap<String, u64>,
    sampler: Option<PatternSampler>,
    footprints: FootprintRecord,
    execed: bool,
    ended: Option<ProgramEnd>,
}

/// Pause between looks for stops while there is more to do than to wait for them.
const NAP: Duration = Duration::from_micros(100);
/// After a stop the next one is polled without a pause for this long.
const ALERT: Duration = Duration::from_micros(50);

impl TraceEngine {
    /// For the tree of `root`, which is seized and has not run yet. `input_has_ended`: its standard input
    /// stands in for what can be read only once.
    pub(super) fn new(
        root: i32,
        mode: StopMode,
        options: &TraceOptions,
        input_has_ended: bool,
    ) -> Self {
        let mut engine = Self {
            root,
            mode,
            threads: HashMap::new(),
            images: BTreeMap::new(),
            closed: Vec::new(),
            appeared: 0,
            most: 0,
            pipes: TreePipes::default(),
            effects: TreeEffects::new(&options.look),
            descriptors: TreeDescriptors::new(root, input_has_ended),
            files: TreeFiles::default(),
            kinds: BTreeMap::new(),
            sampler: options.pattern.then(|| {
                let plan = if options.code { BurstPlan::CODE } else { BurstPlan::ACCESSES };
                PatternSampler::new(plan)
            }),
            footprints: FootprintRecord::new(),
            execed: false,
            ended: None,
        };
        engine.pipes.inherit(root);
        for fd in 1..3 {
            engine.effects.adopt_output(root, fd);
        }
        engine.effects.adopt_input(root);
        engine.add(root, root);
        engine
    }

    pub(super) const fn has_execed(&self) -> bool {
        self.execed
    }

    /// Serves the tree until the kernel has nothing left of it to wait for: a thread that is never waited for
    /// would block its process.
    pub(super) fn serve(&mut self) -> Result<(), TraceError> {
        if self.mode == StopMode::EveryCall {
            request::interrupt(self.root)?;
        }
        let mut alert_until = Instant::now();
        loop {
            let stepping = self.sampler.as_ref().is_some_and(PatternSampler::is_active);
            match request::wait(-1, !stepping) {
                Ok(Some(first)) => {
                    self.handle_with_others(first)?;
                    alert_until = Instant::now() + ALERT;
                }
                Ok(None) => {
                    self.sample()?;
                    if Instant::now() < alert_until {
                        std::thread::yield_now();
                    } else {
                        std::thread::sleep(NAP);
                    }
                }
                Err(error) if error.errno() == Some(libc::ECHILD) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Ends every process of the tree and takes their ends.
    pub(super) fn kill_all(&mut self) {
        for pid in self.images.keys() {
            wait::kill(*pid, libc::SIGKILL);
        }
        while let Ok(found) = request::wait(-1, true) {
            if let Some((tid, stop)) = found
                && !stop.is_end()
            {
                // A child that appeared meanwhile, or the exit stop of a killed thread.
                wait::kill(tid, libc::SIGKILL);
                ignore_gone(request::cont(tid, 0));
            }
        }
    }

    /// The facts of the whole run.
    pub(super) fn finish(mut self) -> Result<TracedLook, TraceError> {
        let ended = self.ended.ok_or(TraceError::Lost)?;
        for (_, image) in std::mem::take(&mut self.images) {
            self.closed.push(image.close());
        }
        self.closed.sort_by_key(|(order, _)| *order);
        Ok(TracedLook {
            processes: self.closed.into_iter().map(|(_, seen)| seen).collect(),
            pipe_calls: self.pipes.calls(),
            pipes: self.pipes.into_found(),
            most_processes: self.most,
            files: self.files.finish(self.effects.inputs()),
            written: self.effects.written(),
            effects: self.effects.into_found(),
            stepped: self.sampler.as_mut().and_then(PatternSampler::take_code),
            footprint: match self.sampler {
                Some(_) => self.footprints.finish(),
                None => Fact::missing("not requested"),
            },
            pattern: self
                .sampler
                .map_or_else(|| Fact::missing("not requested"), PatternSampler::finish),
            descriptor_kinds: self.kinds,
            checkpoint_bytes: None,
            ended,
        })
    }

    /// Serves a stop and all others that are pending. The kernel checks the threads in a fixed order. If each
    /// were resumed when found, the last threads of a busy program would never be served.
    fn handle_with_others(&mut self, first: (i32, PtraceStop)) -> Result<(), TraceError> {
        let mut found = vec![first];
        while let Ok(Some(other)) = request::wait(-1, false) {
            found.push(other);
        }
        found.into_iter().try_for_each(|(tid, stop)| self.handle(tid, stop))
    }

    fn handle(&mut self, tid: i32, stop: PtraceStop) -> Result<(), TraceError> {
        if stop.is_end() {
            self.end(tid, stop);
            return Ok(());
        }
        self.add_unknown(tid);
        // Any stop answers a pending interrupt by the tracer.
        let thread = self.threads.get_mut(&tid);
        let interrupted = thread.is_some_and(|thread| std::mem::take(&mut thread.interrupted));
        match stop {
            PtraceStop::Signal(signal) => self.signal(tid, signal),
            PtraceStop::Group(_) => {
                if let Some(thread) = self.threads.get_mut(&tid) {
                    thread.parked = true;
                }
                ignore_gone(request::listen(tid));
            }
            PtraceStop::Interrupted => self.go_on(tid, interrupted),
            PtraceStop::Exec => self.exec(tid)?,
            PtraceStop::Exit => self.exit(tid),
            PtraceStop::Seccomp
                if request::event_message(tid).is_ok_and(|m| m == calls::FOREIGN) =>
            {
                self.enter_foreign(tid);
            }
            PtraceStop::Seccomp => self.enter(tid)?,
            PtraceStop::Syscall => {
                if interrupted {
                    reissue(tid);
                }
                self.at_call(tid)?;
            }
            PtraceStop::Child | PtraceStop::Vfork => {
                if stop == PtraceStop::Child {
                    self.note_fork(tid);
                }
                // A child that stopped first may have lived its whole life by now.
                if let Ok(child) = request::event_message(tid)
                    && !self.effects.is_in_tree(child as i32)
                {
                    self.add_unknown(child as i32);
                }
                self.resume(tid, 0);
            }
            _ => self.resume(tid, 0),
        }
        Ok(())
    }

    /// Counts a child that is no thread of its parent's.
    fn note_fork(&mut self, tid: i32) {
        let child = request::event_message(tid).map(|child| child as i32);
        let is_process =
            |child: &i32| status::read(*child).is_ok_and(|status| status.tgid == Some(*child));
        if child.is_ok_and(|child| is_process(&child))
            && let Some(pid) = self.threads.get(&tid).map(|thread| thread.pid)
            && let Some(image) = self.images.get_mut(&pid)
        {
            image.add_fork();
        }
    }

    /// Resumes a thread until its next relevant stop.
    fn resume(&mut self, tid: i32, signal: i32) {
        let to_exit = self
            .threads
            .get(&tid)
            .is_some_and(|thread| thread.pending.is_some() || self.descriptors.closely(thread.pid));
        let result = if to_exit || self.mode == StopMode::EveryCall {
            request::syscall(tid, signal)
        } else {
            request::cont(tid, signal)
        };
        ignore_gone(result);
    }

    /// A signal on its way to a thread. Delivers it, unless it is the end of our single step.
    fn signal(&mut self, tid: i32, signal: i32) {
        let stepped = self.threads.get_mut(&tid).map(|thread| &mut thread.stepped);
        match stepped
            .filter(|stepped| **stepped && pattern::is_step(tid, PtraceStop::Signal(signal)))
        {
            Some(stepped) => {
                *stepped = false;
                self.resume(tid, 0);
            }
            None => self.resume(tid, signal),
        }
    }

    /// After a stop that we may have asked for, or the first one of a new thread.
    fn go_on(&mut self, tid: i32, interrupted: bool) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        thread.parked = false;
        if interrupted {
            reissue(tid);
        }
        self.resume(tid, 0);
    }

    fn add_unknown(&mut self, tid: i32) {
        if !self.threads.contains_key(&tid)
            && let Some(pid) = status::read(tid).ok().and_then(|status| status.tgid)
        {
            self.add(tid, pid);
        }
    }

    fn add(&mut self, tid: i32, pid: i32) {
        self.effects.join(tid, pid);
        self.threads.insert(tid, TracedThread::new(pid));
        if self.ended.is_some() {
            // The root's end has ended all that was known then.
            wait::kill(pid, libc::SIGKILL);
        }
        if !self.images.contains_key(&pid) {
            self.images.insert(pid, RunningImage::new(pid, self.appeared, true, 0));
            self.appeared += 1;
            self.most = self.most.max(self.images.len() as u32);
            self.descriptors.look(pid);
        }
        if let Some(image) = self.images.get_mut(&pid) {
            image.add_thread();
        }
    }

    fn end(&mut self, tid: i32, stop: PtraceStop) {
        let pid = self.threads.remove(&tid).map_or(tid, |thread| thread.pid);
        if let Some(image) = self.images.get_mut(&pid) {
            image.threads = image.threads.saturating_sub(1);
        }
        if tid != pid {
            return;
        }
        if let Some(image) = self.images.remove(&tid) {
            self.closed.push(image.close());
        }
        if tid == self.root {
            self.ended = Some(match stop {
                PtraceStop::Killed(signal) => ProgramEnd::Signaled(signal),
                PtraceStop::Exited(status) => ProgramEnd::Exited(status),
                _ => return,
            });
            for pid in self.images.keys() {
                wait::kill(*pid, libc::SIGKILL);
            }
        }
    }

    fn exec(&mut self, tid: i32) -> Result<(), TraceError> {
        self.execed = true;
        // One thread is left, whichever it was: it has the number of the process now.
        self.threads.retain(|_, thread| thread.pid != tid);
        self.threads.insert(tid, TracedThread::new(tid));
        if let Some(path) = rights_of_its_own(tid) {
            return Err(TraceError::Setuid { path });
        }
        let faults = minor_faults(tid).unwrap_or(0);
        let mut image = RunningImage::new(tid, self.appeared, false, faults);
        match self.images.remove(&tid) {
            Some(before) if before.is_forked => image.take_over(&before),
            Some(mut before) => {
                self.appeared += 1;
                before.threads = 0;
                self.closed.push(before.close());
            }
            None => self.appeared += 1,
        }
        image.add_thread();
        self.images.insert(tid, image);
        self.pipes.note(tid);
        self.descriptors.look(tid);
        self.resume(tid, 0);
        Ok(())
    }

    /// A thread is about to exit: the last one takes the memory with it, a deadly signal all.
    fn exit(&mut self, tid: i32) {
        let deadly = request::event_message(tid).is_ok_and(|status| status & 0x7f != 0);
        if let Some(thread) = self.threads.get(&tid) {
            let pid = thread.pid;
            if self.images.get(&pid).is_some_and(|i| !i.is_read() && (deadly || i.threads <= 1)) {
                self.read_image(pid);
            }
        }
        self.resume(tid, 0);
    }

    fn read_image(&mut self, pid: i32) {
        if let Some(image) = self.images.get_mut(&pid) {
            image.read();
            self.files.note_code(image.code());
        }
        self.pipes.note(pid);
        count_descriptors(pid, &mut self.kinds);
    }
}

/// Repeats a call that returned EINTR only because of our interrupt, if it has done nothing in that case.
fn reissue(tid: i32) {
    ignore_gone(inject::reissue(tid));
}

/// A thread that was killed in between reports its end by itself.
fn ignore_gone<T>(result: Result<T, pagewise_kernel::error::SysError>) {
    drop(result);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine() -> (i32, TraceEngine) {
        let pid = std::process::id() as i32;
        (pid, TraceEngine::new(pid, StopMode::Filter, &TraceOptions::default(), false))
    }

    #[test]
    fn any_stop_answers_an_interrupt() {
        let (pid, mut engine) = engine();
        engine.threads.get_mut(&pid).unwrap().interrupted = true;
        engine.handle(pid, PtraceStop::VforkDone).unwrap();
        assert!(engine.threads[&pid].may_be_stepped());
    }

    #[test]
    fn a_child_that_appears_after_the_end_is_ended() {
        use std::os::unix::process::ExitStatusExt;
        let (_, mut engine) = engine();
        engine.ended = Some(ProgramEnd::Exited(0));
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        engine.add(child.id() as i32, child.id() as i32);
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
    }
}
