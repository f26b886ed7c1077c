//! `cargo xtask bundle`: everything a run on a GPU machine needs, in one folder that needs no Rust there.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::{measure, workspace};

/// The programs in the bundle.
const PROGRAMS: [&str; 3] = ["train-mnist", "predict", "self-check"];

/// What the bundle's `run.sh` does on the GPU machine.
const RUN_SCRIPT: &str = include_str!("bundle_run.sh");

/// Pack the programs, their PTX, the data and a script that checks and measures them, for a machine with a GPU
#[derive(clap::Args)]
pub struct Bundle {
    /// Folder to fill; what is in it is replaced
    #[arg(long, value_name = "DIR", default_value = "target/bundle")]
    out: PathBuf,
}

impl Bundle {
    /// Runs the command.
    pub fn run(&self) -> anyhow::Result<()> {
        let ptx = ptx_files()?;
        let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        build.args(["build", "--release", "--package", "ferrowarp", "--bins"]).current_dir(workspace::root());
        let status = build.status().context("starting cargo to build the programs")?;
        ensure!(status.success(), "building the programs failed");

        let out = workspace::root().join(&self.out);
        if out.exists() {
            std::fs::remove_dir_all(&out).with_context(|| format!("emptying {}", out.display()))?;
        }
        std::fs::create_dir_all(out.join("data")).with_context(|| format!("making {}", out.display()))?;
        for program in PROGRAMS {
            copy(&workspace::target().join("release").join(program), &out.join(program))?;
        }
        for file in ptx {
            copy_into(&file, &out)?;
        }
        let data = workspace::root().join("data/mnist");
        let is_idx = |path: &Path| path.to_string_lossy().contains("idx");
        let data_files = if data.is_dir() { workspace::files(&data, &is_idx)? } else { Vec::new() };
        ensure!(
            data_files.len() >= 4,
            "no MNIST in {}; run train-mnist once, which fetches it",
            workspace::shown(&data)
        );
        for file in data_files {
            copy_into(&file, &out.join("data"))?;
        }
        compress(&out.join("data"))?;
        std::fs::write(out.join("COMMIT"), measure::commit()? + "\n").context("writing COMMIT")?;
        std::fs::write(out.join("run.sh"), RUN_SCRIPT).context("writing run.sh")?;
        println!("packed into {}; on the GPU machine: bash run.sh OUTPUT_FOLDER", out.display());
        Ok(())
    }
}

/// The PTX of all architectures, as `build-ptx` wrote it.
fn ptx_files() -> anyhow::Result<Vec<PathBuf>> {
    let folder = workspace::target().join("ptx");
    let is_ptx = |path: &Path| path.extension().is_some_and(|extension| extension == "ptx");
    let files = if folder.is_dir() { workspace::files(&folder, &is_ptx)? } else { Vec::new() };
    ensure!(!files.is_empty(), "no PTX in {}; run `cargo xtask build-ptx` first", folder.display());
    Ok(files)
}

/// Compresses the data, which then are a fifth; train-mnist reads them so.
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
