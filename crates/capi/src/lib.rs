//! The C interface of `pagewise-lanes`. `tests/header.rs` generates `include/pagewise.h` from these files.
//! Their comments become the manual in the header, so they address C programmers.
//!
//! Each function calls the library inside [`error::answer`], which turns errors into negative errno values,
//! keeps their message for the thread, and stops panics. C holds boxes behind opaque pointers. The overhead
//! is one allocation for each object, and none for each call.

#![allow(unsafe_code, reason = "pointers and descriptors that a C program passes")]
#![warn(missing_docs)]

mod choose;
mod copy;
mod error;
mod frozen;
mod pipe;
mod shared;
mod version;

pub use choose::{Choice, PAGEWISE_RANDOM, PAGEWISE_SEQUENTIAL, pagewise_choose};
pub use copy::{
    Copied, Copier, PAGEWISE_GROW_SOURCE, PAGEWISE_KEEP_CAPACITY, PAGEWISE_LIVE, PAGEWISE_NO_LIMIT,
    PAGEWISE_SINK, PAGEWISE_SOURCE, pagewise_copier_free, pagewise_copier_new, pagewise_copier_run,
    pagewise_copy,
};
pub use error::pagewise_error_message;
pub use frozen::{
    Draft, Frozen, pagewise_draft_bytes, pagewise_draft_free, pagewise_draft_freeze,
    pagewise_draft_new, pagewise_frozen_bytes, pagewise_frozen_free, pagewise_frozen_length,
    pagewise_frozen_memfd, pagewise_frozen_new, pagewise_frozen_open, pagewise_frozen_send,
};
pub use pipe::{
    PAGEWISE_WAIT_ADAPTIVE, PAGEWISE_WAIT_BLOCK, PAGEWISE_WAIT_BUSY, Reader, Writer,
    pagewise_reader_free, pagewise_reader_new, pagewise_reader_read, pagewise_reader_skip,
    pagewise_reader_stop, pagewise_writer_capacity, pagewise_writer_free, pagewise_writer_new,
    pagewise_writer_send, pagewise_writer_stop, pagewise_writer_write,
};
pub use version::{PAGEWISE_ABI_VERSION, pagewise_abi_version};
