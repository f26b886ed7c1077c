//! `cargo xtask measure`: times training on this machine's CPU, for our code and its peers, and writes `docs/cpu.md`.

mod peers;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::measure::peers::Peer;
use crate::workspace;

/// The page in `docs` with the figures.
const PAGE: &str = "cpu.md";

/// Compare training on the CPU with the same training in JAX, and write docs/cpu.md
#[derive(clap::Args)]
pub struct Measure {
    /// Epochs per run
    #[arg(long, default_value_t = 5)]
    epochs: u32,

    /// Runs per program, interleaved; the figures are medians
    #[arg(long, default_value_t = 3)]
    runs: usize,

    /// Also build burn and candle, which takes long, and train with them
    #[arg(long)]
    rust_peers: bool,
}

/// The stored results of a measurement.
#[derive(Serialize)]
struct Results {
    machine: String,
    /// The widest vectors of the processor; a peer that is compiled at run time may use wider ones than ours.
    vectors: String,
    cores: usize,
    date: String,
    commit: String,
    epochs: u32,
    runs: usize,
    ours: Figures,
    peers: Vec<PeerFigures>,
    /// Whether they include the peers in Rust.
    has_rust_peers: bool,
    transcript: Vec<String>,
}

/// Medians over the epochs and runs of one contestant.
#[derive(Serialize)]
struct Figures {
    epoch_seconds: f64,
    fastest_epoch_seconds: f64,
    test_accuracy: f64,
}

/// The figures of a peer.
#[derive(Serialize)]
struct PeerFigures {
    name: String,
    #[serde(flatten)]
    figures: Figures,
    /// Our median epoch over the peer's.
    ratio: f64,
}

/// A line of `train-mnist --metrics`.
#[derive(Deserialize)]
struct EpochLine {
    seconds: f64,
    test_accuracy: f64,
}

/// Epoch times and final accuracies so far.
#[derive(Default)]
struct Samples {
    seconds: Vec<f64>,
    accuracies: Vec<f64>,
}

impl Samples {
    fn figures(mut self) -> anyhow::Result<Figures> {
        self.seconds.sort_by(f64::total_cmp);
        Ok(Figures {
            fastest_epoch_seconds: *self.seconds.first().context("no epoch was run; ask for at least one")?,
            epoch_seconds: median(self.seconds)?,
            test_accuracy: median(self.accuracies)?,
        })
    }
}

impl Measure {
    /// Runs the command.
    pub fn run(&self) -> anyhow::Result<()> {
        ensure!(self.epochs > 0 && self.runs > 0, "nothing to measure; give at least one epoch and one run");
        let docs = workspace::root().join("docs");
        std::fs::create_dir_all(docs.join("results")).context("making the folder docs/results")?;
        let (trainer, peers) = (build_trainer()?, peers::all(self.rust_peers)?);
        let mut ours = Samples::default();
        let mut others: Vec<(String, Samples)> = Vec::new();
        // The median epoch of each run, and its output.
        let mut transcripts: Vec<(f64, String)> = Vec::new();
        for run in 1..=self.runs {
            println!("run {run} of {}", self.runs);
            let before = ours.seconds.len();
            let transcript = self.train(&trainer, &docs, &mut ours)?;
            transcripts.push((median(ours.seconds[before..].to_vec())?, transcript));
            for peer in &peers {
                self.train_peer(peer, &mut others)?;
            }
        }
        let ours = ours.figures()?;
        // The page shows the run that is closest to the median.
        transcripts
            .sort_by(|a, b| (a.0 - ours.epoch_seconds).abs().total_cmp(&(b.0 - ours.epoch_seconds).abs()));
        let transcript = transcripts.into_iter().next().map(|(_, text)| text).unwrap_or_default();
        let others = others.into_iter().map(|(name, samples)| {
            let figures = samples.figures()?;
            Ok(PeerFigures { name, ratio: ours.epoch_seconds / figures.epoch_seconds, figures })
        });
        let results = Results {
            machine: machine()?,
            vectors: vectors().to_owned(),
            cores: std::thread::available_parallelism().map_or(1, Into::into),
            date: date()?,
            commit: commit()?,
            epochs: self.epochs,
            runs: self.runs,
            peers: others.collect::<anyhow::Result<_>>()?,
            ours,
            has_rust_peers: self.rust_peers,
            transcript: transcript.lines().map(str::to_owned).collect(),
        };
        let path = docs.join("results/mnist-cpu.json");
        let json = serde_json::to_string_pretty(&results).context("writing the results as JSON")?;
        workspace::write(&path, &(json + "\n"))?;
        update_page(PAGE, "mnist-cpu", &section(&results))?;
        println!(
            "{:.2} s an epoch{}; written to {} and docs/{PAGE}",
            results.ours.epoch_seconds,
            results.peers.iter().map(|peer| ratio(&results.ours, peer)).collect::<String>(),
            workspace::shown(&path)
        );
        Ok(())
    }

