//! Attention, its gradients, and the rungs of its ladder.

use std::path::PathBuf;

use anyhow::ensure;

use crate::pages::rows::TURNS;
use crate::report::{Results, Run, Subject, Timed, Turns, number_of, table, time, times, update_page};
use crate::workspace;

/// Attention, and its gradients.
pub const ATTENTION: Subject = Subject {
    name: "attention",
    title: "Attention",
    about: "Queries, keys and values of normal random numbers. TFLOP/s counts the two products, or the five of the \
            gradients (`backward`), half of them of a causal mask, and with a sliding window (`window`) those with its keys. Our gradients \
            are added in a fixed order. Errors are of the last queries of the last head, against f64: the root of the mean \
            square of the differences, over that of the results. `large`: Q is 16 times as large. `dominant`: one key of each head has nearly all \
            the weight. The contenders of a problem take turns.",
    is_ours: |entry| entry.name == "attention",
    peers: &[
        ("sdpa", "PyTorch"),
        ("flash", "FlashAttention 2"),
        ("efficient", "memory-efficient"),
        ("cudnn", "cuDNN"),
        ("flex", "FlexAttention"),
        ("fa3", "FlashAttention 3"),
    ],
    tables: &["head_size", "causal", "window", "backward", "inputs"],
    rows: &["batch", "queries", "length", "heads", "key_heads"],
    unit: "TFLOP/s",
    work: |entry| {
        let (length, window) = (entry.number("length"), entry.number("window"));
        let window = if window > 0.0 { window } else { length };
        let keys =
            if entry.number("causal") > 0.0 { window - window * window / length / 2.0 } else { length };
        let heads = entry.number("batch") * entry.number("heads") * entry.number("head_size");
        let products = if entry.number("backward") > 0.0 { 5.0 } else { 2.0 };
        2.0 * products * heads * entry.number("queries") * keys / 1e3
    },
    sources: &["gpu-kernels/attention/src", "host/src/attention"],
    ..TURNS
};

/// The same with the code for compute capability 8.0, on a newer GPU.
pub const ATTENTION_80: Subject = Subject {
    name: "attention80",
    title: "Attention by the code for compute capability 8.0",
    about: "Ours is the PTX for compute capability 8.0 (`mma.sync`, `ldmatrix`, `cp.async`), which `FERROWARP_ARCH=compute_80` chooses. \
            FlashAttention 2 uses the same instructions; cuDNN has those of the GPU. Queries, keys and values of normal random numbers. \
            TFLOP/s counts the two products, or the five of the gradients (`backward`), half of them of a causal mask. Errors are of the \
            last queries of the last head, against f64: the root of the mean square of the differences, over that of the results. Our \
            gradients are added in a fixed order, those of FlashAttention 2 in any order. The shapes are drawn \
            (`benches/peers/attention.py --random`). The contenders of a problem take turns.",
    peers: &[("flash", "FlashAttention 2"), ("cudnn", "cuDNN")],
    groups: &[("few queries, up to 16", |entry| entry.number("queries") <= 16.0)],
    ..ATTENTION
};

/// The files to merge.
#[derive(clap::Args)]
pub struct Merged {
    #[command(flatten)]
    turns: Turns,

    /// A run that timed the rungs of the ladder, for docs/attention-ladder.md: the attention.json of `cargo bench attention`, or what
    /// benches/peers/attention.py wrote
    #[arg(long, value_name = "FILE")]
    ladder: Option<PathBuf>,
}

impl Merged {
    /// Runs the command.
    pub fn run(&self) -> anyhow::Result<()> {
        let path = workspace::root().join("docs/results/ladder-attention.json");
        if let Some(run) = &self.ladder {
            let results = read(Run::read(run)?)?;
            ATTENTION.check(&results)?;
            results.write(&path)?;
        }
        let results =
            if path.exists() { Some(Results::read_and_date(&path, &[RUNG_SOURCES])?) } else { None };
        for (name, section) in sections(results.as_ref()) {
            update_page(PAGE, name, &section)?;
        }
        println!("written to {PAGE}");
        ATTENTION.run(self.turns.runs(ATTENTION.is_ours)?)
    }
}

