//! The chart of a matmul run: TFLOP/s of squares, and rung by rung.

use crate::chart::{Axis, Bar, Bars, Chart, Family, Guide, Lines, Panel, Scale, Series};
use crate::report::matmul::{Entry, PEERS, Results};
use crate::report::peaks;
use crate::report::short_commit;

/// The square at which the rungs are compared.
const RUNGS_AT: [usize; 3] = [8192; 3];

/// Draws a line for the operation and each peer, and a bar for each rung.
pub fn squares(results: &Results) -> anyhow::Result<String> {
    let Results { machine, driver, date, commit, .. } = results;
    let commit = short_commit(commit);
    let subtitle =
        format!("{machine}, driver {driver}, {date}, commit {commit}; warm colours: Ferrowarp, cool: peers");
    let mut panels = Vec::new();
    panels.extend(lines(results, "bf16"));
    panels.extend(rungs(results));
    panels.extend(lines(results, "f32"));
    Chart { title: finding(results), subtitle, columns: 1, panels }.svg()
}

fn finding(results: &Results) -> String {
    let contests = results.contests("bf16");
    let found = contests.iter().find(|contest| contest.ours.extents() == RUNGS_AT);
    let words = found.and_then(|contest| {
        let (lead, peer) = contest.least_lead()?;
        let rate = contest.ours.tflops()?;
        Some(format!(
            "At 8192^3 in bf16 Ferrowarp reaches {rate:.0} TFLOP/s, {lead:.2} times the speed of {peer}"
        ))
    });
    words.unwrap_or_else(|| "TFLOP/s of square matrices".to_owned())
}

/// Squares of a type.
fn lines(results: &Results, dtype: &str) -> Option<Panel> {
    let mut series: Vec<Series> = Vec::new();
    for contest in results.contests(dtype) {
        let [m, n, k] = contest.ours.extents();
        // Sizes in between are not on the line.
        if m != n || n != k || !m.is_multiple_of(512) {
            continue;
        }
        let peers = PEERS.iter().filter_map(|(name, shown)| Some((*shown, contest.of(name)?, Family::Peers)));
        for (name, entry, family) in std::iter::once(("matmul", contest.ours, Family::Ours)).chain(peers) {
            let Some(rate) = entry.tflops() else { continue };
            let point = (m as f64, rate);
            match series.iter_mut().find(|series| series.name == name) {
                Some(series) => series.points.push(point),
                None => {
                    let line = Series::new(name, family, vec![point]);
                    series.push(if name == "matmul" { line.bold() } else { line });
                }
            }
        }
    }
    if series.is_empty() {
        return None;
    }
    let x = Axis::new("rows, columns and terms").scale(Scale::Log);
    let mut lines = Lines::new(x, Axis::new("TFLOP/s"), series);
    lines.caption = format!("Squares in {dtype}");
    lines.size = (1100, 400);
    if let Some(peaks) = peaks::of(&results.machine) {
        let (name, peak) = if dtype == "f32" {
            ("FP32 units, datasheet", peaks.fp32_tflops)
        } else {
            ("tensor cores, datasheet", peaks.tensor_tflops)
        };
        lines.guides.push(Guide::Roof(format!("{name}: {peak:.0} TFLOP/s"), peak));
    }
    Some(Panel::Lines(lines))
}

/// The rungs and cuBLASLt at one square.
fn rungs(results: &Results) -> Option<Panel> {
    let contests = results.contests("bf16");
    let contest = contests.iter().find(|contest| contest.ours.extents() == RUNGS_AT)?;
    let mut all: Vec<(&Entry, &str, Family)> = results
        .ours
        .iter()
        .filter(|entry| entry.is_rung() && entry.is_at("bf16", RUNGS_AT))
        .map(|entry| (entry, entry.name.as_str(), Family::Ours))
        .collect();
    if all.is_empty() {
        return None;
    }
    all.push((contest.ours, "matmul", Family::Ours));
    all.extend(PEERS.iter().filter_map(|(name, shown)| Some((contest.of(name)?, *shown, Family::Peers))));
    let bars = all.into_iter().filter_map(|(entry, name, family)| {
        let value = entry.tflops()?;
        Some(Bar { name: name.to_owned(), family, value, words: format!("{value:.0}"), predicted: None })
    });
    let mut bars = Bars::new(Axis::new("TFLOP/s"), bars.collect());
    bars.caption = "The ladder at 8192^3 in bf16".to_owned();
    bars.width = 1100;
    Some(Panel::Bars(bars))
}
