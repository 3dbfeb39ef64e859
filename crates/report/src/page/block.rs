//! The parts of a document.

use super::Document;
use crate::chart::Picture;
use crate::paragraph::Paragraph;
use crate::style::{Style, Tone};
use crate::table::Table;
use std::rc::Rc;

/// A part of a document.
#[derive(Debug, Clone)]
pub(super) enum Block {
    Blank,
    Heading(String),
    Para(Paragraph),
    Bullet {
        text: String,
        tone: Tone,
    },
    Item {
        label: String,
        text: String,
        tone: Tone,
    },
    /// One line, cut if it is too long for a terminal.
    Single {
        text: String,
        indent: usize,
        tone: Tone,
    },
    Exact(String),
    Table(Table),
    /// Lines of terminal text.
    Transcript(String),
    /// A picture; shown only on pages.
    Figure(Picture),
    /// Content that depends on the width of the terminal.
    Fitted(Fitted),
    /// Details, closed until opened; shown only on pages.
    Details {
        title: String,
        inside: Document,
    },
}

/// Makes a part of a document for a terminal of a given width.
#[derive(Clone)]
pub(super) struct Fitted(pub(super) Rc<dyn Fn(&Style) -> Document>);

impl std::fmt::Debug for Fitted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Fitted")
    }
}

impl Block {
    /// Its size in memory.
    pub(super) fn bytes(&self) -> usize {
        let text = match self {
            Self::Blank | Self::Fitted(_) => 0,
            Self::Para(Paragraph { text, .. })
            | Self::Heading(text)
            | Self::Bullet { text, .. }
            | Self::Single { text, .. }
            | Self::Exact(text)
            | Self::Transcript(text) => text.len(),
            Self::Figure(Picture { wide, narrow }) => wide.len() + narrow.len(),
            Self::Item { label, text, .. } => label.len() + text.len(),
            Self::Table(table) => table.bytes(),
            Self::Details { title, inside } => title.len() + inside.bytes,
        };
        size_of::<Self>() + text
    }
}
