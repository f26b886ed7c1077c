//! Pictures that explain a lesson: which lane uses which word, and when. They follow from the kernels' formulas; nothing in
//! them is measured.

mod memory;
mod shared;
mod streams;
#[cfg(test)]
mod tests;
mod warps;

use std::path::Path;

use crate::chart::{Chart, Panel};
use crate::workspace;

/// Lanes of a warp, and banks of shared memory.
const LANES: usize = 32;

/// Draws one picture.
type Draw = fn() -> Chart;

/// Every lesson with a drawing, and the function that draws it.
const ALL: [(&str, Draw); 9] = [
    ("bank_conflicts", shared::bank_conflicts),
    ("copy_offset", memory::copy_offset),
    ("layout", memory::layout),
    ("matmul", shared::matmul),
    ("overlap", streams::overlap),
    ("reduce", shared::reduce),
    ("transpose", shared::transpose),
    ("warp_masks", warps::warp_masks),
    ("warps", warps::warps),
];

/// The file of a lesson's drawing in `docs/gallery`.
fn file(lesson: &str) -> String {
    format!("{lesson}-drawing.svg")
}

/// Draws all of them into `pages`.
///
/// # Errors
/// Drawing failed, or a file cannot be written.
pub fn write(pages: &Path) -> anyhow::Result<()> {
    for (lesson, draw) in ALL {
        let path = pages.join(file(lesson));
        workspace::write(&path, &draw().svg()?)?;
        println!("drawn: {}", workspace::shown(&path));
    }
    Ok(())
}

/// A drawing with its title.
fn drawing(title: &str, subtitle: &str, columns: usize, panels: Vec<Panel>) -> Chart {
    Chart { title: title.to_owned(), subtitle: subtitle.to_owned(), columns, panels }
}

/// "1 wavefront", "2 wavefronts".
fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
