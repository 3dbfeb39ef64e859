//! Charts as SVG, drawn here without external fonts, scripts or resources.

mod axis;
mod bars;
mod canvas;
mod flame;
mod heat;
mod lines;
mod pages;
mod stack;

pub(super) use bars::{Bars, Group, Mark, Range, Row};
pub use canvas::Picture;
pub(super) use canvas::{escape_markup, prose_markup, unescape_markup};
pub(super) use flame::Flame;
pub(super) use heat::{Heat, Panel};
pub(super) use lines::{Curves, Lines, Scale, Series, SizeMark};
pub(super) use pages::{PageMap, PageRow, Pages, WINDOW};
pub(super) use stack::{Segment, Stack, Stacks};
