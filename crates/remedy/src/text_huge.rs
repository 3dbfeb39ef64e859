//! `text-huge`: the code of the program starts on huge pages.
//!
//! If the page cache holds a program's file in huge folios, every start maps its text by one entry per 2 MiB,
//! without a setting or privilege. That means fewer faults at the start, and one entry of the instruction TLB
//! in place of 512 (`judge::text` says for which files and how much). The cache is filled before the start.
//! Nothing in the program changes, and all processes share the cache.
//!
//! Without a parameter, the files are the program's own (for a script, its interpreter's) and the libraries
//! that it needs. Its children are known only after a look: `tune` names their files.
//!
//! Ceiling: faults on files, and address translation. If the processor counts them, only the walks for
//! instructions; otherwise the ceiling includes walks for data, and the experiment decides. Not seen: how the
//! program's text is laid out within its pages, which may matter more.

use crate::code::{self, CodePlacement};
use crate::remedy::{Remedy, RemedyEvidence, RemedyMechanism};
use crate::target::TargetProgram;
use crate::warmth;
use pagewise_judge::text::PageSizePair;
use pagewise_model::Bytes;
use pagewise_model::diagnosis::CostKind;
use pagewise_model::look::UsedFile;
use pagewise_model::machine::Machine;
use pagewise_model::plan::{ArmSettings, FileKind, HugeFile, RemedyCandidate, RemedyDose};

pub(crate) struct TextHugeRemedy;

/// Possible state of a file's text.
struct TextGain {
    file: HugeFile,
    /// Bytes on small pages that could be on huge ones.
    gain: Bytes,
    /// Why nothing can be done; `None` if something can.
    refusal: Option<String>,
}

impl TextGain {
    fn from_file(file: &UsedFile, sizes: PageSizePair) -> Option<Self> {
        let layout = file.layout.as_ref()?;
        let code = CodePlacement { layout, is_placed_aligned: file.is_placed_aligned, sizes };
        let gain = Bytes(code.reach().0.saturating_sub(code.huge(&file.slots).0));
        let is_done = code.reach() > Bytes(0) && gain == Bytes(0);
        let refusal = if is_done {
            Some("its code is on huge pages already".to_owned())
        } else {
            obstacle(file, &code)
        };
        let file = HugeFile { path: file.path.clone(), kind: FileKind::Code };
        Some(Self { file, gain, refusal })
    }
}

/// Why the code of a file cannot get on huge pages; `None` if it can.
fn obstacle(file: &UsedFile, code: &CodePlacement<'_>) -> Option<String> {
    if code.reach() == Bytes(0) { Some(code.why_small()) } else { file.obstacle.clone() }
}

/// Paths of the files whose code can be or is on huge pages. Also the other files with code, with the reasons
/// why not.
#[must_use]
pub fn code_files(files: &[UsedFile], sizes: PageSizePair) -> (Vec<String>, Vec<(String, String)>) {
    let (mut can, mut cannot) = (Vec::new(), Vec::new());
    for file in files {
        let Some(layout) = &file.layout else { continue };
        let code = CodePlacement { layout, is_placed_aligned: file.is_placed_aligned, sizes };
        match obstacle(file, &code) {
            None => can.push(file.path.clone()),
            Some(why) => cannot.push((file.path.clone(), why)),
        }
    }
    (can, cannot)
}

/// Share of time that huge pages for code could save at most.
fn ceiling(evidence: &RemedyEvidence<'_>) -> f64 {
    let part = evidence.look.walks.known().map_or(1.0, |walks| {
        let all = walks.data_walk_cycles.saturating_add(walks.code_walk_cycles);
        walks.code_walk_cycles as f64 / all.max(1) as f64
    });
    evidence.share(CostKind::FileFaults) + part * evidence.share(CostKind::AddressTranslation)
}

/// Counted misses of the TLB for code, as the end of a sentence; empty if they are not counted.
fn counted_misses(evidence: &RemedyEvidence<'_>) -> String {
    let counts = evidence.look.code_misses.known();
    counts.map_or_else(String::new, |counts| format!("; {}", counts.text()))
}

impl Remedy for TextHugeRemedy {
    fn name(&self) -> &'static str {
        warmth::TEXT_HUGE
    }
    fn sentence(&self) -> &'static str {
        "its code starts on 2 MiB pages: one fault and one TLB entry instead of 512"
    }
    fn parameters(&self) -> &'static str {
        "program files and libraries, separated by : (default: those of the command);\n    \
         no comma in their paths"
    }

    fn dose(&self, parameter: &str, _machine: &Machine) -> Result<RemedyDose, String> {
        if parameter.is_empty() {
            // The start of a program that is not found reports that.
            return Ok(self.with("", ArmSettings::default()));
        }
        let huge_files = warmth::parse(parameter, FileKind::Code)?;
        let parameter = warmth::spell(&huge_files);
        Ok(self.with(&parameter, ArmSettings { huge_files, ..ArmSettings::default() }))
    }

    fn parameter_for(&self, target: &dyn Fn() -> TargetProgram) -> String {
        let files = target().file().map_or_else(Vec::new, code::of_program);
        let named = files.iter().filter_map(|path| HugeFile::of(path, FileKind::Code));
        warmth::spell(&named.collect::<Vec<_>>())
    }

    fn conflicts(&self) -> &'static [&'static str] {
        &["heap-small"]
    }

    fn fit(&self, evidence: &RemedyEvidence<'_>) -> RemedyCandidate {
        let Some(traced) = evidence.traced() else {
            return self.unfit("the files of the program could not be examined");
        };
        let Some(huge) = evidence.machine.huge_page_bytes.known() else {
            return self.unfit("this machine has no huge pages");
        };
        let sizes = PageSizePair { base: evidence.machine.base_page_bytes, huge: *huge };
        let texts: Vec<TextGain> =
            traced.files.iter().filter_map(|f| TextGain::from_file(f, sizes)).collect();
        let (fit, unfit): (Vec<&TextGain>, Vec<&TextGain>) =
            texts.iter().partition(|text| text.refusal.is_none());
        if fit.is_empty() {
            let first = unfit.into_iter().find_map(|text| Some((text, text.refusal.as_ref()?)));
            return self.unfit(match first {
                None => "no file with its code is mapped as large as a huge page".to_owned(),
                Some((text, why)) => format!("{}: {why}", text.file.path),
            });
        }
        let gain = fit.iter().fold(Bytes(0), |sum, text| sum + text.gain);
        let huge_files: Vec<HugeFile> = fit.iter().map(|text| text.file.clone()).collect();
        let why = match huge_files.as_slice() {
            [one] => format!("{gain} of the text of {} could be on huge pages", one.path),
            all => format!("{gain} of the text of {} files could be on huge pages", all.len()),
        };
        let why = why + &counted_misses(evidence);
        let parameter = warmth::spell(&huge_files);
        let dose = self.with(&parameter, ArmSettings { huge_files, ..ArmSettings::default() });
        self.fitting(why, ceiling(evidence), vec![dose])
    }

    fn mechanism(&self, _dose: &RemedyDose) -> RemedyMechanism {
        RemedyMechanism::TextHuge
    }

    fn notes(&self, _dose: &RemedyDose) -> Vec<String> {
        Vec::from(warmth::NOTES.map(str::to_owned))
    }
}
