//! Which system calls the look stops at, their meaning, and the seccomp filter that selects them.
//!
//! The filter is classic BPF over `struct seccomp_data` (seccomp(2)): number, architecture and arguments, no
//! memory behind pointers. Calls by the tables of other architectures (32-bit, x32) are not understood. They
//! stop with the message [`FOREIGN`], so that their presence is known. The filter costs about 0.1 us per call
//! of the program. Pure.

use super::place::PathArgument;
use libc::{BPF_JEQ, BPF_JGE, BPF_JSET, c_long};
use pagewise_tracee::seccomp::{self, ARCHITECTURE, ARCHITECTURE_AT, NUMBER_AT, give, jump, load};
use std::ops::RangeInclusive;

/// What a call may do, as far as the look is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SyscallKind {
    /// Changes the address space.
    Memory,
    /// Opens a file, for reading or in a way that may change it, with the location of its flags.
    Open(PathArgument, FlagsArgument),
    Remove(PathArgument),
    /// Gives a file another name.
    Rename,
    /// Makes a new name that was not there.
    Make(PathArgument),
    /// Gives a file one more name, which this is.
    Link(PathArgument),
    /// Makes the name of a Unix socket.
    Bind,
    /// Changes a file that a path names, said as this phrase.
    Change(PathArgument, &'static str),
    /// Changes a file that a descriptor leads to, said as this phrase.
    ChangeOpen(&'static str),
    /// Opens a file by a handle; the third argument holds the flags.
    OpenHandle,
    /// A request to a descriptor, of which [`MARKING`] change its file.
    Ioctl,
    /// Sends to an address: which argument points to it.
    Connect(AddressArgument),
    /// Signals a process: the meaning of the first argument, and which argument is the signal.
    Signal(SignalTarget, usize),
    /// Gives an object of System V interprocess communication, or makes it.
    Get(IpcKind),
    /// Controls an object of this kind; gives the argument that holds the command.
    Control(IpcKind, usize),
    /// Uses the object of this kind that the first argument names, described by this phrase.
    Use(IpcKind, &'static str),
    /// Attaches shared memory; the third argument holds the flags.
    Attach,
    /// Acts on a POSIX message queue.
    Queue(QueueCall),
    /// Acts on a process, said as this phrase.
    Others(ProcessArgument, &'static str),
    /// Makes a socket: by [`NETLINK`] the network and more is set up.
    Socket,
    /// Makes a ring of requests that no call shows.
    Ring,
    /// Changes the system if this argument is one of these values, described by this phrase.
    Command(usize, &'static [u64], &'static str),
    /// Adds a key to the ring that the fifth argument says.
    AddKey,
    /// Asks for disk quotas or sets them: which argument is the command.
    Quota(usize),
    /// Reads the clock's state, or sets it: which argument points to the structure.
    Clock(usize),
    /// Changes the whole system, said as this phrase.
    System(&'static str),
    /// Lends pages to a pipe, or is a command of fcntl(2). Commands in [`CAPACITY`] get or set the pipe's
    /// capacity.
    Pipe,
    /// Replaces the image.
    Exec,
    /// Ends the process.
    ExitGroup,
}

/// Where the flags of an open are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FlagsArgument {
    Argument(usize),
    /// In the first word of the structure that the third argument points to.
    Structure,
    /// Always write, create and truncate.
    Creat,
}

/// Where the address of a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AddressArgument {
    /// Pointer and length in these arguments.
    Arguments(usize, usize),
    /// In the `msghdr` that the second argument points to.
    Message,
    /// In the `mmsghdr`s that the second argument points to; the third one counts them.
    Messages,
}

/// Whom a signal is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SignalTarget {
    /// A process or a group, as in kill(2).
    Process,
    Thread,
    /// A process behind a descriptor.
    Descriptor,
}

/// The kinds of System V interprocess communication.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum IpcKind {
    Memory,
    Messages,
    Semaphores,
}

