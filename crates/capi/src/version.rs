//! The interface version of the library.

/// The interface version that this header describes. It is raised when programs compiled with an older header
/// can no longer use the library. New functions do not raise it.
pub const PAGEWISE_ABI_VERSION: u32 = 2;

/// The interface version of the loaded library. A program compares it with `PAGEWISE_ABI_VERSION`.
#[unsafe(no_mangle)]
pub extern "C" fn pagewise_abi_version() -> u32 {
    PAGEWISE_ABI_VERSION
}
