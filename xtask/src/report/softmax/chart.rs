//! The charts of a softmax run: GB/s against width, rung by rung and against the peers, and GB/s at the larger shapes.

use crate::chart::{Axis, Chart, Dots, Family, Guide, Lines, Panel, Row, Series};
use crate::report::peaks;
use crate::report::short_commit;
use crate::report::softmax::tables::percent;
use crate::report::softmax::{Contest, Entry, Results, is_decode};

/// The shape in the title of the first chart.
const TITLED: (usize, usize) = (4096, 4096);

/// Draws GB/s of f32 against width at 4096 rows: the rungs above, the operation and its peers below.
pub fn widths(results: &Results) -> anyhow::Result<String> {
    let contests = results.contests();
    let at =
        contests.iter().find(|c| (c.op, c.dtype, c.rows, c.cols) == ("softmax", "f32", TITLED.0, TITLED.1));
    let title = at.and_then(|contest| finding(results, contest));
    let title = title.unwrap_or_else(|| "GB/s of softmax against the width of its rows".to_owned());
    let ladder = panel(results, "The ladder, rung by rung; k9 and k10 take wider rows", &Entry::is_rung);
    let peers = panel(results, "The operation and its peers", &|entry| !entry.is_rung());
    let panels = [ladder, peers].into_iter().flatten().map(Panel::Lines).collect();
    Chart { title, subtitle: subtitle(results, "f32, 4096 rows"), columns: 1, panels }.svg()
}

/// The operation's rate at a shape, in words.
fn finding(results: &Results, contest: &Contest<'_>) -> Option<String> {
    let first = results.ours.iter().find(|entry| entry.is_rung() && (entry.rows, entry.cols) == TITLED)?;
    let share = percent(Some(contest.share_of_copy()?));
    let climb = contest.lead_over(Some(first))?;
    Some(format!(
        "At {}x{} softmax reaches {share} of the best copy and is {climb:.0} times as fast as k1",
        TITLED.0, TITLED.1
    ))
}

fn subtitle(results: &Results, what: &str) -> String {
    let Results { machine, driver, date, commit, .. } = results;
    let commit = short_commit(commit);
    format!(
        "{what}; {machine}, driver {driver}, {date}, commit {commit}; warm colours: Ferrowarp, cool: peers"
    )
}

/// The lines of all entries for which `is_shown` holds, if any.
fn panel(results: &Results, caption: &str, is_shown: &dyn Fn(&Entry) -> bool) -> Option<Lines> {
    let all = results.ours.iter().chain(&results.peers);
    let of_widths = |entry: &&Entry| {
        entry.op == "softmax"
            && entry.dtype == "f32"
            && is_of_widths(entry)
            && !entry.name.starts_with("clone")
    };
    let mut series: Vec<Series> = Vec::new();
    let mut copies: Vec<(f64, f64)> = Vec::new();
    for entry in all.filter(of_widths) {
        let Some(rate) = entry.gigabytes_per_second() else { continue };
        let width = entry.cols as f64;
        let copy = results.best_copy("f32", entry.rows, entry.cols).and_then(Entry::gigabytes_per_second);
        copies.extend(copy.filter(|_| copies.iter().all(|point| point.0 != width)).map(|rate| (width, rate)));
        if !is_shown(entry) {
            continue;
        }
        let name = shown_name(entry);
        match series.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push((width, rate)),
            None => {
                let family = if results.is_ours(entry) { Family::Ours } else { Family::Peers };
                let line = Series::new(name, family, vec![(width, rate)]);
                series.push(if entry.name == "softmax" { line.bold() } else { line });
            }
        }
    }
    if series.is_empty() {
        return None;
    }
    let y = Axis::new("GB/s (0.625 GFLOP/s per GB/s)");
    let mut lines = Lines::new(Axis::new("columns of a row"), y, series);
    lines.caption = caption.to_owned();
    lines.size = (1100, 440);
    if !copies.is_empty() {
        lines.guides.push(Guide::RoofCurve("the best copy".to_owned(), copies));
    }
    if let Some(rate) = peaks::of(&results.machine).map(|peaks| peaks.gigabytes_per_second) {
        lines.guides.push(Guide::Roof(format!("memory, datasheet: {:.1} TB/s", rate / 1e3), rate));
    }
    if let Some(rate) = results.cache_rate() {
        lines.guides.push(Guide::Roof(format!("a copy within L2: {:.1} TB/s", rate / 1e3), rate));
    }
    Some(lines)
}

