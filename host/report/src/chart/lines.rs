//! Lines over a quantity, with roofs and predictions.

use plotters::prelude::*;

use super::axis::{Axis, Ruler};
use super::canvas::{Canvas, Drawn, FAINT, INK, Place, Predicted, TEXT, text, width_of};
use super::colour::{Family, colours, of_words};
use super::frame::{Frame, MARK, ROOF, dashed, pixel};

/// A diagram of lines.
pub struct Lines {
    /// The caption, if the chart has several panels; else empty.
    pub caption: String,
    /// The axis of the quantity.
    pub x: Axis,
    /// The axis of the values.
    pub y: Axis,
    /// The contestants.
    pub series: Vec<Series>,
    /// Roofs and predictions.
    pub guides: Vec<Guide>,
    /// Words at single points.
    pub notes: Vec<Note>,
    /// Pixels of the whole panel.
    pub size: (u32, u32),
}

/// One contestant.
pub struct Series {
    /// Its name, at the end of its line.
    pub name: String,
    /// Its family.
    pub family: Family,
    /// In any order.
    pub points: Vec<(f64, f64)>,
    /// Whether the chart is about it.
    pub is_bold: bool,
    /// Whether points are joined: not if values in between were skipped on purpose.
    pub is_joined: bool,
    /// Predictions for single points: strokes, with a dotted line to the measured value.
    pub predicted: Vec<(f64, Predicted)>,
}

/// A line that is not a contestant's measurement.
pub enum Guide {
    /// A limit: a dashed line at a height.
    Roof(String, f64),
    /// A roof that differs along x.
    RoofCurve(String, Vec<(f64, f64)>),
    /// A prediction: a dotted line.
    Predicted(String, Vec<(f64, f64)>),
}

/// Words at a point.
pub struct Note {
    /// The point.
    pub at: (f64, f64),
    /// What the point is.
    pub words: String,
}

impl Series {
    /// Creates a series whose points are joined.
    pub fn new(name: impl Into<String>, family: Family, points: Vec<(f64, f64)>) -> Self {
        let (name, predicted) = (name.into(), Vec::new());
        Self { name, family, points, is_bold: false, is_joined: true, predicted }
    }

    /// Without lines between the points.
    pub fn unjoined(self) -> Self {
        Self { is_joined: false, ..self }
    }
}

impl Guide {
    /// Its name, its points on an axis from `x.0` to `x.1`, and its dashes.
    fn path(&self, x: (f64, f64)) -> (&str, Vec<(f64, f64)>, [u32; 2]) {
        match self {
            Self::Roof(name, y) => (name, vec![(x.0, *y), (x.1, *y)], ROOF),
            Self::RoofCurve(name, points) => (name, sorted(points), ROOF),
            Self::Predicted(name, points) => (name, sorted(points), [2, 4]),
        }
    }
}

/// Pixels from one name to the next.
const NAME: i32 = 16;

/// A name at the end of a line.
struct Name<'a> {
    words: &'a str,
    colour: RGBColor,
    is_bold: bool,
    /// Whether a line leads to it, instead of a point of its colour before it.
    is_joined: bool,
    end: (i32, i32),
}

impl Lines {
    /// Creates a panel of the usual size.
    pub fn new(x: Axis, y: Axis, series: Vec<Series>) -> Self {
        let size = (960, 460);
        Self { caption: String::new(), x, y, series, guides: vec![], notes: vec![], size }
    }

    pub(super) fn size(&self) -> (u32, u32) {
        let names = self.series.len() + self.guides.len();
        (self.size.0, self.size.1.max((names as i32 * NAME) as u32 + 110))
    }

