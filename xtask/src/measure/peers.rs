//! The peers of training on a CPU: Python with JAX, and the programs of `cuda/lab/peers`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::measure::output;
use crate::report::Run;
use crate::report::mlp::Entry;
use crate::workspace;

/// The Python peer, pinned so that a ratio can be measured again.
const JAX: &str = "jax==0.10.2";

/// The Rust peers, whose workspace pins their dependencies, and the names of their frameworks.
const RUST: [(&str, &str); 2] = [("peer-burn", "burn"), ("peer-candle", "candle-core")];

/// The size of a batch.
const BATCH: usize = 64;

/// A peer: a program that writes a file of figures.
pub struct Peer {
    /// The program with the arguments before the common ones.
    command: Vec<PathBuf>,
    /// Its framework, as named among the versions that it writes.
    framework: &'static str,
}

/// Installs and builds all peers; those in Rust only if `with_rust`.
pub fn all(with_rust: bool) -> anyhow::Result<Vec<Peer>> {
    let mut command = vec![python()?, workspace::root().join("benches/peers/mnist.py")];
    command.extend(["--device", "cpu", "--peers", "jax"].map(PathBuf::from));
    let mut peers = vec![Peer { command, framework: "jax" }];
    if with_rust {
        peers.extend(build_rust()?);
    }
    Ok(peers)
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
fn build_rust() -> anyhow::Result<Vec<Peer>> {
    let target = workspace::target().join("peers-rust");
    println!("building burn and candle into {}", workspace::shown(&target));
    let manifest = workspace::root().join("cuda/lab/peers/Cargo.toml");
    let mut build = workspace::cargo();
    build.args(["build", "--release", "--locked", "--manifest-path"]).arg(manifest);
    let status = build.arg("--target-dir").arg(&target).current_dir(workspace::root()).status();
    ensure!(
        status.context("starting cargo to build the peers")?.success(),
        "building the peers in Rust failed"
    );
    let peer = |(program, framework)| Peer { command: vec![target.join("release").join(program)], framework };
    Ok(RUST.map(peer).into())
}

impl Peer {
    /// Trains `epochs` epochs on MNIST. Returns for each entry a name with the version, the seconds of the epochs and the
    /// accuracy.
    ///
    /// # Errors
    /// The peer failed, or wrote no such figures.
    pub fn train(&self, epochs: u32) -> anyhow::Result<Vec<(String, Vec<f64>, f64)>> {
        let file = workspace::target().join(format!("measure-{}.json", self.framework));
        let (program, arguments) = self.command.split_first().context("a peer without a program")?;
        let mut command = Command::new(program);
        command.args(arguments).arg("--data").arg(workspace::root().join("data/mnist"));
        command.arg("--epochs").arg(epochs.to_string()).arg("--batches").arg(BATCH.to_string());
        output(command.arg("--out").arg(&file))?;
        figures(&file, self.framework)
    }
}

/// The figures in a file, each with name and version, seconds and accuracy.
fn figures(file: &Path, framework: &str) -> anyhow::Result<Vec<(String, Vec<f64>, f64)>> {
    let run = Run::<Entry>::read(file)?;
    let versions: &BTreeMap<String, String> = &run.versions;
    let version = versions.get(framework).map_or("of an unknown version", String::as_str);
    let figures = run.entries.into_iter().map(|entry| {
        let Entry { name, epoch_seconds, accuracy, error, .. } = entry;
        ensure!(error.is_none(), "{name} failed: {}", error.unwrap_or_default());
        let accuracy = accuracy.with_context(|| format!("{name} tells no accuracy"))?;
        Ok((format!("{name}, {version}"), epoch_seconds, accuracy))
    });
    let figures: Vec<_> = figures.collect::<anyhow::Result<_>>()?;
    ensure!(!figures.is_empty(), "{} holds no figures", file.display());
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(entries: &str) -> anyhow::Result<Vec<(String, Vec<f64>, f64)>> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("peer.json");
        let run = r#"{"machine": "CPU", "driver": "none", "date": "2000-01-02", "versions": {"jax": "1.2"}, "entries": "#;
        std::fs::write(&file, format!("{run}[{entries}]}}")).unwrap();
        figures(&file, "jax")
    }

    #[test]
    fn figures_come_with_the_version_and_failures_are_told() {
        let entry = r#"{"name": "JAX", "precision": "f32", "batch": 64, "data": "mnist", "images": 9"#;
        let figures = read(&format!(r#"{entry}, "epoch_seconds": [0.5, 0.25], "accuracy": 0.75}}"#)).unwrap();
        assert_eq!(figures, [("JAX, 1.2".to_owned(), vec![0.5, 0.25], 0.75)]);
        let error =
            read(&format!(r#"{entry}, "error": "ImportError: no module"}}"#)).unwrap_err().to_string();
        assert_eq!(error, "JAX failed: ImportError: no module");
        assert!(read(&format!("{entry}}}")).unwrap_err().to_string().contains("no accuracy"));
        assert!(read("").unwrap_err().to_string().contains("holds no figures"));
    }
}
