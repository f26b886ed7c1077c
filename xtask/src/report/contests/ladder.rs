//! The ladder of attention: its figures in `docs/results`, and its table on `docs/attention-ladder.md`.

use std::path::PathBuf;

use anyhow::ensure;

use super::{ATTENTION, Entry, Merged, Results, check};
use crate::report::softmax::tables::time;
use crate::report::{Run, row, times};
use crate::{measure, workspace};

/// The page in `docs`.
const PAGE: &str = "attention-ladder.md";
/// The file in `docs/results`.
const FILE: &str = "ladder-attention.json";

/// The files to merge.
#[derive(clap::Args)]
pub struct WithLadder {
    #[command(flatten)]
    merged: Merged,

    /// A run that timed the rungs of the ladder, for docs/attention-ladder.md: the attention.json of `cargo bench attention`, or what
    /// benches/peers/attention.py wrote
    #[arg(long, value_name = "FILE")]
    ladder: Option<PathBuf>,
}

impl WithLadder {
    /// Runs the command.
    pub fn run(&self) -> anyhow::Result<()> {
        let path = workspace::root().join("docs/results").join(FILE);
        if let Some(run) = &self.ladder {
            let results = read(Run::read(run)?)?;
            check(&ATTENTION, &results)?;
            results.write(&path)?;
        }
        let results = if path.exists() { Some(Results::read_and_date(&path, &SOURCES)?) } else { None };
        for (name, section) in sections(results.as_ref()) {
            measure::update_page(PAGE, name, &section)?;
        }
        println!("written to docs/{PAGE}");
        super::run(&ATTENTION, &self.merged)
    }
}

/// The sources of the measured code.
const SOURCES: [&str; 1] = ["gpu-kernels/ladders/src/attention"];

