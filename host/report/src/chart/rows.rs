//! Diagrams with a row for each item: bars, dots and spans of time.

use plotters::prelude::*;

use super::axis::{Axis, Ruler};
use super::canvas::{Canvas, Drawn, FAINT, GRID, INK, Place, Predicted, TEXT, text, width_of};
use super::colour::{Family, colours};
use super::frame::{Frame, Plot, ROOF, dashed, pixel};

/// Pixels of a row.
const ROW: i32 = 22;
/// Pixels of the axis below, of a caption, and of a line of a key.
const BELOW: i32 = 52;
const LINE: i32 = 22;
/// The radius of a dot in place of a bar.
const DOT: i32 = 5;

/// A diagram of bars.
pub struct Bars {
    /// The caption, if the chart has several panels; else empty.
    pub caption: String,
    /// The measured quantity.
    pub axis: Axis,
    /// From the top; missing measurements are omitted.
    pub bars: Vec<Bar>,
    /// Roofs: vertical dashed lines at a value, with a name.
    pub roofs: Vec<(String, f64)>,
    /// Further values that the axis must include, so that panels can share a scale.
    pub also: Vec<f64>,
    /// Pixels.
    pub width: u32,
}

/// One bar, or one dot on a logarithmic axis. Its name is next to it, so a colour only shows its family.
pub struct Bar {
    /// The name on its left.
    pub name: String,
    /// Its family.
    pub family: Family,
    /// Where it ends.
    pub value: f64,
    /// The label at its end.
    pub words: String,
    /// The prediction, a stroke across the bar.
    pub predicted: Option<Predicted>,
}

/// A diagram of dots: many items, each measured with several contenders.
pub struct Dots {
    /// The caption, if the chart has several panels; else empty.
    pub caption: String,
    /// The measured quantity.
    pub axis: Axis,
    /// The contenders; the first of ours is drawn larger.
    pub contestants: Vec<(String, Family)>,
    /// From the top.
    pub rows: Vec<Row>,
    /// A vertical line at a value, with a name.
    pub roofs: Vec<(String, f64)>,
    /// Pixels.
    pub width: u32,
}

/// One item, with a value for each contender that was measured.
pub struct Row {
    /// The name on its left.
    pub name: String,
    /// A value for each contender, if measured.
    pub values: Vec<Option<f64>>,
}

/// A diagram of spans of time: what ran where and when.
pub struct Spans {
    /// The caption, if the chart has several panels; else empty.
    pub caption: String,
    /// The axis of time.
    pub axis: Axis,
    /// The end of the axis, if later than the last span; diagrams to compare share it.
    pub until: Option<f64>,
    /// From the top: the name of a row, and its spans.
    pub rows: Vec<(String, Vec<Span>)>,
    /// The names of the groups, which a key explains unless they are empty; each has a colour.
    pub groups: Vec<String>,
    /// Pixels.
    pub width: u32,
}

/// The start and end of something that ran.
pub struct Span {
    /// When it started.
    pub from: f64,
    /// When it ended.
    pub to: f64,
    /// Its group.
    pub group: usize,
}

/// What the three have in common.
struct Rows<'a> {
    caption: &'a str,
    axis: &'a Axis,
    names: Vec<&'a str>,
    /// Names and colours that a key explains.
    key: Vec<(&'a str, RGBColor)>,
    roofs: &'a [(String, f64)],
    /// Explains strokes; empty if there are none.
    strokes: String,
    width: i32,
    /// Pixels on the right of the axis.
    right: i32,
}

