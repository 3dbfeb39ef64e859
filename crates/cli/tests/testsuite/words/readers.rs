//! Small readers of the forms that are written for other programs.

use crate::helper::said;
use serde_json::{Value, json};
use std::io::Write;
use std::process::{Command, Stdio};

/// Splits words that each end with a NUL.
pub(crate) fn split(bytes: &[u8]) -> Vec<String> {
    let mut words: Vec<String> = said(bytes).split('\0').map(str::to_owned).collect();
    assert_eq!(words.pop().as_deref(), Some(""));
    words
}

/// Documents read by python3. `None` if it has no YAML reader.
pub(crate) fn yaml(documents: &[&str]) -> Option<Vec<Value>> {
    const SCRIPT: &str = "import sys, json\ntry:\n    import yaml\nexcept ImportError:\n    sys.exit(77)\n\
        print(json.dumps([yaml.safe_load(one) for one in json.load(sys.stdin)]))";
    let mut python = Command::new("python3");
    python.args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let Ok(mut child) = python.stderr(Stdio::piped()).spawn() else {
        println!("SKIP YAML of hostile runs: no python3");
        return None;
    };
    let text = json!(documents).to_string();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let done = child.wait_with_output().unwrap();
    if done.status.code() == Some(77) {
        println!("SKIP YAML of hostile runs: python3 has no yaml");
        return None;
    }
    assert!(done.status.success(), "{documents:#?}\n{}", said(&done.stderr));
    Some(serde_json::from_slice(&done.stdout).unwrap())
}

/// Keys and values of a unit file (systemd.syntax(7)): comments, sections, assignments. Continuation lines do
/// not occur.
pub(crate) fn assignments(text: &str) -> Vec<(&str, &str)> {
    let mut all = Vec::new();
    for line in text.lines() {
        let comment = line.starts_with('#');
        let tail = line.len() - line.trim_end_matches('\\').len();
        assert!(comment || tail % 2 == 0, "goes on: {text}");
        if !comment && !line.is_empty() {
            let section = line.starts_with('[') && line.ends_with(']');
            all.push(if section { (line, "") } else { line.split_once('=').unwrap() });
        }
    }
    assert!(!text.contains(['\r', '\u{b}', '\u{c}']), "{text:?}");
    all
}

/// The words of a value as systemd reads them: quotes and backslashes, then `%`, and `$` in command lines.
pub(crate) fn unquoted(value: &str, is_command: bool) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut rest = value.chars();
    while let Some(c) = rest.next() {
        match (c, quote) {
            ('\\', _) => word.get_or_insert_default().push(match rest.next() {
                Some(c @ ('\\' | '"')) => c,
                other => panic!("an escape of {other:?}: {value}"),
            }),
            (c, Some(end)) if c == end => quote = None,
            ('"' | '\'', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, None) if c.is_ascii_whitespace() => words.extend(word.take()),
            (';', None) => panic!("a second command: {value}"),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    assert_eq!(quote, None, "{value}");
    words.extend(word);
    let plain = |word: String| {
        let word = doubled(&word, '%');
        if is_command { doubled(&word, '$') } else { word }
    };
    words.into_iter().map(plain).collect()
}

/// Replaces each pair of `sign` with one. A single `sign` would be special.
pub(crate) fn doubled(text: &str, sign: char) -> String {
    let parts: Vec<&str> = text.split(&format!("{sign}{sign}")).collect();
    assert!(parts.iter().all(|part| !part.contains(sign)), "{text}");
    parts.join(&sign.to_string())
}

/// Expands `args` as Kubernetes does: `$$` becomes `$`, and `$(NODE)` the value of that variable.
pub(crate) fn expanded(text: &str) -> String {
    text.split("$$").map(|part| part.replace("$(NODE)", "a node")).collect::<Vec<_>>().join("$")
}
