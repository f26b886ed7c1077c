//! Cells in rows and columns: the activity of each lane or word.

use plotters::prelude::*;

use super::canvas::{CAPTION, Canvas, Drawn, FAINT, GRID, INK, Place, TEXT, line, text, width_of};
use super::colour::{Family, ON_COLOUR, PALE};

/// The minimum width of cells with words.
const ROOM_FOR_WORDS: u32 = 14;

/// A diagram of cells.
pub struct Cells {
    /// The caption, a sentence with its figure.
    pub caption: String,
    /// The name of a column: "lane".
    pub across: String,
    /// The number of columns.
    pub columns: usize,
    /// From the top: the name of a row, and its cells. A row may have no name.
    pub rows: Vec<(String, Vec<Cell>)>,
    /// The meaning of the tones.
    pub legend: Vec<(Tone, String)>,
    /// Width and height of a cell in pixels.
    pub cell: (u32, u32),
    /// Draws a strong line after every this many columns, if set.
    pub every: Option<usize>,
}

/// A filled cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Its column.
    pub column: usize,
    /// Its fill.
    pub tone: Tone,
    /// A number or a letter in it.
    pub words: String,
}

/// The fill of a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tone {
    /// The subject of the drawing.
    Main,
    /// The same for another warp, or in another step.
    Second,
    /// A third one.
    Third,
    /// A fourth one.
    Fourth,
    /// Takes part without being used.
    Pale,
}

impl Tone {
    fn colour(self) -> RGBColor {
        match self {
            Self::Main => Family::Ours.main(),
            Self::Second => Family::Peers.main(),
            Self::Third => RGBColor(245, 190, 40),
            Self::Fourth => RGBColor(60, 185, 130),
            Self::Pale => PALE,
        }
    }

    /// The colour of words on it.
    fn ink(self) -> RGBColor {
        match self {
            Self::Main | Self::Second => WHITE,
            Self::Third | Self::Fourth => ON_COLOUR,
            Self::Pale => INK,
        }
    }
}

impl Cell {
    /// Creates a cell.
    pub fn new(column: usize, tone: Tone, words: impl Into<String>) -> Self {
        Self { column, tone, words: words.into() }
    }
}

impl Cells {
    pub(super) fn size(&self) -> (u32, u32) {
        let legend: i32 = self.legend.iter().map(|(_, name)| width_of(name, TEXT) + 34).sum();
        let caption = width_of(&self.caption, CAPTION);
        let cells = (self.columns as u32 * self.cell.0) as i32;
        let width = self.left() + cells.max(legend).max(caption) + 24;
        (width as u32, self.top() as u32 + self.rows.len() as u32 * self.cell.1 + 22)
    }

    /// The top of the cells: below caption, legend and the column numbers.
    fn top(&self) -> i32 {
        4 + if self.caption.is_empty() { 0 } else { 24 } + if self.legend.is_empty() { 0 } else { 22 } + 22
    }

    fn left(&self) -> i32 {
        let names = self.rows.iter().map(|row| row.0.as_str()).chain([self.across.as_str()]);
        names.map(|name| width_of(name, TEXT)).max().unwrap_or(0) + 12
    }

    pub(super) fn draw(&self, area: &Canvas<'_>) -> Drawn {
        let (left, top) = (self.left(), self.top());
        let (width, height) = (self.cell.0 as i32, self.cell.1 as i32);
        let (right, bottom) = (left + self.columns as i32 * width, top + self.rows.len() as i32 * height);
        if !self.caption.is_empty() {
            text(area, &self.caption, (left, 4), Place::default().size(CAPTION).bold().top())?;
        }
        let mut at = left;
        for (tone, name) in &self.legend {
            let y = top - 34;
            area.draw(&Rectangle::new([(at, y - 6), (at + 12, y + 6)], tone.colour().filled()))?;
            text(area, name, (at + 18, y), Place::default())?;
            at += width_of(name, TEXT) + 34;
        }
        text(area, &self.across, (left - 6, top - 10), Place::default().right().colour(FAINT))?;
        let wide = width_of(&(self.columns.saturating_sub(1)).to_string(), TEXT) + 4;
        let step = [1, 2, 4, 8, 16].into_iter().find(|step| step * width >= wide).unwrap_or(32) as usize;
        for column in (0..self.columns).step_by(step) {
            let at = (left + column as i32 * width + width / 2, top - 10);
            text(area, &column.to_string(), at, Place::default().centre().colour(FAINT))?;
        }
        for (place, (name, cells)) in self.rows.iter().enumerate() {
            let y = top + place as i32 * height;
            text(area, name, (left - 6, y + height / 2), Place::default().right())?;
            for run in runs(cells) {
                let (from, to) = (left + run[0].column as i32 * width, run.len() as i32 * width);
                let corners = [(from, y), (from + to, y + height)];
                area.draw(&Rectangle::new(corners, run[0].tone.colour().filled()))?;
            }
        }
        for column in 0..=self.columns {
            let is_strong = self.every.is_some_and(|every| column.is_multiple_of(every));
            let x = left + column as i32 * width;
            line(area, (x, top), (x, bottom), if is_strong { INK } else { GRID }, 1)?;
        }
        for row in 0..=self.rows.len() {
            let y = top + row as i32 * height;
            line(area, (left, y), (right, y), GRID, 1)?;
        }
        for (place, (_, cells)) in self.rows.iter().enumerate() {
            for cell in cells.iter().filter(|cell| self.cell.0 >= ROOM_FOR_WORDS && !cell.words.is_empty()) {
                let x = left + cell.column as i32 * width + width / 2;
                let y = top + place as i32 * height + height / 2;
                let size = if width < 20 { 9 } else { 11 };
                let style = Place::default().size(size).centre().colour(cell.tone.ink());
                text(area, &cell.words, (x, y), style)?;
            }
        }
        Ok(())
    }
}

/// Neighbouring cells of one tone, which are drawn as one rectangle.
fn runs(cells: &[Cell]) -> Vec<Vec<Cell>> {
    let mut sorted = cells.to_vec();
    sorted.sort_by_key(|cell| cell.column);
    let mut runs: Vec<Vec<Cell>> = Vec::new();
    for cell in sorted {
        match runs.last_mut() {
            Some(run) if run[0].tone == cell.tone && run[0].column + run.len() == cell.column => {
                run.push(cell)
            }
            _ => runs.push(vec![cell]),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_of_one_tone_are_one_rectangle() {
        let cell = |column, tone| Cell::new(column, tone, "");
        let cells = [cell(3, Tone::Main), cell(0, Tone::Main), cell(1, Tone::Main), cell(4, Tone::Pale)];
        let runs: Vec<usize> = runs(&cells).iter().map(Vec::len).collect();
        assert_eq!(runs, [2, 1, 1]);
    }
}