    /// Runs our training once. Returns its output.
    fn train(&self, trainer: &Path, docs: &Path, samples: &mut Samples) -> anyhow::Result<String> {
        let metrics = workspace::target().join("measure.jsonl");
        let mut command = Command::new(trainer);
        command.current_dir(workspace::root()).args(["--device", "cpu"]);
        command.arg("--epochs").arg(self.epochs.to_string());
        command.arg("--metrics").arg(&metrics).arg("--plot").arg(docs.join("mnist-cpu.svg"));
        // The reader's checkout is elsewhere.
        let transcript = output(&mut command)?.replace(&format!("{}/", workspace::root().display()), "");
        let lines = std::fs::read_to_string(&metrics).context("reading the metrics of the run")?;
        let mut last = None;
        for line in lines.lines() {
            let epoch: EpochLine = serde_json::from_str(line).context("reading a line of the metrics")?;
            samples.seconds.push(epoch.seconds);
            last = Some(epoch.test_accuracy);
        }
        samples.accuracies.extend(last);
        Ok(transcript)
    }

    /// Runs a peer once, and adds its figures to those of its name.
    fn train_peer(&self, peer: &Peer, others: &mut Vec<(String, Samples)>) -> anyhow::Result<()> {
        for (name, seconds, accuracy) in peer.train(self.epochs)? {
            let place = others.iter().position(|(other, _)| *other == name).unwrap_or(others.len());
            if place == others.len() {
                others.push((name, Samples::default()));
            }
            let samples = &mut others[place].1;
            samples.seconds.extend(seconds);
            samples.accuracies.push(accuracy);
        }
        Ok(())
    }
}

/// Our time divided by the peer's, by medians and by the fastest epochs: other load on the machine disturbs only the first.
fn ratio(ours: &Figures, peer: &PeerFigures) -> String {
    let fastest = ours.fastest_epoch_seconds / peer.figures.fastest_epoch_seconds;
    format!(", {:.2} times that of {} (fastest epochs: {fastest:.2} times)", peer.ratio, peer.name)
}

/// Builds `train-mnist`. Returns its path.
pub fn build_trainer() -> anyhow::Result<PathBuf> {
    let mut command = workspace::cargo();
    command.args(["build", "--release", "--bin", "train-mnist"]).current_dir(workspace::root());
    output(&mut command)?;
    Ok(workspace::target().join("release/train-mnist"))
}

/// The processor's name.
pub fn machine() -> anyhow::Result<String> {
    let info = std::fs::read_to_string("/proc/cpuinfo").context("reading what processor this is")?;
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    Ok(model.map_or("an unknown processor", |(_, name)| name.trim()).to_owned())
}

/// The widest vectors of this processor.
fn vectors() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    {
        let found = [is_x86_feature_detected!("avx512f"), is_x86_feature_detected!("avx2")];
        ["AVX-512", "AVX2"]
            .into_iter()
            .zip(found)
            .find(|(_, is_there)| *is_there)
            .map_or("SSE", |(name, _)| name)
    }
    #[cfg(not(target_arch = "x86_64"))]
    "unknown vectors"
}

