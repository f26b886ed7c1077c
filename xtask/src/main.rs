//! Developer commands of the workspace, one module per command; `cargo xtask --help` lists them. The commands that build the
//! kernels are in the package `xtask-ptx`, which `cargo xtask` starts first.

mod bundle;
mod checks;
mod gallery;
mod learn;
mod new;
mod package;
mod pages;
mod report;
mod site;
mod wheel;
mod workspace;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
use ferrowarp_report::chart;
use xtask_ptx::{build_ptx, ptx};

/// Developer commands of the workspace.
#[derive(Parser)]
#[command(bin_name = "cargo xtask", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Compile the kernels to PTX, check it, and print the resources of each kernel
    BuildPtx(build_ptx::BuildPtx),
    /// Check the last built PTX against the `//@ ptx:` lines of the sources
    Ptx(ptx::Ptx),
    /// Pack everything that a run on a GPU machine needs into one folder
    Bundle(bundle::Bundle),
    /// Run the checks that a change must pass, or everything
    Check(checks::check::Check),
    /// Render docs/ as a site with search into target/site/book
    Docs(site::Docs),
    /// Run the lessons of docs/gallery on this machine, and draw the results into target/gallery
    Gallery(gallery::Gallery),
    /// Solve puzzles: fill the hole in a kernel, and have it judged without a GPU
    Learn(learn::Learn),
    /// Create a crate that uses this library: a kernel, a test, a bench, a program and a build script
    New(new::New),
    /// Make the packages for a registry, the library's with its kernels for every GPU, and check them from outside
    Package(package::Package),
    /// Merge the figures of a GPU run into docs/ and the README, and draw charts. Without files, draw the last merged figures again
    #[command(subcommand)]
    Report(pages::Report),
    /// Run every kernel under ThreadSanitizer and AddressSanitizer, under Miri, or under shuffled schedules of the CPU executor
    Sanitize(checks::sanitize::Sanitize),
    /// Check the house rules that a search can check
    Tidy(checks::tidy::Tidy),
    /// Build the Python package, one file with the kernels for every GPU
    Wheel(wheel::Wheel),
}

/// Why `cargo xtask` refuses these arguments, unless some are only missing.
fn refusal<'a>(arguments: impl Iterator<Item = &'a str>) -> Option<String> {
    let error = Arguments::try_parse_from(std::iter::once("cargo xtask").chain(arguments)).err()?;
    let is_shortened = matches!(
        error.kind(),
        ErrorKind::MissingRequiredArgument
            | ErrorKind::DisplayHelp
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    (!is_shortened).then(|| error.to_string().lines().next().unwrap_or_default().to_owned())
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::BuildPtx(command) => command.run(),
        Command::Ptx(command) => command.run(),
        Command::Bundle(command) => command.run(),
        Command::Check(command) => command.run(),
        Command::Docs(command) => command.run(),
        Command::Gallery(command) => command.run(),
        Command::Learn(command) => command.run(),
        Command::Sanitize(command) => command.run(),
        Command::New(command) => command.run(),
        Command::Package(command) => command.run(),
        Command::Report(command) => command.run(),
        Command::Tidy(command) => command.run(),
        Command::Wheel(command) => command.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
