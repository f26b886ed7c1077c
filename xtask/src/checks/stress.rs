//! `cargo xtask stress`: every kernel under shuffled schedules of the CPU executor.

use std::process::{Command, ExitStatus};

use anyhow::{Context, bail};
use clap::Args;

use crate::workspace;

/// Run every kernel under shuffled schedules of the CPU executor, and compare with the fixed order bit for bit
#[derive(Args)]
pub struct Stress {
    /// Number of seeds
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// The first seed: decimal, or hexadecimal after 0x
    #[arg(long, default_value = "0")]
    first: String,
    /// Only run kernels whose name contains NAME
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
}

impl Stress {
    /// Runs the command.
    pub fn run(&self) -> anyhow::Result<()> {
        let build = ["build", "--release", "--bin", "self-check"];
        let built = status(workspace::cargo().args(build).current_dir(workspace::root()))?;
        if !built.success() {
            bail!("self-check could not be built ({built})");
        }
        let mut check = Command::new(workspace::target().join("release/self-check"));
        check.arg("--seeds").arg(self.seeds.to_string()).arg("--first").arg(&self.first);
        check.args(self.only.iter().flat_map(|name| ["--only", name]));
        let checked = status(&mut check)?;
        if !checked.success() {
            bail!("a kernel depends on the schedule, or the check could not run; see above ({checked})");
        }
        Ok(())
    }
}

/// Runs a command with inherited output.
fn status(command: &mut Command) -> anyhow::Result<ExitStatus> {
    // Every run of self-check chooses its own seeds.
    command.env_remove("FERROWARP_SEED").status().with_context(|| format!("starting {command:?}"))
}