/// What is done with a POSIX message queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QueueCall {
    /// Opened or made by the name that the first argument points to.
    Open,
    /// The name is removed.
    Unlink,
    /// Used through a descriptor, said as this phrase.
    Use(&'static str),
}

/// Where a call says which process it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProcessArgument {
    /// In this argument; 0 is the caller.
    Process(usize),
    /// In the second argument, of the kind that the first one says: this for a process, then group and user.
    Kind(u64),
}

/// The socket family that configures the kernel: `AF_NETLINK`.
pub(super) const NETLINK: u32 = libc::AF_NETLINK as u32;

/// Requests of ptrace(2) that take hold of a process that does not ask for it.
pub(super) const ATTACHING: [u64; 2] = [libc::PTRACE_ATTACH as u64, libc::PTRACE_SEIZE as u64];

/// Operations of keyctl(2) that change keys or their rings.
const KEY_CHANGES: &[u64] = &[2, 3, 4, 5, 7, 8, 9, 12, 13, 15, 18, 19, 20, 21, 29, 30];
/// Actions of syslog(2) that clear the kernel's log or set its destination.
const LOG_CHANGES: &[u64] = &[4, 5, 6, 7, 8];
/// The command of fsconfig(2) that changes a mounted file system: `FSCONFIG_CMD_RECONFIGURE`.
const RECONFIGURE: &[u64] = &[7];

/// Requests of ioctl(2) to sockets that are about the network: from `SIOCADDRT` to the last of wireless ones.
pub(super) const NETWORK: RangeInclusive<u32> = 0x890b..=0x8bff;

/// Requests of ioctl(2) that change the marks of a file, from `<linux/fs.h>`: `FS_IOC_SETFLAGS` and
/// `FS_IOC_FSSETXATTR`.
pub(super) const MARKING: [u32; 2] = [0x4008_6602, 0x401c_5820];

/// Commands of fcntl(2) that ask or set the capacity of a pipe.
pub(super) const CAPACITY: [i32; 2] = [libc::F_GETPIPE_SZ, libc::F_SETPIPE_SZ];

/// Flags of open(2) without which nothing is changed.
pub(super) const WRITING: u64 =
    (libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC) as u64;

/// Flags of open(2) that do not open a file's content.
const NO_CONTENT: u64 = (libc::O_DIRECTORY | libc::O_PATH) as u64;

/// Calls newer than the C library's list, by the numbers that all architectures share.
const SYS_SETXATTRAT: c_long = 463;
const SYS_REMOVEXATTRAT: c_long = 466;
const SYS_FILE_SETATTR: c_long = 469;

