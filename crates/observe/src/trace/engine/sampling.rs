//! Now and then one running thread is stepped for a burst and then followed at full speed.

use super::{StopMode, TraceEngine, TraceError};
use crate::trace::interrupt;
use crate::trace::pattern::{BurstEnd, PatternSampler};
use pagewise_kernel::proc::stat;
use pagewise_tracee::ptrace::{PtraceStop, request};

impl TraceEngine {
    /// Takes a burst of single steps of a running thread, if it is time, and then follows it.
    pub(super) fn sample(&mut self) -> Result<(), TraceError> {
        let Some(sampler) = self.sampler.as_mut().filter(|s| s.is_due()) else { return Ok(()) };
        let running =
            self.threads.iter().find(|(tid, thread)| thread.may_be_stepped() && is_running(**tid));
        let Some((&tid, thread)) = running else {
            sampler.put_off();
            return Ok(());
        };
        let pid = thread.pid;
        if !self.interrupt(tid) {
            return Ok(());
        }
        // The thread may have entered a wait that no stop ends, such as vfork's wait for a child, which in
        // turn may wait for us. Its stop is then served later, like any other.
        let Some(stop) = interrupt::wait_briefly(tid)? else { return Ok(()) };
        let in_user_code = stop == PtraceStop::Interrupted
            && request::get_regs(tid)
                .is_ok_and(|regs| (regs.orig_rax as i64) < 0 && regs.cs & 0xffff == 0x33);
        if !in_user_code {
            return self.handle(tid, stop);
        }
        let over_calls = self.mode == StopMode::Filter && !self.descriptors.closely(pid);
        let Some(sampler) = self.sampler.as_mut() else { return Ok(()) };
        let end = sampler.burst(pid, tid, over_calls);
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.interrupted = false;
            thread.stepped |= end == BurstEnd::Unfinished;
        }
        match end {
            BurstEnd::Stop(stop) => self.handle(tid, stop)?,
            BurstEnd::Done => self.follow(tid, pid)?,
            BurstEnd::Unfinished => drop(self.interrupt(tid)),
        }
        Ok(())
    }

    /// Lets thread `tid` of process `pid`, which is stopped, go on, and counts in between how many
    /// pages its process has used.
    fn follow(&mut self, tid: i32, pid: i32) -> Result<(), TraceError> {
        let keeps_code = self.sampler.as_ref().is_some_and(PatternSampler::keeps_code);
        let probe = if keeps_code { None } else { self.footprints.begin(pid) };
        self.go_on(tid, false);
        let Some(mut probe) = probe else { return Ok(()) };
        while probe.goes_on() && self.threads.contains_key(&tid) {
            std::thread::sleep(probe.pause());
            // Others may wait for us, and this thread for them.
            let (of, stop) = match request::wait(-1, false)? {
                Some(found) => found,
                None if probe.is_due() && self.interrupt(tid) => {
                    match interrupt::wait_briefly(tid)? {
                        Some(stop) => (tid, stop),
                        None => continue,
                    }
                }
                None => continue,
            };
            match stop {
                _ if of != tid => {}
                PtraceStop::Interrupted | PtraceStop::Seccomp | PtraceStop::Syscall => {
                    probe.count()
                }
                _ => probe.end(),
            }
            self.handle(of, stop)?;
        }
        self.footprints.take(&probe);
        Ok(())
    }

    /// Asks a thread to stop. Returns false if it no longer exists.
    fn interrupt(&mut self, tid: i32) -> bool {
        let asked = request::interrupt(tid).is_ok();
        if asked && let Some(thread) = self.threads.get_mut(&tid) {
            thread.interrupted = true;
        }
        asked
    }
}

fn is_running(tid: i32) -> bool {
    stat::read(tid).is_ok_and(|stat| stat.state == 'R')
}
