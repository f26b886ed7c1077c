//! `cargo xtask report accuracy`: writes the errors of every operation against `f64` on a CPU and on a GPU, and of PyTorch on the
//! same GPU, into `docs/results/accuracy.md`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::ensure;

use crate::report::{Files, Results, Run, Timed, or_empty, stale, table};
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

#[derive(clap::Args)]
pub struct Merged {
    #[command(flatten)]
    files: Files,

    /// What `self-check --device cpu random --json` wrote
    #[arg(long, value_name = "FILE")]
    cpu: Option<PathBuf>,
}

/// The fields that tell the rows of the page apart. The entry without an operation has the facts of the run.
const ROW: [&str; 3] = ["operation", "types", "layout"];

/// Runs the command.
pub fn run(merged: &Merged) -> anyhow::Result<()> {
    let folder = workspace::root().join("docs/results");
    let [on_gpu, on_cpu] = FILES.map(|name| folder.join(name));
    if let Some(results) = merged.files.runs::<Timed>()? {
        results.write(&on_gpu)?;
    }
    if let Some(path) = &merged.cpu {
        Results::<Timed>::merge(Run::read(path)?, None)?.write(&on_cpu)?;
    }
    let [on_gpu, on_cpu] = [on_gpu, on_cpu].map(|path| Results::read_and_date(&path, &SOURCES));
    workspace::write(&folder.join("accuracy.md"), &page(&on_gpu?, &on_cpu?)?)?;
    println!("written to docs/results/accuracy.md");
    Ok(())
}

/// The sentence about a run's problems. Refuses a run with wrong ones.
fn problems(results: &Results) -> anyhow::Result<String> {
    let facts = results.ours.iter().find(|entry| entry.text("operation").is_empty());
    let [problems, wrong, refused, seed] = ["problems", "wrong", "refused", "seed"]
        .map(|field| facts.and_then(|entry| entry.figure(field)).unwrap_or(0.0));
    let machine = &results.machine;
    ensure!(wrong == 0.0, "{wrong} of the {problems} problems on {machine} are wrong; fix them first");
    Ok(format!(
        "{}: {problems} random problems of seed {seed}, all right; for {refused} of them the device has no kernel, as documented.",
        results.provenance(),
    ))
}

pub fn page(on_gpu: &Results, on_cpu: &Results) -> anyhow::Result<String> {
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
        problems(on_gpu)?,
        problems(on_cpu)?
    );
    for results in [on_gpu, on_cpu] {
        let note = stale::note(&results.changed_since);
        if !note.is_empty() {
            page += &format!("\n{} {note}\n", results.machine);
        }
    }
    let mut operations: BTreeMap<String, BTreeMap<Vec<String>, [Option<&Timed>; 3]>> = BTreeMap::new();
    for (column, entries) in [&on_cpu.ours, &on_gpu.ours, &on_gpu.peers].into_iter().enumerate() {
        for entry in entries.iter().filter(|entry| !entry.text("operation").is_empty()) {
            let rows = operations.entry(entry.text("operation")).or_default();
            rows.entry(entry.of(&ROW[1..])).or_default()[column] = Some(entry);
        }
    }
    let header = ["types", "layout", "CPU", "GPU", "PyTorch", "bias, CPU", "bias, GPU", "bias, PyTorch"];
    for (name, rows) in operations {
        let rows = rows.into_iter().map(|(names, entries)| {
            let digits = |entry: &Timed, field: &str| digits(entry.number(field));
            let errors = entries
                .map(|it| or_empty(it, |it| format!("{} ({})", digits(it, "mean"), digits(it, "largest"))));
            let biases = entries.map(|it| or_empty(it, |it| digits(it, "bias")));
            [names, errors.to_vec(), biases.to_vec()].concat()
        });
        page += &format!("\n## {name}\n\n{}", table(&header, 2, &rows.collect::<Vec<_>>()));
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