/// Whether the entry belongs to the chart over widths, not to that of other shapes.
fn is_of_widths(entry: &Entry) -> bool {
    entry.rows == 4096 && entry.cols <= 12_672 && entry.cols.is_multiple_of(4)
}

/// Draws GB/s at other numbers of rows and at odd widths, for f32 and bf16; not at one token's logits, where latency
/// dominates.
pub fn shapes(results: &Results) -> anyhow::Result<String> {
    let contests: Vec<Contest<'_>> = results.contests();
    let is_here = |c: &&Contest<'_>| {
        c.op == "softmax" && !is_decode(c.rows, c.cols) && c.ours.is_some_and(|entry| !is_of_widths(entry))
    };
    let here: Vec<&Contest<'_>> = contests.iter().filter(is_here).collect();
    let panels: Vec<Panel> = ["f32", "bf16"].iter().filter_map(|dtype| dots(results, &here, dtype)).collect();
    if panels.is_empty() {
        return nothing();
    }
    let raced: Vec<f64> = here.iter().filter_map(|c| c.lead_over(c.best_peer())).collect();
    let won = raced.iter().filter(|lead| **lead >= 1.0).count();
    let title = format!("Softmax is faster than every peer at {won} of {} shapes and types", raced.len());
    let subtitle = subtitle(results, "wide, narrow and odd rows, cold L2");
    Chart { title, subtitle, columns: 2, panels }.svg()
}

/// The chart if nothing in it was timed.
fn nothing() -> anyhow::Result<String> {
    Ok("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1\" height=\"1\"></svg>\n".to_owned())
}

fn dots(results: &Results, contests: &[&Contest<'_>], dtype: &str) -> Option<Panel> {
    let contests: Vec<_> = contests.iter().filter(|c| c.dtype == dtype).collect();
    let mut names: Vec<&str> = Vec::new();
    for peer in contests.iter().flat_map(|c| &c.peers) {
        if !names.contains(&peer.name.as_str()) {
            names.push(&peer.name);
        }
    }
    let peers = names.iter().map(|name| (shown(name), Family::Peers));
    let first = ("Ferrowarp".to_owned(), Family::Ours);
    let contestants =
        std::iter::once(first).chain(peers).chain([("the best copy".to_owned(), Family::Other)]);
    let rate = |entry: Option<&Entry>| entry.and_then(Entry::gigabytes_per_second);
    let rows: Vec<Row> = contests
        .iter()
        .map(|c| {
            let peers = names.iter().map(|name| rate(c.peer(name)));
            let values = std::iter::once(rate(c.ours)).chain(peers).chain([rate(c.copy)]);
            Row { name: format!("{}x{}", c.rows, c.cols), values: values.collect() }
        })
        .collect();
    if rows.is_empty() {
        return None;
    }
    let peak = peaks::of(&results.machine).map(|peaks| peaks.gigabytes_per_second);
    Some(Panel::Dots(Dots {
        caption: dtype.to_owned(),
        axis: Axis::new("GB/s, every matrix counted once"),
        contestants: contestants.collect(),
        rows,
        roofs: peak.map(|rate| ("memory, datasheet".to_owned(), rate)).into_iter().collect(),
        width: 640,
    }))
}

fn shown_name(entry: &Entry) -> String {
    shown(&entry.name)
}

fn shown(name: &str) -> String {
    match name {
        "softmax" => "Ferrowarp",
        "triton" => "Triton's tutorial, tuned",
        "quack" => "QuACK",
        name => name,
    }
    .to_owned()
}