/// The problem of the page: fields and values.
const AT: [(&str, &str); 8] = [
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

/// The memory traffic of a rung.
struct Rung {
    name: &'static str,
    /// Bytes written and read per element of the matrix of queries and keys.
    matrix: f64,
    /// Queries per tile. Each tile reads all keys and values of its head.
    queries: f64,
}

const RUNGS: [Rung; 7] = [
    Rung { name: "r01_matrix", matrix: 16.0, queries: 1.0 },
    Rung { name: "r02_online", matrix: 0.0, queries: 64.0 },
    Rung { name: "r03_mma_sync", matrix: 0.0, queries: 64.0 },
    Rung { name: "r04_wgmma", matrix: 0.0, queries: 64.0 },
    Rung { name: "r05_specialised", matrix: 0.0, queries: 128.0 },
    Rung { name: "r06_overlap", matrix: 0.0, queries: 128.0 },
    Rung { name: "r07_persistent", matrix: 0.0, queries: 128.0 },
];

/// The results of a run, with the entries at the page's problem.
fn read(run: Run<Entry>) -> anyhow::Result<Results> {
    let mut entries = run.entries;
    entries
        .retain(|entry| entry.dtype == "bf16" && AT.iter().all(|(field, value)| entry.text(field) == *value));
    let is_rung = |entry: &Entry| RUNGS.iter().any(|rung| rung.name == entry.name);
    ensure!(
        entries.iter().any(is_rung),
        "the run has no rung of the ladder; run `cargo bench attention -- 4x4096x16x16x128` on a GPU"
    );
    Results::merge(Run { entries, ..run }, None)
}

/// The sections of the page.
fn sections(results: Option<&Results>) -> [(&'static str, String); 2] {
    let measured = results.map_or_else(
        || "Not measured yet.\n".to_owned(),
        |results| format!("Measured on: {}.\n", results.provenance()),
    );
    [("measured", measured), ("rungs", table(results))]
}

/// A row for each rung, and one for the operation if it was timed.
fn table(results: Option<&Results>) -> String {
    let header =
        ["rung", "matrix", "K and V", "operations", "time", "TFLOP/s", "times as fast as the rung before"];
    let mut text = row(&header.map(str::to_owned));
    text += &row(&["---", "---:", "---:", "---:", "---:", "---:", "---:"].map(str::to_owned));
    let entry = |name: &str| results?.ours.iter().find(|entry| entry.name == name);
    let seconds = |name: &str| entry(name)?.microseconds;
    let measured = |name: &str| match (entry(name), seconds(name)) {
        (None, _) => ["not measured yet".to_owned(), String::new()],
        (Some(_), None) => ["failed".to_owned(), String::new()],
        (Some(_), Some(microseconds)) => {
            let rate = operations() / microseconds / 1e6;
            [time(microseconds), if rate < 99.5 { format!("{rate:.1}") } else { format!("{rate:.0}") }]
        }
    };
    for (i, Rung { name, matrix, queries }) in RUNGS.iter().enumerate() {
        let [time, rate] = measured(name);
        let below = i.checked_sub(1).and_then(|below| seconds(RUNGS[below].name));
        let step = below.zip(seconds(name)).map(|(below, own)| below / own);
        let keys = HEADS * (LENGTH / queries) * 2.0 * LENGTH * SIZE * 2.0;
        text += &row(&[
            format!("`{name}`"),
            gigabytes(matrix * HEADS * LENGTH * LENGTH),
            gigabytes(keys),
            format!("{:.2e}", operations()),
            time,
            rate,
            times(step),
        ]);
    }
    if entry("attention").is_some() {
        let [time, rate] = measured("attention");
        let last = seconds(RUNGS[RUNGS.len() - 1].name);
        let step = last.zip(seconds("attention")).map(|(last, own)| last / own);
        let empty = String::new;
        text += &row(&["the operation".to_owned(), empty(), empty(), empty(), time, rate, times(step)]);
    }
    text
}

/// The operations of the two multiplications.
fn operations() -> f64 {
    4.0 * HEADS * LENGTH * LENGTH * SIZE
}

fn gigabytes(bytes: f64) -> String {
    if bytes == 0.0 { "none".to_owned() } else { format!("{:.1} GB", bytes / 1e9) }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// The output of a run, with times of these contenders.
    fn run(times: &[(&str, f64)]) -> Run<Entry> {
        let entries: Vec<String> = times
            .iter()
            .map(|(name, time)| {
                format!(
                    "{{\"name\":\"{name}\",\"dtype\":\"bf16\",\"batch\":4,\"queries\":4096,\"length\":4096,\"heads\":16,\
                     \"key_heads\":16,\"head_size\":128,\"causal\":false,\"backward\":false,\"inputs\":\"normal\",\
                     \"microseconds\":{time}}}"
                )
            })
            .collect();
        let text = format!(
            "{{\"machine\":\"NVIDIA H100\",\"driver\":\"580\",\"date\":\"2026-11-27\",\"commit\":\"0123456789\",\"entries\":[{}]}}",
            entries.join(",")
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn without_a_run_the_table_has_the_predictions() {
        let [(_, measured), (_, table)] = sections(None);
        assert_eq!(measured, "Not measured yet.\n");
        for line in [
            "| `r01_matrix` | 17.2 GB | 549.8 GB | 5.50e11 | not measured yet |  |  |",
            "| `r05_specialised` | none | 4.3 GB | 5.50e11 | not measured yet |  |  |",
        ] {
            assert!(table.contains(line), "{line}\n{table}");
        }
    }

    #[test]
    fn a_run_fills_the_table() {
        let times = [
            ("r05_specialised", 2000.0),
            ("r06_overlap", 1000.0),
            ("r07_persistent", 900.0),
            ("attention", 900.0),
        ];
        let results = read(run(&times)).unwrap();
        let [(_, measured), (_, table)] = sections(Some(&results));
        assert!(measured.contains("NVIDIA H100, driver 580"), "{measured}");
        for line in [
            "| `r01_matrix` | 17.2 GB | 549.8 GB | 5.50e11 | not measured yet |  |  |",
            "| `r06_overlap` | none | 4.3 GB | 5.50e11 | 1000.0 us | 550 | 2.00 x |",
            "| the operation |  |  |  | 900.0 us | 611 | 1.00 x |",
        ] {
            assert!(table.contains(line), "{line}\n{table}");
        }
        // The page has a place for each section.
        let page = std::fs::read_to_string(workspace::root().join("docs").join(PAGE)).unwrap();
        for (name, section) in sections(Some(&results)) {
            measure::with_section(PAGE, &page, name, &section).unwrap();
        }
    }

    #[test]
    fn a_run_without_rungs_is_refused() {
        let error = read(run(&[("attention", 900.0)])).unwrap_err().to_string();
        assert!(error.contains("no rung"), "{error}");
    }

    /// Each rung has a file of its name.
    #[test]
    fn the_rungs_are_those_of_the_kernels() {
        let is_rung =
            |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('r'));
        let files = workspace::files(&workspace::root().join(SOURCES[0]), &is_rung).unwrap();
        let mut names: Vec<String> =
            files.iter().filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect();
        names.sort();
        assert_eq!(names, RUNGS.map(|rung| rung.name));
    }
}
