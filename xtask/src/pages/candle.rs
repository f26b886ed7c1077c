//! Our operations on candle's tensors, and candle's own.

use crate::pages::rows::TURNS;
use crate::report::{
    Contest, Results, Section, Subject, clock_and_power, geometric_mean, or_empty, stale, table, time, times,
};

/// The operations of `host/candle`.
pub const CANDLE: Subject = Subject {
    name: "candle",
    is_ours: |entry| entry.name == "ferrowarp",
    peers: &[("candle", "candle")],
    tables: &["op"],
    rows: &["shape"],
    sources: &["host/candle/src", "host/candle/examples"],
    page: Some(|results| Ok(page(results))),
    sections: |all| Ok(all.first().map(|results| summary(results)).into_iter().collect()),
    ..TURNS
};

/// The page with the summary, as a section.
pub const PAGE: &str = "docs/coming-from.md";

/// candle's time over ours.
fn lead(contest: &Contest<'_>) -> Option<f64> {
    contest.lead("candle")
}

/// The means of each table.
fn summary(results: &Results) -> Section {
    let rows = CANDLE.contests(results).into_iter().filter_map(|(title, contests)| {
        let leads: Vec<(f64, String)> =
            contests.iter().filter_map(|it| Some((lead(it)?, CANDLE.problem(it.ours)))).collect();
        let (least, at) = leads.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
        let mean = geometric_mean(&leads.iter().map(|(lead, _)| *lead).collect::<Vec<_>>());
        Some(vec![title, times(mean), times(Some(*least)), at.clone()])
    });
    let text = format!(
        "{}\n{}. The mean is geometric. {}[All figures](results/candle.md).\n",
        table(&["candle's time / ours", "mean", "least", "at"], 1, &rows.collect::<Vec<_>>()),
        results.provenance(),
        note(results, " "),
    );
    (PAGE, "candle".to_owned(), text)
}

/// What has changed since the run, and `end` after it.
fn note(results: &Results, end: &str) -> String {
    let note = stale::note(&results.changed_since);
    if note.is_empty() { note } else { note + end }
}

/// The page with every figure.
fn page(results: &Results) -> String {
    let mut text = format!(
        "# Our operations on candle's tensors, on an {}: all figures\n\n{}.\n\nCalls as a program makes them, with the allocation of the \
         result. candle's kernels are `softmax_last_dim` and `rms_norm`, and for gradients, which those do not have, `softmax` and \
         `rms_norm_slow`, as `loss::cross_entropy` has for both. Its attention is two matrix multiplications and a softmax; the crate \
         candle-flash-attn is not compared. Attention has the shape batch x heads x length x head size. With gradients, candle adds each one to \
         zeros, ours too. Inputs are normal and take turns, so that L2 is cold. A time is the median of {} samples \
         in turns, by events on candle's stream. Without graphs, short ones are times of the host. A ratio is candle's time over ours: over 1 \
         means that ours is faster. The difference is the largest between both results. Written by `cargo xtask report candle`.\n\n{}",
        results.machine,
        results.provenance(),
        SAMPLES,
        note(results, "\n\n"),
    );
    for (title, contests) in CANDLE.contests(results) {
        let rows = contests.iter().map(|contest| {
            let ours = contest.ours;
            let theirs = contest.entry("candle").and_then(|entry| entry.microseconds);
            let mut cells = vec![
                CANDLE.problem(ours),
                or_empty(ours.microseconds, time),
                or_empty(theirs, time),
                times(lead(contest)),
                or_empty(ours.figure("largest_difference"), |difference| format!("{difference:.1e}")),
            ];
            cells.extend(clock_and_power(ours));
            cells
        });
        let header = ["shape", "ours", "candle", "candle's / ours", "difference", "clock", "power"];
        text += &format!("## {title}\n\n{}\n", table(&header, 1, &rows.collect::<Vec<_>>()));
    }
    text.trim_end().to_owned() + "\n"
}

/// Samples of each contender in `host/candle/examples/versus.rs`.
const SAMPLES: usize = 5;
