//! Puts the text of a running process on huge pages from outside: the code it has generated, which is in no
//! file, and on request the text of its files, if the kernel supports that.
//!
//! Each complete slot that is on smaller pages is tried (`tracee::collapse`); untouched slots are skipped.
//! What counts is the page table afterwards. The process that was examined is the one that is changed: its
//! descriptor was opened before, a process that has ended does not accept advice, and one that has executed
//! another program is refused. Nothing starts while other processes wait for memory. Host and cgroups must
//! also have room for all slots together, since each slot first takes a new page.
//!
//! Not kept: a part of a slot that changes its rights splits the slot for good. Just-in-time compilers do
//! that each time they write. `later` reports what has stayed. Cost: two looks, and `tracee::collapse`.

use crate::code::sizes;
use crate::recache::{is_pressed, no_room};
use pagewise_judge::text as judged;
use pagewise_kernel::proc::image::ImageIdentity;
use pagewise_kernel::{SysError, clock, page_size};
use pagewise_model::cache::CacheOutcome;
use pagewise_model::collapse::{CollapsedPart, CollapsedProcess, RefusedSlots};
use pagewise_model::text::{CacheSeen, TextArea, TextAreaKind, TextMappingSeen, coverage};
use pagewise_model::{Bytes, Nanos};
use pagewise_observe::text::{self as observed, ProcessCode};
use pagewise_tracee::collapse::{CollapseRefusal, CollapseTarget};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CollapseOptions {
    /// Include the text of files.
    pub with_files: bool,
    /// Look again after this time; `None` for no second look.
    pub later: Option<Nanos>,
}

/// Why nothing was done.
#[derive(Debug, thiserror::Error)]
pub enum CollapseError {
    #[error(transparent)]
    Sys(#[from] SysError),
    /// There is not enough memory.
    #[error("{why}")]
    NoMemory {
        why: String,
        /// Advice for the user.
        help: String,
    },
}

/// Puts the text of process `pid` on huge pages.
///
/// # Errors
/// When it cannot be examined or has ended, when permission is missing, or when memory is short.
pub fn run(pid: i32, options: CollapseOptions) -> Result<CollapsedProcess, CollapseError> {
    let (subject, image) = (CollapseTarget::open(pid)?, ImageIdentity::of(pid)?);
    let seen = observed::look(pid)?;
    let before = CollapsibleProcess::from_process(&seen, options.with_files);
    before.find_room()?;
    refuse_other(&image)?;
    let start = clock::now();
    let tried =
        before.0.iter().map(|part| part.collapse(&subject)).collect::<Result<Vec<_>, _>>()?;
    let took_ns = Nanos(clock::now().0.saturating_sub(start.0));
    let after = look_again(&image, options)?;
    if let Some(later) = options.later {
        std::thread::sleep(later.duration());
    }
    let later = options.later.map(|_| look_again(&image, options)).transpose()?;
    let report = before.0.into_iter().zip(tried);
    let parts = report.map(|(part, tried)| part.report(tried, &after, later.as_ref())).collect();
    let (name, is_disabled) = (seen.name, seen.is_disabled);
    Ok(CollapsedProcess { pid, name, is_disabled, parts, took_ns, later_ns: options.later })
}

/// The process after the change, if it still runs the same program.
fn look_again(
    image: &ImageIdentity,
    options: CollapseOptions,
) -> Result<CollapsibleProcess, SysError> {
    let now = observed::look(image.pid())?;
    refuse_other(image)?;
    Ok(CollapsibleProcess::from_process(&now, options.with_files))
}

/// Refuses a process that has ended or executed another program.
fn refuse_other(image: &ImageIdentity) -> Result<(), SysError> {
    if image.is_there() {
        return Ok(());
    }
    Err(SysError::new("read", format!("/proc/{}", image.pid()), rustix::io::Errno::SRCH))
}

/// The generated code of a process, and its files.
struct CollapsibleProcess(Vec<CollapsibleText>);

struct CollapsibleText {
    path: Option<String>,
    mappings: Vec<TextMappingSeen>,
    areas: Vec<TextArea>,
}

impl CollapsibleProcess {
    fn from_process(seen: &ProcessCode, with_files: bool) -> Self {
        let mut parts = vec![CollapsibleText::generated(&seen.generated, seen.is_disabled)];
        if with_files {
            let file = |file: &observed::FileSeen| {
                let path = Some(file.path.clone());
                CollapsibleText::of_file(path, &file.mappings, &file.cache, seen.is_disabled)
            };
            parts.extend(seen.files.iter().map(file));
        }
        Self(parts)
    }

    fn named(&self, path: Option<&str>) -> Option<&CollapsibleText> {
        self.0.iter().find(|part| part.path.as_deref() == path)
    }

