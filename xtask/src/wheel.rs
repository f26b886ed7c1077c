//! `cargo xtask wheel`: builds the Python package `ferrowarp`, and tests it in a new virtual environment.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use clap::Args;

use crate::package::{prebuilt, run};
use crate::workspace;

/// The largest wheel, in bytes.
const MOST_BYTES: u64 = 30_000_000;

/// Build the Python package, one file with the kernels for every GPU
#[derive(Args)]
pub struct Wheel {
    /// Install it into a new virtual environment, and run its tests there
    #[arg(long)]
    test: bool,
    /// Install these packages for the tests too, such as torch
    #[arg(long, value_name = "PACKAGE", value_delimiter = ',', requires = "test")]
    with: Vec<String>,
}

impl Wheel {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<()> {
        let kernels = prebuilt()?;
        let tools = venv(&workspace::target().join("tools/python"))?;
        run(pip(&tools).arg("maturin>=1.9,<2"))?;
        let (project, out) = (workspace::root().join("host/python"), workspace::target().join("wheels"));
        if out.exists() {
            std::fs::remove_dir_all(&out).with_context(|| format!("emptying {}", out.display()))?;
        }
        let mut maturin = Command::new(tools.with_file_name("maturin"));
        maturin.args(["build", "--release", "--quiet", "--locked", "--out"]).arg(&out);
        maturin.current_dir(&project).env("FERROWARP_PREBUILT", &kernels);
        // What is measured with the wheel names it.
        maturin.env("FERROWARP_COMMIT", workspace::commit()?);
        run(&mut maturin)?;
        let built = workspace::files(&out, &|path| path.extension().is_some_and(|kind| kind == "whl"))?;
        let [wheel] = &built[..] else { anyhow::bail!("{} holds {} wheels", out.display(), built.len()) };
        let bytes = wheel.metadata().with_context(|| format!("reading {}", wheel.display()))?.len();
        println!("{bytes} bytes: {}", workspace::shown(wheel));
        ensure!(bytes <= MOST_BYTES, "{} has more than {MOST_BYTES} bytes", wheel.display());
        if self.test { self.test(&project, wheel) } else { Ok(()) }
    }

    fn test(&self, project: &Path, wheel: &Path) -> anyhow::Result<()> {
        let folder = tempfile::tempdir().context("making a temporary folder")?;
        let python = venv(&folder.path().join("venv"))?;
        run(pip(&python).arg(wheel).arg("pytest").args(&self.with))?;
        run(Command::new(&python).args(["-m", "ferrowarp"]).current_dir(folder.path()))?;
        let mut pytest = Command::new(&python);
        pytest.args(["-m", "pytest", "-q", "-p", "no:cacheprovider"]).arg(project.join("tests"));
        run(pytest.current_dir(folder.path()))
    }
}

/// Makes a virtual environment, unless it is there, and returns its Python.
fn venv(folder: &Path) -> anyhow::Result<PathBuf> {
    let python = folder.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    if !python.exists() {
        run(Command::new(if cfg!(windows) { "python" } else { "python3" }).args(["-m", "venv"]).arg(folder))
            .context("Python 3.10 or later is needed")?;
    }
    Ok(python)
}

/// `pip install`, without its notes.
fn pip(python: &Path) -> Command {
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    pip
}
