//! Calls that act on something other than files: the network, processes, objects of interprocess communication,
//! keys, and the system.

use super::{CallIntent, TreeEffects, effect};
use crate::trace::calls::{ATTACHING, IpcKind, NETLINK, NETWORK, QueueCall, SyscallKind};
use crate::trace::place::{self, identity};
use crate::trace::reach::{self, InTree};
use crate::trace::{ipc, network};
use pagewise_tracee::ptrace::read_u64;

/// Said of a process that has requests carried out without calls.
const RINGS: &str = "used io_uring, which pagewise cannot trace, in";

/// True for a call on another process that changes nothing there.
fn only_asks(number: i64, args: &[u64; 6]) -> bool {
    match number {
        libc::SYS_prlimit64 => args[2] == 0,
        libc::SYS_ptrace => !ATTACHING.contains(&args[0]),
        _ => false,
    }
}

impl TreeEffects {
    pub(super) fn begin_beyond(
        &self,
        tid: i32,
        pid: i32,
        kind: SyscallKind,
        args: &[u64; 6],
        number: i64,
    ) -> Option<CallIntent> {
        let in_tree: InTree<'_> = &|id| self.is_in_tree(id);
        let of_system = |action: &str| effect(action, String::new());
        match kind {
            SyscallKind::Ioctl => begin_request(tid, args),
            SyscallKind::Connect(address) => {
                effect("connected to", reach::far_address(tid, address, args)?)
            }
            SyscallKind::Signal(target, signal) => {
                let whom = reach::signalled(pid, target, args[signal], args, in_tree)?;
                effect("sent a signal to", whom)
            }
            SyscallKind::Get(ipc) => {
                Some(CallIntent { gets: Some((ipc, ipc::list(ipc))), ..CallIntent::default() })
            }
            SyscallKind::Control(ipc, command) => {
                self.object_effect(ipc, args[0], ipc::changed(ipc, args[command])?)
            }
            SyscallKind::Use(ipc, action) => self.object_effect(ipc, args[0], action),
            SyscallKind::Attach if args[2] & libc::SHM_RDONLY as u64 != 0 => None,
            SyscallKind::Attach => {
                self.object_effect(IpcKind::Memory, args[0], "attached to write shared memory")
            }
            SyscallKind::Queue(call) => self.begin_queue(tid, call, args),
            SyscallKind::Others(..) if only_asks(number, args) => None,
            SyscallKind::Others(whom, action) => {
                effect(action, reach::acted_on(pid, whom, args, in_tree)?)
            }
            SyscallKind::Socket if args[0] as u32 != NETLINK => None,
            SyscallKind::Socket => {
                Some(CallIntent { netlink: Some(args[2] as i32), ..CallIntent::default() })
            }
            SyscallKind::Ring => self.begin_unseen(pid, RINGS),
            SyscallKind::AddKey => {
                (!ipc::is_own_ring(args[4])).then(|| of_system("changed keys"))?
            }
            SyscallKind::Command(index, changes, action) => {
                changes.contains(&(args[index] & 0xffff_ffff)).then(|| of_system(action))?
            }
            SyscallKind::Quota(index) => {
                (!ipc::asks_for_quota(args[index])).then(|| of_system("changed quotas"))?
            }
            SyscallKind::Clock(pointer) => {
                let modes = read_u64(tid, args[pointer]).ok()? as u32;
                ipc::sets_clock(modes).then(|| of_system("set the clock"))?
            }
            SyscallKind::System(action) => of_system(action),
            _ => None,
        }
    }

    /// A way to evade tracing. `None` if that is already known of `pid`.
    pub(super) fn begin_unseen(&self, pid: i32, action: &str) -> Option<CallIntent> {
        let known = self.found.iter().any(|e| e.pid == pid && e.action == action);
        let link = std::fs::read_link(format!("/proc/{pid}/exe"));
        let exe = link.map_or_else(|_| String::new(), |exe| exe.display().to_string());
        (!known).then(|| effect(action, exe))?
    }

    /// The effect on a System V IPC object, unless it is the tree's own.
    pub(super) fn object_effect(&self, ipc: IpcKind, id: u64, action: &str) -> Option<CallIntent> {
        let id = id as i32;
        let own = self.objects.contains(&(ipc, id.into()));
        (!own).then(|| effect(action, id.to_string()))?
    }

    fn begin_queue(&self, tid: i32, call: QueueCall, args: &[u64; 6]) -> Option<CallIntent> {
        match call {
            QueueCall::Open => {
                let name = place::read_path(tid, args[0])?;
                let is_new = !pagewise_kernel::message_queue::exists(name.as_os_str());
                let queue = is_new.then_some(name);
                Some(CallIntent { opens_new: is_new, queue, ..CallIntent::default() })
            }
            QueueCall::Unlink => {
                let name = place::read_path(tid, args[0])?;
                let own = self.queues.contains(&name);
                (!own).then(|| effect("removed message queue", format!("/{}", name.display())))?
            }
            QueueCall::Use(action) => {
                let place = place::opened(tid, args[0] as i32)?;
                let own = self.made.contains(&identity(place.target.as_ref()?));
                (!own).then(|| effect(action, place.shown.display().to_string()))?
            }
        }
    }
}

/// A request to a socket about the network.
fn begin_request(tid: i32, args: &[u64; 6]) -> Option<CallIntent> {
    let request = args[1] as u32;
    let changes = NETWORK.contains(&request) && network::changes(tid, request, args[2]);
    changes.then(|| effect("changed the network by ioctl", format!("{request:#x}")))?
}
