//! Lines over a quantity, with roofs and predictions.

use plotters::prelude::*;

use super::axis::{Axis, Ruler};
use super::names::{self, Name};
use super::{
    CAPTION, Canvas, Drawn, FAINT, Family, GRID, INK, PREDICTED, Place, TEXT, colours, dashed, line, text,
    width_of,
};

/// A diagram of lines.
pub struct Lines {
    /// The caption, if the chart has several panels; else empty.
    pub caption: String,
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Series>,
    pub guides: Vec<Guide>,
    /// Vertical lines at values of x, with a name.
    pub marks: Vec<Mark>,
    /// Words at single points.
    pub notes: Vec<Note>,
    /// Pixels of the whole panel.
    pub size: (u32, u32),
}

/// One contestant.
pub struct Series {
    pub name: String,
    pub family: Family,
    /// In any order.
    pub points: Vec<(f64, f64)>,
    /// Whether the chart is about it.
    pub is_bold: bool,
    /// Whether points are joined: not if values in between were skipped on purpose.
    pub is_joined: bool,
    /// Predictions for single points: black strokes, with a dotted line to the measured value.
    pub predicted: Vec<(f64, f64)>,
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

/// A vertical line.
pub struct Mark {
    pub x: f64,
    pub name: String,
}

/// Words at a point.
pub struct Note {
    pub at: (f64, f64),
    pub words: String,
}

impl Series {
    pub fn new(name: impl Into<String>, family: Family, points: Vec<(f64, f64)>) -> Self {
        let (name, predicted) = (name.into(), Vec::new());
        Self { name, family, points, is_bold: false, is_joined: true, predicted }
    }

    pub fn bold(self) -> Self {
        Self { is_bold: true, ..self }
    }

    pub fn unjoined(self) -> Self {
        Self { is_joined: false, ..self }
    }
}

impl Guide {
    fn name(&self) -> &str {
        let (Self::Roof(name, _) | Self::RoofCurve(name, _) | Self::Predicted(name, _)) = self;
        name
    }

    fn heights(&self) -> Vec<f64> {
        match self {
            Self::Roof(_, y) => vec![*y],
            Self::RoofCurve(_, points) | Self::Predicted(_, points) => {
                points.iter().map(|point| point.1).collect()
            }
        }
    }
}

impl Lines {
    /// Creates a panel of the usual size.
    pub fn new(x: Axis, y: Axis, series: Vec<Series>) -> Self {
        let size = (960, 460);
        Self { caption: String::new(), x, y, series, guides: vec![], marks: vec![], notes: vec![], size }
    }

    pub(super) fn size(&self) -> (u32, u32) {
        let names = self.series.len() + self.guides.len();
        (self.size.0, self.size.1.max(names as u32 * names::HEIGHT as u32 + 110))
    }

