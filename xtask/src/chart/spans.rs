//! Spans of time in rows: what ran where and when.

use plotters::prelude::*;

use super::axis::{Axis, Ruler};
use super::{CAPTION, Canvas, Drawn, Family, GRID, INK, Place, TEXT, colours, line, text, width_of};

const HEIGHT: i32 = 20;

/// A diagram of spans.
pub struct Spans {
    /// The caption, if the chart has several panels; else empty.
    pub caption: String,
    pub axis: Axis,
    /// The end of the axis, if later than the last span; diagrams to compare share it.
    pub until: Option<f64>,
    /// From the top: the name of a row, and its spans.
    pub rows: Vec<(String, Vec<Span>)>,
    /// The names of the groups; each has a colour.
    pub groups: Vec<String>,
    /// Pixels.
    pub width: u32,
}

/// The start and end of something that ran.
pub struct Span {
    pub from: f64,
    pub to: f64,
    /// Its group.
    pub group: usize,
}

impl Spans {
    pub(super) fn size(&self) -> (u32, u32) {
        (self.width, self.top() as u32 + self.rows.len() as u32 * HEIGHT as u32 + 62)
    }

    fn top(&self) -> i32 {
        30 + if self.caption.is_empty() { 0 } else { 26 }
    }

    pub(super) fn draw(&self, area: &Canvas<'_>) -> Drawn {
        let (width, top) = (area.dim_in_pixel().0 as i32, self.top());
        let bottom = top + self.rows.len() as i32 * HEIGHT + 4;
        let left = self.rows.iter().map(|row| width_of(&row.0, TEXT)).max().unwrap_or(0) + 12;
        let ends = self.rows.iter().flat_map(|row| &row.1).flat_map(|span| [span.from, span.to]);
        let ends: Vec<f64> = ends.chain(self.until).collect();
        let x = Ruler::new(self.axis.scale, &ends, left..width - 24, 0.02, true)?;
        if !self.caption.is_empty() {
            text(area, &self.caption, (left, 4), Place::default().size(CAPTION).bold().top())?;
        }
        for tick in x.round_ticks(10) {
            line(area, (x.at(tick), top), (x.at(tick), bottom), GRID, 1)?;
            let at = (x.at(tick), bottom + 6);
            text(area, &(self.axis.format)(tick), at, Place::default().centre().top())?;
        }
        text(area, &self.axis.label, ((left + width) / 2, bottom + 26), Place::default().centre().top())?;
        let colours = colours(&vec![Family::Ours; self.groups.len()]);
        let mut at = left;
        for (name, colour) in self.groups.iter().zip(&colours) {
            area.draw(&Rectangle::new([(at, top - 20), (at + 12, top - 8)], colour.filled()))?;
            text(area, name, (at + 18, top - 14), Place::default())?;
            at += width_of(name, TEXT) + 34;
        }
        for (place, (name, spans)) in self.rows.iter().enumerate() {
            let y = top + 2 + place as i32 * HEIGHT;
            text(area, name, (left - 6, y + HEIGHT / 2), Place::default().right())?;
            for span in spans {
                let colour = colours.get(span.group % colours.len().max(1)).copied().unwrap_or(INK);
                // Leaves a pixel free between two spans.
                let (from, to) = (x.at(span.from), x.at(span.to) - 1);
                let corners = [(from, y + 2), (to.max(from + 1), y + HEIGHT - 2)];
                area.draw(&Rectangle::new(corners, colour.filled()))?;
            }
        }
        line(area, (left, top), (left, bottom), INK, 1)?;
        Ok(())
    }
}
