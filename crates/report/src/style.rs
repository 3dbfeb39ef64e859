//! The caller's preferences for text: colour, width, character set. The caller checks whether the output is a
//! terminal, and `NO_COLOR`.

/// Narrowest layout; smaller widths are raised to it.
const NARROWEST: usize = 30;
/// Widest layout of prose; longer lines are hard to read.
const WIDEST: usize = 80;
const WIDEST_TABLE: usize = 160;

/// The capabilities of the caller's terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalStyle {
    /// Emit colour sequences.
    pub colour: bool,
    /// Available columns; clamped to 30..80, for tables to 30..160.
    pub width: usize,
    /// Allow characters beyond ASCII.
    pub unicode: bool,
}

impl Default for TerminalStyle {
    fn default() -> Self {
        Self { colour: false, width: WIDEST, unicode: true }
    }
}

impl TerminalStyle {
    /// The columns that a layout uses.
    pub(crate) fn columns(&self) -> usize {
        self.width.clamp(NARROWEST, WIDEST)
    }

    /// The columns that a table may use.
    pub(crate) fn table_columns(&self) -> usize {
        self.width.clamp(NARROWEST, WIDEST_TABLE)
    }

    /// `text`, already laid out, in the colour of `tone`.
    pub(crate) fn paint(&self, text: &str, tone: TextTone) -> String {
        match tone.code() {
            Some(code) if self.colour && !text.is_empty() => format!("\x1b[{code}m{text}\x1b[0m"),
            _ => text.to_owned(),
        }
    }
}

/// The meaning of a colour; its text is the CSS class on a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub(crate) enum TextTone {
    Plain,
    Strong,
    Faint,
    Good,
    Warn,
    Bad,
}

impl TextTone {
    const fn code(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Strong => Some("1"),
            Self::Faint => Some("2"),
            Self::Good => Some("32"),
            Self::Warn => Some("33"),
            Self::Bad => Some("31"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_only_when_asked() {
        let plain = TerminalStyle::default();
        let colour = TerminalStyle { colour: true, ..plain };
        assert_eq!(plain.paint("x", TextTone::Bad), "x");
        assert_eq!(colour.paint("x", TextTone::Bad), "\x1b[31mx\x1b[0m");
        assert_eq!(colour.paint("x", TextTone::Plain), "x");
    }

    #[test]
    fn width_stays_in_bounds() {
        assert_eq!(TerminalStyle { width: 0, ..TerminalStyle::default() }.columns(), 30);
        assert_eq!(TerminalStyle { width: 60, ..TerminalStyle::default() }.columns(), 60);
        let wide = TerminalStyle { width: 300, ..TerminalStyle::default() };
        assert_eq!((wide.columns(), wide.table_columns()), (80, 160));
    }
}
