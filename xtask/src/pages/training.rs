//! Training on MNIST, rung by rung, and its peers.

use anyhow::ensure;
use serde_json::Value;

use crate::chart::{Chart, Panel};
use crate::pages::charts::bars;
use crate::pages::rows::TURNS;
use crate::pages::timelines;
use crate::report::peaks::{self, Check};
use crate::report::{Files, Results, Section, Subject, Timed, ladder, or_empty, stale, stem, table, times};
use crate::workspace;

/// The shown batches, the same as in `cargo bench mlp`.
const BATCHES: [usize; 4] = [16, 64, 256, 1024];

/// The batch of the ladder, the same as in `train-mnist`.
pub const USUAL: usize = 64;

/// Operations of 784-300-100-10 forward and backward, two per multiply-add: every weight takes part in the forward pass and
/// in its own gradient, and all except the first layer's in the gradient at their input.
const FLOPS_PER_IMAGE: f64 = 2.0 * (3.0 * (784.0 * 300.0 + 300.0 * 100.0 + 100.0 * 10.0) - 784.0 * 300.0);

/// The pages in `docs` with the short table, and of the ladder.
const PAGE: &str = "docs/training.md";
pub const LADDER: &str = "docs/training-ladder.md";

/// The precision of the rungs on the ladder's page.
const PRECISION: &str = "f32";

/// The engine's parts of this page; its tables have a contender in each row.
pub const MLP: Subject = Subject {
    name: "mlp",
    title: "Training",
    rows: &["batch", "precision"],
    check,
    sources: &["gpu-kernels/mlp/src", "host/mnist/src/model"],
    charts: &[("", "Time of an epoch", chart)],
    sections,
    page: Some(page),
    ..TURNS
};

/// Whether the rung `graph` runs instead of the one of this name, so that its figures are not its own: `resident` supports
/// batches of at most 64.
fn runs_graph(name: &str, batch: usize) -> bool {
    name == "resident" && batch > 64
}

/// Runs the command.
pub fn run(files: &Files) -> anyhow::Result<()> {
    let mut new: Option<Results> = files.runs()?;
    if let Some(results) = &mut new {
        results.ours.retain(|entry| !runs_graph(&entry.name, batch(entry)));
        check_data(results)?;
    }
    MLP.run(new)
}

/// The median seconds of an epoch.
pub fn epoch(entry: &Timed) -> Option<f64> {
    workspace::median(epochs(entry)).ok()
}

pub fn epochs(entry: &Timed) -> Vec<f64> {
    let seconds = entry.other.get("epoch_seconds").and_then(Value::as_array);
    seconds.into_iter().flatten().filter_map(Value::as_f64).collect()
}

fn batch(entry: &Timed) -> usize {
    entry.number("batch") as usize
}

/// The entry of a contender, ours or a peer, at a batch size.
pub fn entry<'a>(results: &'a Results, (name, precision): (&str, &str), at: usize) -> Option<&'a Timed> {
    let is_it =
        |entry: &&Timed| entry.name == name && entry.text("precision") == precision && batch(entry) == at;
    results.all().find(is_it)
}

/// Seconds of an epoch of the fastest of `entries` at a batch size, and its name; of one precision, or of all if it is empty.
pub fn fastest(entries: &[Timed], at: usize, precision: &str) -> Option<(f64, String)> {
    let is_here =
        |it: &&Timed| batch(it) == at && (precision.is_empty() || it.text("precision") == precision);
    let name = |it: &Timed| format!("{} {}", it.name, it.text("precision"));
    let timed = entries.iter().filter(is_here).filter_map(|it| Some((epoch(it)?, name(it))));
    timed.min_by(|a, b| a.0.total_cmp(&b.0))
}

fn check(results: &Results, check: &mut Check) {
    for entry in results.all() {
        let (Some(seconds), Some(peaks)) = (epoch(entry), peaks::of(&results.machine)) else { continue };
        let tflops = FLOPS_PER_IMAGE * entry.number("images") / seconds / 1e12;
        let precision = entry.text("precision");
        let peak = if precision == "f32" { peaks.fp32_tflops } else { peaks.tensor_tflops };
        let what = || format!("{}, {precision}, batches of {}", entry.name, batch(entry));
        check.rate(what, tflops, peak, "TFLOP/s");
    }
}

/// Checks that all trained on the same images.
pub fn check_data(results: &Results) -> anyhow::Result<()> {
    let mut ran = results.all().filter(|entry| entry.error.is_none());
    let of = |entry: &Timed| format!("{} images, {}", entry.text("images"), entry.text("data"));
    let Some(first) = ran.next() else { return Ok(()) };
    for other in ran {
        let (a, b) = (of(first), of(other));
        ensure!(
            a == b,
            "{} trained on {a}, {} on {b}; measure both on the same data",
            first.name,
            other.name
        );
    }
    Ok(())
}

