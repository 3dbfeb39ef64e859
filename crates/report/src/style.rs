//! How the caller wants the text: colour, width, character set. Whether the output is a terminal
//! and what `NO_COLOR` says is the caller's business.

/// Narrowest layout; a smaller request is raised to it.
const NARROWEST: usize = 30;
/// Widest layout of prose; longer lines are hard to read.
const WIDEST: usize = 80;
const WIDEST_TABLE: usize = 160;

/// What the caller's terminal can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Emit colour sequences.
    pub colour: bool,
    /// Columns available; used between 30 and 80, by tables up to 160.
    pub width: usize,
    /// Characters beyond ASCII may be printed.
    pub unicode: bool,
}

impl Default for Style {
    fn default() -> Self {
        Self { colour: false, width: WIDEST, unicode: true }
    }
}

impl Style {
    /// The columns that a layout uses.
    pub(crate) fn columns(&self) -> usize {
        self.width.clamp(NARROWEST, WIDEST)
    }

    /// The columns that a table may use.
    pub(crate) fn table_columns(&self) -> usize {
        self.width.clamp(NARROWEST, WIDEST_TABLE)
    }

    /// `text`, already laid out, in the colour of `tone`.
    pub(crate) fn paint(&self, text: &str, tone: Tone) -> String {
        match tone.code() {
            Some(code) if self.colour && !text.is_empty() => format!("\x1b[{code}m{text}\x1b[0m"),
            _ => text.to_owned(),
        }
    }
}

/// The meaning of a colour; its text is the class of a page for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub(crate) enum Tone {
    Plain,
    Strong,
    Faint,
    Good,
    Warn,
    Bad,
}

impl Tone {
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
        let plain = Style::default();
        let colour = Style { colour: true, ..plain };
        assert_eq!(plain.paint("x", Tone::Bad), "x");
        assert_eq!(colour.paint("x", Tone::Bad), "\x1b[31mx\x1b[0m");
        assert_eq!(colour.paint("x", Tone::Plain), "x");
    }

    #[test]
    fn width_stays_in_bounds() {
        assert_eq!(Style { width: 0, ..Style::default() }.columns(), 30);
        assert_eq!(Style { width: 60, ..Style::default() }.columns(), 60);
        let wide = Style { width: 300, ..Style::default() };
        assert_eq!((wide.columns(), wide.table_columns()), (80, 160));
    }
}
