//! The colours of pictures, on light pages and on dark ones.

use std::collections::BTreeSet;

use plotters::prelude::{BLACK, RGBColor, WHITE};

pub const INK: RGBColor = RGBColor(30, 30, 30);
pub const FAINT: RGBColor = RGBColor(100, 100, 100);
pub const GRID: RGBColor = RGBColor(228, 228, 228);
/// A cell that takes part without being used.
pub const PALE: RGBColor = RGBColor(222, 222, 222);

/// Dark words on a coloured cell.
pub const ON_COLOUR: RGBColor = RGBColor(20, 20, 20);

/// A dark page.
const DARK: RGBColor = RGBColor(13, 17, 23);
/// Colours on a dark page that do not follow from those on a light one.
const ON_DARK: [(RGBColor, RGBColor); 6] = [
    (WHITE, DARK),
    (BLACK, RGBColor(230, 230, 230)),
    (INK, RGBColor(230, 230, 230)),
    (FAINT, RGBColor(160, 166, 173)),
    (GRID, RGBColor(48, 54, 61)),
    (PALE, RGBColor(74, 80, 88)),
];
/// The least contrast of text and of shapes (WCAG 2.2, 1.4.3 and 1.4.11).
const OF_TEXT: f64 = 4.6;
const OF_SHAPES: f64 = 3.0;

/// The family of a series, which determines its colours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// Kernels of this repository: warm colours, from amber through red to dark wine.
    Ours,
    /// Other programs on the same machine: cool colours, from teal through blue to indigo.
    Peers,
    /// Another machine, such as the processor: greys.
    Other,
}

const WARM: [(f64, f64, f64); 5] =
    [(245.0, 190.0, 40.0), (240.0, 120.0, 30.0), (215.0, 25.0, 30.0), (150.0, 0.0, 85.0), (70.0, 0.0, 40.0)];
const COOL: [(f64, f64, f64); 5] = [
    (60.0, 185.0, 130.0),
    (60.0, 190.0, 225.0),
    (30.0, 110.0, 215.0),
    (115.0, 90.0, 200.0),
    (25.0, 35.0, 100.0),
];
const GREY: [(f64, f64, f64); 2] = [(90.0, 90.0, 90.0), (175.0, 175.0, 175.0)];

impl Family {
    /// The family's main colour, if names need not be distinguished by colour.
    pub fn main(self) -> RGBColor {
        self.at(0.5)
    }

    /// The family's colour at a position from 0 to 1.
    fn at(self, place: f64) -> RGBColor {
        let stops: &[(f64, f64, f64)] = match self {
            Self::Ours => &WARM,
            Self::Peers => &COOL,
            Self::Other => &GREY,
        };
        let place = place.clamp(0.0, 1.0) * (stops.len() - 1) as f64;
        let index = (place as usize).min(stops.len() - 2);
        let (from, to, share) = (stops[index], stops[index + 1], place - index as f64);
        let mix = |from: f64, to: f64| (from + (to - from) * share).round() as u8;
        RGBColor(mix(from.0, to.0), mix(from.1, to.1), mix(from.2, to.2))
    }
}

/// A colour for each of the series, by family; no two are the same.
pub fn colours(families: &[Family]) -> Vec<RGBColor> {
    let mut places = [0_usize; 3];
    let count = |family: Family| families.iter().filter(|other| **other == family).count();
    families
        .iter()
        .map(|&family| {
            let (place, count) = (&mut places[family as usize], count(family));
            let share = match count {
                1 | 2 => 0.5 + 0.3 * *place as f64,
                count => *place as f64 / (count - 1) as f64,
            };
            *place += 1;
            family.at(share)
        })
        .collect()
}

/// The ratio of the luminances of two colours (WCAG 2.2).
fn contrast(a: RGBColor, b: RGBColor) -> f64 {
    let linear = |part: u8| match f64::from(part) / 255.0 {
        low if low <= 0.04045 => low / 12.92,
        high => ((high + 0.055) / 1.055).powf(2.4),
    };
    let luminance = |c: RGBColor| 0.2126 * linear(c.0) + 0.7152 * linear(c.1) + 0.0722 * linear(c.2) + 0.05;
    let (a, b) = (luminance(a), luminance(b));
    a.max(b) / a.min(b)
}

/// The colour, moved towards `end` until it has this contrast on a page.
fn readable(colour: RGBColor, page: RGBColor, end: RGBColor, least: f64) -> RGBColor {
    let mix =
        |from: u8, to: u8, step: u16| ((u16::from(from) * (50 - step) + u16::from(to) * step) / 50) as u8;
    let mixed =
        |step| RGBColor(mix(colour.0, end.0, step), mix(colour.1, end.1, step), mix(colour.2, end.2, step));
    (0..50).map(mixed).find(|mixed| contrast(*mixed, page) >= least).unwrap_or(end)
}

/// The colour of words, dark enough for a light page.
pub fn of_words(colour: RGBColor) -> RGBColor {
    readable(colour, WHITE, BLACK, OF_TEXT)
}

/// The picture with colours for dark pages, which a browser chooses by the scheme of the page around it. Words on coloured cells
/// stay as they are.
pub fn themed(svg: &str) -> String {
    let mut used = BTreeSet::new();
    for line in svg.lines().filter(|line| line.starts_with('<')) {
        for name in ["fill", "stroke"] {
            let hex = line.split_once(&format!(" {name}=\"#")).and_then(|(_, rest)| rest.get(..6));
            let hex = hex.and_then(|hex| u32::from_str_radix(hex, 16).ok());
            used.extend(hex.map(|hex| (line.starts_with("<text"), name, hex)));
        }
    }
    let colour = |hex: u32| RGBColor((hex >> 16) as u8, (hex >> 8) as u8, hex as u8);
    let rules = used.iter().filter_map(|&(is_text, name, hex)| {
        let light = colour(hex);
        if is_text && [WHITE, ON_COLOUR].contains(&light) {
            return None;
        }
        let known = ON_DARK.iter().find(|(known, _)| *known == light).map(|known| known.1);
        // The name of a line has the line's colour.
        let line = used.iter().map(|line| colour(line.2)).find(|line| is_text && of_words(*line) == light);
        let least = if is_text { OF_TEXT } else { OF_SHAPES };
        let dark = known.unwrap_or_else(|| readable(line.unwrap_or(light), DARK, WHITE, least));
        let element = if is_text { "text" } else { ":not(text)" };
        let RGBColor(r, g, b) = dark;
        (dark != light)
            .then(|| format!("{element}[{name}=\"#{hex:06X}\"]{{{name}:#{r:02x}{g:02x}{b:02x}}}\n"))
    });
    let rules: String = rules.collect();
    let style = format!(">\n<style>\n@media (prefers-color-scheme: dark) {{\n{rules}}}\n</style>");
    svg.replacen('>', &style, 1)
}
