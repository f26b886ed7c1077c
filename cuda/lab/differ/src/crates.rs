//! Compares registry crates, in `differ-crates`: their native results with those of their PTX.

use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, ensure};
use cuda_builder::Backend;

use crate::cases::{self, Case};
use crate::compile::{self, Module, Settings, workspace};
use crate::difference::Difference;
use crate::emulate;

/// The features of `differ-crates`. Each is a registry crate, except `arithmetic`, Rust's own operators, `core`, and `exact`.
pub const CRATES: [&str; 17] = [
    "aes",
    "arithmetic",
    "base64",
    "chacha20",
    "core",
    "curve25519-dalek",
    "exact",
    "heapless",
    "lexical-core",
    "libm",
    "memchr",
    "miniz_oxide",
    "nom",
    "postcard",
    "ryu",
    "sha2",
    "sha3",
];

/// Maximum instructions of a case, many times those of the longest: an inflated text, or a curve point without optimisation.
const MOST_STEPS: u64 = 400_000_000;

/// The results of some crates with one back end.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The back end.
    pub backend: Backend,
    /// The number of compared cases.
    pub cases: usize,
    /// The cases that differ.
    pub differences: Vec<Difference>,
}

/// Compares these crates.
///
/// # Errors
/// There is no crate of that name, or they cannot be compiled or run.
pub fn compare(crates: &[String], settings: &Settings) -> anyhow::Result<Vec<Outcome>> {
    let cases = native(crates, &settings.out)?;
    let on_device = |&backend: &Backend| {
        let mut differences = Vec::new();
        for module in modules(crates, backend, settings)? {
            differences.extend(emulate::compare(&module, &cases, MOST_STEPS)?);
        }
        Ok(Outcome { backend, cases: cases.len(), differences })
    };
    settings.backends.iter().map(on_device).collect()
}

/// Compiles the crates for the device.
///
/// # Errors
/// The builder's errors.
pub fn modules(crates: &[String], backend: Backend, settings: &Settings) -> anyhow::Result<Vec<Module>> {
    let arguments = ["--features".to_owned(), crates.join(",")];
    compile::modules(&workspace().join("differ/crates"), backend, settings, &arguments)
}

/// The cases, with the crates' native results. `folder` is for the native program's output.
///
/// # Errors
/// There is no crate of that name, or the native program cannot be compiled, or fails.
pub fn native(crates: &[String], folder: &Path) -> anyhow::Result<Vec<Case>> {
    for name in crates {
        ensure!(
            CRATES.contains(&name.as_str()),
            "`{name}` is no crate that is compared: choose from {}",
            CRATES.join(", ")
        );
    }
    let out = folder.join("crates.cases");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut run = Command::new(cargo);
    run.args(["run", "--quiet", "--package", "differ-crates", "--bin", "differ-native-crates"]);
    run.args(["--features", &crates.join(",")]).arg("--");
    std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    // Programs with other features have the same path, so that another thread must not build one before this one has run.
    static PROGRAM: Mutex<()> = Mutex::new(());
    let _program = PROGRAM.lock().unwrap_or_else(PoisonError::into_inner);
    let output = run.arg(&out).current_dir(workspace()).output().context("starting cargo")?;
    let log = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the crates cannot be run natively: {log}");
    let bytes = std::fs::read(&out).with_context(|| format!("reading {}", out.display()))?;
    cases::read(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_crate_is_in_the_list() {
        let manifest = include_str!("../crates/Cargo.toml");
        let (_, tail) = manifest.split_once("\n[dependencies]\n").unwrap();
        let (dependencies, _) = tail.split_once("\n[").unwrap();
        let optional = dependencies.lines().filter(|line| line.contains("optional = true"));
        let mut names: Vec<&str> = optional
            .filter_map(|line| Some(line.split_once(" = ")?.0))
            .filter(|name| *name != "serde")
            .collect();
        names.extend(manifest.lines().filter_map(|line| line.strip_suffix(" = []")));
        names.sort_unstable();
        assert_eq!(names, CRATES);
    }
}