/// The page of the ladder.
pub const PAGE: &str = "docs/attention-ladder.md";

/// The sources of the rungs.
pub const RUNG_SOURCES: &str = "gpu-kernels/ladders/src/attention";

/// The problem of the page.
const AT: [(&str, &str); 9] = [
    ("dtype", "bf16"),
    ("batch", "4"),
    ("queries", "4096"),
    ("length", "4096"),
    ("heads", "16"),
    ("head_size", "128"),
    ("causal", "false"),
    ("backward", "false"),
    ("inputs", "normal"),
];
/// The same as numbers: heads of the whole batch, queries and keys of each, and elements of a row.
const HEADS: f64 = 4.0 * 16.0;
const LENGTH: f64 = 4096.0;
const SIZE: f64 = 128.0;
/// The operations of the two multiplications.
const OPERATIONS: f64 = 4.0 * HEADS * LENGTH * LENGTH * SIZE;

/// Each rung with the bytes that it writes and reads per element of the matrix of queries and keys, and the queries of its tiles.
/// A tile reads all keys and values of its head.
pub const RUNGS: [(&str, f64, f64); 7] = [
    ("r01_matrix", 16.0, 1.0),
    ("r02_online", 0.0, 64.0),
    ("r03_mma_sync", 0.0, 64.0),
    ("r04_wgmma", 0.0, 64.0),
    ("r05_specialised", 0.0, 128.0),
    ("r06_overlap", 0.0, 128.0),
    ("r07_persistent", 0.0, 128.0),
];

/// The results of a run, with the entries at the page's problem.
pub fn read(run: Run<Timed>) -> anyhow::Result<Results> {
    let mut entries = run.entries;
    entries.retain(|entry| entry.is_at(&AT));
    ensure!(
        entries.iter().any(Timed::is_rung),
        "the run has no rung of the ladder; run `cargo bench attention -- 4x4096x16x16x128` on a GPU"
    );
    Results::merge(Run { entries, ..run }, None)
}

/// The sections of the page.
pub fn sections(results: Option<&Results>) -> [(&'static str, String); 2] {
    let measured = results.map_or_else(
        || "Not measured yet.\n".to_owned(),
        |results| format!("Measured on: {}.\n", results.provenance()),
    );
    [("measured", measured), ("rungs", rungs(results))]
}

/// A row for each rung, and one for the operation if it was timed.
fn rungs(results: Option<&Results>) -> String {
    let header =
        ["rung", "matrix", "K and V", "operations", "time", "TFLOP/s", "times as fast as the rung before"];
    let entry = |name: &str| results?.ours.iter().find(|entry| entry.name == name);
    let seconds = |name: &str| entry(name)?.microseconds;
    let measured = |name: &str, before: Option<&str>| {
        let shown = match (entry(name), seconds(name)) {
            (None, _) => "not measured yet".to_owned(),
            (Some(_), None) => "failed".to_owned(),
            (Some(_), Some(microseconds)) => time(microseconds),
        };
        let step = before.and_then(seconds).zip(seconds(name)).map(|(before, own)| before / own);
        vec![shown, number_of(seconds(name).map(|own| OPERATIONS / own / 1e6)), times(step)]
    };
    let gigabytes =
        |bytes: f64| if bytes == 0.0 { "none".to_owned() } else { format!("{:.1} GB", bytes / 1e9) };
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (i, (name, matrix, queries)) in RUNGS.iter().enumerate() {
        let before = i.checked_sub(1).map(|before| RUNGS[before].0);
        let traffic = [
            format!("`{name}`"),
            gigabytes(matrix * HEADS * LENGTH * LENGTH),
            gigabytes(HEADS * (LENGTH / queries) * 2.0 * LENGTH * SIZE * 2.0),
            format!("{OPERATIONS:.2e}"),
        ];
        rows.push([&traffic[..], &measured(name, before)].concat());
    }
    if entry("attention").is_some() {
        let traffic = ["the operation", "", "", ""].map(str::to_owned);
        rows.push([&traffic[..], &measured("attention", Some(RUNGS[RUNGS.len() - 1].0))].concat());
    }
    table(&header, 1, &rows)
}
