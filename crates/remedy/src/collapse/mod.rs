//! Puts the text of a running process on huge pages from outside, and takes it off them: the code it has
//! generated, which is in no file, and the text of its files. If the kernel does not collapse files, their text
//! is read again on request ([`reread`]).
//!
//! Each complete slot that is on smaller pages is tried (`tracee::collapse`); untouched slots are skipped.
//! What counts is the page table afterwards. The process that was examined is the one that is changed: its
//! descriptor was opened before, a process that has ended does not accept advice, and one that has executed
//! another program is refused. Nothing starts while other processes wait for memory. Host and cgroups must
//! also have room for all slots together, since each slot first takes a new page.
//!
//! Splitting also takes off what was huge before. A huge page that other processes share cannot be split.
//!
//! Not kept: a part of a slot that changes its rights splits the slot for good. Just-in-time compilers do
//! that each time they write. `later` reports what has stayed. Cost: two looks, and `tracee::collapse`.

mod reread;

use crate::code::sizes;
use crate::recache::{is_pressed, no_room};
use pagewise_judge::text as judged;
use pagewise_kernel::proc::image::ImageIdentity;
use pagewise_kernel::{SysError, clock, page_size};
use pagewise_model::cache::CacheOutcome;
use pagewise_model::collapse::{CollapseWay, CollapsedPart, CollapsedProcess, RefusedSlots};
use pagewise_model::text::{
    HugeStanding, TextArea, TextAreaKind, TextMappingSeen, TextPiece, coverage,
};
use pagewise_model::{Bytes, Nanos};
use pagewise_observe::text::{self as observed, FileSeen, ProcessCode};
use pagewise_tracee::collapse::{CollapseRefusal, CollapseTarget};
use pagewise_tracee::ptrace::read_memory;
use reread::{TextRereader, is_mapped_huge};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::time::Duration;