/// Every call that is stopped at.
#[rustfmt::skip]
const CALLS: &[(c_long, SyscallKind)] = &[
    (libc::SYS_mmap, SyscallKind::Memory), (libc::SYS_munmap, SyscallKind::Memory),
    (libc::SYS_mremap, SyscallKind::Memory), (libc::SYS_brk, SyscallKind::Memory),
    (libc::SYS_madvise, SyscallKind::Memory),
    (libc::SYS_openat, SyscallKind::Open(PathArgument::At, FlagsArgument::Argument(2))),
    (libc::SYS_openat2, SyscallKind::Open(PathArgument::At, FlagsArgument::Structure)),
    (libc::SYS_unlinkat, SyscallKind::Remove(PathArgument::At)),
    (libc::SYS_renameat, SyscallKind::Rename), (libc::SYS_renameat2, SyscallKind::Rename),
    (libc::SYS_mkdirat, SyscallKind::Make(PathArgument::At)), (libc::SYS_mknodat, SyscallKind::Make(PathArgument::At)),
    (libc::SYS_symlinkat, SyscallKind::Make(PathArgument::SecondAt)), (libc::SYS_linkat, SyscallKind::Link(PathArgument::ThirdAt)),
    (libc::SYS_bind, SyscallKind::Bind), (libc::SYS_open_by_handle_at, SyscallKind::OpenHandle),
    (libc::SYS_truncate, SyscallKind::Change(PathArgument::Path, "truncated")),
    (libc::SYS_fchmodat, SyscallKind::Change(PathArgument::At, "changed the mode of")),
    (libc::SYS_fchmodat2, SyscallKind::Change(PathArgument::At, "changed the mode of")),
    (libc::SYS_fchownat, SyscallKind::Change(PathArgument::At, "changed the owner of")),
    (libc::SYS_utimensat, SyscallKind::Change(PathArgument::At, "changed the times of")),
    (libc::SYS_setxattr, SyscallKind::Change(PathArgument::Path, "changed attributes of")),
    (libc::SYS_lsetxattr, SyscallKind::Change(PathArgument::Path, "changed attributes of")),
    (libc::SYS_removexattr, SyscallKind::Change(PathArgument::Path, "changed attributes of")),
    (libc::SYS_lremovexattr, SyscallKind::Change(PathArgument::Path, "changed attributes of")),
    (SYS_SETXATTRAT, SyscallKind::Change(PathArgument::At, "changed attributes of")),
    (SYS_REMOVEXATTRAT, SyscallKind::Change(PathArgument::At, "changed attributes of")),
    (SYS_FILE_SETATTR, SyscallKind::Change(PathArgument::At, "changed attributes of")),
    (libc::SYS_fchmod, SyscallKind::ChangeOpen("changed the mode of")),
    (libc::SYS_fchown, SyscallKind::ChangeOpen("changed the owner of")),
    (libc::SYS_fsetxattr, SyscallKind::ChangeOpen("changed attributes of")),
    (libc::SYS_fremovexattr, SyscallKind::ChangeOpen("changed attributes of")),
    (libc::SYS_ioctl, SyscallKind::Ioctl),
    (libc::SYS_connect, SyscallKind::Connect(AddressArgument::Arguments(1, 2))),
    (libc::SYS_sendto, SyscallKind::Connect(AddressArgument::Arguments(4, 5))),
    (libc::SYS_sendmsg, SyscallKind::Connect(AddressArgument::Message)),
    (libc::SYS_sendmmsg, SyscallKind::Connect(AddressArgument::Messages)),
    (libc::SYS_kill, SyscallKind::Signal(SignalTarget::Process, 1)),
    (libc::SYS_tgkill, SyscallKind::Signal(SignalTarget::Process, 2)),
    (libc::SYS_tkill, SyscallKind::Signal(SignalTarget::Thread, 1)),
    (libc::SYS_rt_sigqueueinfo, SyscallKind::Signal(SignalTarget::Process, 1)),
    (libc::SYS_rt_tgsigqueueinfo, SyscallKind::Signal(SignalTarget::Process, 2)),
    (libc::SYS_pidfd_send_signal, SyscallKind::Signal(SignalTarget::Descriptor, 1)),
    (libc::SYS_shmget, SyscallKind::Get(IpcKind::Memory)), (libc::SYS_shmctl, SyscallKind::Control(IpcKind::Memory, 1)),
    (libc::SYS_msgget, SyscallKind::Get(IpcKind::Messages)), (libc::SYS_msgctl, SyscallKind::Control(IpcKind::Messages, 1)),
    (libc::SYS_semget, SyscallKind::Get(IpcKind::Semaphores)), (libc::SYS_semctl, SyscallKind::Control(IpcKind::Semaphores, 2)),
    (libc::SYS_msgsnd, SyscallKind::Use(IpcKind::Messages, "sent a message to queue")),
    (libc::SYS_msgrcv, SyscallKind::Use(IpcKind::Messages, "took a message from queue")),
    (libc::SYS_semop, SyscallKind::Use(IpcKind::Semaphores, "changed semaphores")),
    (libc::SYS_semtimedop, SyscallKind::Use(IpcKind::Semaphores, "changed semaphores")),
    (libc::SYS_shmat, SyscallKind::Attach),
    (libc::SYS_mq_open, SyscallKind::Queue(QueueCall::Open)), (libc::SYS_mq_unlink, SyscallKind::Queue(QueueCall::Unlink)),
    (libc::SYS_mq_timedsend, SyscallKind::Queue(QueueCall::Use("sent a message to queue"))),
    (libc::SYS_mq_timedreceive, SyscallKind::Queue(QueueCall::Use("took a message from queue"))),
    (libc::SYS_mq_notify, SyscallKind::Queue(QueueCall::Use("asked for notices about messages in queue"))),
    (libc::SYS_prlimit64, SyscallKind::Others(ProcessArgument::Process(0), "changed the limits of")),
    (libc::SYS_setpriority, SyscallKind::Others(ProcessArgument::Kind(0), "changed the priority of")),
    (libc::SYS_ioprio_set, SyscallKind::Others(ProcessArgument::Kind(1), "changed the I/O priority of")),
    (libc::SYS_sched_setaffinity, SyscallKind::Others(ProcessArgument::Process(0), "changed the CPUs of")),
    (libc::SYS_sched_setscheduler, SyscallKind::Others(ProcessArgument::Process(0), "changed the scheduling of")),
    (libc::SYS_sched_setparam, SyscallKind::Others(ProcessArgument::Process(0), "changed the scheduling of")),
    (libc::SYS_sched_setattr, SyscallKind::Others(ProcessArgument::Process(0), "changed the scheduling of")),
    (libc::SYS_migrate_pages, SyscallKind::Others(ProcessArgument::Process(0), "moved the memory of")),
    (libc::SYS_move_pages, SyscallKind::Others(ProcessArgument::Process(0), "moved the memory of")),
    (libc::SYS_process_vm_writev, SyscallKind::Others(ProcessArgument::Process(0), "wrote to the memory of")),
    (libc::SYS_ptrace, SyscallKind::Others(ProcessArgument::Process(1), "attached to")),
    (libc::SYS_socket, SyscallKind::Socket), (libc::SYS_io_uring_setup, SyscallKind::Ring),
    (libc::SYS_add_key, SyscallKind::AddKey),
    (libc::SYS_keyctl, SyscallKind::Command(0, KEY_CHANGES, "changed keys")),
    (libc::SYS_syslog, SyscallKind::Command(0, LOG_CHANGES, "changed the kernel's log")),
    (libc::SYS_fsconfig, SyscallKind::Command(1, RECONFIGURE, "changed a mount")),
    (libc::SYS_quotactl, SyscallKind::Quota(0)), (libc::SYS_quotactl_fd, SyscallKind::Quota(1)),
    (libc::SYS_acct, SyscallKind::System("changed process accounting")),
    (libc::SYS_kexec_load, SyscallKind::System("loaded another kernel")),
    (libc::SYS_kexec_file_load, SyscallKind::System("loaded another kernel")),
    (libc::SYS_mount, SyscallKind::System("mounted")), (libc::SYS_umount2, SyscallKind::System("unmounted")),
    (libc::SYS_fsmount, SyscallKind::System("mounted")), (libc::SYS_move_mount, SyscallKind::System("mounted")),
    (libc::SYS_mount_setattr, SyscallKind::System("changed a mount")),
    (libc::SYS_pivot_root, SyscallKind::System("changed the root directory")),
    (libc::SYS_reboot, SyscallKind::System("called reboot")),
    (libc::SYS_swapon, SyscallKind::System("changed swap")), (libc::SYS_swapoff, SyscallKind::System("changed swap")),
    (libc::SYS_sethostname, SyscallKind::System("changed the host name")),
    (libc::SYS_settimeofday, SyscallKind::System("set the clock")),
    (libc::SYS_clock_settime, SyscallKind::System("set the clock")),
    (libc::SYS_adjtimex, SyscallKind::Clock(0)), (libc::SYS_clock_adjtime, SyscallKind::Clock(1)),
    (libc::SYS_setdomainname, SyscallKind::System("changed the domain name")),
    (libc::SYS_init_module, SyscallKind::System("loaded a kernel module")),
    (libc::SYS_finit_module, SyscallKind::System("loaded a kernel module")),
    (libc::SYS_delete_module, SyscallKind::System("removed a kernel module")),
    (libc::SYS_vmsplice, SyscallKind::Pipe), (libc::SYS_fcntl, SyscallKind::Pipe),
    (libc::SYS_execve, SyscallKind::Exec), (libc::SYS_execveat, SyscallKind::Exec),
    (libc::SYS_exit_group, SyscallKind::ExitGroup),
];

