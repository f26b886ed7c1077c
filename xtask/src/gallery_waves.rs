//! What waves of tiles and unaligned rows cost a matrix product: its throughput over its size, on the lesson's page.

use std::path::Path;

use anyhow::anyhow;
use plotters::prelude::*;

use crate::gallery_report::{Entry, NOT_MEASURED};
use crate::gallery_report_chart::{COLOURS, Drawn};
use crate::gallery_report_tables::{header, number};
use crate::report::row;
use crate::workspace;

/// The rungs that are tried at many sizes.
const RUNGS: [&str; 2] = ["tall", "tuned"];
/// The sizes of the picture's right half.
const AROUND: (f64, f64) = (4060.0, 4108.0);
/// The largest size of its left half.
const MOST: f64 = 3100.0;

/// A product, and how its blocks fill the GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Filled {
    size: f64,
    blocks: u64,
    /// Blocks that run at once.
    resident: u64,
    gflops: f64,
}

impl Filled {
    fn new(entry: &Entry) -> Option<Self> {
        let (blocks, resident) = (entry.blocks?, entry.resident_blocks.filter(|resident| *resident > 0)?);
        Some(Self { size: entry.at, blocks, resident, gflops: entry.value()? })
    }

    fn waves(&self) -> f64 {
        self.blocks as f64 / self.resident as f64
    }

    /// Blocks of the last wave, in parts of those that would run.
    fn last(&self) -> f64 {
        let last = self.blocks - (self.blocks.div_ceil(self.resident) - 1) * self.resident;
        last as f64 / self.resident as f64
    }

    /// The part of all places for blocks, in all waves, that have one.
    fn busy(&self) -> f64 {
        self.waves() / self.waves().ceil()
    }

    /// Whether rows of f32 all begin at a multiple of 16 bytes.
    fn is_aligned(&self) -> bool {
        self.size % 4.0 == 0.0
    }
}

/// The table, and the picture, which it draws.
pub fn section(entries: &[Entry], machine: &str, pages: &Path) -> anyhow::Result<String> {
    let of = |rung: &str| -> Vec<Filled> {
        let is_of = |entry: &&Entry| entry.lesson == "matmul" && entry.name == rung;
        let mut filled: Vec<Filled> = entries.iter().filter(is_of).filter_map(Filled::new).collect();
        filled.sort_by(|a, b| a.size.total_cmp(&b.size));
        filled
    };
    let rungs = RUNGS.map(|rung| (rung, of(rung)));
    if rungs.iter().all(|(_, filled)| filled.is_empty()) {
        return Ok(NOT_MEASURED.to_owned());
    }
    let mut svg = String::new();
    draw(&mut svg, &rungs, machine).map_err(|error| anyhow!("drawing the waves failed: {error}"))?;
    workspace::write(&pages.join("matmul-waves.svg"), &svg)?;
    let mut text = "![Throughput over size](matmul-waves.svg)\n".to_owned();
    for (rung, filled) in &rungs {
        text += &format!("\n{}", table(rung, filled));
    }
    Ok(text)
}

fn table(rung: &str, filled: &[Filled]) -> String {
    let columns = [
        "blocks",
        "at once",
        "waves",
        "last wave filled",
        "places filled in all",
        "rows on 16 bytes",
        "GFLOP/s",
        "GFLOP/s by places filled",
    ];
    let mut cells = vec![format!("`{rung}`, m = n = k")];
    cells.extend(columns.map(str::to_owned));
    let mut text = header(cells, 1);
    for one in filled {
        text += &row(&[
            number(one.size),
            one.blocks.to_string(),
            one.resident.to_string(),
            format!("{:.2}", one.waves()),
            format!("{:.0} %", 100.0 * one.last()),
            format!("{:.0} %", 100.0 * one.busy()),
            if one.is_aligned() { "yes" } else { "no" }.to_owned(),
            number(one.gflops),
            number(one.gflops / one.busy()),
        ]);
    }
    text
}

