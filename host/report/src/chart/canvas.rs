//! What panels draw on, their colours, and text.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

pub use super::colour::{FAINT, GRID, INK};

/// The area that panels draw on.
pub type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub type Drawn = Result<(), Box<dyn std::error::Error>>;

/// The size of text in panels.
pub const TEXT: i32 = 13;
pub const CAPTION: i32 = 15;

/// The size of a font for which the back end writes 1.
const SIZE: f64 = 1.24;

/// A predicted value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Predicted {
    /// The value, in the unit of the axis.
    pub value: f64,
    /// Whether it follows from what another item measured.
    pub is_relative: bool,
}

impl Predicted {
    /// The marks of predictions: a stroke, or two halves of one.
    pub fn marks(self, long: i32, is_upright: bool) -> Vec<Rectangle<(i32, i32)>> {
        let gap = if self.is_relative { long / 3 } else { 0 };
        let corner = |along: i32, across: i32| if is_upright { (across, along) } else { (along, across) };
        let part = |(from, to): (i32, i32)| Rectangle::new([corner(from, -1), corner(to, 1)], INK.filled());
        [(-long, -gap), (gap, long)].map(part).into()
    }

    /// Explains the marks; empty if there are none.
    pub fn key(all: impl Iterator<Item = Self>) -> String {
        let all: Vec<bool> = all.map(|one| one.is_relative).collect();
        let kinds =
            [(false, "stroke: predicted"), (true, "broken stroke: predicted from another's measurement")];
        let words = kinds.iter().filter(|kind| all.contains(&kind.0)).map(|kind| kind.1);
        words.collect::<Vec<_>>().join("; ")
    }
}

/// The style of a text, and its anchor.
#[derive(Clone, Copy)]
pub struct Place {
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
    pub fn size(self, size: i32) -> Self {
        Self { size, ..self }
    }

    pub fn colour(self, colour: RGBColor) -> Self {
        Self { colour, ..self }
    }

    pub fn bold(self) -> Self {
        Self { is_bold: true, ..self }
    }

    pub fn top(self) -> Self {
        Self { pos: Pos::new(self.pos.h_pos, VPos::Top), ..self }
    }

    pub fn right(self) -> Self {
        Self { pos: Pos::new(HPos::Right, self.pos.v_pos), ..self }
    }

    pub fn centre(self) -> Self {
        Self { pos: Pos::new(HPos::Center, self.pos.v_pos), ..self }
    }
}

/// The font of the words at axes.
pub fn font<'a>() -> TextStyle<'a> {
    ("sans-serif", f64::from(TEXT) * SIZE).into_font().color(&INK)
}

pub fn text(area: &Canvas<'_>, words: &str, at: (i32, i32), place: Place) -> Drawn {
    if words.is_empty() {
        return Ok(());
    }
    let font: FontDesc<'_> = ("sans-serif", f64::from(place.size) * SIZE).into();
    let font = if place.is_bold { font.style(FontStyle::Bold) } else { font };
    let style = TextStyle::from(font).color(&place.colour).pos(place.pos);
    area.draw(&Text::new(words.to_owned(), at, style))?;
    Ok(())
}

pub fn line(area: &Canvas<'_>, from: (i32, i32), to: (i32, i32), colour: RGBColor, width: u32) -> Drawn {
    area.draw(&PathElement::new([from, to], colour.stroke_width(width)))?;
    Ok(())
}

/// The width of a text in pixels, rounded up generously, because fonts differ.
pub fn width_of(words: &str, size: i32) -> i32 {
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
pub fn wrapped(words: &str, size: i32, width: u32) -> Vec<String> {
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
