//! Brings files into huge folios of the page cache before a program starts, for `text-huge` and `file-huge`,
//! and reports the result.
//!
//! The cache belongs to the file and not to the program. The work for one start serves later starts and all
//! processes, until memory is needed elsewhere. So each start looks first and refills only what is missing
//! ([`recache`](crate::recache) says how, and when that is refused). A start is never prevented: shortfalls
//! are reported.
//!
//! Cost: a look at files in the wanted state takes 2 ns per page, 1 us per 2 MiB, and some 50 us per file.
//! Refilling reads them once, some milliseconds per 10 MiB. What is not available, for example because other
//! processes hold a file, is tried again at each start.

use crate::code::CodePlacement;
use crate::recache::RecacheSubject;
use crate::record;
use pagewise_kernel::cached_file::PageCacheFile;
use pagewise_kernel::page_size;
use pagewise_model::cache::{CacheOutcome, CacheSlot, SlotMap};
use pagewise_model::plan::{FileKind, HugeFile};
use pagewise_model::{Bytes, Nanos};
use pagewise_observe::text::ElfFile;
use std::path::Path;

/// The remedy that puts the files of a program's code on huge pages.
pub const TEXT_HUGE: &str = "text-huge";
/// The remedy that does so for the files that a program reads.
pub(crate) const FILE_HUGE: &str = "file-huge";

/// Its costs, and notes for the user.
pub(crate) const NOTES: [&str; 2] = [
    "the cache of these files is dropped and read back once, for all programs; files that a process maps or has written stay unchanged, and the report names them",
    "the system reclaims unmapped cache when it needs memory: each start checks, and reads back what is missing",
];

/// Result for one file.
#[derive(Debug, Clone, PartialEq)]
pub struct WarmedFile {
    pub file: HugeFile,
    /// Outcome of the refill.
    pub outcome: CacheOutcome,
    /// Bytes on huge pages for a program that starts now: of code only its text, of other files everything.
    pub huge_bytes: Bytes,
    pub of_bytes: Bytes,
    /// Time to refill the cache; `None` if it was not refilled.
    pub took_ns: Option<Nanos>,
}

impl WarmedFile {
    /// Whether anything of it is on huge pages, and it was not refused.
    #[must_use]
    pub fn took_hold(&self) -> bool {
        self.huge_bytes > Bytes(0) && !matches!(self.outcome, CacheOutcome::Refused { .. })
    }

    /// What it lacks, and why; `None` if nothing.
    #[must_use]
    pub fn lack(&self) -> Option<String> {
        match &self.outcome {
            CacheOutcome::Done | CacheOutcome::Already => None,
            CacheOutcome::Refused { why, .. } => Some(why.clone()),
            CacheOutcome::Short { why } | CacheOutcome::Worse { why } => {
                Some(format!("{} on huge pages: {why}", self.part()))
            }
        }
    }

    fn part(&self) -> String {
        let what = if self.file.kind == FileKind::Code { " of its text" } else { "" };
        format!("{} of {}{what}", self.huge_bytes, self.of_bytes)
    }

    /// The full report.
    #[must_use]
    pub fn report(&self) -> String {
        match (self.lack(), self.took_ns) {
            (Some(lack), _) => lack,
            (None, Some(took)) => {
                format!("{} on huge pages, read back in {took}", self.part())
            }
            (None, None) => format!("{} on huge pages, as before", self.part()),
        }
    }
}

/// Brings a file into huge folios if it is not in them. Calls `begin` right before that.
#[must_use]
pub fn warm(file: &HugeFile, begin: impl FnOnce(&Path)) -> WarmedFile {
    attempt(file, begin).unwrap_or_else(|why| WarmedFile {
        file: file.clone(),
        outcome: CacheOutcome::Refused { why, help: String::new() },
        huge_bytes: Bytes(0),
        of_bytes: Bytes(0),
        took_ns: None,
    })
}

/// The open file, and its headers if it has code.
fn open(file: &HugeFile) -> Result<(PageCacheFile, Option<ElfFile>), String> {
    let opened = PageCacheFile::open(Path::new(&file.path)).map_err(|e| e.to_string())?;
    let elf = match file.kind {
        FileKind::Code => Some(ElfFile::read(opened.file()).map_err(|e| e.to_string())?),
        FileKind::Input => None,
    };
    Ok((opened, elf))
}

