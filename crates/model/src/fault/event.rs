//! The kernel's reports on faults while they occur, in a form that can be saved and judged.
//!
//! Times are from the monotonic clock. A fault gives two events of one thread, its beginning and its end. A
//! thread has at most one fault under way.

use crate::schema::JsonSchema;
use crate::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// User registers that distinguish the operands of instructions with two of them; 0 if not recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OperandRegisters {
    /// Source of string instructions (RSI).
    pub source: u64,
    /// Target of string instructions (RDI).
    pub target: u64,
    /// Stack pointer.
    pub stack: u64,
}

/// The beginning of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FaultBegin {
    pub pid: i32,
    pub tid: i32,
    /// Address that was touched.
    pub address: u64,
    /// Address of the instruction.
    pub ip_address: u64,
    /// Size of the page mapped there, 0 for none; absent if the kernel does not report it.
    pub page_bytes: Option<Bytes>,
    /// User registers; absent if the kernel does not report them.
    pub registers: Option<OperandRegisters>,
    /// True if the fault occurred in kernel mode.
    pub in_kernel: bool,
}

/// The processor's error code for the fault that is about to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FaultErrorCode {
    pub tid: i32,
    /// Address that was touched.
    pub address: u64,
    /// The code as the processor pushed it; its bits depend on the machine.
    pub bits: u64,
}

/// The registers from which a stack is unwound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FrameRegisters {
    /// Instruction pointer.
    pub ip_address: u64,
    /// Stack pointer.
    pub stack: u64,
    /// Frame pointer (RBP).
    pub frame: u64,
    /// RBX, in which some functions keep the frame.
    pub base: u64,
}

/// The recorded user stack of a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecordedStack {
    /// Instruction and return addresses that the kernel found by frame pointers, innermost first.
    Walked(Vec<u64>),
    /// Registers and the bytes from the stack pointer on.
    Copied {
        registers: FrameRegisters,
        /// As many bytes as were requested, or as there are.
        bytes: Vec<u8>,
    },
}

/// The callers of the instruction whose fault is under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallStack {
    pub pid: i32,
    pub tid: i32,
    /// Address that was touched.
    pub address: u64,
    /// Address of the instruction that faulted; a kernel address in kernel mode.
    pub ip_address: u64,
    /// True if the fault occurred in kernel mode; the stack is then that of the system call.
    pub in_kernel: bool,
    /// Number of faults that the stack stands for.
    pub faults: u64,
    /// The recorded stack.
    pub chain: RecordedStack,
}

/// The end of a fault that was served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FaultEnd {
    pub tid: i32,
    /// Address that was touched.
    pub address: u64,
    /// Size of the page mapped there now; absent if the kernel does not report it.
    pub page_bytes: Option<Bytes>,
    /// True if the fault waited for a device, or was retried.
    pub is_major: bool,
}

/// The file of a mapping as the kernel lists it: device and inode.
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
pub struct MapEvent {
    pub pid: i32,
    /// First address.
    pub start_address: u64,
    pub size_bytes: Bytes,
    /// Offset in the file.
    pub offset_bytes: Bytes,
    /// True if the mapping may be executed.
    pub is_executable: bool,
    /// True if the mapping is shared with other processes.
    pub is_shared: bool,
    /// Path, or a name from the kernel such as `[heap]` or `//anon`.
    pub path: String,
    /// The file of the mapping, if it is known.
    #[serde(default)]
    pub file: Option<FileId>,
}

/// Pages of a process were moved to other addresses (mremap(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MremapEvent {
    pub pid: i32,
    pub from_address: u64,
    pub to_address: u64,
    pub size_bytes: Bytes,
}

/// The kind of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FaultEventPayload {
    /// A fault has begun.
    Begin(FaultBegin),
    /// The error code of the fault that this thread takes next.
    ErrorCode(FaultErrorCode),
    /// A fault has been served.
    End(FaultEnd),
    /// The stack of a fault that is under way.
    Stack(CallStack),
    /// A mapping was made or changed.
    Map(MapEvent),
    /// Pages were moved.
    Move(MremapEvent),
    /// The process has executed another program.
    Exec { pid: i32 },
    /// A thread was created, in a new process if the two process ids differ.
    Fork {
        pid: i32,
        /// The process that created it.
        parent_pid: i32,
    },
    /// A thread has ended.
    Exit { pid: i32, tid: i32 },
    /// This many records were lost because the kernel had no room.
    Lost { records: u64 },
    /// This many stacks were lost because the kernel had no room.
    LostStacks { stacks: u64 },
}

/// An event with its time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FaultEvent {
    /// Time by the monotonic clock.
    pub at_ns: Nanos,
    pub what: FaultEventPayload,
}
