//! Developer commands of the workspace, a module each; `cargo xtask --help` lists them. Those that build the kernels are in
//! the package `xtask-ptx`, which `cargo xtask` starts first.

mod bundle;
#[allow(dead_code, unused_imports, reason = "its users are in work")]
mod chart;
mod compat;
mod differ;
mod differ_report;
mod figures;
mod fuzz;
mod fuzz_report;
mod gallery;
mod gallery_entry;
mod gallery_merge;
mod gallery_ncu;
mod gallery_overtake;
mod gallery_predictions;
mod gallery_report;
mod gallery_report_chart;
mod gallery_report_tables;
mod gallery_roofline;
mod gallery_roofline_chart;
mod gallery_roofline_tables;
mod gallery_systems;
mod gallery_timeline;
mod gallery_titles;
mod gallery_waves;
mod measure;
mod measure_peers;
mod mlp_report;
mod mlp_report_chart;
mod mlp_report_ladder;
mod mlp_report_tables;
#[allow(dead_code, reason = "its users are in work")]
mod peaks;
mod planted;
mod quotes;
mod report;
mod sanitize;
mod softmax_report;
mod softmax_report_chart;
mod softmax_report_ladder;
mod softmax_report_tables;
mod softmax_report_targets;
mod stress;
mod tidy;
mod timelines;
mod times;
mod touches;
mod tune;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use xtask_ptx::{build_ptx, ptx, workspace};

/// Developer commands of the workspace.
#[derive(Parser)]
#[command(bin_name = "cargo xtask", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build the kernels to PTX, check it, and report what each kernel needs
    BuildPtx(build_ptx::BuildPtx),
    /// Check the PTX built last against the `//@ ptx:` headers of the sources
    Ptx(ptx::Ptx),
    /// Pack what a run on a GPU machine needs into one folder
    Bundle(bundle::Bundle),
    /// Write the table of what Rust-CUDA has and what is here in its place
    Compat(compat::Compat),
    /// Compare what crates and random programs do natively with what their PTX does, bit for bit
    Differ(differ::Differ),
    /// Measure how long builds take, and write it down beside the first start on a GPU
    Times(times::Times),
    /// Fuzz every parser of outside bytes, and write down what came of it
    Fuzz(fuzz::Fuzz),
    /// Run the lessons of docs/gallery on what there is, and draw what was measured into target/gallery
    Gallery(gallery::Gallery),
    /// Train on the CPU beside the same training in JAX, burn and candle, and write the figures down
    Measure(measure::Measure),
    /// Run every kernel, of those with instances the smallest, under Miri, which finds data races, uninitialised reads and stray pointers
    Miri(sanitize::Miri),
    /// Merge the figures of a run on a GPU into docs/ and the README, with charts; without files, draw again what was merged last
    #[command(subcommand)]
    Report(report::Report),
    /// Run every kernel under ThreadSanitizer and AddressSanitizer
    Sanitize(sanitize::Sanitize),
    /// Run every kernel under many schedules of the CPU executor
    Stress(stress::Stress),
    /// Check the house rules that a search can check
    Tidy(tidy::Tidy),
    /// Draw what runs when on each rung of the training ladder, into docs/timelines
    Timelines(timelines::Timelines),
    /// Train with each candidate for the preset `record` of train-mnist, and write down what held-out images say
    Tune(tune::Tune),
    /// Count the files that a new kernel, rung or argument touches, and the forms that a value passes
    Touches(touches::Touches),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::BuildPtx(command) => command.run(),
        Command::Ptx(command) => command.run(),
        Command::Bundle(command) => command.run(),
        Command::Compat(command) => command.run(),
        Command::Differ(command) => command.run(),
        Command::Times(command) => command.run(),
        Command::Fuzz(command) => command.run(),
        Command::Gallery(command) => command.run(),
        Command::Measure(command) => command.run(),
        Command::Miri(command) => command.run(),
        Command::Sanitize(command) => command.run(),
        Command::Report(command) => command.run(),
        Command::Stress(command) => command.run(),
        Command::Tidy(command) => command.run(),
        Command::Timelines(command) => command.run(),
        Command::Tune(command) => command.run(),
        Command::Touches(command) => command.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