fn attempt(file: &HugeFile, begin: impl FnOnce(&Path)) -> Result<WarmedFile, String> {
    let (opened, elf) = open(file)?;
    let code = elf.as_ref().map(|elf| CodePlacement::from_file(&opened, &elf.layout));
    if let Some(code) = code.filter(|code| code.reach() == Bytes(0)) {
        return Err(code.why_small());
    }
    let size = opened.size();
    let slots = opened.slots().map_err(|e| e.to_string())?;
    let wanted = wanted(code, size);
    if wanted > Bytes(0) && huge(code, &slots) >= wanted {
        return Ok(warmed(file, CacheOutcome::Already, code, &slots, size));
    }
    let done = RecacheSubject::look(opened)
        .and_then(|subject| subject.make_huge(begin))
        .map_err(|e| e.to_string())?;
    let outcome = done.outcome.clone().unwrap_or(CacheOutcome::Already);
    let result = warmed(file, outcome, code, &done.now().slots, size);
    Ok(WarmedFile { took_ns: done.took_ns, ..result })
}

fn warmed(
    file: &HugeFile,
    outcome: CacheOutcome,
    code: Option<CodePlacement<'_>>,
    slots: &SlotMap,
    size: Bytes,
) -> WarmedFile {
    WarmedFile {
        file: file.clone(),
        outcome,
        huge_bytes: huge(code, slots),
        of_bytes: code.map_or(size, |code| code.size()),
        took_ns: None,
    }
}

/// Bytes that can be on huge pages: of code what its layout permits, of other files all but a shorter last
/// slot.
fn wanted(code: Option<CodePlacement<'_>>, size: Bytes) -> Bytes {
    let slot = page_size::huge().bytes();
    code.map_or(Bytes(size.0 / slot * slot), |code| code.reach())
}

fn huge(code: Option<CodePlacement<'_>>, slots: &SlotMap) -> Bytes {
    let all = Bytes(slots.count(CacheSlot::Huge) * page_size::huge().bytes());
    code.map_or(all, |code| code.huge(slots))
}

/// Brings all of these into huge folios. Shortfalls are reported, one line for each kind of file; with
/// `verbose`, the result for each.
#[must_use]
pub fn before_start(files: &[HugeFile], verbose: bool) -> Vec<String> {
    let noted = |path: &Path| {
        // A missing place for the record must not prevent a start.
        let _not_recorded = record::note(path);
    };
    let all: Vec<WarmedFile> = files.iter().map(|file| warm(file, noted)).collect();
    lines(&all, verbose)
}

/// How much of a file is on huge pages for a program that starts now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TextNow {
    /// Bytes on huge pages: of code only its text, of other files everything.
    pub huge_bytes: Bytes,
    pub text_bytes: Bytes,
}

/// How much of a file would start on huge pages now, without changing anything. Nothing for a file that
/// cannot be examined.
#[must_use]
pub fn text_now(file: &HugeFile) -> TextNow {
    let Ok((opened, elf)) = open(file) else { return TextNow::default() };
    let code = elf.as_ref().map(|elf| CodePlacement::from_file(&opened, &elf.layout));
    let text_bytes = code.map_or(opened.size(), |code| code.size());
    let huge_bytes = opened.slots().map_or(Bytes(0), |slots| huge(code, &slots));
    TextNow { huge_bytes, text_bytes }
}

/// Bytes of a file on huge pages for a program that starts now; 0 for a file that cannot be examined.
#[must_use]
pub fn huge_now(file: &HugeFile) -> Bytes {
    text_now(file).huge_bytes
}

fn lines(all: &[WarmedFile], verbose: bool) -> Vec<String> {
    let named = |one: &WarmedFile, text: String| format!("{}: {text}", one.file.path);
    if verbose {
        let line =
            |one: &WarmedFile| format!("{}: {}", remedy(one.file.kind), named(one, one.report()));
        return all.iter().map(line).collect();
    }
    let of_kind = |kind: FileKind| {
        let ours = all.iter().filter(|one| one.file.kind == kind);
        let lacks: Vec<String> = ours.filter_map(|one| Some(named(one, one.lack()?))).collect();
        (!lacks.is_empty()).then(|| format!("{}: {}", remedy(kind), lacks.join("; ")))
    };
    [FileKind::Code, FileKind::Input].into_iter().filter_map(of_kind).collect()
}

/// The remedy for files of this kind.
const fn remedy(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Code => TEXT_HUGE,
        FileKind::Input => FILE_HUGE,
    }
}