    /// Checks that there is enough memory.
    fn find_room(&self) -> Result<(), CollapseError> {
        let slots: usize = self.0.iter().map(|part| part.slots().count()).sum();
        if slots == 0 {
            return Ok(());
        }
        let needed = Bytes((slots as u64).saturating_mul(page_size::huge().bytes()));
        match no_room(needed).or_else(is_pressed) {
            Some(CacheOutcome::Refused { why, help }) => Err(CollapseError::NoMemory { why, help }),
            _ => Ok(()),
        }
    }
}

impl CollapsibleText {
    fn generated(seen: &[TextMappingSeen], is_disabled: bool) -> Self {
        let area = |seen| judged::explain_generated(seen, is_disabled, &sizes());
        Self { path: None, mappings: seen.to_vec(), areas: seen.iter().map(area).collect() }
    }

    /// The text of a file, without its read-only data.
    fn of_file(
        path: Option<String>,
        seen: &[TextMappingSeen],
        cache: &CacheSeen,
        is_disabled: bool,
    ) -> Self {
        let is_text = |seen: &&TextMappingSeen| seen.kind == TextAreaKind::Text;
        let mappings: Vec<TextMappingSeen> = seen.iter().filter(is_text).cloned().collect();
        let area = |seen| judged::explain_mapping(seen, cache, is_disabled, &sizes());
        let areas = mappings.iter().map(area).collect();
        Self { path, mappings, areas }
    }

    fn slots(&self) -> impl Iterator<Item = u64> {
        self.areas.iter().flat_map(judged::collapsible)
    }

    fn huge(&self) -> Bytes {
        coverage(&self.areas, TextArea::huge).text_bytes
    }

    /// Tries each slot. Returns how many were tried, and what was refused.
    fn collapse(&self, subject: &CollapseTarget) -> Result<CollapseAttempts, SysError> {
        let huge = page_size::huge().bytes();
        let mut tried = CollapseAttempts::default();
        for start in self.slots() {
            tried.slots += 1;
            if let Some(refusal) = subject.collapse(&(start..start + huge))? {
                *tried.refused.entry(refusal).or_default() += 1;
            }
        }
        Ok(tried)
    }

    fn report(
        self,
        tried: CollapseAttempts,
        after: &CollapsibleProcess,
        later: Option<&CollapsibleProcess>,
    ) -> CollapsedPart {
        let is_file = self.path.is_some();
        let refused =
            |(refusal, slots)| RefusedSlots { why: why(refusal, is_file).to_owned(), slots };
        let now = after.named(self.path.as_deref());
        let later = later.and_then(|parts| parts.named(self.path.as_deref()));
        let growth = |now: &CollapsibleText| {
            judged::growth(&self.mappings, &now.mappings, page_size::base())
        };
        CollapsedPart {
            huge_before_bytes: self.huge(),
            tried_slots: tried.slots,
            refused: tried.refused.into_iter().map(refused).collect(),
            areas: now.map(|part| part.areas.clone()).unwrap_or_default(),
            grown_bytes: now.map(growth).unwrap_or_default(),
            later_huge_bytes: later.map(CollapsibleText::huge),
            path: self.path,
        }
    }
}

/// Result of the attempts.
#[derive(Debug, Default, PartialEq, Eq)]
struct CollapseAttempts {
    slots: u64,
    refused: BTreeMap<CollapseRefusal, u64>,
}

const fn why(refusal: CollapseRefusal, is_file: bool) -> &'static str {
    match (refusal, is_file) {
        (CollapseRefusal::Unfit, true) => {
            "this kernel cannot collapse the text of files (no READ_ONLY_THP_FOR_FS): use pagewise text warm FILE, and start the program again"
        }
        (CollapseRefusal::Unfit, false) => {
            "the kernel never collapses such memory: it is advised against (MADV_NOHUGEPAGE), watched by userfaultfd, or held by a device"
        }
        (CollapseRefusal::Busy, _) => "in use right now: try again",
        (CollapseRefusal::NoMemory, _) => "no huge page was free, or it was unmapped meanwhile",
        (CollapseRefusal::GroupFull, _) => "its cgroup may not have more memory",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_that_executes_another_program_is_another() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo; read go; exec sh -c 'echo; read go'"]);
        let mut child = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        let mut step = || out.read_exact(&mut [0]).unwrap();
        step();
        let image = ImageIdentity::of(child.id().cast_signed()).unwrap();
        let options = CollapseOptions { with_files: false, later: None };
        assert!(look_again(&image, options).is_ok());
        child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        step();
        assert!(look_again(&image, options).is_err_and(|error| error.is_gone()));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