/// Names and precisions, ours first.
fn contenders(results: &Results) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in results.all() {
        let who = (entry.name.clone(), entry.text("precision"));
        if !found.contains(&who) {
            found.push(who);
        }
    }
    found
}

/// The images, and machine, date and commit of the figures.
fn provenance(results: &Results) -> String {
    let first = results.all().find(|entry| entry.error.is_none());
    let data = first.map_or_else(String::new, |entry| {
        let which = if entry.text("data") == "mnist" { "of MNIST" } else { "made up in MNIST's shape" };
        format!("{} images {which}; ", entry.text("images"))
    });
    format!("{data}{}", results.provenance())
}

/// The median, or why there is none.
fn epoch_or_reason(name: &str, batch: usize, entry: Option<&Timed>) -> String {
    match entry.map(|entry| (epoch(entry), entry.error.as_deref())) {
        Some((_, Some(error))) if error.contains("left out") => "left out".to_owned(),
        Some((_, Some(_))) => "failed".to_owned(),
        Some((Some(seconds), None)) => milliseconds(seconds),
        None if runs_graph(name, batch) => "runs `graph`".to_owned(),
        _ => "not measured".to_owned(),
    }
}

/// A time in its usual unit.
pub fn milliseconds(seconds: f64) -> String {
    if seconds < 10.0 { format!("{:.2} ms", 1e3 * seconds) } else { format!("{seconds:.1} s") }
}

fn accuracy(entry: Option<&Timed>) -> String {
    or_empty(entry.and_then(|it| it.figure("accuracy")), |accuracy| format!("{:.2} %", 100.0 * accuracy))
}

fn step(entry: &Timed) -> String {
    or_empty(entry.figure("step_microseconds"), |step| format!("{step:.1} us"))
}

fn rate(entry: &Timed) -> String {
    or_empty(epoch(entry), |epoch| format!("{:.0}", entry.number("images") / epoch))
}

/// Every figure, and the failures.
fn page(results: &Results) -> anyhow::Result<String> {
    let note = stale::note(&results.changed_since);
    let mut text = format!(
        "# Training on an {}: all figures\n\n{}.{}{note}\n\nMedians and fastest epochs by the host's clock, with launches and the last \
         synchronisation. A step is one of the first hundred of an epoch, with the synchronisation after them. Written by `cargo \
         xtask report mlp`.\n\n![Time of an epoch](../{}.svg)\n",
        results.machine,
        provenance(results),
        if note.is_empty() { "" } else { " " },
        stem(MLP.name, &results.machine)
    );
    for batch in BATCHES {
        let rows = contenders(results).into_iter().filter_map(|(name, precision)| {
            let it = entry(results, (&name, &precision), batch)?;
            let fastest = epochs(it).into_iter().min_by(f64::total_cmp);
            let median = epoch_or_reason(&name, batch, Some(it));
            let fastest = or_empty(fastest, milliseconds);
            let count = epochs(it).len().to_string();
            Some(vec![name, precision, count, median, fastest, rate(it), step(it), accuracy(Some(it))])
        });
        let header = ["", "", "epochs", "median", "fastest", "images/s", "a step", "accuracy"];
        text += &format!("\n## Batches of {batch}\n\n{}", table(&header, 2, &rows.collect::<Vec<_>>()));
    }
    let failures = results
        .failures(|it| [format!(", {}, batches of {}", it.text("precision"), batch(it)), String::new()]);
    Ok(text + &failures)
}

fn sections(all: &[Results]) -> anyhow::Result<Vec<Section>> {
    let results = &all[0];
    let mut sections = ladder(LADDER, "rung ", results, |name, below| rung(results, name, below))?;
    let measured = format!("Measured on: {}.\n", provenance(results));
    sections.extend([
        (LADDER, "measured".to_owned(), measured),
        (LADDER, "article".to_owned(), article(results)),
        (PAGE, "mlp".to_owned(), section(results, &all[1..])),
    ]);
    sections.extend(timelines::sections(&timelines::read()?, results)?);
    Ok(sections)
}

