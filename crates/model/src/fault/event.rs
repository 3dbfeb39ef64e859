//! What the kernel tells about faults while they happen, in the form that can be saved and judged.
//!
//! Times are of the monotonic clock. A fault gives two events of one thread, its beginning and its
//! end; a thread has at most one under way.

use crate::units::{Bytes, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// User registers that tell apart the operands of instructions with two; 0 where not recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Registers {
    /// Source of string instructions (RSI).
    pub source: u64,
    /// Target of string instructions (RDI).
    pub target: u64,
    /// Stack pointer.
    pub stack: u64,
}

/// A fault has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Begin {
    pub pid: i32,
    pub tid: i32,
    /// Address touched.
    pub address: u64,
    /// Address of the instruction.
    pub ip_address: u64,
    /// Size of the page mapped there, 0 for none; absent where the kernel does not tell.
    pub page_bytes: Option<Bytes>,
    /// Registers; absent where the kernel does not tell.
    pub registers: Option<Registers>,
    /// Taken in the kernel.
    pub in_kernel: bool,
}

/// What the processor said about the fault that is about to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorCode {
    pub tid: i32,
    /// Address touched.
    pub address: u64,
    /// As the processor pushed it; its bits are the machine's.
    pub bits: u64,
}

/// The registers by which a stack is walked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FrameRegisters {
    /// Instruction pointer.
    pub ip_address: u64,
    /// Stack pointer.
    pub stack: u64,
    /// Frame pointer (RBP).
    pub frame: u64,
    /// RBX, which some functions keep the frame in.
    pub base: u64,
}

/// The user stack of a thread, as it was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Chain {
    /// Instruction and return addresses that the kernel found by frame pointers, innermost first.
    Walked(Vec<u64>),
    /// Registers and the bytes from the stack pointer on.
    Copied {
        registers: FrameRegisters,
        /// As many as were wanted, or as there are.
        bytes: Vec<u8>,
    },
}

/// Who called the instruction of a fault that is under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallStack {
    pub pid: i32,
    pub tid: i32,
    /// Address touched.
    pub address: u64,
    /// Address of the instruction that faulted, in the kernel if that did.
    pub ip_address: u64,
    /// Taken in the kernel: the stack is that of the system call.
    pub in_kernel: bool,
    /// How many faults it stands for.
    pub faults: u64,
    /// The stack.
    pub chain: Chain,
}

/// A fault has been served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct End {
    pub tid: i32,
    /// Address touched.
    pub address: u64,
    /// Size of the page mapped there now; absent where the kernel does not tell.
    pub page_bytes: Option<Bytes>,
    /// It waited for a device, or was retried.
    pub is_major: bool,
}

/// Which file a mapping is of, as the kernel lists it: device and inode.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct FileId {
    pub major: u32,
    pub minor: u32,
    pub inode: u64,
}

/// A mapping was made or changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Map {
    pub pid: i32,
    /// First address.
    pub start_address: u64,
    pub size_bytes: Bytes,
    /// Offset in the file.
    pub offset_bytes: Bytes,
    /// May be executed.
    pub is_executable: bool,
    /// Shared with other processes.
    pub is_shared: bool,
    /// Path, or a name of the kernel's such as `[heap]` and `//anon`.
    pub path: String,
    /// Its file, where that is known.
    #[serde(default)]
    pub file: Option<FileId>,
}

/// Pages of a process were moved to other addresses (mremap(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Move {
    pub pid: i32,
    pub from_address: u64,
    pub to_address: u64,
    pub size_bytes: Bytes,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// A fault has begun.
    Begin(Begin),
    /// What the processor said about the fault that this thread begins next.
    ErrorCode(ErrorCode),
    /// A fault has been served.
    End(End),
    /// The stack of a fault that is under way.
    Stack(CallStack),
    /// A mapping was made or changed.
    Map(Map),
    /// Pages were moved.
    Move(Move),
    /// The process has become another program.
    Exec { pid: i32 },
    /// A thread was made; in a new process when the two process ids differ.
    Fork {
        pid: i32,
        /// The process that made it.
        parent_pid: i32,
    },
    /// A thread has ended.
    Exit { pid: i32, tid: i32 },
    /// The kernel had no room for this many records.
    Lost { records: u64 },
    /// The kernel had no room for this many stacks.
    LostStacks { stacks: u64 },
}

/// What happened, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Monotonic clock.
    pub at_ns: Nanos,
    pub what: What,
}
