//! `cargo xtask bundle`: puts everything that a run on a GPU machine needs into one folder; the machine needs no Rust.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use xtask_ptx::build_ptx::BuildPtx;

use crate::workspace;

/// The programs in the bundle.
const PROGRAMS: [&str; 4] = ["train-mnist", "predict", "self-check", "gallery"];

/// Their packages.
const PACKAGES: [&str; 3] = ["ferrowarp-mnist", "ferrowarp-self-check", "ferrowarp-benches"];

/// Packages and programs for measuring.
const MEASURING: ([&str; 3], [&str; 3]) = (
    ["ferrowarp-mnist", "ferrowarp-self-check", "ferrowarp-benches"],
    ["train-mnist", "self-check", "gallery"],
);

/// Examples of `cust`, and their names in the bundle.
const EXAMPLES: [(&str, &str); 2] = [("vecadd", "cust-vecadd"), ("host_api", "cust-host-api")];

/// The benches and the scripts of their peers, under their names in `run.sh`.
const BENCHES: [(&str, &str); 8] = [
    ("softmax", "bench-softmax"),
    ("mlp", "bench-mlp"),
    ("matmul", "bench-matmul"),
    ("attention", "bench-attention"),
    ("norm", "bench-norm"),
    ("axis", "bench-axis"),
    ("random", "bench-random"),
    ("collective", "bench-collective"),
];
const PEERS: [(&str, &str); 10] = [
    ("benches/peers/softmax.py", "peers_softmax.py"),
    ("benches/peers/mnist.py", "peers_mnist.py"),
    ("benches/peers/gallery.py", "peers_gallery.py"),
    ("benches/peers/matmul.py", "peers_matmul.py"),
    ("benches/peers/attention.py", "peers_attention.py"),
    ("benches/peers/norm.py", "peers_norm.py"),
    ("benches/peers/axis.py", "peers_axis.py"),
    ("benches/peers/random_problems.py", "peers_random.py"),
    ("benches/peers/accuracy.py", "peers_accuracy.py"),
    ("benches/peers/collective.py", "peers_collective.py"),
];

/// Modules that those scripts import, under their own names.
const PEER_MODULES: [(&str, &str); 4] = [
    ("benches/peers/softmax_kernels.py", "softmax_kernels.py"),
    ("benches/peers/matmul_kernels.py", "matmul_kernels.py"),
    ("benches/peers/timing.py", "timing.py"),
    ("benches/peers/turns.py", "turns.py"),
];

/// The bundle's `run.sh`, which runs on the GPU machine.
const RUN_SCRIPT: &str = include_str!("bundle_run.sh");

/// Pack programs, PTX, MNIST and a script that checks and measures everything on a GPU machine
#[derive(clap::Args)]
pub struct Bundle {
    /// Output folder; its content is replaced
    #[arg(long, value_name = "DIR", default_value = "target/bundle")]
    out: PathBuf,

    /// Pack only what the measuring steps need, for this machine's GPU, or for compute_90 without a GPU
    #[arg(long)]
    measure_only: bool,
}

impl Bundle {
    /// Runs the command.
    pub fn run(&self) -> anyhow::Result<()> {
        let mnist = mnist_files(&workspace::root().join("data/mnist"))?;
        // Built here, so that the PTX is from the commit that the bundle names.
        let (build_ptx, ptx) = BuildPtx::for_kernels();
        if self.measure_only { build_ptx.natively() } else { build_ptx }.run()?;
        let mut others = Vec::new();
        if !self.measure_only {
            for (build, folder) in [BuildPtx::for_kernels_by_llvm(), BuildPtx::for_faults()] {
                build.run()?;
                others.push(folder);
            }
        }
        let (packages, programs) = if self.measure_only {
            (&MEASURING.0[..], &MEASURING.1[..])
        } else {
            (&PACKAGES[..], &PROGRAMS[..])
        };
        let status = cargo(&["build", "--release", "--bins"])
            .args(packages.iter().flat_map(|package| ["--package", package]))
            .status()
            .context("starting cargo to build the programs")?;
        ensure!(status.success(), "building the programs failed");
        if !self.measure_only {
            let status = cargo(&["build", "--release", "--examples", "--package", "ferrowarp-cust"]).status();
            ensure!(
                status.context("starting cargo to build the examples")?.success(),
                "building the examples failed"
            );
        }
        let benches = BENCHES.iter().map(|(bench, _)| build_bench(bench));
        let benches: Vec<PathBuf> = benches.collect::<anyhow::Result<_>>()?;

        let out = workspace::root().join(&self.out);
        if out.exists() {
            std::fs::remove_dir_all(&out).with_context(|| format!("emptying {}", out.display()))?;
        }
        std::fs::create_dir_all(out.join("data")).with_context(|| format!("making {}", out.display()))?;
        for program in programs {
            copy(&workspace::target().join("release").join(program), &out.join(program))?;
        }
        if !self.measure_only {
            for (example, name) in EXAMPLES {
                copy(&workspace::target().join("release/examples").join(example), &out.join(name))?;
            }
        }
        for ((_, name), bench) in BENCHES.iter().zip(benches) {
            copy(&bench, &out.join(name))?;
        }
        for (script, name) in PEERS.into_iter().chain(PEER_MODULES) {
            copy(&workspace::root().join(script), &out.join(name))?;
        }
        copy_modules(&ptx, &out)?;
        // In separate folders: `self-check faults` searches one, and run.sh makes the programs search the other.
        for folder in &others {
            copy_modules(folder, &out.join(folder.file_name().context("the PTX has no folder")?))?;
        }
        for file in mnist {
            copy_into(&file, &out.join("data"))?;
        }
        compress(&out.join("data"))?;
        std::fs::write(out.join("COMMIT"), workspace::commit()? + "\n").context("writing COMMIT")?;
        std::fs::write(out.join("run.sh"), RUN_SCRIPT).context("writing run.sh")?;
        println!("packed into {}; on the GPU machine: bash run.sh OUTPUT_FOLDER [STEP...]", out.display());
        Ok(())
    }
}