/// The files of a parameter, by absolute paths.
pub(crate) fn parse(parameter: &str, kind: FileKind) -> Result<Vec<HugeFile>, String> {
    let file = |name: &str| {
        let path = std::path::absolute(name).map_err(|e| format!("`{name}`: {e}"))?;
        HugeFile::of(&path, kind).ok_or_else(|| format!("`{name}` cannot be part of a list"))
    };
    let mut files: Vec<HugeFile> =
        parameter.split(HugeFile::SEPARATOR).map(file).collect::<Result<_, String>>()?;
    files.dedup();
    Ok(files)
}

/// Writes files as a parameter.
pub(crate) fn spell(files: &[HugeFile]) -> String {
    let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
    paths.join(&HugeFile::SEPARATOR.to_string())
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test says why it is skipped")]
mod tests {
    use super::*;
    use std::io::Write;

    fn one(kind: FileKind, outcome: CacheOutcome, huge: u64) -> WarmedFile {
        WarmedFile {
            file: HugeFile { path: "/bin/x".into(), kind },
            outcome,
            huge_bytes: Bytes::mib(huge),
            of_bytes: Bytes::mib(8),
            took_ns: None,
        }
    }

    #[test]
    fn only_what_fell_short_is_reported_and_in_one_line() {
        let refused = CacheOutcome::Refused { why: "it is mapped".into(), help: String::new() };
        let short = CacheOutcome::Short { why: "in use".into() };
        let all = [
            one(FileKind::Code, CacheOutcome::Already, 8),
            one(FileKind::Code, refused.clone(), 0),
            one(FileKind::Code, short.clone(), 2),
            one(FileKind::Input, short, 4),
        ];
        assert!(all[0].took_hold() && all[2].took_hold() && !all[1].took_hold());
        assert_eq!(
            lines(&all, false),
            [
                "text-huge: /bin/x: it is mapped; /bin/x: 2.0 MiB of 8.0 MiB of its text on huge \
                 pages: in use",
                "file-huge: /bin/x: 4.0 MiB of 8.0 MiB on huge pages: in use",
            ]
        );
        let reported = lines(&all, true);
        assert_eq!(reported.len(), 4);
        assert_eq!(
            reported[0],
            "text-huge: /bin/x: 8.0 MiB of 8.0 MiB of its text on huge pages, as before"
        );
        assert!(lines(&all[..1], false).is_empty());
    }

    #[test]
    fn what_is_refused_took_no_hold_whatever_is_huge() {
        let refused = CacheOutcome::Refused { why: String::new(), help: String::new() };
        assert!(!one(FileKind::Input, refused, 6).took_hold());
        assert!(!one(FileKind::Input, CacheOutcome::Done, 0).took_hold());
    }

    #[test]
    fn a_list_of_files_is_what_it_was_spelled_from() {
        let files = parse("/a:/b c", FileKind::Input).unwrap();
        assert_eq!(spell(&files), "/a:/b c");
        assert_eq!(parse("/a:/a", FileKind::Code).unwrap().len(), 1);
        let here = std::env::current_dir().unwrap().join("x");
        assert_eq!(parse("x", FileKind::Code).unwrap()[0].path, here.to_str().unwrap());
        assert!(parse("/a::/b", FileKind::Code).is_err());
    }

    #[test]
    fn a_file_is_brought_there_once_and_found_there_afterwards() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("file");
        let mut written = std::fs::File::create(&path).unwrap();
        for _ in 0..1100 {
            written.write_all(&[7; 4096]).unwrap();
        }
        written.sync_all().unwrap();
        let file = HugeFile::of(&path, FileKind::Input).unwrap();
        let first = warm(&file, |begun| {
            assert_eq!((begun, huge_now(&file)), (path.as_path(), Bytes(0)), "told before");
        });
        if let Some(lack) = first.lack() {
            return println!("SKIP a_file_is_brought_there_once: {lack}");
        }
        assert_eq!((first.huge_bytes, first.of_bytes), (Bytes::mib(4), Bytes(1100 * 4096)));
        let second = warm(&file, |_| panic!("there is nothing to be done"));
        assert_eq!((second.outcome, second.took_ns), (CacheOutcome::Already, None));
    }

    #[test]
    fn what_cannot_be_brought_there_says_why() {
        let refused = |path: &Path, kind| {
            let file = HugeFile::of(path, kind).unwrap();
            warm(&file, |_| panic!("it is not begun")).lack().unwrap()
        };
        let gone = Path::new("/nonexistent/file");
        assert!(refused(gone, FileKind::Input).contains("/nonexistent/file"));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("script");
        std::fs::write(&path, "#!/bin/sh\n").unwrap();
        assert!(refused(&path, FileKind::Code).contains("not a readable ELF file"));
        assert!(refused(&path, FileKind::Input).contains("less than one huge page"));
    }
}