/// The section of the page on training; `others` are the figures of other GPUs.
fn section(results: &Results, others: &[Results]) -> String {
    let header =
        ["an epoch in batches of", "", "16", "64", "256", "1024", "at 64, over our fastest", "accuracy"];
    let ours = fastest(&results.ours, USUAL, "").map(|(epoch, _)| epoch);
    let rows = contenders(results).into_iter().map(|(name, precision)| {
        let at = |batch| entry(results, (&name, &precision), batch);
        let ratio = at(USUAL).and_then(epoch).zip(ours).map(|(epoch, ours)| epoch / ours);
        let epochs = BATCHES.map(|batch| epoch_or_reason(&name, batch, at(batch)));
        let last = [times(ratio), accuracy(at(USUAL))];
        [&[name.clone(), precision.clone()][..], &epochs, &last].concat()
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let mut text = format!("![Time of an epoch, rung by rung](mlp.svg)\n\n{}", table(&header, 2, &rows));
    for other in others {
        let (machine, stem) = (&other.machine, stem(MLP.name, &other.machine));
        text += &format!("\nThe same on an {machine}: [results/{stem}.md](results/{stem}.md).\n");
    }
    let note = stale::note(&results.changed_since);
    text + &format!(
        "\nTimes are those of the host's clock, with launches and the last synchronisation. The accuracy is the one after \
         the last epoch of a run at 64. In batches of more than {USUAL}, `resident` runs `graph`. {}. Every figure is in \
         [results/mlp.md](results/mlp.md).{}{note}\n",
        provenance(results),
        if note.is_empty() { "" } else { " " }
    )
}

/// The table of one rung.
fn rung(results: &Results, name: &str, below: Option<&str>) -> String {
    let over = or_empty(below, |below| format!("times as fast as {below}"));
    let rows = BATCHES.iter().filter_map(|&batch| {
        let it = entry(results, (name, PRECISION), batch)?;
        let seconds = epoch(it)?;
        let before = below.and_then(|below| epoch(entry(results, (below, PRECISION), batch)?));
        let gain = times(before.map(|before| before / seconds));
        Some(vec![batch.to_string(), milliseconds(seconds), step(it), rate(it), gain])
    });
    let mut rows: Vec<Vec<String>> = rows.collect();
    if rows.is_empty() {
        rows.push(["not measured", "", "", "", ""].map(str::to_owned).to_vec());
    }
    table(&["batches of", "an epoch", "a step", "images/s", &over], 1, &rows)
}

/// The gain of the article's steps there, and of the same steps here. Its figures are from an RTX 3090 Ti.
fn article(results: &Results) -> String {
    let epoch = |name: &str, batch| epoch(entry(results, (name, PRECISION), batch)?);
    let [naive, fused, larger] =
        [("naive", 16), ("fused", 16), ("fused", 64)].map(|(name, batch)| epoch(name, batch));
    let steps = [
        ("before any of it, batches of 16 (`naive`)", "0.95 s", "", naive, None),
        (
            "kernels fused (`fused`, which also has tiles, fused updates and 3 launches a step in place of 18)",
            "half a second",
            "2 x",
            fused,
            naive,
        ),
        ("batches of 64 in place of 16", "a tenth of a second", "5 x", larger, fused),
    ];
    let rows = steps.map(|(what, theirs, bought, ours, before)| {
        let buys = before.zip(ours).map(|(before, ours)| before / ours);
        let ours = ours.map_or_else(|| "not measured".to_owned(), milliseconds);
        vec![what.to_owned(), theirs.to_owned(), bought.to_owned(), ours, times(buys)]
    });
    table(&["an epoch", "the article", "it bought", "here", "it buys"], 1, &rows)
}

/// The time of an epoch, rung by rung and peer by peer, one panel per batch size; all panels have one scale.
fn chart(results: &Results) -> anyhow::Result<String> {
    let all: Vec<f64> = results.all().filter_map(|it| Some(1e3 * epoch(it)?)).collect();
    let panels = BATCHES.iter().filter_map(|&at| {
        let mut panel = bars(results, "milliseconds of an epoch", &format!("batches of {at}"), |it| {
            let seconds = epoch(it).filter(|_| batch(it) == at)?;
            Some((format!("{} {}", it.name, it.text("precision")), 1e3 * seconds, milliseconds(seconds)))
        });
        if let Some(Panel::Bars(bars)) = &mut panel {
            bars.also.clone_from(&all);
        }
        panel
    });
    let [ours, peer] = [&results.ours, &results.peers].map(|entries| fastest(entries, USUAL, ""));
    let title = match (ours, peer) {
        (Some((ours, _)), Some((peer, name))) => format!(
            "An epoch in batches of {USUAL} takes {}; the fastest peer ({name}) takes {:.1} times as long",
            milliseconds(ours),
            peer / ours
        ),
        _ => "The time of an epoch".to_owned(),
    };
    let panels: Vec<Panel> = panels.collect();
    Ok(Chart { title, subtitle: results.subtitle("60000 images; "), columns: 1, panels }.svg()?)
}
