//! The measured steps on the page about the ladder, `docs/softmax-ladder.md`.

use crate::measure::with_section;
use crate::report::softmax::tables::{bandwidth, microseconds, percent};
use crate::report::softmax::{Entry, Results, is_rung};
use crate::report::{row, times};

/// The page, in `docs`.
pub const PAGE: &str = "softmax-ladder.md";

/// The name of the users' operation in the results and on the page.
const OPERATION: &str = "softmax";

/// The shapes at which the page shows each rung, if timed: not every rung supports every width.
const SHOWN: [(usize, usize); 5] =
    [(4096, 1024), (4096, 4096), (4096, 12_672), (8192, 32_768), (2048, 131_072)];

/// The rungs with a section of figures on the page, lowest first.
pub fn rungs(page: &str) -> Vec<String> {
    let names = page.lines().filter_map(|line| line.strip_prefix("<!-- ")?.strip_suffix(" -->"));
    names.filter(|name| is_rung(name)).map(str::to_owned).collect()
}

/// The page with the figures of a run, or with none if there is no run.
pub fn fill(page: &str, results: Option<&Results>) -> anyhow::Result<String> {
    let rungs = rungs(page);
    let known = results.into_iter().flat_map(|results| &results.ours).filter(|entry| entry.is_rung());
    let mut names = rungs.clone();
    // A name that is not on the page becomes an error below.
    names.extend(known.map(|entry| entry.name.clone()).find(|name| !rungs.contains(name)));
    let fill = |page: String, name: &str, section: String| with_section(PAGE, &page, name, &section);
    let mut page = page.to_owned();
    for (i, name) in names.iter().enumerate() {
        let below = i.checked_sub(1).map(|i| names[i].as_str());
        page = fill(page, name, rung(results, name, below))?;
    }
    page = fill(page, OPERATION, operation(results))?;
    let whence = results.map_or_else(
        || "Nothing is measured yet.\n".to_owned(),
        |results| format!("Measured on: {}.\n", results.provenance()),
    );
    fill(page, "measured", whence)
}

/// The table of one rung.
fn rung(results: Option<&Results>, name: &str, below: Option<&str>) -> String {
    let over = below.map_or_else(String::new, |below| format!("times as fast as {}", short(below)));
    table(["f32", short(name), "GB/s", &over], |shape| {
        let entry = find(results, name, shape);
        let step = factor(below.and_then(|below| find(results, below, shape)), entry);
        [microseconds(entry), bandwidth(entry), times(step)]
    })
}

/// The table of the operation.
fn operation(results: Option<&Results>) -> String {
    table(["f32", "softmax", "GB/s", "of the best copy"], |shape| {
        let entry = find(results, OPERATION, shape);
        let copy = results.and_then(|results| results.best_copy("f32", shape.0, shape.1));
        let rates = [entry, copy].map(|entry| entry.and_then(Entry::gigabytes_per_second));
        let share = rates[0].zip(rates[1]).map(|(ours, copy)| ours / copy);
        [microseconds(entry), bandwidth(entry), percent(share)]
    })
}

fn table(header: [&str; 4], cells: impl Fn((usize, usize)) -> [String; 3]) -> String {
    let mut text =
        row(&header.map(str::to_owned)) + &row(&["---", "---:", "---:", "---:"].map(str::to_owned));
    let timed: Vec<_> = SHOWN.iter().map(|&shape| (shape, cells(shape))).collect();
    let timed: Vec<_> = timed.into_iter().filter(|(_, [time, ..])| !time.is_empty()).collect();
    for ((rows, cols), [time, rate, step]) in &timed {
        text += &row(&[format!("{rows}x{cols}"), time.clone(), rate.clone(), step.clone()]);
    }
    if timed.is_empty() {
        text += &row(&["not measured", "", "", ""].map(str::to_owned));
    }
    text
}

/// `k4` of `k4_warp_shuffle`.
fn short(name: &str) -> &str {
    name.split_once('_').map_or(name, |(short, _)| short)
}

fn find<'a>(results: Option<&'a Results>, name: &str, shape: (usize, usize)) -> Option<&'a Entry> {
    results?.ours.iter().find(|entry| {
        (entry.name.as_str(), entry.op.as_str(), entry.dtype.as_str()) == (name, OPERATION, "f32")
            && (entry.rows, entry.cols) == shape
    })
}

/// The time of the first divided by the second's.
fn factor(first: Option<&Entry>, second: Option<&Entry>) -> Option<f64> {
    Some(first?.microseconds? / second?.microseconds?)
}