fn draw(svg: &mut String, rungs: &[(&str, Vec<Filled>)], machine: &str) -> Drawn {
    let root = SVGBackend::with_string(svg, (1100, 470)).into_drawing_area();
    root.fill(&WHITE)?;
    let title = format!("Matrix product: waves and alignment, {machine}; hollow: rows off 16 bytes");
    let (left, right) = root.titled(&title, ("sans-serif", 18))?.split_horizontally(640);
    let top = rungs.iter().flat_map(|(_, filled)| filled).map(|one| one.gflops).fold(1.0, f64::max) * 1.1;
    let first = rungs.iter().flat_map(|(_, filled)| filled).map(|one| one.size).fold(MOST, f64::min);
    for (area, (low, high)) in [(left, (first - 50.0, MOST)), (right, AROUND)] {
        let mut chart = ChartBuilder::on(&area)
            .margin(10)
            .x_label_area_size(40)
            .y_label_area_size(64)
            .build_cartesian_2d(low..high, 0.0..top)?;
        chart
            .configure_mesh()
            .x_desc("m = n = k")
            .y_desc("GFLOP/s")
            .x_label_formatter(&|x| format!("{x:.0}"))
            .y_label_formatter(&|y| number(*y))
            .light_line_style(WHITE)
            .label_style(("sans-serif", 12))
            .draw()?;
        for ((rung, filled), colour) in rungs.iter().zip(COLOURS) {
            let shown: Vec<&Filled> = filled.iter().filter(|one| (low..high).contains(&one.size)).collect();
            let Some(best) = shown.iter().map(|one| one.gflops / one.busy()).reduce(f64::max) else {
                continue;
            };
            let foretold = shown.iter().map(|one| (one.size, best * one.busy()));
            chart
                .draw_series(LineSeries::new(foretold, colour.mix(0.35)))?
                .label(format!("{rung}: its best by places filled"))
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.mix(0.35)));
            chart
                .draw_series(LineSeries::new(
                    shown.iter().map(|one| (one.size, one.gflops)),
                    colour.stroke_width(2),
                ))?
                .label(*rung)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
            chart.draw_series(shown.iter().map(|one| {
                let style = if one.is_aligned() { colour.filled() } else { colour.stroke_width(1) };
                Circle::new((one.size, one.gflops), 4, style)
            }))?;
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::LowerRight)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .label_font(("sans-serif", 12))
            .draw()?;
    }
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wave_that_is_hardly_begun_costs_as_much_as_a_full_one() {
        let of = |blocks| Filled { size: 2176.0, blocks, resident: 264, gflops: 1.0 };
        assert_eq!((of(264).waves(), of(264).last(), of(264).busy()), (1.0, 1.0, 1.0));
        let over = of(265);
        assert_eq!((over.last(), over.busy()), (1.0 / 264.0, 265.0 / 528.0));
        assert_eq!(of(132).busy(), 0.5);
    }

    #[test]
    fn sizes_say_how_they_fill_the_gpu() {
        let folder = tempfile::tempdir().unwrap();
        let of = |name: &str, at, blocks| Entry {
            lesson: "matmul".to_owned(),
            measure: "flops".to_owned(),
            flop: 1e9,
            blocks: Some(blocks),
            resident_blocks: Some(264),
            ..Entry::of_test(name, at, Some(10.0))
        };
        let entries = [of("tall", 2176.0, 289), of("tall", 2047.0, 256), of("naive", 1024.0, 64)];
        let text = section(&entries, "a GPU", folder.path()).unwrap();
        let rows = [
            "| 2047 | 256 | 264 | 0.97 | 97 % | 97 % | no |",
            "| 2176 | 289 | 264 | 1.09 | 9 % | 55 % | yes |",
        ];
        assert!(rows.iter().all(|row| text.contains(row)) && !text.contains("| 1024 |"), "{text}");
        assert!(folder.path().join("matmul-waves.svg").is_file());
        // On a CPU no blocks run at once.
        let without = Entry { resident_blocks: None, ..entries[0].clone() };
        assert_eq!(section(&[without], "a CPU", folder.path()).unwrap(), NOT_MEASURED);
    }
}