impl Rows<'_> {
    fn size(&self) -> (u32, u32) {
        (self.width as u32, (self.top() + self.names.len() as i32 * ROW + BELOW) as u32)
    }

    /// The top of the rows: below caption, key, and the names of roofs and strokes.
    fn top(&self) -> i32 {
        let caption = if self.caption.is_empty() { 6 } else { 28 };
        let words = if self.roofs.is_empty() && self.strokes.is_empty() { 0 } else { LINE };
        caption + LINE * self.key_lines().len() as i32 + words
    }

    fn left(&self) -> i32 {
        self.names.iter().map(|name| width_of(name, TEXT)).max().unwrap_or(0) + 18
    }

    /// The key in lines, each entry with its pixel.
    fn key_lines(&self) -> Vec<Vec<(usize, i32)>> {
        let mut lines: Vec<Vec<(usize, i32)>> = Vec::new();
        let mut x = self.width;
        for (i, (name, _)) in self.key.iter().enumerate() {
            let width = width_of(name, TEXT) + 30;
            if x + width > self.width {
                lines.push(vec![]);
                x = 12;
            }
            if let Some(line) = lines.last_mut() {
                line.push((i, x));
            }
            x += width;
        }
        lines
    }

    /// Draws everything but the rows' content, over an axis of `values`.
    fn draw<'a, 'b>(
        &self,
        area: &'a Canvas<'b>,
        values: &[f64],
    ) -> Result<Plot<'a, 'b>, Box<dyn std::error::Error>> {
        let (left, top, count) = (self.left(), self.top(), self.names.len());
        let most = ((self.width - left - self.right) / 90).max(2) as usize;
        let x = Ruler::new(self.axis.scale, values, 0.04, true, most)?;
        let frame = Frame {
            caption: self.caption,
            labels: [&self.axis.label, ""],
            formats: [&|x| (self.axis.format)(*x), &|row| {
                self.names[*row as usize % count.max(1)].to_owned()
            }],
            left,
            right: self.right,
            top,
            grid: [true, false],
        };
        let mut plot = frame.draw(area, [x, Ruler::rows(count)])?;
        let caption = if self.caption.is_empty() { 6 } else { 28 };
        for (line, names) in self.key_lines().iter().enumerate() {
            let y = caption + LINE * line as i32 + LINE / 2;
            for &(i, at) in names {
                let (name, colour) = self.key[i];
                area.draw(&Circle::new((at + 6, y), 5, colour.filled()))?;
                text(area, name, (at + 16, y), Place::default())?;
            }
        }
        let mut roofs: Vec<&(String, f64)> = self.roofs.iter().collect();
        roofs.sort_by(|a, b| b.1.total_cmp(&a.1));
        let mut free_to = self.width;
        for (name, value) in roofs {
            dashed(&mut plot, vec![(*value, 0.0), (*value, count as f64)], ROOF, INK.stroke_width(1))?;
            let (at, words) = (pixel(area, &plot, (*value, 0.0)).0, width_of(name, TEXT));
            let end = (at + words / 2).min(free_to - 4);
            text(area, name, (end, top - 18), Place::default().right().top())?;
            free_to = end - words;
        }
        if free_to > width_of(&self.strokes, TEXT) + left {
            text(area, &self.strokes, (left, top - 18), Place::default().colour(FAINT).top())?;
        }
        Ok(plot)
    }
}

impl Bars {
    /// Creates a diagram without caption and roofs.
    pub fn new(axis: Axis, bars: Vec<Bar>) -> Self {
        Self { caption: String::new(), axis, bars, roofs: vec![], also: vec![], width: 960 }
    }

    fn rows(&self) -> Rows<'_> {
        Rows {
            caption: &self.caption,
            axis: &self.axis,
            names: self.bars.iter().map(|bar| bar.name.as_str()).collect(),
            key: Vec::new(),
            roofs: &self.roofs,
            strokes: Predicted::key(self.bars.iter().filter_map(|bar| bar.predicted)),
            width: self.width as i32,
            right: 16 + self.bars.iter().map(|bar| width_of(&bar.words, TEXT)).max().unwrap_or(0),
        }
    }

    pub(super) fn size(&self) -> (u32, u32) {
        self.rows().size()
    }

    pub(super) fn draw(&self, area: &Canvas<'_>) -> Drawn {
        let values =
            self.bars.iter().flat_map(|bar| [Some(bar.value), bar.predicted.map(|it| it.value)]).flatten();
        let others = self.roofs.iter().map(|roof| roof.1).chain(self.also.iter().copied());
        let mut plot = self.rows().draw(area, &values.chain(others).collect::<Vec<_>>())?;
        let (start, end) = (plot.x_range().start, plot.x_range().end);
        // A linear axis begins at 0 or below.
        let is_log = start > 0.0;
        for (row, bar) in self.bars.iter().enumerate() {
            let (row, colour) = (row as f64, bar.family.main());
            if is_log {
                plot.draw_series(LineSeries::new([(start, row + 0.5), (end, row + 0.5)], GRID))?;
                plot.draw_series([Circle::new((bar.value, row + 0.5), DOT, colour.filled())])?;
            } else {
                let corners = [(start, row + 0.12), (bar.value, row + 0.88)];
                plot.draw_series([Rectangle::new(corners, colour.filled())])?;
            }
            let (mut end, y) = pixel(area, &plot, (bar.value, row + 0.5));
            end += if is_log { DOT } else { 0 };
            let words = width_of(&bar.words, TEXT);
            if let Some(predicted) = bar.predicted {
                let (at, marks) = ((predicted.value, row + 0.5), predicted.marks(ROW / 2, true).into_iter());
                plot.draw_series(marks.map(|mark| EmptyElement::at(at) + mark))?;
                // Figures must not lie across the stroke.
                let at = pixel(area, &plot, at).0;
                end = if (end - 4..end + words + 10).contains(&at) { at + 2 } else { end };
            }
            // A roof must not cross the figures.
            let behind = [(end + 4, y - ROW / 2 + 2), (end + words + 6, y + ROW / 2 - 2)];
            area.draw(&Rectangle::new(behind, WHITE.filled()))?;
            text(area, &bar.words, (end + 6, y), Place::default())?;
        }
        Ok(())
    }
}