/// The four files of MNIST in `folder`.
///
/// # Errors
/// Some are missing. This is checked before anything is compiled.
fn mnist_files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let is_idx = |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().contains("idx"));
    let files = if folder.is_dir() { workspace::files(folder, &is_idx)? } else { Vec::new() };
    ensure!(
        files.len() >= 4,
        "{} has {} of the 4 files of MNIST; fetch them with `cargo run --release --bin train-mnist -- --epochs 1`",
        workspace::shown(folder),
        files.len()
    );
    Ok(files)
}

fn cargo(arguments: &[&str]) -> Command {
    let mut command = workspace::cargo();
    command.args(arguments).current_dir(workspace::root());
    command
}

/// Builds a bench. Returns cargo's path of it.
fn build_bench(bench: &str) -> anyhow::Result<PathBuf> {
    let arguments = ["bench", "--no-run", "--package", "ferrowarp-benches", "--bench", bench];
    let mut build = cargo(&arguments);
    build.arg("--message-format=json-render-diagnostics").stderr(Stdio::inherit());
    let output = build.output().context("starting cargo to build the bench")?;
    ensure!(output.status.success(), "building the bench {bench} failed");
    executable(bench, &String::from_utf8_lossy(&output.stdout))
        .with_context(|| format!("cargo built no bench named {bench}"))
}

/// The executable of a bench among cargo's messages, which are JSON, one per line.
fn executable(bench: &str, messages: &str) -> Option<PathBuf> {
    let artifacts = messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut benches = artifacts
        .filter(|message| message["target"]["name"] == bench && message["target"]["kind"][0] == "bench");
    benches.find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

/// Copies the PTX and the machine code of all architectures, as `build-ptx` wrote them.
fn copy_modules(from: &Path, to: &Path) -> anyhow::Result<()> {
    let is_module =
        |path: &Path| path.extension().is_some_and(|extension| extension == "ptx" || extension == "cubin");
    let files = workspace::files(from, &is_module)?;
    ensure!(!files.is_empty(), "`build-ptx` has left no PTX in {}", from.display());
    std::fs::create_dir_all(to).with_context(|| format!("making {}", to.display()))?;
    files.iter().try_for_each(|file| copy_into(file, to))
}

/// Compresses the data to a fifth of its size; train-mnist reads it compressed.
fn compress(folder: &Path) -> anyhow::Result<()> {
    let files = workspace::files(folder, &|path| path.extension().is_none_or(|extension| extension != "gz"))?;
    let status = Command::new("gzip").arg("--best").args(&files).status().context("starting gzip")?;
    ensure!(status.success(), "compressing the data in {} failed", folder.display());
    Ok(())
}

fn copy_into(file: &Path, folder: &Path) -> anyhow::Result<()> {
    let name = file.file_name().with_context(|| format!("{} has no name", file.display()))?;
    copy(file, &folder.join(name))
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    std::fs::copy(from, to).with_context(|| format!("copying {} to {}", from.display(), to.display()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bench_is_found_among_cargos_messages() {
        let messages = r#"{"reason":"compiler-artifact","target":{"name":"softmax","kind":["lib"]},"executable":null}
{"reason":"compiler-artifact","target":{"name":"softmax","kind":["bench"]},"executable":"/target/softmax-1"}
{"reason":"build-finished","success":true}"#;
        assert_eq!(executable("softmax", messages).unwrap(), Path::new("/target/softmax-1"));
        assert_eq!(executable("mlp", messages), None);
    }

    #[test]
    fn a_folder_without_mnist_is_refused_with_the_command_that_fetches_it() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("mnist");
        for (files, found) in [(&[][..], 0), (&["train-images-idx3-ubyte.gz", "notes.txt"][..], 1)] {
            for file in files {
                std::fs::create_dir_all(&missing).unwrap();
                std::fs::write(missing.join(file), "").unwrap();
            }
            let error = mnist_files(&missing).unwrap_err().to_string();
            assert!(error.contains(&format!("has {found} of the 4 files")), "{error}");
            assert!(error.ends_with("`cargo run --release --bin train-mnist -- --epochs 1`"), "{error}");
        }
    }

    #[test]
    fn the_script_runs_what_is_packed() {
        for (_, bench) in BENCHES {
            assert!(RUN_SCRIPT.contains(&format!("./{bench} --bench")), "{bench}");
        }
        for (_, script) in PEERS {
            assert!(RUN_SCRIPT.contains(&format!("python3 {script} --out")), "{script}");
        }
        let imports = |text: &str, name: &str| {
            let module = name.strip_suffix(".py").unwrap();
            text.contains(&format!("import {module}\n")) || text.contains(&format!("from {module} import "))
        };
        for (module, name) in PEER_MODULES {
            let text = |script: &str| std::fs::read_to_string(workspace::root().join(script)).unwrap();
            assert!(PEERS.iter().any(|(script, _)| imports(&text(script), name)), "{name}");
            assert!(!text(module).is_empty(), "{module}");
        }
        for program in PROGRAMS {
            assert!(RUN_SCRIPT.contains(&format!("./{program} ")), "{program}");
        }
        for (_, example) in EXAMPLES {
            assert!(RUN_SCRIPT.contains(&format!("./{example}\n")), "{example}");
        }
    }
}
