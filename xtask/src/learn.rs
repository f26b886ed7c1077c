//! `cargo xtask learn`: the program of the package `ferrowarp-learn`, which `cargo xtask` starts without this package.

use std::ffi::OsString;

use anyhow::{Context, ensure};

use crate::workspace;

/// Solve puzzles: fill the hole in a kernel, and have it judged without a GPU
#[derive(clap::Args)]
pub struct Learn {
    /// `list`, `show`, `check`, `hint`, `watch`, `predict` or `reset`, and what they take
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl Learn {
    /// Runs the command.
    pub fn run(&self) -> anyhow::Result<()> {
        let mut command = workspace::cargo();
        command.args(["run", "--quiet", "--package", "ferrowarp-learn", "--"]).args(&self.arguments);
        let status = command.current_dir(workspace::root()).status().context("starting cargo")?;
        ensure!(status.success(), "the message is above");
        Ok(())
    }
}
