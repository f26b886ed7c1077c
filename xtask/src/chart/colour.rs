//! The colours of series.

use plotters::prelude::RGBColor;

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