impl Dots {
    fn rows(&self) -> Rows<'_> {
        let families: Vec<Family> = self.contestants.iter().map(|contestant| contestant.1).collect();
        let names = self.contestants.iter().map(|(name, _)| name.as_str());
        Rows {
            caption: &self.caption,
            axis: &self.axis,
            names: self.rows.iter().map(|row| row.name.as_str()).collect(),
            key: names.zip(colours(&families)).collect(),
            roofs: &self.roofs,
            strokes: String::new(),
            width: self.width as i32,
            right: 24,
        }
    }

    pub(super) fn size(&self) -> (u32, u32) {
        self.rows().size()
    }

    pub(super) fn draw(&self, area: &Canvas<'_>) -> Drawn {
        let values = self.rows.iter().flat_map(|row| row.values.iter().flatten().copied());
        let values: Vec<f64> = values.chain(self.roofs.iter().map(|roof| roof.1)).collect();
        let rows = self.rows();
        let mut plot = rows.draw(area, &values)?;
        let large = self.contestants.iter().position(|(_, family)| *family == Family::Ours);
        for (place, row) in self.rows.iter().enumerate() {
            let y = place as f64 + 0.5;
            let ends = row.values.iter().flatten().copied();
            let (low, high) = (ends.clone().reduce(f64::min), ends.reduce(f64::max));
            if let (Some(low), Some(high)) = (low, high) {
                plot.draw_series(LineSeries::new([(low, y), (high, y)], FAINT))?;
            }
            // The first contender is on top.
            for (i, value) in row.values.iter().enumerate().rev() {
                let radius = if large == Some(i) { 6 } else { 4 };
                plot.draw_series(value.map(|value| Circle::new((value, y), radius, rows.key[i].1.filled())))?;
            }
        }
        Ok(())
    }
}

impl Spans {
    fn colours(&self) -> Vec<RGBColor> {
        colours(&vec![Family::Ours; self.groups.len()])
    }

    fn rows(&self) -> Rows<'_> {
        let is_drawn = |group: usize| self.rows.iter().flat_map(|row| &row.1).any(|span| span.group == group);
        let key = self.groups.iter().map(String::as_str).zip(self.colours()).enumerate();
        Rows {
            caption: &self.caption,
            axis: &self.axis,
            names: self.rows.iter().map(|(name, _)| name.as_str()).collect(),
            key: key
                .filter(|(group, (name, _))| !name.is_empty() && is_drawn(*group))
                .map(|(_, name)| name)
                .collect(),
            roofs: &[],
            strokes: String::new(),
            width: self.width as i32,
            right: 24,
        }
    }

    pub(super) fn size(&self) -> (u32, u32) {
        self.rows().size()
    }

    pub(super) fn draw(&self, area: &Canvas<'_>) -> Drawn {
        let ends = self.rows.iter().flat_map(|row| &row.1).flat_map(|span| [span.from, span.to]);
        let (rows, colours) = (self.rows(), self.colours());
        let mut plot = rows.draw(area, &ends.chain(self.until).collect::<Vec<_>>())?;
        for (place, (_, spans)) in self.rows.iter().enumerate() {
            for span in spans {
                let colour = colours.get(span.group % colours.len().max(1)).copied().unwrap_or(INK);
                // Leaves a pixel free between two spans.
                let from = pixel(area, &plot, (span.from, place as f64 + 0.1));
                let to = pixel(area, &plot, (span.to, place as f64 + 0.9));
                let corners = [from, ((to.0 - 1).max(from.0 + 1), to.1)];
                area.draw(&Rectangle::new(corners, colour.filled()))?;
            }
        }
        plot.draw_series(std::iter::empty::<PathElement<(f64, f64)>>())?;
        Ok(())
    }
}