    pub(super) fn draw(&self, area: &Canvas<'_>) -> Drawn {
        let (width, height) = area.dim_in_pixel();
        let shown: Vec<&Series> = self.series.iter().filter(|series| !series.points.is_empty()).collect();
        let every_name = shown.iter().map(|series| series.name.as_str());
        let right = width as i32 - names::room(every_name.chain(self.guides.iter().map(Guide::name))) as i32;
        let has_predictions = shown.iter().any(|series| !series.predicted.is_empty());
        let has_words = !self.marks.is_empty() || has_predictions;
        let top = if self.caption.is_empty() { 12 } else { 34 } + if has_words { 18 } else { 0 };
        let bottom = height as i32 - 52;

        let points = || shown.iter().flat_map(|series| series.points.iter().copied());
        let xs: Vec<f64> = points().map(|point| point.0).collect();
        let guides = self.guides.iter().flat_map(Guide::heights);
        let predicted = shown.iter().flat_map(|series| &series.predicted).map(|point| point.1);
        let ys: Vec<f64> = points().map(|point| point.1).chain(guides).chain(predicted).collect();
        let y = Ruler::new(self.y.scale, &ys, bottom..top, 0.06, true)?;
        let y_ticks = y.round_ticks(9);
        let widest = y_ticks.iter().map(|&tick| width_of(&(self.y.format)(tick), TEXT)).max().unwrap_or(0);
        let left = 34 + widest;
        let x = Ruler::new(self.x.scale, &xs, left..right, 0.02, false)?;

        for tick in y_ticks {
            let at = y.at(tick);
            line(area, (left, at), (right, at), GRID, 1)?;
            text(area, &(self.y.format)(tick), (left - 6, at), Place::default().right())?;
        }
        let labelled = x.labelled(&xs, self.x.format, TEXT);
        for &value in &xs {
            let length = if labelled.contains(&value) { 6 } else { 3 };
            line(area, (x.at(value), bottom), (x.at(value), bottom + length), INK, 1)?;
        }
        for value in labelled {
            text(area, &(self.x.format)(value), (x.at(value), bottom + 10), Place::default().centre().top())?;
        }
        line(area, (left, bottom), (right, bottom), INK, 1)?;
        line(area, (left, top), (left, bottom), INK, 1)?;
        let middle = (left + right) / 2;
        text(area, &self.x.label, (middle, height as i32 - 22), Place::default().centre().top())?;
        text(area, &self.y.label, (4, (top + bottom) / 2), Place::default().centre().top().upright())?;
        if !self.caption.is_empty() {
            text(area, &self.caption, (left, 4), Place::default().size(CAPTION).bold().top())?;
        }
        let mut free_from = left;
        if has_predictions {
            text(area, PREDICTED, (left + 4, top - 16), Place::default().colour(FAINT).top())?;
            free_from += width_of(PREDICTED, TEXT) + 8;
        }
        for mark in self.marks.iter().filter(|mark| x.has(mark.x)) {
            let at = x.at(mark.x);
            dashed(area, &[(at, top), (at, bottom)], 2.0, 3.0, FAINT.stroke_width(1))?;
            let half = width_of(&mark.name, TEXT) / 2;
            if at - half >= free_from && at + half <= width as i32 {
                text(area, &mark.name, (at, top - 16), Place::default().colour(FAINT).centre().top())?;
                free_from = at + half + 4;
            }
        }

        let mut ends: Vec<Name> = Vec::new();
        for guide in &self.guides {
            let (from, to) = x.ends();
            let (path, dash, gap): (Vec<(f64, f64)>, f64, f64) = match guide {
                Guide::Roof(_, level) => (vec![(from, *level), (to, *level)], 8.0, 5.0),
                Guide::RoofCurve(_, points) => (points.clone(), 8.0, 5.0),
                Guide::Predicted(_, points) => (points.clone(), 2.0, 4.0),
            };
            let path = pixels(&path, &x, &y);
            dashed(area, &path, dash, gap, INK.stroke_width(if dash < 4.0 { 2 } else { 1 }))?;
            let Some(&end) = path.last() else { continue };
            ends.push(Name { words: guide.name().to_owned(), colour: INK, is_bold: false, end });
        }
        let families: Vec<Family> = shown.iter().map(|series| series.family).collect();
        for (series, colour) in shown.iter().zip(colours(&families)) {
            let path = pixels(&series.points, &x, &y);
            let width = if series.is_bold { 4 } else { 2 };
            if series.is_joined {
                area.draw(&PathElement::new(path.clone(), colour.stroke_width(width)))?;
            }
            for &point in &path {
                area.draw(&Circle::new(point, if series.is_bold { 4 } else { 3 }, colour.filled()))?;
            }
            for &(at, value) in &series.predicted {
                let (at, stroke) = (x.at(at), y.at(value));
                if let Some(point) = path.iter().find(|point| point.0 == at) {
                    dashed(area, &[*point, (at, stroke)], 2.0, 3.0, colour.stroke_width(1))?;
                }
                area.draw(&Rectangle::new([(at - 7, stroke - 1), (at + 7, stroke + 1)], INK.filled()))?;
            }
            let Some(&end) = path.last() else { continue };
            ends.push(Name { words: series.name.clone(), colour, is_bold: series.is_bold, end });
        }
        for note in self.notes.iter().filter(|note| x.has(note.at.0) && y.has(note.at.1)) {
            let (at, half) = ((x.at(note.at.0), y.at(note.at.1)), width_of(&note.words, TEXT));
            let is_right = at.0 + half + 8 < right;
            let place = if is_right { Place::default() } else { Place::default().right() };
            text(area, &note.words, (at.0 + if is_right { 7 } else { -7 }, at.1 - 9), place)?;
        }
        names::draw(area, ends, right + 24, (top, bottom + 8))
    }
}

/// The points as pixels, from left to right.
fn pixels(points: &[(f64, f64)], x: &Ruler, y: &Ruler) -> Vec<(i32, i32)> {
    let mut points = points.to_vec();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points.into_iter().map(|point| (x.at(point.0), y.at(point.1))).collect()
}
