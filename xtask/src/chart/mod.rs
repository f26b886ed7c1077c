//! The charts of all reports, drawn by one set of rules:
//!
//! - A chart's title is its finding, a sentence with the figure in it; machine and date are below the title.
//! - Ticks of x are at measured values. A value axis is logarithmic if its values span more than one decade.
//! - Each line has its name at its end, in its colour. Names that would overlap are moved apart.
//! - Ours are warm colours, peers are cool ones, other machines are grey. No two series share a colour.
//! - Roofs are dashed black lines. Predictions are dotted lines with their names, or black strokes if one value is
//!   predicted.
//! - Missing measurements are not drawn.
//!
//! A report builds a [`Chart`] of [`Lines`], [`Bars`] and [`Dots`] and calls [`Chart::svg`]. `cargo xtask` commands write
//! the SVG; check it with `rsvg-convert FILE.svg -o FILE.png` before committing it.

mod axis;
mod cells;
mod colour;
mod lines;
mod rows;
#[cfg(test)]
mod tests;

use anyhow::anyhow;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use axis::Ruler;
pub use axis::{Axis, Scale, binary, number};
pub use cells::{Cell, Cells, Tone};
pub use colour::{Family, colours};
pub use lines::{Guide, Lines, Note, Series};
pub use rows::{Bar, Bars, Dots, Row, Span, Spans};

/// The area that panels draw on.
type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

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
/// The size of text in panels.
const TEXT: i32 = 13;
const CAPTION: i32 = 15;

/// Explains the strokes of predicted values.
const PREDICTED: &str = "black stroke: predicted";

const INK: RGBColor = RGBColor(30, 30, 30);
const FAINT: RGBColor = RGBColor(110, 110, 110);
const GRID: RGBColor = RGBColor(228, 228, 228);

impl Chart {
    /// Creates a chart of one panel.
    pub fn of(title: impl Into<String>, subtitle: impl Into<String>, panel: Panel) -> Self {
        Self { title: title.into(), subtitle: subtitle.into(), columns: 1, panels: vec![panel] }
    }

    /// Draws the chart.
    ///
    /// # Errors
    /// There is no panel, a panel has no values, or its axis cannot show a value.
    pub fn svg(&self) -> anyhow::Result<String> {
        let mut svg = String::new();
        self.draw(&mut svg).map_err(|error| anyhow!("drawing the chart {:?} failed: {error}", self.title))?;
        Ok(svg)
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

/// The style of a text, and its anchor.
#[derive(Clone, Copy)]
struct Place {
    size: i32,
    colour: RGBColor,
    pos: Pos,
    is_bold: bool,
}

impl Default for Place {
    /// Dark, with the position at its left end and half its height.
    fn default() -> Self {
        Self { size: TEXT, colour: INK, pos: Pos::new(HPos::Left, VPos::Center), is_bold: false }
    }
}

impl Place {
    fn size(self, size: i32) -> Self {
        Self { size, ..self }
    }

    fn colour(self, colour: RGBColor) -> Self {
        Self { colour, ..self }
    }

    fn bold(self) -> Self {
        Self { is_bold: true, ..self }
    }

    fn top(self) -> Self {
        Self { pos: Pos::new(self.pos.h_pos, VPos::Top), ..self }
    }

    fn right(self) -> Self {
        Self { pos: Pos::new(HPos::Right, self.pos.v_pos), ..self }
    }

    fn centre(self) -> Self {
        Self { pos: Pos::new(HPos::Center, self.pos.v_pos), ..self }
    }
}

fn text(area: &Canvas<'_>, words: &str, at: (i32, i32), place: Place) -> Drawn {
    let font: FontDesc<'_> = ("sans-serif", place.size).into();
    let font = if place.is_bold { font.style(FontStyle::Bold) } else { font };
    let style = TextStyle::from(font).color(&place.colour).pos(place.pos);
    area.draw(&Text::new(words.to_owned(), at, style))?;
    Ok(())
}

fn line(area: &Canvas<'_>, from: (i32, i32), to: (i32, i32), colour: RGBColor, width: u32) -> Drawn {
    area.draw(&PathElement::new([from, to], colour.stroke_width(width)))?;
    Ok(())
}

/// A diagram with two axes.
type Plot<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Ruler, Ruler>>;

/// The words around a diagram, and the pixels for them.
struct Frame<'a> {
    caption: &'a str,
    labels: [&'a str; 2],
    formats: [&'a dyn Fn(&f64) -> String; 2],
    left: i32,
    right: i32,
    top: i32,
    /// Whether lines of the grid cross the axis x, and y.
    grid: [bool; 2],
}

impl Frame<'_> {
    /// Draws the axes, the grid and the caption.
    fn draw<'a, 'b>(
        &self,
        area: &'a Canvas<'b>,
        [x, y]: [Ruler; 2],
    ) -> Result<Plot<'a, 'b>, Box<dyn std::error::Error>> {
        let mut plot = ChartBuilder::on(area)
            .margin_top(self.top)
            .margin_right(self.right)
            .x_label_area_size(48)
            .y_label_area_size(self.left)
            .build_cartesian_2d(x, y)?;
        let mut mesh = plot.configure_mesh();
        mesh.axis_style(INK).bold_line_style(GRID).light_line_style(TRANSPARENT);
        mesh.label_style(("sans-serif", TEXT).into_font().color(&INK));
        mesh.x_desc(self.labels[0]).x_label_formatter(self.formats[0]);
        mesh.y_desc(self.labels[1]).y_label_formatter(self.formats[1]);
        // They only reach the axes' own choice of ticks, which has no limit.
        mesh.x_labels(99).y_labels(999);
        if !self.grid[0] {
            mesh.disable_x_mesh();
        }
        if !self.grid[1] {
            mesh.disable_y_mesh().set_tick_mark_size(LabelAreaPosition::Left, 5);
        }
        mesh.draw()?;
        if !self.caption.is_empty() {
            text(area, self.caption, (self.left, 4), Place::default().size(CAPTION).bold().top())?;
        }
        Ok(plot)
    }
}

/// The pixel of a value, within the area that the diagram is drawn on.
fn pixel(area: &Canvas<'_>, plot: &Plot<'_, '_>, at: (f64, f64)) -> (i32, i32) {
    let (base, at) = (area.get_base_pixel(), plot.backend_coord(&at));
    (at.0 - base.0, at.1 - base.1)
}

/// Draws a dashed line through the points: a roof, a mark or a prediction.
fn dashed(
    plot: &mut Plot<'_, '_>,
    points: Vec<(f64, f64)>,
    [dash, gap]: [u32; 2],
    style: ShapeStyle,
) -> Drawn {
    plot.draw_series(DashedLineSeries::new(points, dash, gap, style))?;
    Ok(())
}

/// Dashes of roofs, of marks and of predictions.
const ROOF: [u32; 2] = [8, 5];
const MARK: [u32; 2] = [2, 3];

/// The width of a text in pixels, rounded up generously, because fonts differ.
fn width_of(words: &str, size: i32) -> i32 {
    let em: f64 = words
        .chars()
        .map(|letter| match letter {
            'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | ' ' | '(' | ')' => 0.38,
            'm' | 'w' | 'M' | 'W' | '%' => 0.98,
            'A'..='Z' => 0.74,
            _ => 0.63,
        })
        .sum();
    (em * f64::from(size)).ceil() as i32
}

/// Wraps the words into lines of at most `width` pixels.
fn wrapped(words: &str, size: i32, width: u32) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width_of(line, size) + width_of(word, size) + size / 2 <= width as i32 => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
