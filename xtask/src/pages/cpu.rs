//! Training on this machine's CPU, ours and its peers', on `docs/cpu.md`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};

use crate::pages::training;
use crate::report::{Run, Timed, update_page};
use crate::workspace::{self, median, output};

/// Train on this machine's CPU, and the same in JAX, and write docs/cpu.md; without --runs, write it again
#[derive(clap::Args)]
pub struct Measured {
    /// Runs per program, in turns; the figures are medians
    #[arg(long, default_value_t = 0)]
    runs: usize,

    /// Epochs per run
    #[arg(long, default_value_t = 5)]
    epochs: u32,

    /// Also build burn and candle, which takes long, and train with them
    #[arg(long)]
    rust_peers: bool,
}

/// The Python peer, pinned so that a ratio can be measured again.
const JAX: &str = "jax==0.10.2";

/// The Rust peers, whose workspace pins their dependencies, and the names of their frameworks.
const RUST: [(&str, &str); 2] = [("peer-burn", "burn"), ("peer-candle", "candle-core")];

/// The stored results of a measurement.
#[derive(Serialize, Deserialize)]
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
    peers: Vec<Figures>,
    /// Whether they include the peers in Rust.
    has_rust_peers: bool,
    transcript: Vec<String>,
}

/// Medians over the epochs and runs of one contender.
#[derive(Serialize, Deserialize)]
struct Figures {
    #[serde(default = "own_name")]
    name: String,
    epoch_seconds: f64,
    fastest_epoch_seconds: f64,
    test_accuracy: f64,
}

fn own_name() -> String {
    "Ferrowarp, the CUDA kernels on the SIMT executor".to_owned()
}

/// A contender's name, epoch times and final accuracies so far.
type Samples = (String, Vec<f64>, Vec<f64>);

fn figures((name, mut seconds, accuracies): Samples) -> anyhow::Result<Figures> {
    seconds.sort_by(f64::total_cmp);
    let fastest = *seconds.first().with_context(|| format!("{name} ran no epoch"))?;
    let (epoch_seconds, test_accuracy) = (median(seconds)?, median(accuracies)?);
    Ok(Figures { name, epoch_seconds, fastest_epoch_seconds: fastest, test_accuracy })
}

impl Measured {
    /// Runs the command.
    pub fn run(&self) -> anyhow::Result<()> {
        let path = workspace::root().join("docs/results/mnist-cpu.json");
        if self.runs > 0 {
            let json =
                serde_json::to_string_pretty(&self.measure()?).context("writing the results as JSON")?;
            workspace::write(&path, &(json + "\n"))?;
        }
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let results = serde_json::from_str(&text).with_context(|| format!("reading {}", path.display()))?;
        update_page("docs/cpu.md", "mnist-cpu", &section(&results))?;
        println!("written to docs/cpu.md");
        Ok(())
    }

    fn measure(&self) -> anyhow::Result<Results> {
        let trainer = workspace::build_trainer()?;
        let mut peers = vec![(vec![python()?, workspace::root().join("benches/peers/mnist.py")], "jax")];
        peers[0].0.extend(["--device", "cpu", "--peers", "jax"].map(PathBuf::from));
        if self.rust_peers {
            peers.extend(build_rust()?);
        }
        let mut all: Vec<Samples> = vec![(own_name(), Vec::new(), Vec::new())];
        let mut transcript = String::new();
        for run in 1..=self.runs {
            println!("run {run} of {}", self.runs);
            transcript = self.train(&trainer, &mut all[0])?;
            for (program, framework) in &peers {
                for (name, seconds, accuracy) in self.train_peer(program, framework)? {
                    let place = all.iter().position(|(known, ..)| *known == name).unwrap_or(all.len());
                    if place == all.len() {
                        all.push((name, Vec::new(), Vec::new()));
                    }
                    all[place].1.extend(seconds);
                    all[place].2.push(accuracy);
                }
            }
        }
        let mut all = all.into_iter().map(figures);
        Ok(Results {
            machine: workspace::machine()?,
            vectors: vectors().to_owned(),
            cores: workspace::cores(),
            date: workspace::date()?,
            commit: workspace::commit()?,
            epochs: self.epochs,
            runs: self.runs,
            ours: all.next().context("nothing was trained")??,
            peers: all.collect::<anyhow::Result<_>>()?,
            has_rust_peers: self.rust_peers,
            transcript: transcript.lines().map(str::to_owned).collect(),
        })
    }

    /// Runs our training once. Returns its output.
    fn train(&self, trainer: &Path, samples: &mut Samples) -> anyhow::Result<String> {
        let (root, metrics) = (workspace::root(), workspace::target().join("measure.jsonl"));
        let mut command = Command::new(trainer);
        command.current_dir(root).args(["--device", "cpu", "--epochs", &self.epochs.to_string()]);
        command.arg("--metrics").arg(&metrics).arg("--plot").arg(root.join("docs/mnist-cpu.svg"));
        // The reader's checkout is elsewhere.
        let transcript = output(&mut command)?.replace(&format!("{}/", root.display()), "");
        let lines = std::fs::read_to_string(&metrics).context("reading the metrics of the run")?;
        let lines = lines.lines().map(serde_json::from_str);
        let epochs: Vec<ferrowarp_report::EpochRecord> =
            lines.collect::<Result<_, _>>().context("reading the metrics of the run")?;
        samples.1.extend(epochs.iter().map(|epoch| epoch.seconds));
        samples.2.extend(epochs.last().map(|epoch| epoch.test_accuracy));
        Ok(transcript)
    }

