//! The README's table of figures, computed from the files in `docs/results`. `cargo xtask report` writes it.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context;

use crate::measure;
use crate::report::contests;
use crate::report::matmul;
use crate::report::mlp;
use crate::report::softmax::operations::OPERATIONS;
use crate::report::softmax::tables::{microseconds, percent};
use crate::report::softmax::targets::geometric_mean;
use crate::report::softmax::{self, Contest, PEERS};
use crate::report::{self, row, times};
use crate::workspace;

/// The shape with times in the table: every operation is timed at it.
const SHAPE: (usize, usize) = (4096, 12_672);

/// The types that the peers are timed with.
const DTYPES: [&str; 2] = ["f32", "bf16"];

/// PyTorch without its compiler, in a column of its own.
const EAGER: &str = "torch eager";

/// The minimum number of shapes that a peer must be timed at to be the closest one.
const FEWEST_SHAPES: usize = 10;

/// Writes the table between `<!-- figures -->` and `<!-- /figures -->` in the README.
pub fn update_readme() -> anyhow::Result<()> {
    let path = workspace::root().join("README.md");
    let text = std::fs::read_to_string(&path).context("reading README.md")?;
    let table = section(&workspace::root().join("docs/results"))?;
    let text = measure::with_section("README.md", &text, "figures", &table)?;
    workspace::write(&path, &text)
}

/// The table, from the results in `folder`.
fn section(folder: &Path) -> anyhow::Result<String> {
    let softmax = softmax::Results::read(&folder.join("softmax.json"))?;
    let mlp = mlp::Results::read(&folder.join("mlp.json"))?;
    let header = ["operation", "time", "bandwidth", "PyTorch", "closest other peer"];
    let mut text = row(&header.map(str::to_owned));
    text += &row(&["---", "---:", "---:", "---:", "---:"].map(str::to_owned));
    let contests = softmax.contests();
    for operation in &OPERATIONS {
        text += &row_of(operation.name, &contests);
    }
    let matmul =
        report::merged(folder, "matmul")?.first().map(|path| matmul::Results::read(path)).transpose()?;
    text += &multiplication(matmul.as_ref());
    let provenance = |machine: &str, date: &str, commit: &str| {
        format!("{machine}, {date}, commit {}", commit.get(..7).unwrap_or(commit))
    };
    let mut pages = String::new();
    for subject in [&contests::ATTENTION, &contests::NORM, &contests::AXIS] {
        let Some(path) = report::merged(folder, subject.name)?.into_iter().next() else { continue };
        let results = contests::Results::read(&path)?;
        let rows = contests::readme_rows(subject, &results);
        if rows.is_empty() {
            continue;
        }
        text += &rows;
        let _ = write!(
            pages,
            " {}: {} ([all figures](docs/results/{}.md)).",
            subject.title,
            provenance(&results.machine, &results.date, &results.commit),
            report::stem(subject.name, &results.machine)
        );
    }
    text += &training(&mlp);
    let (rows, cols) = SHAPE;
    let _ = writeln!(
        text,
        "\nTime: one `f32` matrix of {rows} x {cols} with a cold L2; from `matmul` on, `bf16` of the shape in the row; training: one \
         epoch of MNIST in batches of {}. Bandwidth: relative to the fastest copy, or the rate itself. Peers: their time divided by \
         ours, geometric mean over all shapes that both ran: `f32` / `bf16`, from attention on `bf16` / `f32`. Operations: {} ([all figures](docs/results/softmax.md)).{}{pages} Training: {} \
         ([all figures](docs/results/mlp.md)). Written by `cargo xtask report`.",
        mlp::USUAL,
        provenance(&softmax.machine, &softmax.date, &softmax.commit),
        matmul.as_ref().map_or_else(String::new, |matmul| format!(
            " `matmul`: `bf16` / `f16`; {} ([all figures](docs/results/{}.md)).",
            provenance(&matmul.machine, &matmul.date, &matmul.commit),
            report::stem("matmul", &matmul.machine)
        )),
        provenance(&mlp.machine, &mlp.date, &mlp.commit),
    );
    let mut others = Vec::new();
    for (report, what) in [
        ("softmax", "operations"),
        ("matmul", "products"),
        ("attention", "attention"),
        ("norm", "norms"),
        ("axis", "sums"),
        ("mlp", "training"),
    ] {
        for path in report::merged(folder, report)?.iter().skip(1) {
            let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            let gpu = stem.trim_start_matches(report).trim_start_matches('-').to_uppercase();
            others.push(format!("[{what} on an {gpu}](docs/results/{stem}.md)"));
        }
    }
    if !others.is_empty() {
        // On the line of the paragraph.
        text.truncate(text.trim_end().len());
        let _ = writeln!(text, " Other GPUs: {}.", others.join(", "));
    }
    Ok(text)
}

