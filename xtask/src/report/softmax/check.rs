//! Finds impossible figures of a softmax run, and contradictions between two pages.

use std::path::Path;

use anyhow::Context;

use crate::report::peaks::{self, Check};
use crate::report::softmax::ladder;
use crate::report::softmax::operations;
use crate::report::softmax::{Entry, PAGE, Results};

/// From this many bytes, a copy takes much longer than its launch, and its rate is a roof.
const LARGE: f64 = 64e6;

/// Checks that no rate exceeds memory's, and that an operation that reads a matrix and writes one is not faster than a copy.
///
/// # Errors
/// Names every impossible figure.
pub fn check(results: &Results) -> anyhow::Result<()> {
    let mut check = Check::default();
    let memory = peaks::of(&results.machine).map_or(f64::INFINITY, |peaks| peaks.gigabytes_per_second);
    for entry in results.ours.iter().chain(&results.peers).filter(|entry| entry.name != "clone in cache") {
        let Some(rate) = entry.gigabytes_per_second() else { continue };
        check.rate(|| told(entry), rate, memory, "GB/s");
        // An operation that reads more than it writes can be faster than a copy.
        let is_even = operations::of(&entry.op).is_some_and(|operation| operation.matrices == 2);
        let copy = results.best_copy(&entry.dtype, entry.rows, entry.cols);
        if let Some(copy) =
            copy.and_then(Entry::gigabytes_per_second).filter(|_| is_even && entry.bytes() >= LARGE)
        {
            check.share(|| format!("{} against the best copy", told(entry)), rate / copy);
        }
    }
    check.finish()
}

fn told(entry: &Entry) -> String {
    let Entry { name, op, dtype, .. } = entry;
    format!("{name}, {op} {dtype} {}", entry.shape())
}

/// Checks that the pages in `docs` give the same time, rate and share for softmax in f32 at each shape.
///
/// # Errors
/// Names every figure that differs between two pages.
pub fn check_pages(docs: &Path) -> anyhow::Result<()> {
    let mut check = Check::default();
    let full = "results/softmax.md";
    for (page, begin, end, columns) in [
        (full, "\n## softmax\n", "\n## ", [3, 4, 5]),
        (PAGE, "<!-- softmax -->", "<!-- /softmax -->", [2, 3, 4]),
        (ladder::PAGE, "<!-- softmax -->", "<!-- /softmax -->", [1, 2, 3]),
    ] {
        let path = docs.join(page);
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let rest = text.split_once(begin).map_or("", |(_, rest)| rest);
        let section = rest.split_once(end).map_or(rest, |(section, _)| section);
        for line in section.lines() {
            let cells: Vec<&str> = line.split('|').map(str::trim).skip(1).collect();
            let Some(shape) = cells.first().filter(|cell| is_shape(cell)) else { continue };
            if page != ladder::PAGE && cells.get(1) != Some(&"f32") {
                continue;
            }
            for (what, column) in ["time", "GB/s", "share of the best copy"].into_iter().zip(columns) {
                let value = cells.get(column).and_then(|cell| number(cell));
                if let Some(value) = value {
                    check.value(&format!("softmax f32 {shape}, {what},"), value, page);
                }
            }
        }
    }
    check.finish()
}

/// Whether a cell is the shape of a matrix.
fn is_shape(cell: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    cell.split_once('x').is_some_and(|(rows, cols)| is_number(rows) && is_number(cols))
}

/// The number at the start of a cell; a time in microseconds.
fn number(cell: &str) -> Option<f64> {
    let (number, unit) = cell.split_once(' ').unwrap_or((cell, ""));
    let scale = if unit == "ms" { 1e3 } else { 1.0 };
    Some(number.parse::<f64>().ok()? * scale)
}
