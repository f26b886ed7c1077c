//! The tables of a training run: a short one for `docs/training.md`, and every figure.

use std::fmt::Write as _;

use crate::report::mlp::{BATCHES, Entry, Results, USUAL, contestants, runs_graph};
use crate::report::stale;
use crate::report::{self, row, times};

/// The cell of a missing measurement.
const NOT_MEASURED: &str = "not measured";

/// The section of `docs/training.md`; `others` are the figures of other GPUs.
pub fn section(results: Option<&Results>, others: &[&Results]) -> String {
    let Some(results) = results else { return "Nothing is measured on a GPU yet.\n".to_owned() };
    let header =
        ["an epoch in batches of", "", "16", "64", "256", "1024", "at 64, over our fastest", "accuracy"];
    let mut text = "![Time of an epoch, rung by rung](mlp.svg)\n\n".to_owned();
    text += &row(&header.map(str::to_owned));
    text += &row(&["---", "---", "---:", "---:", "---:", "---:", "---:", "---:"].map(str::to_owned));
    for who in contestants(&results.ours).into_iter().chain(contestants(&results.peers)) {
        let usual = results.entry(who, USUAL);
        let mut cells = vec![who.0.to_owned(), who.1.to_owned()];
        cells.extend(BATCHES.map(|batch| epoch(who.0, batch, results.entry(who, batch))));
        let epochs = usual.and_then(Entry::epoch).zip(results.fastest(USUAL));
        cells.push(times(epochs.map(|(epoch, fastest)| epoch / fastest)));
        cells.push(accuracy(usual));
        text += &row(&cells);
    }
    for other in others {
        let (machine, stem) = (&other.machine, report::stem("mlp", &other.machine));
        let _ = writeln!(text, "\nThe same on an {machine}: [results/{stem}.md](results/{stem}.md).");
    }
    let note = stale::note(&results.changed_since);
    let _ = writeln!(
        text,
        "\nTimes are those of the host's clock, with launches and the last synchronisation. The accuracy is the one after \
         the last epoch of a run at 64. In batches of more than {USUAL}, `resident` runs `graph`. {}. Every figure is in \
         [results/mlp.md](results/mlp.md).{}",
        provenance(results),
        if note.is_empty() { note } else { format!(" {note}") }
    );
    text
}

/// Every figure, and the failures.
pub fn full(results: Option<&Results>) -> String {
    let Some(results) = results else {
        return "# Training on a GPU: all figures\n\nNothing is measured yet.\n".to_owned();
    };
    let mut text = format!("# Training on an {}: all figures\n\n{}.", results.machine, provenance(results));
    if !results.changed_since.is_empty() {
        let _ = write!(text, " {}", stale::note(&results.changed_since));
    }
    text += "\n\nMedians and fastest epochs by the host's clock, with launches and the last synchronisation. A step is one of \
             the first hundred of an epoch, with the synchronisation after them. Written by `cargo xtask report mlp`.\n";
    let _ = writeln!(text, "\n![Time of an epoch](../{}.svg)", report::stem("mlp", &results.machine));
    for batch in BATCHES {
        let _ = writeln!(text, "\n## Batches of {batch}\n");
        let header = ["", "", "epochs", "median", "fastest", "images/s", "a step", "accuracy"];
        text += &row(&header.map(str::to_owned));
        text += &row(&["---", "---", "---:", "---:", "---:", "---:", "---:", "---:"].map(str::to_owned));
        for who in contestants(&results.ours).into_iter().chain(contestants(&results.peers)) {
            let entry = results.entry(who, batch);
            if entry.is_none() {
                continue;
            }
            let seconds = entry.map_or(&[][..], |entry| &entry.epoch_seconds);
            let fastest = seconds.iter().copied().min_by(f64::total_cmp);
            let rate = entry.and_then(|entry| Some(entry.images as f64 / entry.epoch()?));
            let step = entry.and_then(|entry| entry.step_microseconds);
            text += &row(&[
                who.0.to_owned(),
                who.1.to_owned(),
                seconds.len().to_string(),
                epoch(who.0, batch, entry),
                fastest.map_or_else(String::new, milliseconds),
                rate.map_or_else(String::new, |rate| format!("{rate:.0}")),
                step.map_or_else(String::new, |step| format!("{step:.1} us")),
                accuracy(entry),
            ]);
        }
    }
    let mut failures = String::new();
    for entry in results.ours.iter().chain(&results.peers) {
        if let Some(error) = &entry.error {
            let first = error.lines().next().unwrap_or_default();
            let Entry { name, precision, batch, .. } = entry;
            let _ = writeln!(failures, "- {name}, {precision}, batches of {batch}: {first}");
        }
    }
    let failures = if failures.is_empty() { "Nothing.\n" } else { &failures };
    let _ = write!(text, "\n## What failed or was left out\n\n{failures}");
    text
}

/// The images, and machine, date and commit of the figures.
pub fn provenance(results: &Results) -> String {
    let first = results.ours.iter().chain(&results.peers).find(|entry| entry.error.is_none());
    let data = first.map_or_else(String::new, |entry| {
        let which = if entry.data == "mnist" { "of MNIST" } else { "made up in MNIST's shape" };
        format!("{} images {which}; ", entry.images)
    });
    format!("{data}{}", results.provenance())
}

/// The median, or why there is none.
pub fn epoch(name: &str, batch: usize, entry: Option<&Entry>) -> String {
    match entry {
        Some(Entry { error: Some(error), .. }) if error.contains("left out") => "left out".to_owned(),
        Some(Entry { error: Some(_), .. }) => "failed".to_owned(),
        None if runs_graph(name, batch) => "runs `graph`".to_owned(),
        entry => entry.and_then(Entry::epoch).map_or_else(|| NOT_MEASURED.to_owned(), milliseconds),
    }
}

/// A time in its usual unit.
pub fn milliseconds(seconds: f64) -> String {
    if seconds < 10.0 { format!("{:.2} ms", 1e3 * seconds) } else { format!("{seconds:.1} s") }
}

/// The accuracy, if there is one.
fn accuracy(entry: Option<&Entry>) -> String {
    let accuracy = entry.and_then(|entry| entry.accuracy);
    accuracy.map_or_else(String::new, |accuracy| format!("{:.2} %", 100.0 * accuracy))
}
