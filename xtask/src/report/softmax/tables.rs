//! The tables of a softmax run: a short one for `docs/softmax.md`, and all ratios with their targets.

use std::fmt::Write as _;

use crate::report::softmax::missed;
use crate::report::softmax::operations;
use crate::report::softmax::targets;
use crate::report::softmax::{Contest, Entry, Results};
use crate::report::stale;
use crate::report::{self, row, times};

/// The shapes of the short table.
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

/// The shape at which the short page shows each rung.
const RUNGS_AT: (usize, usize) = (4096, 4096);

/// The section of the page on the operations; `others` are the figures of other GPUs.
pub fn section(results: &Results, others: &[&Results]) -> String {
    let mut text = String::from("![GB/s against width](softmax.svg)\n\n");
    text += &short(results);
    for other in others {
        let (machine, stem) = (&other.machine, report::stem("softmax", &other.machine));
        let _ = writeln!(text, "\nThe same on an {machine}: [results/{stem}.md](results/{stem}.md).");
    }
    let _ = writeln!(
        text,
        "\n{}. L2 is cold. Every shape and ratio is in [results/softmax.md](results/softmax.md).{}",
        results.provenance(),
        with_space(&stale::note(&results.changed_since))
    );
    text
}

/// The text after a space, if there is any.
fn with_space(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(" {text}") }
}

/// A few shapes of softmax, the geometric means of all operations, and the rungs at one shape.
fn short(results: &Results) -> String {
    let contests = results.contests();
    let is_shown = |c: &Contest<'_>| c.op == "softmax" && SHOWN.contains(&(c.rows, c.cols));
    let peers = targets::timed_peers(&contests, is_shown);
    let header = ["softmax of", "dtype", "ours", "GB/s", "of the best copy"].into_iter();
    let header = header.chain(peers.iter().map(|(_, shown)| *shown));
    let mut text = row(&header.map(str::to_owned).collect::<Vec<_>>());
    let lines = ["---", "---", "---:", "---:", "---:"].into_iter().chain(peers.iter().map(|_| "---:"));
    text += &row(&lines.map(str::to_owned).collect::<Vec<_>>());
    for contest in contests.iter().filter(|contest| is_shown(contest)) {
        let ours = [
            format!("{}x{}", contest.rows, contest.cols),
            contest.dtype.to_owned(),
            microseconds(contest.ours),
            bandwidth(contest.ours),
            percent(contest.share_of_copy()),
        ];
        let leads = peers.iter().map(|(name, _)| times(contest.lead_over(contest.peer(name))));
        text += &row(&ours.into_iter().chain(leads).collect::<Vec<_>>());
    }
    let _ = writeln!(
        text,
        "\nThe columns of the peers are their time divided by ours.{} Geometric means over all shapes that both ran, \
         with the number of shapes:\n\n{}",
        missing(results),
        targets::means(results, &contests)
    );
    text + &ladder(results)
}

/// The rungs at one shape, each with its gain over the one below; rungs for wider rows at the first of their shapes.
fn ladder(results: &Results) -> String {
    let (rows, cols) = RUNGS_AT;
    let mut text = row(&[format!("rung, f32 at {rows}x{cols}"), "time".into(), "GB/s".into(), "step".into()]);
    text += &row(&["---", "---:", "---:", "---:"].map(str::to_owned));
    let mut below = None;
    let here = |entry: &Entry| entry.is_rung() && (entry.rows, entry.cols) == RUNGS_AT;
    for entry in results.ours.iter().filter(|entry| here(entry)) {
        let step = below.zip(entry.microseconds).map(|(below, time): (f64, f64)| below / time);
        text += &row(&[entry.name.clone(), microseconds(Some(entry)), bandwidth(Some(entry)), times(step)]);
        below = entry.microseconds.or(below);
    }
    let mut shown: Vec<&str> =
        results.ours.iter().filter(|entry| here(entry)).map(|entry| entry.name.as_str()).collect();
    for entry in results.ours.iter().filter(|entry| entry.is_rung() && entry.microseconds.is_some()) {
        if !shown.contains(&entry.name.as_str()) {
            shown.push(&entry.name);
            let name = format!("{}, at {}", entry.name, entry.shape());
            text += &row(&[name, microseconds(Some(entry)), bandwidth(Some(entry)), String::new()]);
        }
    }
    text
}