/// Attempts to split a huge page: the kernel does not split one that is still in a CPU's batch for its lists.
const SPLITS: usize = 20;
const SPLIT_PAUSE: Duration = Duration::from_millis(5);
/// If this many slots of a file are refused and none was taken, the others are not tried.
const HOPELESS: u64 = 2;
/// EPERM beside text that needs fewer rights.
const UNPERMITTED: &str = "the kernel collapses it only for root or with CAP_SYS_NICE";

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CollapseOptions {
    /// Include the text of files.
    pub with_files: bool,
    pub way: CollapseWay,
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

/// Puts the text of process `pid` on huge pages, or splits them.
///
/// # Errors
/// When it cannot be examined or has ended, when permission is missing, or when memory is short.
pub fn run(pid: i32, options: CollapseOptions) -> Result<CollapsedProcess, CollapseError> {
    let (subject, image) = (CollapseTarget::open(pid)?, ImageIdentity::of(pid)?);
    let seen = observed::look(pid)?;
    let before = CollapsibleProcess::from_process(&seen, options.with_files);
    if options.way != CollapseWay::Split {
        before.find_room()?;
    }
    refuse_other(&image)?;
    let start = clock::now();
    let mut means = CollapseMeans { pid, subject, rereader: TextRereader::of(&image)? };
    let change = |part: &CollapsibleText| match options.way {
        CollapseWay::Split => part.split(&means),
        CollapseWay::Reread if part.path.is_some() => part.reread(&mut means),
        CollapseWay::Reread => part.collapse_if_permitted(&means.subject),
        CollapseWay::InPlace => part.collapse(&means.subject),
    };
    let tried = before.0.iter().map(change).collect::<Result<Vec<_>, _>>()?;
    let took_ns = Nanos(clock::now().0.saturating_sub(start.0));
    let after = look_again(&image, options)?;
    if let Some(later) = options.later {
        std::thread::sleep(later.duration());
    }
    let later = options.later.map(|_| look_again(&image, options)).transpose()?;
    let report = before.0.into_iter().zip(tried);
    let parts = report.map(|(part, tried)| part.report(tried, &after, later.as_ref())).collect();
    let stop = means.rereader.longest_stop;
    Ok(CollapsedProcess {
        pid,
        name: seen.name,
        is_disabled: seen.is_disabled,
        way: options.way,
        parts,
        took_ns,
        longest_stop_ns: (stop > Nanos(0)).then_some(stop),
        later_ns: options.later,
    })
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

/// What changes the process.
struct CollapseMeans {
    pid: i32,
    subject: CollapseTarget,
    rereader: TextRereader,
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
            let of_file = |file| CollapsibleText::of_file(file, seen.is_disabled);
            parts.extend(seen.files.iter().map(of_file));
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
    fn of_file(file: &FileSeen, is_disabled: bool) -> Self {
        let is_text = |seen: &&TextMappingSeen| seen.kind == TextAreaKind::Text;
        let mappings: Vec<TextMappingSeen> =
            file.mappings.iter().filter(is_text).cloned().collect();
        let area = |seen| judged::explain_mapping(seen, &file.cache, is_disabled, &sizes());
        let areas = mappings.iter().map(area).collect();
        Self { path: Some(file.path.clone()), mappings, areas }
    }

    fn slots(&self) -> impl Iterator<Item = u64> {
        self.areas.iter().flat_map(judged::collapsible)
    }

    fn huge(&self) -> Bytes {
        coverage(&self.areas, TextArea::huge).text_bytes
    }

    /// Tries each slot. Returns how many were tried, and what was refused.
    fn collapse(&self, subject: &CollapseTarget) -> Result<CollapseAttempts, SysError> {
        let (huge, is_file) = (page_size::huge().bytes(), self.path.is_some());
        let mut tried = CollapseAttempts::default();
        for start in self.slots() {
            let refused = subject.collapse(&(start..start + huge))?;
            tried.add(refused.map(|refusal| why(refusal, is_file).to_owned()));
        }
        Ok(tried)
    }

    /// The same, except that a missing right is a reason and not a failure.
    fn collapse_if_permitted(
        &self,
        subject: &CollapseTarget,
    ) -> Result<CollapseAttempts, SysError> {
        self.collapse(subject).or_else(|error| match error.source.kind() {
            ErrorKind::PermissionDenied => {
                let mut tried = CollapseAttempts::default();
                self.slots().for_each(|_| tried.add(Some(UNPERMITTED.to_owned())));
                Ok(tried)
            }
            _ => Err(error),
        })
    }

    /// Reads each slot of a file again. The kernel collapses files in memory.
    fn reread(&self, means: &mut CollapseMeans) -> Result<CollapseAttempts, SysError> {
        let mut tried = CollapseAttempts::default();
        let Some(first) = self.slots().next() else { return Ok(tried) };
        let file = means.rereader.open(first);
        if file.as_ref().is_ok_and(|file| file.is_in_memory) {
            return self.collapse_if_permitted(&means.subject);
        }
        for slot in self.slots() {
            let is_huge = self
                .pieces()
                .any(|piece| piece.address == slot && piece.standing == HugeStanding::PageTable);
            let hopeless = tried.slots >= HOPELESS && tried.are_all_refused();
            let last = tried.refused.keys().next().filter(|_| hopeless).cloned();
            let refused = match (&file, last) {
                (Err(why), _) => Some(why.clone()),
                (Ok(_), Some(why)) => Some(why),
                (Ok(file), None) => means.rereader.reread(file, slot, is_huge)?,
            };
            tried.add(refused);
        }
        Ok(tried)
    }

    /// Splits each huge page.
    fn split(&self, means: &CollapseMeans) -> Result<CollapseAttempts, SysError> {
        let mut tried = CollapseAttempts::default();
        let huge = self.pieces().filter(|piece| piece.standing == HugeStanding::Huge);
        for slot in huge.map(|piece| piece.address) {
            tried.add(split(means, slot)?);
        }
        Ok(tried)
    }

    fn pieces(&self) -> impl Iterator<Item = &TextPiece> {
        self.areas.iter().flat_map(|area| &area.pieces)
    }

    fn report(
        self,
        tried: CollapseAttempts,
        after: &CollapsibleProcess,
        later: Option<&CollapsibleProcess>,
    ) -> CollapsedPart {
        let refused = |(why, slots)| RefusedSlots { why, slots };
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
    /// Slots by the reason why they were refused.
    refused: BTreeMap<String, u64>,
}

impl CollapseAttempts {
    fn are_all_refused(&self) -> bool {
        self.refused.values().sum::<u64>() == self.slots
    }

    fn add(&mut self, refused: Option<String>) {
        self.slots += 1;
        if let Some(why) = refused {
            *self.refused.entry(why).or_default() += 1;
        }
    }
}

/// EINVAL and ENOMEM of advice on memory that cannot take it.
fn is_not_there(error: &SysError) -> bool {
    matches!(error.source.kind(), ErrorKind::InvalidInput | ErrorKind::OutOfMemory)
}

/// Splits the huge page of a slot. Returns why it stays.
fn split(means: &CollapseMeans, slot: u64) -> Result<Option<String>, SysError> {
    for _ in 0..SPLITS {
        match means.subject.split(slot) {
            Err(error) if is_not_there(&error) => {
                return Ok(Some("it is locked, or was unmapped meanwhile".to_owned()));
            }
            done => done?,
        }
        if !is_mapped_huge(means.pid, slot)? {
            // The split unmaps text of files. This maps it as the next touch by the process would.
            let _gone = read_memory(means.pid, slot, &mut [0]);
            return Ok(None);
        }
        std::thread::sleep(SPLIT_PAUSE);
    }
    Ok(Some("other processes share the huge page: split it after they have ended".to_owned()))
}

const fn why(refusal: CollapseRefusal, is_file: bool) -> &'static str {
    match (refusal, is_file) {
        (CollapseRefusal::Unfit, true) => {
            "this kernel does not collapse text of this file (no READ_ONLY_THP_FOR_FS, or it is open for writing): add --reread"
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
        let options = CollapseOptions::default();
        assert!(look_again(&image, options).is_ok());
        child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        step();
        assert!(look_again(&image, options).is_err_and(|error| error.is_gone()));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
