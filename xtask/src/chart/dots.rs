//! Dots in rows: many items, each measured with several contestants.

use plotters::prelude::*;

use super::axis::{Axis, Ruler};
use super::{
    CAPTION, Canvas, Drawn, FAINT, Family, GRID, INK, Place, TEXT, colours, dashed, line, text, width_of,
};

const HEIGHT: i32 = 22;

/// A diagram of dots.
pub struct Dots {
    /// The caption, if the chart has several panels; else empty.
    pub caption: String,
    pub axis: Axis,
    /// The contestants; the first of ours is drawn larger.
    pub contestants: Vec<(String, Family)>,
    /// From the top.
    pub rows: Vec<Row>,
    /// A vertical line at a value, with a name.
    pub roofs: Vec<(String, f64)>,
    /// Pixels.
    pub width: u32,
}

/// One item, with a value for each contestant that was measured.
pub struct Row {
    pub name: String,
    pub values: Vec<Option<f64>>,
}

impl Dots {
    pub(super) fn size(&self) -> (u32, u32) {
        (self.width, self.top() as u32 + self.rows.len() as u32 * HEIGHT as u32 + 60)
    }

    /// The top of the rows: below caption, key and the names of the roofs.
    fn top(&self) -> i32 {
        let caption = if self.caption.is_empty() { 6 } else { 30 };
        caption + 22 * self.key().len() as i32 + if self.roofs.is_empty() { 0 } else { 20 } + 6
    }

    /// The contestants in lines, each with its pixel.
    fn key(&self) -> Vec<Vec<(usize, i32)>> {
        let mut lines = vec![vec![]];
        let mut x = 12;
        for (i, (name, _)) in self.contestants.iter().enumerate() {
            let width = width_of(name, TEXT) + 30;
            if x + width > self.width as i32 && x > 12 {
                lines.push(vec![]);
                x = 12;
            }
            let last = lines.len() - 1;
            lines[last].push((i, x));
            x += width;
        }
        lines
    }

    pub(super) fn draw(&self, area: &Canvas<'_>) -> Drawn {
        let (width, top) = (area.dim_in_pixel().0 as i32, self.top());
        let bottom = top + self.rows.len() as i32 * HEIGHT;
        let left = self.rows.iter().map(|row| width_of(&row.name, TEXT)).max().unwrap_or(0) + 14;
        let right = width - 24;
        let values = self.rows.iter().flat_map(|row| row.values.iter().flatten().copied());
        let values: Vec<f64> = values.chain(self.roofs.iter().map(|roof| roof.1)).collect();
        let x = Ruler::new(self.axis.scale, &values, left..right, 0.03, true)?;
        let families: Vec<Family> = self.contestants.iter().map(|contestant| contestant.1).collect();
        let colours = colours(&families);
        let large = families.iter().position(|family| *family == Family::Ours);
        let dot = |at: (i32, i32), i: usize| -> Drawn {
            let radius = if large == Some(i) { 6 } else { 4 };
            area.draw(&Circle::new(at, radius, colours[i].filled()))?;
            Ok(())
        };
        let mut y = 4;
        if !self.caption.is_empty() {
            text(area, &self.caption, (12, y), Place::default().size(CAPTION).bold().top())?;
            y += 24;
        }
        for names in self.key() {
            for (i, at) in names {
                dot((at + 6, y + 10), i)?;
                text(area, &self.contestants[i].0, (at + 16, y + 10), Place::default().colour(colours[i]))?;
            }
            y += 22;
        }
        for tick in x.round_ticks(((right - left) / 80).max(2) as usize) {
            line(area, (x.at(tick), top), (x.at(tick), bottom), GRID, 1)?;
            let at = (x.at(tick), bottom + 6);
            text(area, &(self.axis.format)(tick), at, Place::default().centre().top())?;
        }
        text(area, &self.axis.label, ((left + right) / 2, bottom + 26), Place::default().centre().top())?;
        let mut free_to = width;
        let mut roofs: Vec<&(String, f64)> = self.roofs.iter().collect();
        roofs.sort_by(|a, b| b.1.total_cmp(&a.1));
        for (name, value) in roofs {
            let (at, words) = (x.at(*value), width_of(name, TEXT));
            dashed(area, &[(at, top - 4), (at, bottom)], 8.0, 5.0, INK.stroke_width(1))?;
            let end = (at + words / 2).min(free_to - 4);
            text(area, name, (end, top - 20), Place::default().right().top())?;
            free_to = end - words;
        }
        for (place, row) in self.rows.iter().enumerate() {
            let y = top + place as i32 * HEIGHT + HEIGHT / 2;
            text(area, &row.name, (left - 8, y), Place::default().right())?;
            let ends = row.values.iter().flatten().map(|&value| x.at(value));
            if let (Some(low), Some(high)) = (ends.clone().min(), ends.max()) {
                line(area, (low, y), (high, y), FAINT, 1)?;
            }
            // The first contestant is on top.
            for (i, value) in row.values.iter().enumerate().rev() {
                if let Some(value) = value {
                    dot((x.at(*value), y), i)?;
                }
            }
        }
        line(area, (left, top), (left, bottom), INK, 1)?;
        Ok(())
    }
}
