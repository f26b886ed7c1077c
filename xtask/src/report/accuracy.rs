//! `cargo xtask report accuracy`: writes the errors of every operation against `f64` on a CPU and on a GPU, and of PyTorch on the
//! same GPU, into `docs/results/accuracy.md`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::ensure;
use serde::{Deserialize, Serialize};

use crate::report::{self, Files, row, stale};
use crate::workspace;

/// The sources of the measured code.
const SOURCES: [&str; 6] = [
    "gpu-kernels/softmax/src",
    "gpu-kernels/matmul/src/operation",
    "gpu-kernels/attention/src",
    "gpu-kernels/norm/src",
    "gpu-kernels/axis/src",
    "host/cases/src/random",
];

/// The committed files in docs/results: of the GPU with its peers, and of the CPU.
const FILES: [&str; 2] = ["accuracy.json", "cpu-accuracy.json"];

type Results = report::Results<Entry>;

#[derive(clap::Args)]
pub struct Merged {
    #[command(flatten)]
    files: Files,

    /// What `self-check --device cpu random --json` wrote
    #[arg(long, value_name = "FILE")]
    cpu: Option<PathBuf>,
}

/// The errors of a class of problems in units in the last place; or, without an operation, the facts of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Entry {
    name: String,
    operation: String,
    types: String,
    layout: String,
    problems: u64,
    mean: f64,
    largest: f64,
    bias: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refused: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wrong: Option<u64>,
}

impl Entry {
    /// The row of the page that it belongs to.
    fn row(&self) -> [&str; 3] {
        [&self.operation, &self.types, &self.layout]
    }
}

impl report::Entry for Entry {
    const RUN: &'static str = "self-check random";

    fn is_replaced_by(&self, later: &Self) -> bool {
        (&self.name, self.row()) == (&later.name, later.row())
    }
}

/// Runs the command.
pub fn run(merged: &Merged) -> anyhow::Result<()> {
    let folder = workspace::root().join("docs/results");
    let [on_gpu, on_cpu] = FILES.map(|name| folder.join(name));
    if let Some(results) = merged.files.runs::<Entry>()? {
        results.write(&on_gpu)?;
    }
    if let Some(path) = &merged.cpu {
        Results::merge(report::Run::read(path)?, None)?.write(&on_cpu)?;
    }
    let [on_gpu, on_cpu] = [on_gpu, on_cpu].map(|path| Results::read_and_date(&path, &SOURCES));
    workspace::write(&folder.join("accuracy.md"), &page(&on_gpu?, &on_cpu?)?)?;
    println!("written to docs/results/accuracy.md");
    Ok(())
}

/// The sentence about a run's problems. Refuses a run with wrong ones.
fn told(results: &Results) -> anyhow::Result<String> {
    let facts = results.ours.iter().find(|entry| entry.operation.is_empty()).cloned().unwrap_or_default();
    let (wrong, refused) = (facts.wrong.unwrap_or(0), facts.refused.unwrap_or(0));
    ensure!(
        wrong == 0,
        "{wrong} of the {} problems on {} are wrong; fix them first",
        facts.problems,
        results.machine
    );
    Ok(format!(
        "{}: {} random problems of seed {}, all right; for {refused} of them the device has no kernel, as documented.",
        results.provenance(),
        facts.problems,
        facts.seed.unwrap_or(0)
    ))
}

fn page(on_gpu: &Results, on_cpu: &Results) -> anyhow::Result<String> {
    let mut page = format!(
        "# The errors of every operation against `f64`\n\n{}\n\n{}\n\n\
         The problems, their oracles and the tolerances are those of `host/cases/src/random`; `self-check random` runs them. \
         These figures are of problems with ordinary values and without options. The error of a problem is the Euclidean norm of \
         the errors relative to that of the results, in units in the last place of the results' type; of TF32, in units of its \
         11 bits. Each cell has the mean over the problems, and the largest in parentheses. The bias is the mean of the sums of \
         the errors away from 0, relative to the sums of the results' magnitudes, in the same units: negative is towards 0. \
         Maxima, minima, transposes, tokens and the indices of top-k are exact, and have no rows. \
         `benches/peers/accuracy.py` measures PyTorch at problems of the same distributions. Written by `cargo xtask report \
         accuracy`.\n",
        told(on_gpu)?,
        told(on_cpu)?
    );
    for results in [on_gpu, on_cpu] {
        let note = stale::note(&results.changed_since);
        if !note.is_empty() {
            page += &format!("\n{} {note}\n", results.machine);
        }
    }
    let mut rows: BTreeMap<[&str; 3], [Option<&Entry>; 3]> = BTreeMap::new();
    for (column, entries) in [&on_cpu.ours, &on_gpu.ours, &on_gpu.peers].into_iter().enumerate() {
        for entry in entries.iter().filter(|entry| !entry.operation.is_empty()) {
            rows.entry(entry.row()).or_default()[column] = Some(entry);
        }
    }
    let mut operation = "";
    for ([name, types, layout], entries) in rows {
        if name != operation {
            operation = name;
            page += &format!(
                "\n## {name}\n\n| types | layout | CPU | GPU | PyTorch | bias, CPU | bias, GPU | bias, PyTorch |\n\
                 | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n"
            );
        }
        let errors = entries.map(|entry| {
            entry.map_or_else(String::new, |it| format!("{} ({})", digits(it.mean), digits(it.largest)))
        });
        let biases = entries.map(|entry| entry.map_or_else(String::new, |it| digits(it.bias)));
        page += &row(
            &[[types.to_owned(), layout.to_owned()].to_vec(), errors.to_vec(), biases.to_vec()].concat()
        );
    }
    Ok(page)
}

/// Two digits, or a power of ten if it is tiny.
fn digits(number: f64) -> String {
    match number.abs() {
        0.0 => "0".to_owned(),
        tiny if tiny < 0.001 => format!("{number:.0e}"),
        small if small < 0.1 => format!("{number:.3}"),
        large if large >= 100.0 => format!("{number:.0}"),
        _ => format!("{number:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(wrong: u64) -> Results {
        let entry = |operation: &str, mean| Entry {
            name: "Ferrowarp".to_owned(),
            operation: operation.to_owned(),
            types: "bf16".to_owned(),
            layout: "dense".to_owned(),
            problems: 7,
            mean,
            largest: 0.5,
            bias: -0.00012,
            wrong: operation.is_empty().then_some(wrong),
            ..Entry::default()
        };
        let run = report::Run {
            machine: "a GPU".to_owned(),
            cpu: None,
            driver: "none".to_owned(),
            date: "today".to_owned(),
            commit: Some("0123456789".to_owned()),
            l2_bytes: None,
            versions: BTreeMap::new(),
            missing: BTreeMap::new(),
            entries: vec![entry("", 0.0), entry("softmax", 0.25), entry("top-k", 12.0)],
        };
        Results::merge(run, None).unwrap()
    }

    #[test]
    fn a_page_has_a_table_for_each_operation() {
        let page = page(&results(0), &results(0)).unwrap();
        let line = "| bf16 | dense | 0.25 (0.50) | 0.25 (0.50) |  | -1e-4 | -1e-4 |  |\n";
        assert!(
            page.contains("7 random problems") && page.contains(line) && page.contains("\n## top-k\n"),
            "{page}"
        );
    }

    #[test]
    fn a_run_with_wrong_problems_is_refused() {
        let error = page(&results(0), &results(2)).unwrap_err().to_string();
        assert_eq!(error, "2 of the 7 problems on a GPU are wrong; fix them first");
    }
}
