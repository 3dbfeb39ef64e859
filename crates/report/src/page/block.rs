//! The parts of a document.

use super::ReportDocument;
use crate::chart::SvgPicture;
use crate::paragraph::Paragraph;
use crate::style::{TerminalStyle, TextTone};
use crate::table::ReportTable;
use std::rc::Rc;

/// A part of a document.
#[derive(Debug, Clone)]
pub(super) enum DocumentBlock {
    Blank,
    Heading(String),
    Para(Paragraph),
    Bullet {
        text: String,
        tone: TextTone,
    },
    Item {
        label: String,
        text: String,
        tone: TextTone,
    },
    /// One line, cut if it is too long for a terminal.
    Single {
        text: String,
        indent: usize,
        tone: TextTone,
    },
    Exact(String),
    Table(ReportTable),
    /// Lines of terminal text.
    Transcript(String),
    /// A picture; shown only on pages.
    Figure(SvgPicture),
    /// Content that depends on the width of the terminal.
    Fitted(FittedPart),
    /// Details, closed until opened; shown only on pages.
    Details {
        title: String,
        inside: ReportDocument,
    },
}

/// Makes a part of a document for a terminal of a given width.
#[derive(Clone)]
pub(super) struct FittedPart(pub(super) Rc<dyn Fn(&TerminalStyle) -> ReportDocument>);

impl std::fmt::Debug for FittedPart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FittedPart")
    }
}

impl DocumentBlock {
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
            Self::Figure(SvgPicture { wide, narrow }) => wide.len() + narrow.len(),
            Self::Item { label, text, .. } => label.len() + text.len(),
            Self::Table(table) => table.bytes(),
            Self::Details { title, inside } => title.len() + inside.bytes,
        };
        size_of::<Self>() + text
    }
}
