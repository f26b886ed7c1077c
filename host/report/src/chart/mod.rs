//! The charts of all reports, drawn by one set of rules:
//!
//! - A chart's title is its finding, a sentence with the figure in it; machine and date are below the title.
//! - Ticks of x are at measured values. A value axis is logarithmic if its values span more than one decade.
//! - Each line has its name at its end, in its colour. Names that would overlap are moved apart.
//! - Ours are warm colours, peers are cool ones, other machines are grey. No two series share a colour.
//! - Roofs are dashed lines. Predictions are dotted lines with their names, or strokes if one value is predicted. A stroke is
//!   broken if the prediction follows from what another item measured.
//! - Bars begin at 0. On a logarithmic axis they are dots, because the length of a bar would mean nothing.
//! - A picture has colours for light pages and for dark ones.
//! - Missing measurements are not drawn.
//!
//! A report builds a [`Chart`] of [`Lines`], [`Bars`] and [`Dots`] and calls [`Chart::svg`]. `cargo xtask` commands write
//! the SVG; check it with `rsvg-convert FILE.svg -o FILE.png` before committing it.

mod axis;
mod canvas;
mod cells;
mod colour;
mod frame;
mod lines;
mod rows;
#[cfg(test)]
mod tests;

use plotters::prelude::*;

pub use axis::{Axis, Scale, binary, number};
pub use canvas::Predicted;
use canvas::{Canvas, Drawn, FAINT, Place, text, wrapped};
pub use cells::{Cell, Cells, Tone};
pub use colour::Family;
use colour::themed;
pub use lines::{Guide, Lines, Note, Series};
pub use rows::{Bar, Bars, Dots, Row, Span, Spans};

use crate::ReportError;

/// A picture: a title, a line below it, and panels.
pub struct Chart {
    /// The finding, with its figure: "Padding removes 31-way conflicts and is 6.2 times as fast".
    pub title: String,
    /// The measured quantity, the machine and the date.
    pub subtitle: String,
    /// Panels per row.
    pub columns: usize,
    /// The panels, row by row.
    pub panels: Vec<Panel>,
}

/// One diagram of a chart.
pub enum Panel {
    /// Values over a quantity, one line per series.
    Lines(Lines),
    /// Values of a few items, one bar per item.
    Bars(Bars),
    /// The values of several contestants for many items, one row per item.
    Dots(Dots),
    /// What ran where and when, one row per place.
    Spans(Spans),
    /// The activity of each lane or word, one cell for each.
    Cells(Cells),
}

/// Pixels between the picture's edge and its content.
const MARGIN: u32 = 16;
const TITLE: i32 = 20;
const SUBTITLE: i32 = 13;
impl Chart {
    /// Creates a chart of one panel.
    pub fn of(title: impl Into<String>, subtitle: impl Into<String>, panel: Panel) -> Self {
        Self { title: title.into(), subtitle: subtitle.into(), columns: 1, panels: vec![panel] }
    }

    /// Draws the chart.
    ///
    /// # Errors
    /// There is no panel, a panel has no values, or its axis cannot show a value.
    pub fn svg(&self) -> Result<String, ReportError> {
        let mut svg = String::new();
        self.draw(&mut svg).map_err(|error| ReportError::draw(&self.title, &*error))?;
        Ok(themed(&svg))
    }

    fn draw(&self, svg: &mut String) -> Drawn {
        if self.panels.is_empty() {
            return Err("it has no panel; measure first".into());
        }
        let columns = self.columns.clamp(1, self.panels.len());
        let sizes: Vec<(u32, u32)> = self.panels.iter().map(Panel::size).collect();
        let heights: Vec<u32> =
            sizes.chunks(columns).map(|row| row.iter().map(|size| size.1).max().unwrap_or(0)).collect();
        let widths: Vec<u32> = (0..columns)
            .map(|column| sizes.iter().skip(column).step_by(columns).map(|size| size.0).max().unwrap_or(0))
            .collect();
        let width = widths.iter().sum::<u32>() + 2 * MARGIN;
        let title = wrapped(&self.title, TITLE, width - 2 * MARGIN);
        let subtitle = wrapped(&self.subtitle, SUBTITLE, width - 2 * MARGIN);
        let head = MARGIN + title.len() as u32 * 26 + subtitle.len() as u32 * 18 + 10;
        let height = head + heights.iter().map(|height| height + MARGIN).sum::<u32>();
        let root = SVGBackend::with_string(svg, (width, height)).into_drawing_area();
        root.fill(&WHITE)?;
        let mut y = MARGIN as i32;
        for line in &title {
            text(&root, line, (MARGIN as i32, y), Place::default().size(TITLE).bold().top())?;
            y += 26;
        }
        for line in &subtitle {
            text(&root, line, (MARGIN as i32, y), Place::default().size(SUBTITLE).colour(FAINT).top())?;
            y += 18;
        }
        let mut top = head;
        for (row, height) in self.panels.chunks(columns).zip(&heights) {
            let mut left = MARGIN;
            for (panel, width) in row.iter().zip(&widths) {
                panel.draw(&root.clone().shrink((left, top), panel.size()))?;
                left += width;
            }
            top += height + MARGIN;
        }
        root.present()?;
        Ok(())
    }
}

impl Panel {
    /// Width and height in pixels.
    fn size(&self) -> (u32, u32) {
        match self {
            Self::Lines(lines) => lines.size(),
            Self::Bars(bars) => bars.size(),
            Self::Dots(dots) => dots.size(),
            Self::Spans(spans) => spans.size(),
            Self::Cells(cells) => cells.size(),
        }
    }

    fn draw(&self, area: &Canvas<'_>) -> Drawn {
        match self {
            Self::Lines(lines) => lines.draw(area),
            Self::Bars(bars) => bars.draw(area),
            Self::Dots(dots) => dots.draw(area),
            Self::Spans(spans) => spans.draw(area),
            Self::Cells(cells) => cells.draw(area),
        }
    }
}