/// The row of an operation on rows of a matrix.
fn row_of(op: &str, contests: &[Contest<'_>]) -> String {
    let of_op: Vec<&Contest<'_>> = contests.iter().filter(|contest| contest.op == op).collect();
    let Some(shown) = of_op.iter().find(|c| c.dtype == "f32" && (c.rows, c.cols) == SHAPE) else {
        return row(&[format!("`{op}`"), "not measured".into(), String::new(), String::new(), String::new()]);
    };
    let leads = |peer: &str| {
        DTYPES.map(|dtype| {
            let of_type = of_op.iter().filter(|c| c.dtype == dtype);
            of_type.filter_map(|c| c.lead_over(c.peer(peer))).collect::<Vec<f64>>()
        })
    };
    let means = |peer: &str| leads(peer).map(|leads| times(geometric_mean(&leads))).join(" / ");
    let others =
        PEERS.into_iter().filter(|(name, _)| *name != EAGER && leads(name)[0].len() >= FEWEST_SHAPES);
    let mean = |name: &str| geometric_mean(&leads(name)[0]).unwrap_or(f64::INFINITY);
    let closest = others.min_by(|(a, _), (b, _)| mean(a).total_cmp(&mean(b)));
    row(&[
        format!("`{op}`"),
        microseconds(shown.ours),
        percent(shown.share_of_copy()),
        means(EAGER),
        closest.map_or_else(String::new, |(name, shown)| format!("{shown} {}", means(name))),
    ])
}

/// The square matrices with times in the table.
const SQUARE: [usize; 3] = [8192; 3];

/// The row of matrix multiplication. Its means are over `bf16` and `f16`.
fn multiplication(results: Option<&matmul::Results>) -> String {
    let name = "`matmul`, bf16 8192^3".to_owned();
    let contests = |dtype| results.map_or_else(Vec::new, |results| results.contests(dtype));
    let of_type = contests("bf16");
    let shown = of_type.iter().map(|contest| contest.ours).find(|entry| entry.extents() == SQUARE);
    let Some((microseconds, rate)) = shown.and_then(|entry| Some((entry.microseconds?, entry.tflops()?)))
    else {
        return row(&[name, "not measured".into(), String::new(), String::new(), String::new()]);
    };
    let means = |peer: &str| {
        let leads =
            |dtype| contests(dtype).iter().filter_map(|contest| contest.lead(peer)).collect::<Vec<f64>>();
        let means = ["bf16", "f16"].map(|dtype| geometric_mean(&leads(dtype)));
        means.into_iter().flatten().map(|mean| times(Some(mean))).collect::<Vec<_>>().join(" / ")
    };
    let others = matmul::PEERS.into_iter().filter(|(name, _)| *name != "torch");
    let timed = others.filter_map(|(name, shown)| {
        let leads: Vec<f64> = of_type.iter().filter_map(|contest| contest.lead(name)).collect();
        Some((geometric_mean(&leads).filter(|_| leads.len() >= FEWEST_SHAPES)?, name, shown))
    });
    let closest = timed.min_by(|a, b| a.0.total_cmp(&b.0));
    row(&[
        name,
        softmax::tables::time(microseconds),
        format!("{rate:.0} TFLOP/s"),
        means("torch"),
        closest.map_or_else(String::new, |(_, name, shown)| format!("{shown} {}", means(name))),
    ])
}

/// The row of training: our fastest rung against the peers of the same precision.
fn training(results: &mlp::Results) -> String {
    let batch = mlp::USUAL;
    let ours = results.fastest(batch);
    let eager = results.entry((EAGER, "f32"), batch).and_then(mlp::Entry::epoch);
    let peers = results.peers.iter().filter(|peer| peer.batch == batch && peer.precision == "f32");
    let others = peers.filter(|peer| peer.name != EAGER);
    let timed = others.filter_map(|peer| Some((peer.name.as_str(), peer.epoch()?)));
    let closest = timed.min_by(|(_, a), (_, b)| a.total_cmp(b));
    let lead = |peer: Option<f64>| times(peer.zip(ours).map(|(peer, ours)| peer / ours));
    row(&[
        "training".to_owned(),
        ours.map_or_else(|| "not measured".to_owned(), mlp::tables::milliseconds),
        String::new(),
        lead(eager),
        closest.map_or_else(String::new, |(name, epoch)| format!("{name} {}", lead(Some(epoch)))),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_holds_the_merged_figures() {
        let readme = std::fs::read_to_string(workspace::root().join("README.md")).unwrap();
        let table = section(&workspace::root().join("docs/results")).unwrap();
        let again = measure::with_section("README.md", &readme, "figures", &table).unwrap();
        assert!(
            again == readme,
            "README.md lacks the figures of docs/results; run `cargo xtask report figures`"
        );
    }

    #[test]
    fn an_operation_without_a_time_has_a_row() {
        assert_eq!(row_of("sample", &[]), "| `sample` | not measured |  |  |  |\n");
    }
}