    pub(super) fn draw(&self, area: &Canvas<'_>) -> Drawn {
        let (width, height) = (area.dim_in_pixel().0 as i32, area.dim_in_pixel().1 as i32);
        let shown: Vec<&Series> = self.series.iter().filter(|series| !series.points.is_empty()).collect();
        let guides: Vec<_> = self.guides.iter().map(|guide| guide.path((1.0, 1.0))).collect();
        let names = shown.iter().map(|series| series.name.as_str()).chain(guides.iter().map(|guide| guide.0));
        let right = names.map(|name| width_of(name, TEXT)).max().unwrap_or(0) + 34;
        let predicted = shown.iter().flat_map(|series| &series.predicted).map(|one| one.1);
        let key = Predicted::key(predicted.clone());
        let top = if self.caption.is_empty() { 12 } else { 34 } + if key.is_empty() { 0 } else { 18 };

        let points = || shown.iter().flat_map(|series| series.points.iter().copied());
        let xs: Vec<f64> = points().map(|point| point.0).collect();
        let ys = points().chain(guides.iter().flat_map(|(_, points, _)| points.clone())).map(|point| point.1);
        let ys: Vec<f64> = ys.chain(predicted.map(|one| one.value)).collect();
        let y = Ruler::new(self.y.scale, &ys, 0.06, self.y.is_from_zero, 9)?;
        let widest = y.ticks.iter().map(|&tick| width_of(&(self.y.format)(tick), TEXT)).max().unwrap_or(0);
        let left = 38 + widest;
        let mut x = Ruler::new(self.x.scale, &xs, 0.02, false, 9)?;
        x.ticks = x.labelled(&xs, self.x.format, width - left - right);
        let (ends, inside) = ((x.range().start, x.range().end), [x.range(), y.range()]);
        let frame = Frame {
            caption: &self.caption,
            labels: [&self.x.label, &self.y.label],
            formats: [&|x| (self.x.format)(*x), &|y| (self.y.format)(*y)],
            left,
            right,
            top,
            grid: [false, true],
        };
        let mut plot = frame.draw(area, [x, y])?;
        text(area, &key, (left + 4, top - 16), Place::default().colour(FAINT).top())?;
        let mut at_ends: Vec<Name<'_>> = Vec::new();
        for (words, path, dashes) in self.guides.iter().map(|guide| guide.path(ends)) {
            let width = if dashes == ROOF { 1 } else { 2 };
            let Some(&last) = path.last() else { continue };
            dashed(&mut plot, path, dashes, INK.stroke_width(width))?;
            let end = pixel(area, &plot, last);
            at_ends.push(Name { words, colour: INK, is_bold: false, is_joined: true, end });
        }
        let families: Vec<Family> = shown.iter().map(|series| series.family).collect();
        for (series, colour) in shown.iter().zip(colours(&families)) {
            let path = sorted(&series.points);
            let (width, radius) = if series.is_bold { (4, 4) } else { (2, 3) };
            if series.is_joined {
                plot.draw_series(LineSeries::new(path.iter().copied(), colour.stroke_width(width)))?;
            }
            plot.draw_series(path.iter().map(|&point| Circle::new(point, radius, colour.filled())))?;
            for &(x, predicted) in &series.predicted {
                let at = (x, predicted.value);
                if let Some(point) = path.iter().find(|point| point.0 == x) {
                    dashed(&mut plot, vec![*point, at], MARK, colour.stroke_width(1))?;
                }
                let marks = predicted.marks(7, false).into_iter();
                plot.draw_series(marks.map(|mark| EmptyElement::at(at) + mark))?;
            }
            if let Some(&last) = path.last() {
                let end = pixel(area, &plot, last);
                let Series { is_bold, is_joined, .. } = **series;
                at_ends.push(Name { words: &series.name, colour, is_bold, is_joined, end });
            }
        }
        let is_inside = |(x, y): (f64, f64)| inside[0].contains(&x) && inside[1].contains(&y);
        for note in self.notes.iter().filter(|note| is_inside(note.at)) {
            let at = pixel(area, &plot, note.at);
            let is_right = at.0 + width_of(&note.words, TEXT) + 8 < width - right;
            let place = if is_right { Place::default() } else { Place::default().right() };
            text(area, &note.words, (at.0 + if is_right { 7 } else { -7 }, at.1 - 9), place)?;
        }
        draw_names(area, at_ends, width - right + 24, (top, height - 40))
    }
}

/// Draws the names in a column at `x`, moved apart where they would overlap.
fn draw_names(area: &Canvas<'_>, mut names: Vec<Name<'_>>, x: i32, within: (i32, i32)) -> Drawn {
    names.sort_by_key(|name| name.end.1);
    let wanted: Vec<i32> = names.iter().map(|name| name.end.1).collect();
    for (name, y) in names.iter().zip(apart(&wanted, within)) {
        if !name.is_joined {
            area.draw(&Circle::new((x - 8, y), 3, name.colour.filled()))?;
        } else if name.end.0 < x - 30 || (name.end.1 - y).abs() > 3 {
            let path = [(name.end.0 + 5, name.end.1), (x - 14, name.end.1), (x - 3, y)];
            area.draw(&PathElement::new(path, name.colour.mix(0.55).stroke_width(1)))?;
        }
        let place = Place::default().colour(of_words(name.colour));
        text(area, name.words, (x, y), if name.is_bold { place.bold() } else { place })?;
    }
    Ok(())
}

/// Ascending heights, moved down where they are too close, and up again where they leave the diagram.
pub(super) fn apart(wanted: &[i32], (top, bottom): (i32, i32)) -> Vec<i32> {
    let mut least = top;
    let mut heights: Vec<i32> = Vec::new();
    for &height in wanted {
        heights.push(height.max(least));
        least = heights[heights.len() - 1] + NAME;
    }
    let mut most = bottom;
    for height in heights.iter_mut().rev() {
        *height = (*height).min(most);
        most = *height - NAME;
    }
    heights
}

/// The points from left to right.
fn sorted(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut points = points.to_vec();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}
