//! The injected call itself, on a stopped thread: by a signal frame or by setting registers.

use super::held::HeldThread;
use super::restart::{InterruptHarm, RestartMode, harm_done, resume};
use super::subject::{self, InjectableProcess};
use super::{InjectError, InjectMethod, InjectRefusal, ProcessOwner, frame_x86_64, layout};
use crate::ptrace::{PtraceStop, Regs, request, write_memory};

/// A system call to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InjectedCall {
    pub(crate) name: &'static str,
    pub(crate) number: i64,
    pub(crate) args: [u64; 4],
}

/// Makes `call` by `method`. Uses registers instead if the thread sleeps and a frame would make it late.
///
/// # Errors
/// A refusal always comes before the commit: then the thread is unchanged.
pub(super) fn make(
    owner: ProcessOwner,
    subject: &InjectableProcess,
    thread: &mut HeldThread<'_>,
    regs: &Regs,
    (method, call): (InjectMethod, InjectedCall),
) -> Result<(i64, InjectMethod), InjectError> {
    if subject::in_restartable_sequence(subject.pid(), thread.tid(), regs.rip) {
        return Err(InjectRefusal::Busy.into());
    }
    if !layout::still_there(subject.pid(), subject.sites) {
        return Err(InjectRefusal::CodeChanged.into());
    }
    let sleeps = harm_done(regs) == InterruptHarm::LateAnew;
    let method = if sleeps { InjectMethod::Registers } else { method };
    let result = match method {
        InjectMethod::Registers if owner == ProcessOwner::Other => {
            Err(InjectRefusal::Waiting.into())
        }
        InjectMethod::Registers => by_registers(subject, thread, regs, call),
        InjectMethod::Frame => by_frame(subject, thread, regs, call),
    };
    result.map(|result| (result, method))
}

/// The registers with which a thread makes `call` at `site`, with its stack at `sp`.
pub(crate) fn call_regs(regs: &Regs, site: u64, sp: u64, call: InjectedCall) -> Regs {
    let mut next = *regs;
    next.rip = site;
    next.rsp = sp;
    next.rax = call.number as u64;
    next.orig_rax = u64::MAX;
    [next.rdi, next.rsi, next.rdx, next.r10] = call.args;
    // Clears the trap and direction flags during the call.
    next.eflags &= !0x500;
    next
}

fn by_frame(
    subject: &InjectableProcess,
    thread: &mut HeldThread<'_>,
    regs: &Regs,
    call: InjectedCall,
) -> Result<i64, InjectError> {
    let restorer = subject.sites.restorer.ok_or(InjectRefusal::NoRestorer)?;
    let tid = thread.tid();
    let xstate = request::get_xstate(tid).map_err(|_| InjectRefusal::ExtendedState)?;
    let mask = request::get_sigmask(tid)?;
    let room = frame_x86_64::room(xstate.len());
    let (top, marked) = subject.frame_top(tid, regs.rsp, room)?;
    let next = resume(regs, RestartMode::Anew);
    let place = frame_x86_64::component_place;
    let frame = frame_x86_64::build(&next, mask, &xstate, restorer, top, place)
        .ok_or(InjectRefusal::ExtendedState)?;
    if marked {
        let at = subject::mark_place(top, room);
        write_memory(subject.pid(), at, &subject::MARK).map_err(|_| InjectRefusal::NoStack)?;
    }
    write_memory(subject.pid(), frame.base, &frame.bytes).map_err(|_| InjectRefusal::NoStack)?;
    thread.set_regs(&call_regs(regs, subject.sites.call, frame.base, call))?;
    request::set_sigmask(tid, u64::MAX)?;
    let result = run_call(thread, subject.sites.call)?;
    // Runs on through the return and the restorer. When the thread is released, it uses nothing that was
    // injected.
    pass_call(thread)?;
    if marked {
        // A place that was not cleared is not used again, so a failure needs no report.
        let _unused = write_memory(subject.pid(), frame.base, &vec![0; frame.bytes.len()]);
    }
    Ok(result)
}

fn by_registers(
    subject: &InjectableProcess,
    thread: &mut HeldThread<'_>,
    regs: &Regs,
    call: InjectedCall,
) -> Result<i64, InjectError> {
    let mask = request::get_sigmask(thread.tid())?;
    thread.tie_to_us()?;
    thread.set_regs(&call_regs(regs, subject.sites.call, regs.rsp, call))?;
    request::set_sigmask(thread.tid(), u64::MAX)?;
    let result = run_call(thread, subject.sites.call);
    if !matches!(result, Err(InjectError::Gone)) {
        thread.set_regs(&resume(regs, RestartMode::Continue))?;
        request::set_sigmask(thread.tid(), mask)?;
    }
    result
}

/// Runs a prepared thread through the call. Returns the result of the call.
fn run_call(thread: &mut HeldThread<'_>, site: u64) -> Result<i64, InjectError> {
    pass_call(thread)?;
    let regs = thread.regs()?;
    if regs.rip == site + 2 { Ok(regs.rax as i64) } else { Err(InjectError::Unseen) }
}

/// Runs a thread to the entry of a call and on to its exit.
fn pass_call(thread: &mut HeldThread<'_>) -> Result<(), InjectError> {
    for _ in 0..2 {
        match thread.run_to_syscall()? {
            PtraceStop::Syscall => {}
            stop if stop.is_end() => return Err(InjectError::Gone),
            _ => return Err(InjectError::Unseen),
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test says why it is skipped")]
mod tests {
    use super::*;
    use crate::inject::held::{HaltOutcome, ThreadTracer};
    use crate::waiting;

    #[test]
    fn a_target_that_ends_in_a_call_is_gone() {
        let (mut child, pid) = waiting::cat();
        let input = child.stdin.take();
        let pass = move |tracer: &mut ThreadTracer| match tracer.halt(pid) {
            Ok(HaltOutcome::Stopped(mut thread)) => {
                drop(input);
                let error = std::iter::repeat_with(|| pass_call(&mut thread)).find_map(Result::err);
                assert!(matches!(error, Some(InjectError::Gone)), "{error:?}");
            }
            other => println!("SKIP a_target_that_ends_in_a_call_is_gone: {other:?}"),
        };
        ThreadTracer::start(pass).unwrap().join().unwrap();
        assert!(child.wait().unwrap().success());
    }
}
