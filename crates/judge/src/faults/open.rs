//! A fault under way: what is known of it until its end, or until it is known to have none.

use super::churn::{self, Circumstances};
use super::race::Page;
use super::touched::Before;
use pagewise_model::fault::event::Begin;
use pagewise_model::fault::{Access, Again, Cause, MappingKind};
use pagewise_model::{Bytes, Nanos};

/// A fault under way.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) at: Nanos,
    pub(super) begin: Begin,
    pub(super) page: Page,
    pub(super) place: u32,
    pub(super) site: u32,
    pub(super) kind: MappingKind,
    pub(super) offset: Option<Bytes>,
    pub(super) is_shared: bool,
    pub(super) access: Access,
    pub(super) cause: Cause,
    /// What was known of its page, and what else was going on, when it began.
    pub(super) before: Before,
    pub(super) circumstances: Circumstances,
    pub(super) again: Option<Again>,
    pub(super) copies: bool,
    pub(super) raced: bool,
    pub(super) stack: Option<u32>,
}

impl Open {
    /// It came for `cause`.
    pub(super) fn settle(&mut self, cause: Cause) {
        self.cause = cause;
        self.again = churn::reason(self.before, cause, self.circumstances);
        self.copies = cause == Cause::Protection && self.access == Access::Write && !self.is_shared;
    }
}

/// How a fault came to its end.
#[derive(Debug, Clone, Copy)]
pub(super) enum Close {
    Served {
        is_major: bool,
        /// Size of the page mapped, where it is known.
        page: Option<Bytes>,
    },
    /// Without an end, and why.
    Unserved(&'static str),
    /// Its end was not to be recorded, and why.
    Untold(&'static str),
}