/// Calls that exist on x86-64 but not on every architecture.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const OLD_CALLS: &[(c_long, SyscallKind)] = &[
    (libc::SYS_open, SyscallKind::Open(PathArgument::Path, FlagsArgument::Argument(1))),
    (libc::SYS_creat, SyscallKind::Open(PathArgument::Path, FlagsArgument::Creat)),
    (libc::SYS_unlink, SyscallKind::Remove(PathArgument::Path)), (libc::SYS_rmdir, SyscallKind::Remove(PathArgument::Path)),
    (libc::SYS_rename, SyscallKind::Rename),
    (libc::SYS_mkdir, SyscallKind::Make(PathArgument::Path)), (libc::SYS_mknod, SyscallKind::Make(PathArgument::Path)),
    (libc::SYS_symlink, SyscallKind::Make(PathArgument::SecondPath)), (libc::SYS_link, SyscallKind::Link(PathArgument::SecondPath)),
    (libc::SYS_chmod, SyscallKind::Change(PathArgument::Path, "changed the mode of")),
    (libc::SYS_chown, SyscallKind::Change(PathArgument::Path, "changed the owner of")),
    (libc::SYS_lchown, SyscallKind::Change(PathArgument::Path, "changed the owner of")),
    (libc::SYS_utime, SyscallKind::Change(PathArgument::Path, "changed the times of")),
    (libc::SYS_utimes, SyscallKind::Change(PathArgument::Path, "changed the times of")),
    (libc::SYS_futimesat, SyscallKind::Change(PathArgument::At, "changed the times of")),
];

