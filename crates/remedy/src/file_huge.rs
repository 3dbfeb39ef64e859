//! `file-huge`: puts the files that the program reads in huge folios of the page cache.
//!
//! A read then finds one folio in place of up to 512. A mapping of the file takes one fault and one
//! page-table entry per 2 MiB. The cache is filled before the start, in the same way as for code
//! ([`warmth`]); nothing in the program changes.
//!
//! The files are those that the traced look saw opened for reading and not written, and standard input; `run
//! --with` takes their names. Ceiling: copies by read and write, and faults on files. Not seen: a program
//! that reads in order may get large folios anyway, through read-ahead. The experiment compares with what a
//! plain start leaves.

use crate::remedy::{Remedy, RemedyEvidence, RemedyMechanism};
use crate::warmth;
use pagewise_model::Bytes;
use pagewise_model::cache::CacheSlot;
use pagewise_model::diagnosis::CostKind;
use pagewise_model::look::UsedFile;
use pagewise_model::machine::Machine;
use pagewise_model::plan::{ArmSettings, FileKind, HugeFile, RemedyCandidate, RemedyDose};

/// Maximum number of files; the largest come first.
const MOST: usize = 16;

pub(crate) struct FileHugeRemedy;

/// Slots of a file that could be huge but are not.
fn small_slots(file: &UsedFile, slot: u64) -> u64 {
    (file.size_bytes.0 / slot).saturating_sub(file.slots.count(CacheSlot::Huge))
}

impl Remedy for FileHugeRemedy {
    fn name(&self) -> &'static str {
        warmth::FILE_HUGE
    }
    fn sentence(&self) -> &'static str {
        "the files that the program reads lie in the page cache in 2 MiB pieces"
    }
    fn parameters(&self) -> &'static str {
        "the files, separated by :; no comma in their paths"
    }

    fn dose(&self, parameter: &str, _machine: &Machine) -> Result<RemedyDose, String> {
        if parameter.is_empty() {
            return Err("name the files that the program reads: file-huge=FILE:FILE".to_owned());
        }
        let huge_files = warmth::parse(parameter, FileKind::Input)?;
        let parameter = warmth::spell(&huge_files);
        Ok(self.with(&parameter, ArmSettings { huge_files, ..ArmSettings::default() }))
    }

    fn fit(&self, evidence: &RemedyEvidence<'_>) -> RemedyCandidate {
        let Some(traced) = evidence.traced() else {
            return self.unfit("the files that it reads could not be examined");
        };
        let Some(slot) = evidence.machine.huge_page_bytes.known().map(|huge| huge.bytes()) else {
            return self.unfit("this machine has no huge pages");
        };
        let inputs: Vec<&UsedFile> =
            traced.files.iter().filter(|file| file.kind == FileKind::Input).collect();
        let small: Vec<&UsedFile> =
            inputs.iter().copied().filter(|file| small_slots(file, slot) > 0).collect();
        let free: Vec<&UsedFile> =
            small.iter().copied().filter(|file| file.obstacle.is_none()).take(MOST).collect();
        if free.is_empty() {
            let held = small.iter().find_map(|file| Some((file, file.obstacle.as_ref()?)));
            return self.unfit(match (held, inputs.first()) {
                (Some((file, why)), _) => format!("{}: {why}", file.path),
                (None, Some(_)) => "the files that it reads lie in huge folios already".to_owned(),
                (None, None) => "it reads no file as large as a huge page".to_owned(),
            });
        }
        let all: u64 = free.iter().map(|file| small_slots(file, slot) * slot).sum();
        let why = match free.as_slice() {
            [one] => format!("{} of {} lie in small folios", Bytes(all), one.path),
            more => format!("{} of {} files lie in small folios", Bytes(all), more.len()),
        };
        let name = |file: &&UsedFile| HugeFile { path: file.path.clone(), kind: FileKind::Input };
        let huge_files: Vec<HugeFile> = free.iter().map(name).collect();
        let parameter = warmth::spell(&huge_files);
        let dose = self.with(&parameter, ArmSettings { huge_files, ..ArmSettings::default() });
        let ceiling = evidence.share(CostKind::FileCopies) + evidence.share(CostKind::FileFaults);
        self.fitting(why, ceiling, vec![dose])
    }

    fn mechanism(&self, _dose: &RemedyDose) -> RemedyMechanism {
        RemedyMechanism::FilesHuge
    }

    fn notes(&self, _dose: &RemedyDose) -> Vec<String> {
        Vec::from(warmth::NOTES.map(str::to_owned))
    }
}

#[cfg(test)]
mod tests {
    use crate::registry::tests_support::parse;
    use pagewise_model::plan::FileKind;

    #[test]
    fn it_takes_files_and_says_when_it_has_none() {
        let doses = parse("file-huge=/var/a:/var/b,text-huge=/bin/x").unwrap();
        let kinds =
            |at: usize| doses[at].settings.huge_files.iter().map(|f| f.kind).collect::<Vec<_>>();
        assert_eq!(kinds(0), [FileKind::Input; 2]);
        assert_eq!(kinds(1), [FileKind::Code]);
        assert_eq!(doses[0].spec(), "file-huge=/var/a:/var/b");
        assert!(parse("file-huge").unwrap_err().to_string().contains("file-huge=FILE:FILE"));
    }
}
