//! Bars, one per row. Names are next to the bars, so a colour only shows a bar's family.

use plotters::prelude::*;

use super::axis::{Axis, Ruler};
use super::{
    CAPTION, Canvas, Drawn, FAINT, Family, GRID, INK, PREDICTED, Place, TEXT, dashed, line, text, width_of,
};

const HEIGHT: i32 = 24;

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

/// One bar.
pub struct Bar {
    pub name: String,
    pub family: Family,
    pub value: f64,
    /// The label at its end.
    pub words: String,
    /// The prediction, a black stroke across the bar.
    pub predicted: Option<f64>,
}

impl Bars {
    pub fn new(axis: Axis, bars: Vec<Bar>) -> Self {
        Self { caption: String::new(), axis, bars, roofs: vec![], also: vec![], width: 960 }
    }

    pub(super) fn size(&self) -> (u32, u32) {
        let above = self.top() as u32;
        (self.width, above + self.bars.len() as u32 * HEIGHT as u32 + 62)
    }

    /// The top of the bars.
    fn top(&self) -> i32 {
        let caption = if self.caption.is_empty() { 6 } else { 28 };
        caption + if self.has_notes() { 20 } else { 0 }
    }

    /// Whether there are names above the bars.
    fn has_notes(&self) -> bool {
        !self.roofs.is_empty() || self.bars.iter().any(|bar| bar.predicted.is_some())
    }

    pub(super) fn draw(&self, area: &Canvas<'_>) -> Drawn {
        let width = area.dim_in_pixel().0 as i32;
        let top = self.top();
        let bottom = top + self.bars.len() as i32 * HEIGHT + 4;
        let left = self.bars.iter().map(|bar| width_of(&bar.name, TEXT)).max().unwrap_or(0) + 12;
        let right = width - 16 - self.bars.iter().map(|bar| width_of(&bar.words, TEXT)).max().unwrap_or(0);
        let values = self.bars.iter().map(|bar| bar.value);
        let others =
            self.bars.iter().filter_map(|bar| bar.predicted).chain(self.roofs.iter().map(|roof| roof.1));
        let values: Vec<f64> = values.chain(others).chain(self.also.iter().copied()).collect();
        // Keeps the shortest bar of a logarithmic axis visible.
        let x = Ruler::new(self.axis.scale, &values, left..right, 0.04, true)?;
        if !self.caption.is_empty() {
            text(area, &self.caption, (left, 4), Place::default().size(CAPTION).bold().top())?;
        }
        let mut free_from = left - 8;
        for tick in x.round_ticks(((right - left) / 90).max(2) as usize) {
            let (at, words) = (x.at(tick), (self.axis.format)(tick));
            line(area, (at, top), (at, bottom), GRID, 1)?;
            let half = width_of(&words, TEXT) / 2;
            if at - half >= free_from {
                text(area, &words, (at, bottom + 6), Place::default().centre().top())?;
                free_from = at + half + 6;
            }
        }
        text(area, &self.axis.label, ((left + right) / 2, bottom + 26), Place::default().centre().top())?;
        for (_, value) in &self.roofs {
            let at = x.at(*value);
            dashed(area, &[(at, top - 4), (at, bottom)], 8.0, 5.0, INK.stroke_width(1))?;
        }
        for (place, bar) in self.bars.iter().enumerate() {
            let colour = bar.family.main();
            let y = top + place as i32 * HEIGHT;
            let end = x.at(bar.value).max(left + 1);
            text(area, &bar.name, (left - 6, y + HEIGHT / 2), Place::default().right())?;
            area.draw(&Rectangle::new([(left, y + 3), (end, y + HEIGHT - 3)], colour.filled()))?;
            let mut free = end;
            if let Some(predicted) = bar.predicted {
                let at = x.at(predicted);
                area.draw(&Rectangle::new([(at - 1, y), (at + 1, y + HEIGHT)], INK.filled()))?;
                // Figures must not lie across the stroke.
                let is_across = (end - 4..end + width_of(&bar.words, TEXT) + 10).contains(&at);
                free = if is_across { at + 2 } else { end };
            }
            let from = free + 4;
            let to = from + width_of(&bar.words, TEXT) + 2;
            // A roof must not cross the figures.
            if self.roofs.iter().any(|roof| (from..to).contains(&x.at(roof.1))) {
                let corners = [(from, y + 3), (to, y + HEIGHT - 3)];
                area.draw(&Rectangle::new(corners, WHITE.filled()))?;
            }
            text(area, &bar.words, (free + 6, y + HEIGHT / 2), Place::default())?;
        }
        line(area, (left, top), (left, bottom), INK, 1)?;
        let mut free_to = width;
        let mut roofs: Vec<&(String, f64)> = self.roofs.iter().collect();
        roofs.sort_by(|a, b| b.1.total_cmp(&a.1));
        for (name, value) in roofs {
            let (at, words) = (x.at(*value), width_of(name, TEXT));
            let end = (at + words / 2).min(free_to - 4);
            text(area, name, (end, top - 18), Place::default().right().top())?;
            free_to = end - words;
        }
        let has_strokes = self.bars.iter().any(|bar| bar.predicted.is_some());
        if has_strokes && free_to > width_of(PREDICTED, TEXT) + left {
            text(area, PREDICTED, (left, top - 18), Place::default().colour(FAINT).top())?;
        }
        Ok(())
    }
}