fn all() -> impl Iterator<Item = &'static (c_long, SyscallKind)> {
    CALLS.iter().chain(OLD_CALLS)
}

/// The kind of call `number`. `None` if the look does not stop at it.
pub(super) fn kind(number: i64) -> Option<SyscallKind> {
    all().find(|(n, _)| *n == number).map(|(_, kind)| *kind)
}

/// True for a call that maps a file shared and writable.
pub(super) fn maps_to_write(number: i64, args: &[u64; 6]) -> bool {
    let shared = [libc::MAP_SHARED, libc::MAP_SHARED_VALIDATE];
    let (writable, flags) = (args[2] & libc::PROT_WRITE as u64 != 0, args[3] as i32);
    let of_file = flags & libc::MAP_ANONYMOUS == 0 && shared.contains(&(flags & libc::MAP_TYPE));
    number == libc::SYS_mmap && writable && of_file
}

/// Numbers of x32 calls: this bit, and the number in its table below. (-1 is no call.)
const X32_BIT: u32 = 0x4000_0000;
const X32_END: u32 = X32_BIT + 0x800;
/// The message at the stop of a call by another architecture's table.
pub(super) const FOREIGN: u64 = 1;

/// True for a number of the x32 table.
pub(super) fn is_x32(number: u64) -> bool {
    (u64::from(X32_BIT)..u64::from(X32_END)).contains(&number)
}

