//! Charts as SVG, drawn here without external fonts, scripts or resources.

mod axis;
mod bars;
mod canvas;
mod flame;
mod heat;
mod lines;
mod pages;
mod stack;

pub(super) use bars::{BarChart, BarGroup, BarMark, BarRow, RepeatRange};
pub use canvas::SvgPicture;
pub(super) use flame::FlameNode;
pub(super) use heat::{HeatMap, HeatPanel};
pub(super) use lines::{LineChart, LinePanel, LineSeries, SizeMark, SizeScale};
pub(super) use pages::{PageMap, PagePanel, PageRow, WINDOW};
pub(super) use stack::{StackedChart, StackedRow, StackedSegment};
