//! Interprets the names in a map of generated code: the function of a script, and where it begins.
//!
//! Python writes `py::NAME:FILE` (Objects/perf_trampoline.c), V8 `JS:*NAME FILE:LINE:COLUMN` with a mark of
//! how it was compiled (src/logging/log.cc), the JVM a method with its signature. Python gives no line, so
//! the definition is searched in the file, by name and indentation. If the file cannot be read there is no
//! line; if it has changed, the line may be wrong.

use pagewise_kernel::file_view::open_regular;
use pagewise_model::fault::{MadeFunction, SourceLine};
use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

/// The largest script that is searched for definitions.
const LARGEST_SCRIPT: u64 = 8 << 20;
/// Scripts that are searched.
const MOST_SCRIPTS: usize = 2000;
/// Kinds of V8 code that come from a script.
const V8_KINDS: [&str; 5] = ["JS:", "Eval:", "LazyCompile:", "Function:", "Script:"];

/// Definitions in scripts, by file.
#[derive(Debug, Default)]
pub(super) struct ScriptDefinitions {
    /// Line of each function by its qualified name. If a name is defined twice, the last one.
    files: HashMap<String, HashMap<String, u32>>,
}

impl ScriptDefinitions {
    /// What `name` says.
    pub(super) fn function(&mut self, name: &str) -> MadeFunction {
        let of_python = name.strip_prefix("py::").and_then(|rest| rest.split_once(':'));
        let of_v8 = V8_KINDS.iter().find_map(|kind| name.strip_prefix(kind)).and_then(v8);
        let (function, source) = match (of_python, of_v8) {
            (Some((function, file)), _) => match self.line(file, function) {
                Some(line) => {
                    (function.to_owned(), Some(SourceLine { file: file.to_owned(), line }))
                }
                None => (format!("{function} ({file})"), None),
            },
            (None, Some((function, source))) => (function, Some(source)),
            (None, None) => (name.to_owned(), None),
        };
        let is_script = of_python.is_some() || source.is_some() || is_method(name);
        MadeFunction { function, source, is_script }
    }

    fn line(&mut self, file: &str, function: &str) -> Option<u32> {
        if !self.files.contains_key(file) {
            let has_room = self.files.len() < MOST_SCRIPTS;
            let text = if has_room { read(Path::new(file)) } else { None };
            self.files.insert(file.to_owned(), definitions(&text.unwrap_or_default()));
        }
        let lines = self.files.get(file)?;
        // A function nested in an expression begins where its enclosing function does.
        let own = function.split(".<locals>.<").next().unwrap_or(function);
        let plain = own.replace(".<locals>", "");
        lines.get(&plain).copied()
    }
}

/// A method of a JVM with its class and its arguments: `int Job.fill(int)`.
fn is_method(name: &str) -> bool {
    let before = name.strip_suffix(')').and_then(|name| name.split_once('('));
    before.is_some_and(|(before, _)| {
        let method = before.rsplit(' ').next().unwrap_or_default();
        method.contains('.')
    })
}

/// Name and line of `*NAME FILE:LINE:COLUMN`.
fn v8(rest: &str) -> Option<(String, SourceLine)> {
    let rest = rest.trim_start_matches(['*', '~', '+', '^', '\'']);
    let (rest, _column) = rest.rsplit_once(':')?;
    let (rest, line) = rest.rsplit_once(':')?;
    let line = line.parse().ok()?;
    let begins = [" /", " file:", " node:"].iter().filter_map(|mark| rest.find(mark)).min();
    let at = begins.or_else(|| rest.rfind(' '))?;
    let (name, file) = (rest.get(..at)?.trim(), rest.get(at + 1..)?);
    let file = file.strip_prefix("file://").unwrap_or(file).to_owned();
    let function = if name.is_empty() { "(anonymous)" } else { name }.to_owned();
    Some((function, SourceLine { file, line }))
}