/// The filter. It stops at the calls above, at opens only if they may change or read a file, at requests only
/// if they may change something. The instructions of `input` come first: they stop at possible uses of
/// standard input.
pub(super) fn filter(input: Vec<libc::sock_filter>) -> Vec<libc::sock_filter> {
    let (allow, stop) = (libc::SECCOMP_RET_ALLOW, libc::SECCOMP_RET_TRACE);
    let foreign = give(stop | FOREIGN as u32);
    let mut code = vec![
        load(ARCHITECTURE_AT),
        jump(BPF_JEQ, ARCHITECTURE, 1, 0),
        foreign,
        load(NUMBER_AT),
        jump(BPF_JGE, X32_BIT, 0, 3),
        jump(BPF_JGE, X32_END, 1, 0),
        foreign,
        give(allow),
    ];
    code.extend(seccomp::untraced_clones());
    code.extend(input);
    for &(number, kind) in all() {
        let body = body(number, kind);
        let skip = body.len() as u8;
        code.push(jump(BPF_JEQ, number as u32, 0, skip));
        code.extend(body);
    }
    code.push(give(allow));
    code
}

/// The filter instructions for one call.
fn body(number: c_long, kind: SyscallKind) -> Vec<libc::sock_filter> {
    let argument = |index: usize| seccomp::argument(index as u32);
    let (allow, stop) = (give(libc::SECCOMP_RET_ALLOW), give(libc::SECCOMP_RET_TRACE));
    let writing = jump(BPF_JSET, WRITING as u32, 0, 1);
    let writing_or_stay = jump(BPF_JSET, WRITING as u32, 1, 0);
    let no_content = jump(BPF_JSET, NO_CONTENT as u32, 1, 0);
    match (number, kind) {
        (_, SyscallKind::Open(_, FlagsArgument::Argument(index))) => {
            vec![argument(index), writing_or_stay, no_content, stop, allow]
        }
        (_, SyscallKind::OpenHandle) => vec![argument(2), writing, stop, allow],
        (_, SyscallKind::Ioctl) => vec![
            argument(1),
            jump(BPF_JEQ, MARKING[0], 4, 0),
            jump(BPF_JEQ, MARKING[1], 3, 0),
            jump(BPF_JGE, *NETWORK.start(), 0, 1),
            jump(BPF_JGE, *NETWORK.end() + 1, 0, 1),
            allow,
            stop,
        ],
        (_, SyscallKind::Socket) => vec![argument(0), jump(BPF_JEQ, NETLINK, 0, 1), stop, allow],
        (libc::SYS_ptrace, _) => vec![
            argument(0),
            jump(BPF_JEQ, ATTACHING[0] as u32, 1, 0),
            jump(BPF_JEQ, ATTACHING[1] as u32, 0, 1),
            stop,
            allow,
        ],
        (libc::SYS_fcntl, _) => vec![
            argument(1),
            jump(BPF_JEQ, CAPACITY[0] as u32, 1, 0),
            jump(BPF_JEQ, CAPACITY[1] as u32, 0, 1),
            stop,
            allow,
        ],
        // 0 is the caller.
        (_, SyscallKind::Others(ProcessArgument::Process(index), _)) => {
            vec![argument(index), jump(BPF_JEQ, 0, 0, 1), allow, stop]
        }
        (libc::SYS_sendto, _) => {
            vec![argument(4), jump(BPF_JEQ, 0, 0, 1), allow, stop]
        }
        _ => vec![stop],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use libc::{BPF_ABS, BPF_JMP, BPF_K, BPF_LD, BPF_W};
    use pagewise_tracee::seccomp::ARGUMENTS_AT;

    /// The answer of the filter, from a small interpreter of the instructions it uses.
    fn run(number: u32, architecture: u32, args: [u32; 6]) -> u32 {
        let code = filter(Vec::new());
        let (mut at, mut accumulator) = (0, 0);
        loop {
            let step = &code[at];
            let skip = |taken: bool| usize::from(if taken { step.jt } else { step.jf });
            at += 1;
            match u32::from(step.code) {
                c if c == BPF_LD | BPF_W | BPF_ABS => {
                    accumulator = match step.k {
                        NUMBER_AT => number,
                        ARCHITECTURE_AT => architecture,
                        k => args[((k - ARGUMENTS_AT) / 8) as usize],
                    }
                }
                c if c == BPF_JMP | BPF_JEQ | BPF_K => at += skip(accumulator == step.k),
                c if c == BPF_JMP | BPF_JGE | BPF_K => at += skip(accumulator >= step.k),
                c if c == BPF_JMP | BPF_JSET | BPF_K => at += skip(accumulator & step.k != 0),
                _ => return step.k,
            }
        }
    }

    #[test]
    fn filter_picks_what_the_table_says() {
        let (allow, stop) = (libc::SECCOMP_RET_ALLOW, libc::SECCOMP_RET_TRACE);
        let foreign = stop | FOREIGN as u32;
        for &(number, kind) in all() {
            let mut args = [7, libc::O_RDWR as u32, libc::O_RDWR as u32, 0, 1, 0];
            match number {
                libc::SYS_socket => args[0] = NETLINK,
                libc::SYS_ptrace => args[0] = ATTACHING[1] as u32,
                _ => {}
            }
            if kind == SyscallKind::Ioctl {
                for request in [0x8914, *NETWORK.start(), *NETWORK.end(), MARKING[0], MARKING[1]] {
                    args[1] = request;
                    assert_eq!(run(number as u32, ARCHITECTURE, args), stop);
                }
                args[1] = MARKING[0];
            }
            if number == libc::SYS_fcntl {
                assert_eq!(run(number as u32, ARCHITECTURE, args), allow);
                args[1] = libc::F_SETPIPE_SZ as u32;
                assert_eq!(run(number as u32, ARCHITECTURE, args), stop);
                args[1] = libc::F_GETPIPE_SZ as u32;
            }
            assert_eq!(run(number as u32, ARCHITECTURE, args), stop, "{kind:?}");
            assert_eq!(run(number as u32, 0x4000_0003, args), foreign, "{kind:?}");
        }
        for request in [0x5401, NETWORK.start() - 1, NETWORK.end() + 1] {
            let args = [1, request, 0, 0, 0, 0];
            assert_eq!(run(libc::SYS_ioctl as u32, ARCHITECTURE, args), allow);
        }
        let of_oneself =
            [libc::SYS_prlimit64, libc::SYS_sched_setaffinity, libc::SYS_ptrace, libc::SYS_socket];
        for number in of_oneself {
            assert_eq!(run(number as u32, ARCHITECTURE, [0; 6]), allow);
        }
        assert_eq!(run(libc::SYS_open_by_handle_at as u32, ARCHITECTURE, [0; 6]), allow);
        for (number, flags) in [(libc::SYS_openat, 2), (libc::SYS_open, 1)] {
            let opens = |with: i32| {
                let mut args = [0; 6];
                args[flags] = with as u32;
                run(number as u32, ARCHITECTURE, args)
            };
            assert_eq!([opens(libc::O_DIRECTORY), opens(libc::O_PATH)], [allow; 2]);
            assert_eq!([opens(libc::O_RDONLY), opens(libc::O_CLOEXEC)], [stop; 2]);
            assert_eq!(opens(libc::O_DIRECTORY | libc::O_TRUNC), stop);
        }
        assert_eq!(run(libc::SYS_sendto as u32, ARCHITECTURE, [0; 6]), allow);
        assert_eq!(run(libc::SYS_read as u32, ARCHITECTURE, [0; 6]), allow);
        assert_eq!(run(libc::SYS_read as u32 | X32_BIT, ARCHITECTURE, [0; 6]), foreign);
        assert_eq!(run(u32::MAX, ARCHITECTURE, [0; 6]), allow);
        assert!(is_x32(u64::from(X32_BIT)) && !is_x32(u64::MAX) && !is_x32(59));
    }

    #[test]
    fn calls_are_named_once() {
        for &(number, wanted) in all() {
            assert_eq!(kind(number), Some(wanted));
            assert_eq!(all().filter(|(n, _)| *n == number).count(), 1);
        }
        assert_eq!(kind(libc::SYS_read), None);
    }
}
