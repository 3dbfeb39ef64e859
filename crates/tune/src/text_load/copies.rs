//! Two copies of a program's file, one for each arm, with the same bytes: folded, so that their layout allows huge
//! pages ([`pagewise_remedy::fold`]). The code of *on* is brought into huge folios. That of *off* is dropped from the
//! page cache before its first start, which reads it as a plain start does ([`crate::folios`]).

use crate::request::SessionRequest;
use crate::scratch::ScratchDir;
use crate::stop::SessionStop;
use crate::world::ProgramArm;
use pagewise_kernel::cached_file::PageCacheFile;
use pagewise_model::plan::{ArmSettings, FileKind, HugeFile};
use pagewise_model::text_trial::{OFF, ON};
use pagewise_remedy::fold::{self, FoldError, FoldTarget};
use pagewise_remedy::warmth::{self, TextNow};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// The copies, until this is dropped.
pub(super) struct TextCopies {
    program: PathBuf,
    /// The words of its command after the program.
    words: Vec<OsString>,
    files: [HugeFile; 2],
    _place: ScratchDir,
}

impl TextCopies {
    /// Copies of the program that the request starts.
    pub(super) fn make(request: &SessionRequest, stop: &AtomicBool) -> Result<Self, SessionStop> {
        let program = request.here.program.clone();
        let place = std::path::absolute(std::env::temp_dir())
            .and_then(|parent| ScratchDir::create(&parent))
            .map_err(|e| SessionStop::Broken(format!("cannot make a scratch directory: {e}")))?;
        let files = [copy(&program, &place, OFF, stop)?, copy(&program, &place, ON, stop)?];
        let warmed = warmth::warm(&files[1], |_| ());
        if !warmed.took_hold() {
            let why = warmed.lack().unwrap_or_else(|| "none of it is on huge pages".to_owned());
            return Err(SessionStop::Service(format!(
                "the code of {} cannot be put on huge pages: {why}",
                program.display()
            )));
        }
        let words = request.spec.command.iter().skip(1).cloned().collect();
        Ok(Self { program, words, files, _place: place })
    }

    /// The file that was copied.
    pub(super) fn program(&self) -> String {
        self.program.display().to_string()
    }

    /// Off and on.
    pub(super) fn arms(&self) -> [ProgramArm; 2] {
        let [off, on] = &self.files;
        let arm = |name, file: &HugeFile| {
            let program = std::iter::once(OsString::from(&file.path));
            let command: Vec<OsString> = program.chain(self.words.iter().cloned()).collect();
            ProgramArm::unchanged(name, &command)
        };
        let settings = ArmSettings { huge_files: vec![on.clone()], ..ArmSettings::default() };
        [
            ProgramArm { natural_files: vec![off.path.clone()], ..arm(OFF, off) },
            ProgramArm { settings, ..arm(ON, on) },
        ]
    }

    /// The text of off and on, as a start would find it now.
    pub(super) fn text(&self) -> [TextNow; 2] {
        [0, 1].map(|arm| warmth::text_now(&self.files[arm]))
    }
}

fn copy(
    program: &Path,
    place: &ScratchDir,
    arm: &str,
    stop: &AtomicBool,
) -> Result<HugeFile, SessionStop> {
    let failed =
        |why: String| SessionStop::Service(format!("cannot copy {}: {why}", program.display()));
    let dir = place.file(arm);
    std::fs::create_dir(&dir).map_err(|e| failed(e.to_string()))?;
    let path = dir.join(program.file_name().unwrap_or_default());
    let original = PageCacheFile::open(program).map_err(|e| failed(e.to_string()))?;
    let target = FoldTarget { path: &path, replaces: false };
    fold::make(&original, target, &fold::merge_all(), stop).map_err(|error| match error {
        FoldError::Stopped => SessionStop::Interrupted,
        error => failed(error.to_string()),
    })?;
    // Only pages that are on disk can be dropped from the page cache and read back.
    let copied = PageCacheFile::open(&path).map_err(|e| failed(e.to_string()))?;
    copied.file().sync_data().map_err(|e| failed(e.to_string()))?;
    HugeFile::of(&path, FileKind::Code)
        .ok_or_else(|| failed(format!("`{}` cannot be part of a list: set TMPDIR", path.display())))
}
