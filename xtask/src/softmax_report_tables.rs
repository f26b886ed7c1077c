//! The tables of a softmax run: a short one for the README, and all ratios beside what they are meant to be.

use std::fmt::Write as _;

use crate::report::{row, times};
use crate::softmax_report::{Contest, Entry, Results};

/// The shapes of the README's table.
const SHOWN: [(usize, usize); 8] = [
    (4096, 256),
    (4096, 1024),
    (4096, 4096),
    (4096, 12_672),
    (4096, 2047),
    (131_072, 1024),
    (8192, 32_768),
    (2048, 131_072),
];

/// The shape at which the README shows each rung.
const RUNGS_AT: (usize, usize) = (4096, 4096);

/// Widths at 4096 rows over which the geometric mean is taken: 256 to 12672, without the odd ones.
fn is_of_the_chart(contest: &Contest<'_>) -> bool {
    contest.rows == 4096 && (256..=12_672).contains(&contest.cols) && !is_odd(contest.cols)
}

/// Whether rows of this width begin at addresses that are no multiple of 16.
fn is_odd(cols: usize) -> bool {
    !cols.is_multiple_of(4)
}

/// The part of the copy's bandwidth that we want to reach.
fn target_of_clone(contest: &Contest<'_>) -> Option<f64> {
    let bytes = contest.ours?.bytes();
    match contest.cols {
        cols if is_odd(cols) => Some(0.85),
        256..=2048 => Some(0.90),
        4096.. if bytes >= 256e6 => Some(0.97),
        _ => None,
    }
}

/// The section of the README.
pub fn readme(results: &Results) -> String {
    let mut text = String::from("![GB/s against width](docs/softmax.svg)\n\n");
    let header = ["softmax of", "", "ours", "GB/s", "of a copy", "PyTorch", "torch.compile", "Triton"];
    text += &row(&header.map(str::to_owned));
    text += &row(&["---", "---", "---:", "---:", "---:", "---:", "---:", "---:"].map(str::to_owned));
    let contests = results.contests();
    let shown = contests.iter().filter(|c| c.op == "softmax" && SHOWN.contains(&(c.rows, c.cols)));
    for contest in shown {
        text += &row(&[
            format!("{}x{}", contest.rows, contest.cols),
            contest.dtype.to_owned(),
            microseconds(contest.ours),
            bandwidth(contest.ours),
            percent(share_of_clone(contest)),
            times(contest.lead_over(contest.peer("torch eager"))),
            times(contest.lead_over(contest.peer("torch.compile"))),
            times(contest.lead_over(contest.peer("triton"))),
        ]);
    }
    text += "\nThe last three columns: how many times as long they take.";
    for (what, mean) in means(&contests) {
        let _ = write!(text, " {what}: {}.", times(Some(mean)));
    }
    text += "\n\n";
    text += &ladder(results);
    let _ = writeln!(
        text,
        "\n{}, cold cache; every shape and ratio is in [docs/results/softmax.md](docs/results/softmax.md).",
        results.provenance()
    );
    text
}

/// The rungs at one shape, each with what it gains on the one below.
fn ladder(results: &Results) -> String {
    let (rows, cols) = RUNGS_AT;
    let mut text = row(&[format!("rung, f32 at {rows}x{cols}"), "time".into(), "GB/s".into(), "step".into()]);
    text += &row(&["---", "---:", "---:", "---:"].map(str::to_owned));
    let mut below = None;
    let here = |entry: &&Entry| entry.is_rung() && (entry.rows, entry.cols) == RUNGS_AT;
    for entry in results.ours.iter().filter(here) {
        let step = below.zip(entry.microseconds).map(|(below, time): (f64, f64)| below / time);
        text += &row(&[entry.name.clone(), microseconds(Some(entry)), bandwidth(Some(entry)), times(step)]);
        below = entry.microseconds.or(below);
    }
    text
}

/// Every shape with its ratios, and what is missed by how much.
pub fn full(results: &Results) -> String {
    let contests = results.contests();
    let mut text = format!("# Softmax on a GPU, all figures\n\n{}.\n\n", results.provenance());
    text += "Device time by events around CUDA graphs, cold level-2 cache, medians. A ratio over 1 means that ours is \
             faster. Bandwidth counts every matrix once. Written by `cargo xtask report softmax`.\n\n## Targets\n\n";
    text += &targets(&contests);
    for op in ["softmax", "log_softmax", "backward", "cross_entropy"] {
        let of_op: Vec<&Contest<'_>> = contests.iter().filter(|c| c.op == op).collect();
        if !of_op.is_empty() {
            let _ = write!(text, "\n## {op}\n\n{}", table(&of_op));
        }
    }
    text += &rungs(results);
    let _ = write!(text, "\n## What was not timed\n\n{}", failures(results));
    text
}

