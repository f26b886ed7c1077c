//! `cargo lab`: what judges the compiler against other compilers. A workspace of its own: nothing outside depends on it.
//! `cuda/lab/full.sh` runs everything.

mod differ;
mod ulp;

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::Context;
use clap::{Parser, Subcommand};

/// What judges the compiler.
#[derive(Parser)]
#[command(bin_name = "cargo lab", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Commands,
}

#[derive(Subcommand)]
enum Commands {
    /// Compare crates and random programs, compiled natively and to PTX, bit for bit
    Differ(differ::Differ),
    /// Pack the measurement of cuda_std's float functions for a GPU machine, or write its results to docs
    Ulp(ulp::Ulp),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Commands::Differ(command) => command.run(),
        Commands::Ulp(command) => command.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The root of this workspace.
fn lab() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The root of the repository.
fn root() -> &'static Path {
    lab().ancestors().nth(2).unwrap_or(Path::new("."))
}

fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}