/// Every shape with its ratios, and the missed targets.
pub fn full(results: &Results) -> String {
    let contests = results.contests();
    let stem = report::stem("softmax", &results.machine);
    let mut text = format!("# Softmax on an {}: all figures\n\n{}.", results.machine, results.provenance());
    let _ = write!(text, "{}\n\n", with_space(&stale::note(&results.changed_since)));
    text += "Medians of device time, by events around CUDA graphs, with a cold L2. A ratio over 1 means that ours is \
             faster. Bandwidth counts every matrix once. The best copy is the fastest one of the same number of bytes: by a \
             kernel of ours, or the driver's memcpy, which PyTorch's clone calls. Written by `cargo xtask report softmax`.";
    text += &missing(results);
    let _ = write!(
        text,
        "\n\n![GB/s against width](../{stem}.svg)\n\n![GB/s at other shapes](../{stem}-shapes.svg)\n"
    );
    let _ = write!(text, "\n## Summary\n\n{}", short(results));
    let _ = write!(text, "\n## Targets\n\n{}\n", targets::tables(results, &contests).trim_end_matches('\n'));
    text += &missed::table(results);
    for op in operations::rows(results) {
        let of_op: Vec<&Contest<'_>> = contests.iter().filter(|c| c.op == op && c.ours.is_some()).collect();
        let table = if of_op.is_empty() { "Not measured.\n".to_owned() } else { table(&of_op) };
        let _ = write!(text, "\n## {op}\n\n{table}");
    }
    text += &rungs(results);
    let _ = write!(text, "\n## What was not timed\n\n{}", failures(results));
    text
}

/// The peers that are missing in the run.
fn missing(results: &Results) -> String {
    let missing = results.missing();
    if missing.is_empty() { String::new() } else { format!(" Not in this run: {}.", missing.join(", ")) }
}

fn table(contests: &[&Contest<'_>]) -> String {
    let header =
        ["shape", "dtype", "ours", "us", "GB/s", "of the best copy", "that is", "best peer", "us", "ratio"];
    let header = header.into_iter().chain(["QuACK", "ratio"]);
    let mut text = row(&header.map(str::to_owned).collect::<Vec<_>>());
    let lines = ["---", "---", "---", "---:", "---:", "---:", "---", "---", "---:", "---:", "---:", "---:"];
    text += &row(&lines.map(str::to_owned));
    for contest in contests {
        let (best, quack) = (contest.best_peer(), contest.peer("quack"));
        text += &row(&[
            format!("{}x{}", contest.rows, contest.cols),
            contest.dtype.to_owned(),
            contest.ours.map_or("none", |entry| &entry.name).to_owned(),
            microseconds(contest.ours),
            bandwidth(contest.ours),
            percent(contest.share_of_copy()),
            contest.copy.map_or("none", copy_name).to_owned(),
            best.map_or("none", |entry| &entry.name).to_owned(),
            microseconds(best),
            times(contest.lead_over(best)),
            microseconds(quack),
            times(contest.lead_over(quack)),
        ]);
    }
    text
}

/// The name of a copy in the tables.
fn copy_name(copy: &Entry) -> &str {
    if copy.name == "clone" { "memcpy" } else { &copy.name }
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

/// The missing times, one line per contestant, operation, type and reason.
fn failures(results: &Results) -> String {
    let mut reasons: Vec<(String, &str, Vec<String>)> = Vec::new();
    for entry in results.ours.iter().chain(&results.peers) {
        if let Some(error) = &entry.error {
            let first = error.lines().next().unwrap_or_default();
            let who = format!("{}, {} {}", entry.name, entry.op, entry.dtype);
            match reasons.iter_mut().find(|(other, reason, _)| *other == who && *reason == first) {
                Some((.., shapes)) => shapes.push(entry.shape()),
                None => reasons.push((who, first, vec![entry.shape()])),
            }
        }
    }
    let lines =
        reasons.iter().map(|(who, reason, shapes)| format!("- {who} {}: {reason}\n", shapes.join(", ")));
    let text: String = lines.collect();
    if text.is_empty() { "Nothing.\n".to_owned() } else { text }
}

/// The time, if there is one.
pub fn microseconds(entry: Option<&Entry>) -> String {
    entry.and_then(|entry| entry.microseconds).map_or_else(String::new, time)
}

/// A time in its usual unit.
pub fn time(microseconds: f64) -> String {
    if microseconds < 1e4 { format!("{microseconds:.1} us") } else { format!("{:.1} ms", microseconds / 1e3) }
}

/// GB/s, if there is a time.
pub fn bandwidth(entry: Option<&Entry>) -> String {
    let rate = entry.and_then(Entry::gigabytes_per_second);
    rate.map_or_else(
        String::new,
        |rate| if rate < 100.0 { format!("{rate:.1}") } else { format!("{rate:.0}") },
    )
}

/// The share in percent, if there is one.
pub fn percent(share: Option<f64>) -> String {
    share.map_or_else(String::new, |share| format!("{:.1} %", 100.0 * share))
}