fn table(contests: &[&Contest<'_>]) -> String {
    let header = ["shape", "dtype", "ours", "us", "GB/s", "of a copy", "best peer", "us", "ratio"];
    let mut text = row(&header.map(str::to_owned));
    text += &row(&["---", "---", "---", "---:", "---:", "---:", "---", "---:", "---:"].map(str::to_owned));
    for contest in contests {
        let best = contest.best_peer();
        text += &row(&[
            format!("{}x{}", contest.rows, contest.cols),
            contest.dtype.to_owned(),
            contest.ours.map_or("none", |entry| &entry.name).to_owned(),
            microseconds(contest.ours),
            bandwidth(contest.ours),
            percent(share_of_clone(contest)),
            best.map_or("none", |entry| &entry.name).to_owned(),
            microseconds(best),
            times(contest.lead_over(best)),
        ]);
    }
    text
}

/// All rungs by width, in GB/s.
fn rungs(results: &Results) -> String {
    let mut names: Vec<&str> = Vec::new();
    let mut shapes: Vec<(usize, usize)> = Vec::new();
    for entry in results.ours.iter().filter(|entry| entry.is_rung()) {
        if !names.contains(&entry.name.as_str()) {
            names.push(&entry.name);
        }
        if !shapes.contains(&(entry.rows, entry.cols)) {
            shapes.push((entry.rows, entry.cols));
        }
    }
    let mut text = "\n## The ladder, f32, GB/s\n\n".to_owned();
    text += &row(&["shape"].iter().chain(&names).map(|&name| name.to_owned()).collect::<Vec<_>>());
    text += &row(&vec!["---:".to_owned(); names.len() + 1]);
    for (rows, cols) in shapes {
        let cell = |name: &&str| {
            let is_it = |e: &&Entry| e.is_rung() && e.name == **name && (e.rows, e.cols) == (rows, cols);
            bandwidth(results.ours.iter().find(is_it))
        };
        let cells = names.iter().map(cell);
        text += &row(&std::iter::once(format!("{rows}x{cols}")).chain(cells).collect::<Vec<_>>());
    }
    text
}

/// What we set out to reach, whether we did, and where not.
fn targets(contests: &[Contest<'_>]) -> String {
    let mut text = String::new();
    let softmax: Vec<&Contest<'_>> = contests.iter().filter(|c| c.op == "softmax").collect();
    let mut goal = |what: &str, found: Vec<(&Contest<'_>, f64)>, wanted: &dyn Fn(&Contest<'_>) -> f64| {
        let missed: Vec<_> = found.iter().filter(|(contest, got)| *got < wanted(contest)).collect();
        let _ = writeln!(text, "- {what}: {} of {}.", found.len() - missed.len(), found.len());
        for (contest, got) in missed {
            let _ = writeln!(
                text,
                "  - {} {}x{}: {got:.3}, {:.1} % short of {}",
                contest.dtype,
                contest.rows,
                contest.cols,
                100.0 * (1.0 - got / wanted(contest)),
                wanted(contest)
            );
        }
    };
    let led = softmax.iter().filter_map(|c| Some((*c, c.lead_over(c.best_peer())?))).collect();
    goal("softmax at least as fast as the best peer", led, &|_| 1.0);
    let shares = softmax.iter().filter(|c| target_of_clone(c).is_some());
    let shares = shares.filter_map(|c| Some((*c, share_of_clone(c)?))).collect();
    goal(
        "softmax against the bandwidth of a copy (97 % from 256 MB and width 4096 on, 90 % at widths 256 to 2048, \
         85 % at odd widths)",
        shares,
        &|c| target_of_clone(c).unwrap_or(0.0),
    );
    let losses = contests.iter().filter(|c| c.op == "cross_entropy");
    let losses = losses.filter_map(|c| Some((c, c.lead_over(c.peer("torch eager"))?))).collect();
    goal("cross entropy, loss and gradient, 2 times as fast as PyTorch", losses, &|_| 2.0);
    for (what, mean) in means(contests) {
        let _ = writeln!(text, "- {what}: {mean:.3}.");
    }
    text
}

/// The geometric means of the ratios to PyTorch, by type.
fn means(contests: &[Contest<'_>]) -> Vec<(String, f64)> {
    let mut means = Vec::new();
    for (op, what) in [("softmax", "softmax"), ("cross_entropy", "cross entropy")] {
        for dtype in ["f32", "bf16", "f16"] {
            let of_chart = contests.iter().filter(|c| c.op == op && c.dtype == dtype && is_of_the_chart(c));
            let leads: Vec<f64> =
                of_chart.filter_map(|c| c.lead_over(c.peer("torch eager"))).map(f64::ln).collect();
            if !leads.is_empty() {
                let mean = (leads.iter().sum::<f64>() / leads.len() as f64).exp();
                let name =
                    format!("PyTorch over ours, {what}, {dtype}, geometric mean of {} widths", leads.len());
                means.push((name, mean));
            }
        }
    }
    means
}

fn failures(results: &Results) -> String {
    let mut text = String::new();
    for entry in results.ours.iter().chain(&results.peers) {
        if let Some(error) = &entry.error {
            let first = error.lines().next().unwrap_or_default();
            let Entry { name, op, dtype, .. } = entry;
            let _ = writeln!(text, "- {name}, {op} {dtype} {}: {first}", entry.shape());
        }
    }
    if text.is_empty() { "Nothing.\n".to_owned() } else { text }
}

/// The copy's time over ours, where both move as many bytes.
fn share_of_clone(contest: &Contest<'_>) -> Option<f64> {
    let (ours, clone) = (contest.ours?, contest.clone?);
    Some(ours.gigabytes_per_second()? / clone.gigabytes_per_second()?)
}

/// The time, where there is one.
pub fn microseconds(entry: Option<&Entry>) -> String {
    let time = entry.and_then(|entry| entry.microseconds);
    time.map_or_else(String::new, |time| {
        if time < 1e4 { format!("{time:.1} us") } else { format!("{:.1} ms", time / 1e3) }
    })
}

/// GB/s, where there is a time.
pub fn bandwidth(entry: Option<&Entry>) -> String {
    let rate = entry.and_then(Entry::gigabytes_per_second);
    rate.map_or_else(
        String::new,
        |rate| if rate < 100.0 { format!("{rate:.1}") } else { format!("{rate:.0}") },
    )
}

/// The share in percent, where there is one.
pub fn percent(share: Option<f64>) -> String {
    share.map_or_else(String::new, |share| format!("{:.1} %", 100.0 * share))
}
