//! The user's request.

use pagewise_kernel::clock;
use pagewise_model::name::is_in_line;
use pagewise_model::prediction::PredictionOffsets;
use pagewise_model::run::{RunKind, SavedRun};
use pagewise_model::spec::{SessionSpec, StdinSource};
use pagewise_remedy::receipt::{ReceiptConditions, TestedStart};
use pagewise_remedy::reservation::PoolPermit;
use std::ffi::OsString;

/// Name of the unchanged program, in reports and among the arms.
pub const PLAIN: &str = "plain";

/// One session: the user's request, and the facts about this place and time that it depends on.
#[derive(Debug, Clone)]
pub struct SessionRequest {
    pub spec: SessionSpec,
    /// That settings of the machine may be changed while the session lasts.
    pub system: Option<PoolPermit>,
    /// Quotes a word for a shell, in the receipt.
    pub quote: fn(&[u8]) -> String,
    /// What the receipt's lines depend on besides the command.
    pub here: ReceiptConditions,
    /// Corrections of predicted gains by earlier races on this machine.
    pub offsets: PredictionOffsets,
    /// Identifier of the run.
    pub id: String,
}

/// Why a name cannot be an arm's, if so; `others` have theirs already.
#[must_use]
pub fn unfit_name<'a>(name: &str, others: impl IntoIterator<Item = &'a str>) -> Option<String> {
    if name.trim().is_empty() {
        return Some("a name is empty".to_owned());
    }
    if !is_in_line(name) {
        return Some(format!("the name {name:?} holds a control character"));
    }
    let twice = others.into_iter().any(|other| other == name);
    twice.then(|| format!("two arms have the name `{name}`"))
}

impl SessionRequest {
    /// A run of `command` without results, which starts now.
    #[must_use]
    pub fn empty_run(&self, kind: RunKind, command: &[OsString]) -> SavedRun {
        let mut run = run_of(kind, self.id.clone(), clock::unix_now().0, command);
        run.input = self.spec.input.path().map(|file| file.to_string_lossy().into_owned());
        run.spec = Some(self.spec.clone());
        run
    }

    /// How the program is started, for the receipt.
    #[must_use]
    pub fn start(&self) -> TestedStart<'_> {
        let (command, here) = (&self.spec.command[..], &self.here);
        let system = self.system.is_some();
        TestedStart { command, input: self.spec.input.path(), here, system, quote: self.quote }
    }

    /// Why the user's own arms cannot be run, or have names that clash with each other or with other arms.
    /// `None` if they are fine.
    #[must_use]
    pub fn unfit_arm(&self) -> Option<String> {
        self.spec.own_arms.iter().enumerate().find_map(|(i, own)| {
            let name = own.name.as_str();
            if name == PLAIN {
                return Some(format!("`{PLAIN}` is the name of the program itself"));
            }
            if pagewise_remedy::find(name).is_some() {
                return Some(format!("`{name}` is the name of a remedy"));
            }
            if name.contains('+') {
                return Some(format!("`{name}`: `+` separates combined remedies"));
            }
            if own.command.first().is_none_or(|program| program.is_empty()) {
                return Some(format!("arm `{name}` has no command"));
            }
            unfit_name(name, self.spec.own_arms.iter().take(i).map(|other| other.name.as_str()))
        })
    }

    /// What standard input is, if it can be read only once. Then no run gets it.
    #[must_use]
    pub const fn read_once(&self) -> Option<&'static str> {
        match self.spec.input {
            StdinSource::Ended(once) => Some(once.what()),
            _ => None,
        }
    }

    /// True when the user answers for a rerun.
    #[must_use]
    pub fn may_rerun(&self) -> bool {
        self.spec.rerun_safe || self.spec.prepare.is_some()
    }
}

/// A run without results. If its command cannot be represented exactly as text, the run gets a warning.
#[must_use]
pub fn run_of(kind: RunKind, id: String, started_unix_ns: u64, command: &[OsString]) -> SavedRun {
    let text = command.iter().map(|w| w.to_string_lossy().into_owned()).collect();
    let mut run = SavedRun::new(kind, id, started_unix_ns, text);
    if command.iter().any(|w| w.to_str().is_none()) {
        run.warnings.push(
            "the command is not UTF-8: do not copy it from here (the lines of a receipt are exact)"
                .to_owned(),
        );
    }
    run
}

/// The request of this spec, for tests.
#[cfg(test)]
pub(crate) fn asked(spec: SessionSpec) -> SessionRequest {
    SessionRequest {
        spec,
        system: None,
        quote: |word| String::from_utf8_lossy(word).into_owned(),
        here: ReceiptConditions::default(),
        offsets: PredictionOffsets::new(),
        id: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn a_command_that_text_cannot_hold_is_told() {
        let run = |word: &[u8]| {
            run_of(RunKind::Profile, "x".into(), 0, &[OsString::from_vec(word.to_vec())])
        };
        assert!(run(b"caf\xc3\xa9").warnings.is_empty());
        assert_eq!(run(b"caf\xe9").warnings.len(), 1);
    }
}