    /// Runs a peer once.
    fn train_peer(
        &self,
        program: &[PathBuf],
        framework: &str,
    ) -> anyhow::Result<Vec<(String, Vec<f64>, f64)>> {
        let file = workspace::target().join(format!("measure-{framework}.json"));
        let mut command = Command::new(&program[0]);
        command.args(&program[1..]).arg("--data").arg(workspace::root().join("data/mnist"));
        command.args(["--epochs", &self.epochs.to_string(), "--batches", &training::USUAL.to_string()]);
        output(command.arg("--out").arg(&file))?;
        of_peer(Run::read(&file)?, framework)
    }
}

/// The figures of a peer's run, each with name and version, seconds and accuracy.
pub fn of_peer(run: Run<Timed>, framework: &str) -> anyhow::Result<Vec<(String, Vec<f64>, f64)>> {
    let version = run.versions.get(framework).map_or("of an unknown version", String::as_str);
    let figures = run.entries.iter().map(|entry| {
        let name = &entry.name;
        ensure!(entry.error.is_none(), "{name} failed: {}", entry.error.as_deref().unwrap_or_default());
        let accuracy = entry.figure("accuracy").with_context(|| format!("{name} reports no accuracy"))?;
        Ok((format!("{name}, {version}"), training::epochs(entry), accuracy))
    });
    let figures: Vec<_> = figures.collect::<anyhow::Result<_>>()?;
    ensure!(!figures.is_empty(), "the run of {framework} holds no figures");
    Ok(figures)
}

/// Finds a Python with JAX, or creates one in the target directory.
fn python() -> anyhow::Result<PathBuf> {
    let folder = workspace::target().join("ferrowarp-tools").join(JAX);
    let python = folder.join("bin/python3");
    if output(Command::new(&python).args(["-c", "import jax"])).is_err() {
        println!("installing {JAX} into {}", workspace::shown(&folder));
        output(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
        output(Command::new(&python).args(["-m", "pip", "install", "--quiet", JAX]))?;
    }
    Ok(python)
}

/// Builds the Rust programs. They have a separate workspace and target folder.
fn build_rust() -> anyhow::Result<Vec<(Vec<PathBuf>, &'static str)>> {
    let target = workspace::target().join("peers-rust");
    println!("building burn and candle into {}", workspace::shown(&target));
    let mut build = workspace::cargo();
    build.args(["build", "--release", "--locked", "--manifest-path", "cuda/lab/peers/Cargo.toml"]);
    output(build.arg("--target-dir").arg(&target).current_dir(workspace::root()))?;
    Ok(RUST.map(|(program, framework)| (vec![target.join("release").join(program)], framework)).into())
}

/// The widest vectors of this processor.
fn vectors() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    {
        let widest =
            [("AVX-512", is_x86_feature_detected!("avx512f")), ("AVX2", is_x86_feature_detected!("avx2"))];
        widest.iter().find(|(_, is_there)| *is_there).map_or("SSE", |(name, _)| name)
    }
    #[cfg(not(target_arch = "x86_64"))]
    "unknown vectors"
}

fn section(results: &Results) -> String {
    let Results { machine, vectors, cores, date, commit, epochs, runs, ours, peers, has_rust_peers, .. } =
        results;
    let row = |it: &Figures| {
        let accuracy = 100.0 * it.test_accuracy;
        let Figures { name, epoch_seconds, fastest_epoch_seconds, .. } = it;
        format!("| {name} | {epoch_seconds:.2} s | {fastest_epoch_seconds:.2} s | {accuracy:.2} % |\n")
    };
    // Other load on the machine disturbs only the medians.
    let ratios = peers.iter().map(|peer| {
        let median = ours.epoch_seconds / peer.epoch_seconds;
        let fastest = ours.fastest_epoch_seconds / peer.fastest_epoch_seconds;
        format!("{median:.2} times that of {} (fastest epochs: {fastest:.2} times)", peer.name)
    });
    format!(
        "```text\n$ cargo run --release --bin train-mnist -- --device cpu --metrics target/measure.jsonl \\\n    \
         --plot docs/mnist-cpu.svg\n{}\n```\n\n![Loss and accuracy](mnist-cpu.svg)\n\n\
         | on the CPU, batch 64 | an epoch, median | fastest | test accuracy |\n| --- | --- | --- | --- |\n{}{}\n\
         Our median is {}. {machine} ({vectors}), {cores} cores, {date}, commit {commit}; {runs} runs of {epochs} epochs each, \
         in turns (`cargo xtask report cpu --runs {runs}{}`). The output above is that of one run; the table is over all runs.\n",
        results.transcript.join("\n"),
        row(ours),
        peers.iter().map(row).collect::<String>(),
        ratios.collect::<Vec<_>>().join(", "),
        if *has_rust_peers { " --rust-peers" } else { "" },
    )
}