/// The current date, as in 2026-01-31.
pub fn date() -> anyhow::Result<String> {
    Ok(output(Command::new("date").args(["-u", "+%Y-%m-%d"]))?.trim().to_owned())
}

/// The commit, with a mark if the sources differ from it.
pub fn commit() -> anyhow::Result<String> {
    let git = |arguments: &[&str]| output(Command::new("git").args(arguments).current_dir(workspace::root()));
    let hash = git(&["rev-parse", "--short", "HEAD"])?.trim().to_owned();
    let sources = git(&["status", "--porcelain", "--", ".", ":!README.md", ":!docs"])?;
    Ok(if sources.is_empty() { hash } else { format!("{hash} with uncommitted changes") })
}

fn section(results: &Results) -> String {
    let Results { machine, vectors, cores, date, commit, epochs, runs, ours, peers, has_rust_peers, .. } =
        results;
    let row = |name: &str, figures: &Figures| {
        format!(
            "| {name} | {:.2} s | {:.2} s | {:.2} % |\n",
            figures.epoch_seconds,
            figures.fastest_epoch_seconds,
            100.0 * figures.test_accuracy
        )
    };
    format!(
        "```text\n$ cargo run --release --bin train-mnist -- --device cpu --metrics target/measure.jsonl \\\n    \
         --plot docs/mnist-cpu.svg\n{}\n```\n\n![Loss and accuracy](mnist-cpu.svg)\n\n\
         | on the CPU, batch 64 | an epoch, median | fastest | test accuracy |\n| --- | --- | --- | --- |\n{}{}\n\
         Our median{}. {machine} ({vectors}), {cores} cores, {date}, commit {commit}; {runs} runs of {epochs} epochs each, \
         in turns (`cargo xtask measure{}`). The output above is that of one run; the table is over all runs.\n",
        results.transcript.join("\n"),
        row("Ferrowarp, the CUDA kernels on the SIMT executor", ours),
        peers.iter().map(|peer| row(&peer.name, &peer.figures)).collect::<String>(),
        peers.iter().map(|peer| ratio(ours, peer)).collect::<String>().replacen(", ", " is ", 1),
        if *has_rust_peers { " --rust-peers" } else { "" },
    )
}

/// Replaces the text between `<!-- NAME -->` and `<!-- /NAME -->` in `page`, a file in `docs`.
pub fn update_page(page: &str, name: &str, section: &str) -> anyhow::Result<()> {
    let page = format!("docs/{page}");
    let path = workspace::root().join(&page);
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {page}"))?;
    let text = with_section(&page, &text, name, section)?;
    workspace::write(&path, &text)
}

/// The document's `text` with `section` between the markers of `name`.
pub fn with_section(document: &str, text: &str, name: &str, section: &str) -> anyhow::Result<String> {
    let (open, close) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
    let (Some(start), Some(end)) = (text.find(&open), text.find(&close)) else {
        bail!("{document} has no section {} ... {close}; put the two lines back", open.trim());
    };
    ensure!(start < end, "the section {name} of {document} ends before it begins");
    Ok(format!("{}{section}{}", &text[..start + open.len()], &text[end..]))
}

/// The median, or the mean of the two middle values.
pub fn median(mut values: Vec<f64>) -> anyhow::Result<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => bail!("no figure to take the median of"),
        n if n.is_multiple_of(2) => Ok((values[middle - 1] + values[middle]) / 2.0),
        _ => Ok(values[middle]),
    }
}

/// Runs a command and returns its output.
pub fn output(command: &mut Command) -> anyhow::Result<String> {
    let shown = format!("{command:?}");
    let output = command.output().with_context(|| format!("starting {shown}"))?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "{shown} failed ({}):\n{printed}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(printed)
}
