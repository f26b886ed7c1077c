//! Global memory: the sectors that a warp's request touches.

use super::{LANES, counted, drawing};
use crate::chart::{Cell, Cells, Chart, Panel, Tone, number};

/// 4-byte words in a sector, and in a line of four sectors.
const SECTOR: usize = 8;
/// Words of a particle.
pub(super) const PARTICLE: usize = 8;
const LINE: usize = 32;

/// The sectors that a warp touches when its lanes access these words.
pub(super) fn sectors(words: &[usize]) -> Vec<usize> {
    let mut sectors: Vec<usize> = words.iter().map(|word| word / SECTOR).collect();
    sectors.sort_unstable();
    sectors.dedup();
    sectors
}

/// The word of each lane, for an offset and a stride.
pub(super) fn words(offset: usize, stride: usize) -> Vec<usize> {
    (0..LANES).map(|lane| offset + lane * stride).collect()
}

pub(super) fn copy_offset() -> Chart {
    let panels = [(0, 1), (1, 1), (0, 2), (0, 8)].map(|(offset, stride)| {
        let what = match (offset, stride) {
            (0, 1) => "neighbouring words".to_owned(),
            (_, 1) => format!("offset {offset}"),
            _ => format!("stride {stride}"),
        };
        panel(&what, 1, &words(offset, stride))
    });
    drawing(
        "A warp moves whole sectors: 4 for neighbours, 32 for a stride of 8",
        "One load of 4 bytes by the 32 lanes of a warp. Strong lines separate sectors of 32 bytes.",
        1,
        panels.into(),
    )
}

pub(super) fn layout() -> Chart {
    let panels = [
        panel("aos: x of 32 particles", 1, &words(0, PARTICLE)),
        panel("aos_vec4: x, y, z and mass of 32 particles", 4, &words(0, PARTICLE)),
        panel("soa: x of 32 particles", 1, &words(0, 1)),
    ];
    drawing(
        "A structure of arrays has what a warp asks for side by side",
        "One load by the 32 lanes of a warp. Strong lines separate sectors of 32 bytes: a particle of an array of structures.",
        1,
        panels.into(),
    )
}

/// The lines of one load, in which each lane takes `each` words from the word on that `words` has for it.
fn panel(what: &str, each: usize, words: &[usize]) -> Panel {
    let sectors = sectors(words);
    let caption = format!(
        "{what}: {}, {} % of their bytes are used",
        counted(sectors.len(), "sector"),
        number(100.0 * (each * LANES) as f64 / (SECTOR * sectors.len()) as f64)
    );
    let last = words.iter().max().copied().unwrap_or(0);
    let rows = (0..=last / LINE).map(|row| {
        let cell = |column| {
            let word = row * LINE + column;
            match words.iter().position(|first| (*first..first + each).contains(&word)) {
                Some(lane) => Some(Cell::new(column, Tone::Main, lane.to_string())),
                None if sectors.contains(&(word / SECTOR)) => Some(Cell::new(column, Tone::Pale, "")),
                None => None,
            }
        };
        (format!("line {row}"), (0..LINE).filter_map(cell).collect())
    });
    Panel::Cells(Cells {
        caption,
        across: "word of the line".to_owned(),
        columns: LINE,
        rows: rows.collect(),
        legend: vec![
            (Tone::Main, "a lane wants the word; its number".to_owned()),
            (Tone::Pale, "moved with its sector, not used".to_owned()),
        ],
        cell: (24, 20),
        every: Some(SECTOR),
    })
}
