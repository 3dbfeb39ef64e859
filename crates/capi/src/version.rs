//! Which interface the library has.

/// The interface that this header describes. It is raised when programs that were compiled with an
/// older header cannot use the library any more. New functions do not raise it.
pub const PAGEWISE_ABI_VERSION: u32 = 2;

/// The interface of the library that is loaded. A program compares it with `PAGEWISE_ABI_VERSION`.
#[unsafe(no_mangle)]
pub extern "C" fn pagewise_abi_version() -> u32 {
    PAGEWISE_ABI_VERSION
}
