//! `cargo xtask check`: what a change must pass, and with `--all` everything that can be checked without a GPU.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use clap::Args;

use crate::workspace;

/// What `.ci/run` leaves out: a name, and the command in the root of the workspace.
/// The checks named `systems` compile the public crates for other systems, and the executor as Miri sees it.
const REST: [(&str, &str); 18] = [
    ("all cases", "env FERROWARP_CASES=all cargo test --workspace --no-fail-fast"),
    ("ptx", "cargo xtask build-ptx --arch all --quiet"),
    ("ptx by llvm", "cargo xtask build-ptx --arch all --backend llvm --out target/ptx-llvm --quiet"),
    ("stress", "cargo xtask sanitize --tool stress"),
    ("sanitizers", "cargo xtask sanitize"),
    ("miri", "cargo xtask sanitize --tool miri"),
    ("bench softmax", "cargo bench --profile dev softmax -- --test"),
    ("bench mlp", "cargo bench --profile dev mlp -- --test"),
    ("bench gallery", "cargo bench --profile dev gallery -- --test"),
    ("gallery", "cargo xtask gallery --quick"),
    ("docs", "cargo xtask docs --check"),
    ("package", "cargo xtask package"),
    ("wheel", "cargo xtask wheel --test --with torch"),
    ("candle", "cargo test --locked --manifest-path host/candle/Cargo.toml"),
    (
        "systems: std",
        "rustup target add x86_64-pc-windows-gnu aarch64-apple-darwin aarch64-unknown-linux-gnu",
    ),
    (
        "systems",
        "env CARGO_TARGET_DIR=target/systems cargo check --target x86_64-pc-windows-gnu --target aarch64-apple-darwin \
         --target aarch64-unknown-linux-gnu -p ferrowarp --features ferrowarp/collective,ferrowarp/ndarray \
         -p ferrowarp-cuda-builder -p ferrowarp-cust -p ferrowarp-cuda-std -p ferrowarp-ptx-emulator -p gpu-kernels",
    ),
    (
        "systems: miri",
        "env RUSTC_BOOTSTRAP=1 RUSTFLAGS=--cfg=miri CARGO_TARGET_DIR=target/systems-miri cargo check -p ferrowarp-cuda-std",
    ),
    ("lab", "cuda/lab/full.sh"),
];

#[derive(Args)]
pub struct Check {
    /// Also run everything that `.ci/run` leaves out, which takes hours
    #[arg(long)]
    all: bool,
    /// Of `--all`, only the checks whose names contain TEXT, without `.ci/run`
    #[arg(long, value_name = "TEXT", requires = "all")]
    only: Option<String>,
}

impl Check {
    /// Runs the command. A failed check does not end it: the summary lists each one.
    pub fn run(self) -> anyhow::Result<()> {
        let mut checks = vec![("ci", ".ci/run")];
        checks.extend(if self.all { &REST[..] } else { &[] });
        if let Some(only) = &self.only {
            checks.retain(|(name, _)| name.contains(only.as_str()));
            ensure!(!checks.is_empty(), "no check's name contains `{only}`");
        }
        let mut summary = Vec::new();
        for (name, line) in checks {
            println!("\n== {name}: {line}");
            let (start, mut words) = (Instant::now(), line.split(' '));
            // Not empty: a line of the table.
            let mut command = Command::new(words.next().unwrap_or_default());
            command.args(words).current_dir(workspace::root());
            let is_passed = command.status().with_context(|| format!("starting {line}"))?.success();
            let result = if is_passed { "passed" } else { "FAILED" };
            summary.push((format!("{result} {:>5.0?} {name}: {line}", start.elapsed()), is_passed));
        }
        println!("\nat commit {}:", workspace::commit()?);
        summary.iter().for_each(|(line, _)| println!("{line}"));
        let failed = summary.iter().filter(|(_, is_passed)| !is_passed).count();
        if failed > 0 {
            bail!("{failed} of {} checks failed", summary.len());
        }
        Ok(())
    }
}
