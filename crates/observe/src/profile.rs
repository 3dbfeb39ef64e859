//! Names the functions in the stacks of a profile, from the symbols of its files. Functions of scripts get
//! their names from the maps that their interpreters wrote.
//!
//! As in [`crate::faults`], names are not demangled, and files that no longer exist have none. Cost: the
//! symbols of a file are read once (1-100 ms, depending on their number); a lookup is a binary search.

use crate::faults::CodeImages;
use crate::made_code::{MadeCode, interpreter};
use pagewise_model::fault::{MadeFunction, ScriptInterpreter, SourceLine, UnnamedFile};
use pagewise_model::profile::{StackSamples, UserFrame};
use pagewise_tracee::mapped_file::MappedFiles;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Looks the functions of all user frames up in `files`; those of made code in `made`. The files that could not be
/// opened.
pub fn name_functions(
    samples: &mut StackSamples,
    files: &MappedFiles,
    made: &mut MadeCode,
) -> Vec<UnnamedFile> {
    let mut images = CodeImages::new(files.clone(), false);
    // Stacks share their frames before and after.
    let mut known: HashMap<Arc<UserFrame>, Arc<UserFrame>> = HashMap::new();
    for frame in samples.stacks.iter_mut().flat_map(|stack| &mut stack.user) {
        let with_function = known.entry(Arc::clone(frame)).or_insert_with(|| {
            let function = match frame.maker {
                Some(pid) => made.function(pid, frame.offset_bytes.0).map(named),
                None => images.function(&frame.path, frame.offset_bytes.0),
            };
            Arc::new(UserFrame { function: function.map(Into::into), ..UserFrame::clone(frame) })
        });
        *frame = Arc::clone(with_function);
    }
    images.unnamed()
}

/// A function of a script with its first line: a frame has no other field for it.
fn named(made: MadeFunction) -> String {
    let MadeFunction { function, source, .. } = made;
    match source {
        Some(SourceLine { file, line }) => {
            let file = file.rsplit('/').next().unwrap_or_default();
            format!("{function} {file}:{line}")
        }
        None => function,
    }
}

/// The interpreters in the stacks of `samples`, and how many functions each has named.
#[must_use]
pub fn interpreters(samples: &StackSamples) -> Vec<ScriptInterpreter> {
    let mut found: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for stack in &samples.stacks {
        let made = stack.user.iter().filter(|frame| frame.maker.is_some());
        let named: Vec<&str> = made.filter_map(|frame| frame.function.as_deref()).collect();
        for name in stack.user.iter().filter_map(|frame| interpreter(&frame.path)) {
            found.entry(name).or_default().extend(&named);
        }
    }
    let one = |(name, functions): (&str, BTreeSet<&str>)| ScriptInterpreter {
        name: name.to_owned(),
        has_map: !functions.is_empty(),
        functions: functions.len() as u64,
    };
    found.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::Bytes;
    use pagewise_model::profile::ProfiledStack;

    #[test]
    fn functions_count_for_the_interpreter_of_their_stack() {
        let frame = |path: &str, function: Option<&str>, maker| {
            let (path, function) = (path.into(), function.map(Into::into));
            Arc::new(UserFrame { path, offset_bytes: Bytes(1), function, maker })
        };
        let stack = |user| ProfiledStack { process: "p".into(), kernel: vec![], user, count: 1 };
        let python = || frame("/usr/bin/python3.13", Some("_PyEval_EvalFrameDefault"), None);
        let stacks = vec![
            stack(vec![python(), frame("", Some("work job.py:4"), Some(7)), python()]),
            stack(vec![python(), frame("", Some("work job.py:4"), Some(8))]),
            stack(vec![frame("", None, Some(9)), frame("/usr/bin/node", None, None)]),
        ];
        let found = interpreters(&StackSamples { stacks, ..StackSamples::default() });
        let found: Vec<_> = found.iter().map(|one| (one.name.as_str(), one.functions)).collect();
        assert_eq!(found, [("node", 0), ("python3.13", 1)]);
    }
}
