//! The injected call itself, on a stopped thread: by a signal frame or by setting registers.

use super::held::Held;
use super::restart::{Harm, Sleep, harm_done, resume};
use super::subject::{self, Subject};
use super::{InjectError, Method, Owner, Refusal, frame_x86_64, layout};
use crate::ptrace::{Regs, Stop, request, write_memory};

/// A system call to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) name: &'static str,
    pub(crate) number: i64,
    pub(crate) args: [u64; 4],
}

/// Makes `call` by `method`. Uses registers instead if the thread sleeps and a frame would make it late.
///
/// # Errors
/// A refusal always comes before the commit: then the thread is unchanged.
pub(super) fn make(
    owner: Owner,
    subject: &Subject,
    thread: &mut Held<'_>,
    regs: &Regs,
    (method, call): (Method, Call),
) -> Result<(i64, Method), InjectError> {
    if subject::in_restartable_sequence(subject.pid(), thread.tid(), regs.rip) {
        return Err(Refusal::Busy.into());
    }
    if !layout::still_there(subject.pid(), subject.sites) {
        return Err(Refusal::CodeChanged.into());
    }
    let sleeps = harm_done(regs) == Harm::LateAnew;
    let method = if sleeps { Method::Registers } else { method };
    let result = match method {
        Method::Registers if owner == Owner::Other => Err(Refusal::Waiting.into()),
        Method::Registers => by_registers(subject, thread, regs, call),
        Method::Frame => by_frame(subject, thread, regs, call),
    };
    result.map(|result| (result, method))
}

/// The registers with which a thread makes `call` at `site`, with its stack at `sp`.
pub(crate) fn call_regs(regs: &Regs, site: u64, sp: u64, call: Call) -> Regs {
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
    subject: &Subject,
    thread: &mut Held<'_>,
    regs: &Regs,
    call: Call,
) -> Result<i64, InjectError> {
    let restorer = subject.sites.restorer.ok_or(Refusal::NoRestorer)?;
    let tid = thread.tid();
    let xstate = request::get_xstate(tid).map_err(|_| Refusal::ExtendedState)?;
    let mask = request::get_sigmask(tid)?;
    let room = frame_x86_64::room(xstate.len());
    let (top, marked) = subject.frame_top(tid, regs.rsp, room)?;
    let next = resume(regs, Sleep::Anew);
    let place = frame_x86_64::component_place;
    let frame = frame_x86_64::build(&next, mask, &xstate, restorer, top, place)
        .ok_or(Refusal::ExtendedState)?;
    if marked {
        let at = subject::mark_place(top, room);
        write_memory(subject.pid(), at, &subject::MARK).map_err(|_| Refusal::NoStack)?;
    }
    write_memory(subject.pid(), frame.base, &frame.bytes).map_err(|_| Refusal::NoStack)?;
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
    subject: &Subject,
    thread: &mut Held<'_>,
    regs: &Regs,
    call: Call,
) -> Result<i64, InjectError> {
    let mask = request::get_sigmask(thread.tid())?;
    thread.tie_to_us()?;
    thread.set_regs(&call_regs(regs, subject.sites.call, regs.rsp, call))?;
    request::set_sigmask(thread.tid(), u64::MAX)?;
    let result = run_call(thread, subject.sites.call);
    if !matches!(result, Err(InjectError::Gone)) {
        thread.set_regs(&resume(regs, Sleep::Continue))?;
        request::set_sigmask(thread.tid(), mask)?;
    }
    result
}

/// Runs a prepared thread through the call. Returns the result of the call.
fn run_call(thread: &mut Held<'_>, site: u64) -> Result<i64, InjectError> {
    pass_call(thread)?;
    let regs = thread.regs()?;
    if regs.rip == site + 2 { Ok(regs.rax as i64) } else { Err(InjectError::Unseen) }
}

/// Runs a thread to the entry of a call and on to its exit.
fn pass_call(thread: &mut Held<'_>) -> Result<(), InjectError> {
    for _ in 0..2 {
        match thread.run_to_syscall()? {
            Stop::Syscall => {}
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
    use crate::inject::held::{Halt, Tracer};
    use crate::waiting;

    #[test]
    fn a_target_that_ends_in_a_call_is_gone() {
        let (mut child, pid) = waiting::cat();
        let input = child.stdin.take();
        let pass = move |tracer: &mut Tracer| match tracer.halt(pid) {
            Ok(Halt::Stopped(mut thread)) => {
                drop(input);
                let error = std::iter::repeat_with(|| pass_call(&mut thread)).find_map(Result::err);
                assert!(matches!(error, Some(InjectError::Gone)), "{error:?}");
            }
            other => println!("SKIP a_target_that_ends_in_a_call_is_gone: {other:?}"),
        };
        Tracer::start(pass).unwrap().join().unwrap();
        assert!(child.wait().unwrap().success());
    }
}
