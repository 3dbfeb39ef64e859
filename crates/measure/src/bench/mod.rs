//! What each bench measures, by the name of its command: `bench pipe` is [`pipe`], `bench text` is [`code`].
//! Their common frame is [`frame`].

pub mod file;
pub mod fork;
pub(crate) mod frame;
pub mod memory;
pub mod pin;
pub mod pipe;
pub mod text;
pub mod tlb;
