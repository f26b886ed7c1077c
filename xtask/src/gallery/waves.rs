//! The cost of waves of tiles and of unaligned rows for a matrix multiplication: its throughput over its size.

use std::path::Path;

use crate::chart::{Axis, Chart, Family, Guide, Lines, Mark, Panel, Scale, Series, number};
use crate::gallery::entry::{Entry, find};
use crate::gallery::report::tables::header;
use crate::gallery::report::{Lesson, NOT_MEASURED};
use crate::report::row;
use crate::workspace;

/// The rungs timed at many sizes, and the peer.
const RUNGS: [&str; 2] = ["tall", "tuned"];
const PEER: &str = "cuBLAS";
/// The sizes of the picture's second panel.
const AROUND: (f64, f64) = (4060.0, 4108.0);
/// The largest size of its first panel.
const MOST: f64 = 3100.0;

/// A multiplication, and the waves of its blocks.
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

    /// Blocks of the last wave as a share of those that fit.
    fn last(&self) -> f64 {
        let last = self.blocks - (self.blocks.div_ceil(self.resident) - 1) * self.resident;
        last as f64 / self.resident as f64
    }

    /// Whether each row of f32 begins at a multiple of 16 bytes.
    fn is_aligned(&self) -> bool {
        self.size % 4.0 == 0.0
    }
}

/// The table, and the picture, which it draws.
pub fn section(lesson: &Lesson<'_>, pages: &Path) -> anyhow::Result<String> {
    let of = |rung: &str| -> Vec<Filled> {
        let entries = lesson.entries.iter().filter(|entry| entry.name == rung);
        let mut filled: Vec<Filled> = entries.filter_map(|entry| Filled::new(entry)).collect();
        filled.sort_by(|a, b| a.size.total_cmp(&b.size));
        filled
    };
    let rungs = RUNGS.map(|rung| (rung, of(rung)));
    if rungs.iter().all(|(_, filled)| filled.is_empty()) {
        return Ok(NOT_MEASURED.to_owned());
    }
    workspace::write(&pages.join("matmul-waves.svg"), &draw(lesson, &rungs)?)?;
    let peak = lesson.limits.peaks.map(|peaks| 1e3 * peaks.fp32_tflops);
    let mut text =
        "![Throughput over size](matmul-waves.svg)\n\n<details>\n<summary>The figures</summary>\n".to_owned();
    for (rung, filled) in &rungs {
        text += &format!("\n{}", table(rung, filled, peak));
    }
    Ok(text + "\n</details>\n")
}

fn table(rung: &str, filled: &[Filled], peak: Option<f64>) -> String {
    let columns = [
        "blocks",
        "blocks that fit at once",
        "waves",
        "last wave filled",
        "rows on 16 bytes",
        "GFLOP/s",
        "of the peak",
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
            if one.is_aligned() { "yes" } else { "no" }.to_owned(),
            number(one.gflops),
            peak.map_or_else(String::new, |peak| format!("{:.0} %", 100.0 * one.gflops / peak)),
        ]);
    }
    text
}

fn draw(lesson: &Lesson<'_>, rungs: &[(&str, Vec<Filled>)]) -> anyhow::Result<String> {
    let peers = lesson.entries.iter().filter(|entry| entry.name == PEER);
    let peers: Vec<(f64, f64)> = peers.filter_map(|entry| Some((entry.at, entry.value()?))).collect();
    let panel = |caption: &str, (low, high): (f64, f64)| {
        let within = |point: &(f64, f64)| (low..high).contains(&point.0);
        let mut series: Vec<Series> = Vec::new();
        for (rung, filled) in rungs {
            let points = filled.iter().map(|one| (one.size, one.gflops)).filter(within).collect();
            series.push(Series::new(*rung, Family::Ours, points));
        }
        series.push(Series::new(PEER, Family::Peers, peers.iter().copied().filter(within).collect()));
        let y = Axis::new("GFLOP/s").scale(Scale::Linear);
        let mut lines = Lines::new(Axis::new("m = n = k").scale(Scale::Linear), y, series);
        lines.caption = caption.to_owned();
        lines.guides = lesson
            .limits
            .peaks
            .map(|peaks| Guide::Roof("FP32 peak".to_owned(), 1e3 * peaks.fp32_tflops))
            .into_iter()
            .collect();
        // The size at which another wave of 128 x 128 tiles begins.
        let full = rungs[0].1.first().map_or(0.0, |one| one.resident as f64);
        let wave = |n: i32| Mark { x: 128.0 * (f64::from(n) * full).sqrt(), name: format!("{n} full") };
        lines.marks = (1..=4).map(wave).filter(|mark| (low..high).contains(&mark.x)).collect();
        lines.size = (980, 400);
        lines.series.iter().any(|series| !series.points.is_empty()).then_some(Panel::Lines(lines))
    };
    let rates = |rung: &str, at: f64| find(&lesson.entries, rung, Some(at)).and_then(Entry::value);
    let title = match (rates("tall", 2048.0), rates("tall", 2176.0)) {
        (Some(before), Some(after)) => format!(
            "25 tiles too many cost {:.0} % of the throughput: 2176 needs a second wave",
            100.0 * (1.0 - after / before)
        ),
        _ => "Throughput over the size of the matrices".to_owned(),
    };
    let first = rungs.iter().flat_map(|(_, filled)| filled).map(|one| one.size).fold(MOST, f64::min);
    let panels = [
        panel("sizes that go through several waves; dotted: full waves of `tall`", (first, MOST)),
        panel("sizes around 4096: rows off 16 bytes, and a fifth wave from 4097 on", AROUND),
    ];
    let panels = panels.into_iter().flatten().collect();
    Chart { title, subtitle: lesson.whence.clone(), columns: 1, panels }.svg()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gallery::predictions::Limits;

    #[test]
    fn the_last_wave_is_full_or_hardly_begun() {
        let of = |blocks| Filled { size: 2176.0, blocks, resident: 264, gflops: 1.0 };
        assert_eq!((of(264).waves(), of(264).last()), (1.0, 1.0));
        assert_eq!(of(265).last(), 1.0 / 264.0);
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
        let limits = Limits { copy: None, peaks: crate::report::peaks::of("NVIDIA H200") };
        let lesson = |entries| Lesson {
            name: "matmul",
            entries,
            predictions: Vec::new(),
            limits: &limits,
            whence: "a GPU".to_owned(),
        };
        let text = section(&lesson(entries.iter().collect()), folder.path()).unwrap();
        let rows = [
            "| 2047 | 256 | 264 | 0.97 | 97 % | no | 100,000 | 149 % |",
            "| 2176 | 289 | 264 | 1.09 | 9 % | yes | 100,000 | 149 % |",
        ];
        assert!(rows.iter().all(|row| text.contains(row)) && !text.contains("| 1024 |"), "{text}");
        assert!(folder.path().join("matmul-waves.svg").is_file());
        // On a CPU the number of concurrent blocks is unknown.
        let without = Entry { resident_blocks: None, ..entries[0].clone() };
        assert_eq!(section(&lesson(vec![&without]), folder.path()).unwrap(), NOT_MEASURED);
    }
}
