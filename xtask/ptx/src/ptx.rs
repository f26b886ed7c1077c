//! `cargo xtask ptx`: runs the checks of build-ptx on the last build, without building.

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;

use crate::report::{self, Report};
use crate::{checks, workspace};

/// Check the last built PTX against the `//@ ptx:` lines of the sources
#[derive(Args)]
pub struct Ptx {
    /// Folder of the PTX files [default: ptx in the target directory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Ptx {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<()> {
        let folder = self.dir.unwrap_or_else(|| workspace::target().join("ptx"));
        let report = Report::read(&folder.join(report::FILE)).context("run `cargo xtask build-ptx` first")?;
        let kernels = [workspace::root().join("gpu-kernels")];
        let mut failures = checks::run(&kernels, &report.files(&folder))?;
        failures.extend(report.local_memory(&checks::allowed(&kernels)?));
        failures.extend(report.serialized_wgmma());
        print!("{}", report.table());
        if !failures.is_empty() {
            bail!("{} checks of the PTX failed:\n  {}", failures.len(), failures.join("\n  "));
        }
        Ok(())
    }
}