/// The text of a script, if it is one of Python by its name and a regular file.
fn read(path: &Path) -> Option<String> {
    if path.extension().is_none_or(|extension| extension != "py") {
        return None;
    }
    // A device or a pipe of that name must not be waited for.
    let (file, _length) = open_regular(path).ok()?;
    let mut bytes = Vec::new();
    file.take(LARGEST_SCRIPT).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The lines of functions by their qualified names; `<module>` begins with the first line.
fn definitions(text: &str) -> HashMap<String, u32> {
    let mut lines = HashMap::new();
    if text.is_empty() {
        return lines;
    }
    lines.insert("<module>".to_owned(), 1);
    let mut around: Vec<(usize, &str)> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let content = line.trim_start();
        let indentation = line.len() - content.len();
        let content = content.strip_prefix("async ").map_or(content, str::trim_start);
        let defined = content.strip_prefix("def ").or_else(|| content.strip_prefix("class "));
        let Some(defined) = defined.map(str::trim_start) else { continue };
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let end = defined.find(|c| !is_word(c)).unwrap_or(defined.len());
        let name = defined.get(..end).unwrap_or_default();
        around.retain(|(outer, _)| *outer < indentation);
        around.push((indentation, name));
        let names: Vec<&str> = around.iter().map(|(_, name)| *name).collect();
        lines.insert(names.join("."), number);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const METHOD: &str = "int Job.fill(int)";
    const SCRIPT: &str = "\
import os

class Store:
    def grow(self, n):
        return bytearray(n)

    async def later(self):
        def inner():
            pass

def work(n): return [x for x in range(n)]
";

    fn written(text: &str) -> (tempfile::TempDir, String) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("job.py");
        std::fs::write(&path, text).unwrap();
        let path = path.to_string_lossy().into_owned();
        (directory, path)
    }

    #[test]
    fn functions_of_python_begin_at_their_definitions() {
        let (_directory, path) = written(SCRIPT);
        let mut scripts = ScriptDefinitions::default();
        let cases = [
            ("<module>", 1),
            ("Store", 3),
            ("Store.grow", 4),
            ("Store.later", 7),
            ("Store.later.<locals>.inner", 8),
            ("work", 11),
            ("work.<locals>.<listcomp>", 11),
        ];
        for (function, line) in cases {
            let found = scripts.function(&format!("py::{function}:{path}"));
            assert_eq!(found.function, function);
            assert_eq!(found.source, Some(SourceLine { file: path.clone(), line }), "{function}");
        }
    }

    #[test]
    fn a_function_without_a_known_line_keeps_its_file() {
        let mut scripts = ScriptDefinitions::default();
        for file in ["<frozen importlib._bootstrap>", "/nonexistent/job.py", "/etc/passwd"] {
            let found = scripts.function(&format!("py::work:{file}"));
            assert_eq!((found.function, found.source), (format!("work ({file})"), None));
        }
    }

    #[test]
    fn functions_of_javascript_have_their_lines() {
        let mut scripts = ScriptDefinitions::default();
        let cases = [
            ("JS:*fill /x/job.js:3:14", "fill", "/x/job.js", 3),
            ("JS:~get size file:///x/a b.mjs:20:5", "get size", "/x/a b.mjs", 20),
            ("Eval:~ /x/job.js:1:1", "(anonymous)", "/x/job.js", 1),
            ("LazyCompile:*emit node:events:465:44", "emit", "node:events", 465),
        ];
        for (name, function, file, line) in cases {
            let found = scripts.function(name);
            assert_eq!(found.function, function);
            assert_eq!(found.source, Some(SourceLine { file: file.into(), line }));
        }
    }

    #[test]
    fn other_names_stay_as_they_are() {
        let mut scripts = ScriptDefinitions::default();
        let names =
            ["Builtin:ArrayFill", "JS:*", "JS:x:y:z", "py::", "StubRoutines (1)", "a()", METHOD];
        for name in names {
            let found = scripts.function(name);
            assert_eq!((found.function.as_str(), found.source), (name, None));
            assert_eq!(found.is_script, name == METHOD, "{name}");
        }
    }
}
