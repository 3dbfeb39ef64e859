//! The text of a generator, line by line, its numbers and times; the words of a load's command.

use serde_json::Value;

/// At most this many characters of a line are shown.
const SHOWN: usize = 80;

/// What a generator printed.
#[derive(Debug, Clone, Copy)]
pub(super) struct GeneratorOutput<'a> {
    pub(super) generator: &'static str,
    text: &'a str,
}

impl<'a> GeneratorOutput<'a> {
    pub(super) fn new(generator: &'static str, text: &'a str) -> Self {
        Self { generator, text }
    }

    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    /// Trimmed lines. Of an overwritten line (carriage return), the last text.
    pub(super) fn lines(&self) -> impl Iterator<Item = &'a str> {
        let last = |line: &'a str| line.trim_end().rsplit('\r').next().unwrap_or_default().trim();
        self.text.split('\n').map(last)
    }

    /// What follows `key` on the first line that begins with it.
    pub(super) fn after(&self, key: &str) -> Option<&'a str> {
        self.lines().find_map(|line| line.strip_prefix(key)).map(str::trim)
    }

    /// The number after `key`.
    pub(super) fn number(&self, key: &str) -> Option<f64> {
        number(self.after(key)?.split_whitespace().next()?)
    }

    /// The number after `key`, which has to be there.
    pub(super) fn count(&self, key: &str) -> Result<f64, String> {
        self.number(key).ok_or_else(|| self.lacks(key))
    }

    /// That `expected` is not there.
    pub(super) fn lacks(&self, expected: &str) -> String {
        format!("{} should have printed {expected:?}; {}", self.generator, self.beginning())
    }

    /// The first line with text on it.
    pub(super) fn beginning(&self) -> String {
        let first = self.lines().find(|line| !line.is_empty()).unwrap_or_default();
        let shown: String = first.chars().take(SHOWN).collect();
        format!("its output begins with {shown:?}")
    }

    /// The JSON value that the first line beginning with a bracket begins.
    pub(super) fn json(&self) -> Result<Value, String> {
        let lines = self.text.split_inclusive('\n').scan(0, |at, line| {
            *at += line.len();
            Some((*at - line.len(), line))
        });
        let start = lines.into_iter().find(|(_, line)| line.trim_start().starts_with(['{', '[']));
        let (start, _) = start.ok_or_else(|| self.lacks("JSON"))?;
        let mut values = serde_json::Deserializer::from_str(&self.text[start..]).into_iter();
        let value = values.next().and_then(Result::ok);
        value.ok_or_else(|| {
            format!("{} printed JSON with no end; {}", self.generator, self.beginning())
        })
    }
}

/// A number, which may have a comma or a unit sign behind it.
pub(super) fn number(text: &str) -> Option<f64> {
    let text = text.trim_end_matches([',', ';', '%']);
    text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

/// A time with its unit as seconds: `494.32us`, `1.14s`, `1m2.5s`, `32.01 ms`, `0.0171 secs`.
pub(super) fn seconds(text: &str) -> Option<f64> {
    let mut rest = text.trim();
    let mut total = 0.0;
    while !rest.is_empty() {
        let unit_at = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (amount, after) = rest.split_at(unit_at);
        let after = after.trim_start();
        let end = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        total += number(amount)? * unit(after[..end].trim_end())?;
        rest = &after[end..];
    }
    (!text.trim().is_empty()).then_some(total)
}

/// Seconds of a unit of time.
pub(super) fn unit(name: &str) -> Option<f64> {
    Some(match name {
        "ns" => 1e-9,
        "us" | "\u{b5}s" | "\u{3bc}s" => 1e-6,
        "ms" | "msec" => 1e-3,
        "s" | "sec" | "secs" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    })
}

/// A load's command: the programs that it starts, also through a shell.
#[derive(Debug)]
pub(super) struct ParsedLoadCommand {
    /// The words of each simple command, without their quotes.
    simple: Vec<Vec<String>>,
}

impl ParsedLoadCommand {
    pub(super) fn new(text: &str) -> Self {
        let mut simple = split(text);
        // A word that contains several words may be a command, such as the argument of `sh -c`.
        let words = simple.iter().flatten();
        let inner = words.filter(|word| has_blank(word) && word.len() < text.len());
        let inner: Vec<_> = inner.flat_map(|word| Self::new(word).simple).collect();
        simple.extend(inner);
        Self { simple }
    }

    /// Words without their directories, in order.
    pub(super) fn programs(&self) -> impl Iterator<Item = &str> {
        self.simple.iter().flatten().filter_map(|word| program(word))
    }

    /// The arguments of `name`, if the command starts it exactly once.
    pub(super) fn arguments(&self, name: &str) -> Option<GeneratorArguments<'_>> {
        let mut starts = self.simple.iter().filter_map(|words| {
            let at = words.iter().position(|word| program(word) == Some(name))?;
            Some(GeneratorArguments(&words[at + 1..]))
        });
        starts.next().filter(|_| starts.next().is_none())
    }
}

/// The name of the program that a word may start.
fn program(word: &str) -> Option<&str> {
    word.rsplit('/').next().filter(|_| !has_blank(word))
}

fn has_blank(word: &str) -> bool {
    word.contains(char::is_whitespace)
}

/// The simple commands of a shell command. `$(...)` is kept unexpanded, within one word.
fn split(text: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    let (mut quote, mut depth, mut before) = (None, 0_usize, ' ');
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        let mut add = |c: char| word.get_or_insert_default().push(c);
        match (quote, c) {
            (Some(end), _) if c == end => quote = None,
            (None | Some('"'), '\\') => {
                rest.next().filter(|c| *c != '\n').into_iter().for_each(add)
            }
            (Some(_), _) => add(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '(') if depth > 0 || before == '$' => {
                depth += 1;
                add(c);
            }
            (None, ')') if depth > 0 => {
                depth -= 1;
                add(c);
            }
            (None, _) if depth > 0 => add(c),
            // `2>&1` is one word.
            (None, '&') if before == '>' => add(c),
            (None, _) if c.is_whitespace() || ";|&()".contains(c) => {
                end_word(&mut commands, &mut word);
                if ";|&\n".contains(c) {
                    commands.push(Vec::new());
                }
            }
            (None, _) => add(c),
        }
        before = c;
    }
    end_word(&mut commands, &mut word);
    commands
}

fn end_word(commands: &mut [Vec<String>], word: &mut Option<String>) {
    if let Some(last) = commands.last_mut() {
        last.extend(word.take());
    }
}

/// The arguments of a program.
#[derive(Debug, Clone, Copy)]
pub(super) struct GeneratorArguments<'a>(&'a [String]);

impl<'a> GeneratorArguments<'a> {
    /// The value of the last such option: `-n 5`, `-n5`, `--number=5`.
    pub(super) fn value(&self, option: &str) -> Option<&'a str> {
        self.0.iter().enumerate().rev().find_map(|(at, word)| match word.strip_prefix(option)? {
            "" => self.0.get(at + 1).map(String::as_str),
            rest if option.starts_with("--") => rest.strip_prefix('='),
            rest => Some(rest),
        })
    }

    /// An option without a value is among them.
    pub(super) fn has(&self, option: &str) -> bool {
        self.0.iter().any(|word| word == option)
    }
}
