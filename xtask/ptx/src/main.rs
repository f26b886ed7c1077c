//! `cargo xtask`: runs the commands of this package, and passes the others on to the package `xtask`.

use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};
use xtask_ptx::{build_ptx::BuildPtx, ptx::Ptx, workspace};

/// The commands of this package; the package `xtask` has all, and their help.
#[derive(Parser)]
#[command(bin_name = "cargo xtask", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Own,
}

#[derive(Subcommand)]
enum Own {
    /// Build the kernels to PTX, check it, and report what each kernel needs
    BuildPtx(BuildPtx),
    /// Check the PTX built last against the `//@ ptx:` headers of the sources
    Ptx(Ptx),
}

fn main() -> ExitCode {
    let is_own = std::env::args_os().nth(1).is_some_and(|name| name == "build-ptx" || name == "ptx");
    if !is_own {
        return hand_over().unwrap_or_else(|error| failure(&error));
    }
    let result = match Arguments::parse().command {
        Own::BuildPtx(command) => command.run(),
        Own::Ptx(command) => command.run(),
    };
    result.map_or_else(|error| failure(&error), |()| ExitCode::SUCCESS)
}

/// Runs the package `xtask` with the program's arguments, or the judge of the puzzles, which needs nothing of `xtask`.
fn hand_over() -> anyhow::Result<ExitCode> {
    let is_learn = std::env::args_os().nth(1).is_some_and(|name| name == "learn");
    let (package, skipped) = if is_learn { ("ferrowarp-learn", 2) } else { ("xtask", 1) };
    let mut command = workspace::cargo();
    command.args(["run", "--quiet", "--package", package, "--manifest-path"]);
    command.arg(workspace::root().join("Cargo.toml")).arg("--").args(std::env::args_os().skip(skipped));
    let status = command.status().with_context(|| format!("starting {command:?}"))?;
    // If a signal ended it, it has no code.
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

fn failure(error: &anyhow::Error) -> ExitCode {
    eprintln!("error: {error:#}");
    ExitCode::FAILURE
}
