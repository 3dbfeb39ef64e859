//! The list of faults in every form: for eyes, for scripts, for the viewers of other tools.
//!
//! Faults come part by part. Forms of lines give their text at once; those that need all faults
//! before their first character (stacks that are added up, tables by column, pictures) keep what
//! they need and give everything at the end.

use super::chrome::Chrome;
use super::firefox::Firefox;
use super::folded::Folded;
use super::list::{Format, List};
use super::pages::Touched;
use pagewise_model::fault::{Fault, Names};
use pagewise_model::run::Run;

/// A form of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// All fields in columns.
    Table,
    /// The columns of `pagein`.
    Pagein,
    /// JSON Lines.
    Json,
    /// Folded stacks by number.
    Folded,
    /// Folded stacks by nanoseconds.
    FoldedNs,
    /// The text of `perf script`.
    Perf,
    /// Trace events, for Perfetto and Chrome.
    Chrome,
    /// A profile for Firefox Profiler.
    Firefox,
    /// A page with a picture of the pages.
    Html,
}

/// A list under construction.
#[derive(Debug)]
pub struct Export(Kind);

#[derive(Debug)]
enum Kind {
    Lines(List),
    Chrome(Chrome),
    Folded(Folded),
    Firefox(Box<Firefox>),
    Html(Touched),
}

impl Export {
    /// Nothing yet; without a column for latencies where none were recorded.
    #[must_use]
    pub fn new(form: Form, has_latency: bool) -> Self {
        let lines = |format| Kind::Lines(List::new(format, has_latency));
        Self(match form {
            Form::Table => lines(Format::Table),
            Form::Pagein => lines(Format::Pagein),
            Form::Json => lines(Format::Json),
            Form::Perf => lines(Format::Perf),
            Form::Folded => Kind::Folded(Folded::new(false)),
            Form::FoldedNs => Kind::Folded(Folded::new(true)),
            Form::Chrome => Kind::Chrome(Chrome::default()),
            Form::Firefox => Kind::Firefox(Box::new(Firefox::new())),
            Form::Html => Kind::Html(Touched::default()),
        })
    }

    /// Takes the next faults; gives the text that can be printed already.
    pub fn take(&mut self, names: &Names, faults: &[Fault]) -> String {
        match &mut self.0 {
            Kind::Lines(list) => return list.lines(names, faults),
            Kind::Chrome(chrome) => return chrome.events(names, faults),
            Kind::Folded(folded) => folded.add(names, faults),
            Kind::Firefox(firefox) => firefox.add(names, faults),
            Kind::Html(html) => html.add(names, faults),
        }
        String::new()
    }

    /// The rest of the text; `run` is what the faults belong to.
    #[must_use]
    pub fn finish(self, run: &Run) -> String {
        match self.0 {
            Kind::Lines(_) => String::new(),
            Kind::Chrome(chrome) => chrome.end(),
            Kind::Folded(folded) => folded.lines(),
            Kind::Firefox(firefox) => firefox.json(run),
            Kind::Html(html) => html.page(run),
        }
    }
}
