//! `cargo xtask package`: makes the packages for a registry. That of the library brings its kernels as compressed PTX, so that its
//! users need no compiler of kernels.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use clap::Args;
use serde::Deserialize;
use xtask_ptx::build_ptx::BuildPtx;

use crate::workspace;

/// PTX by file name.
type Texts = BTreeMap<String, String>;

/// The largest package that a registry takes, in bytes.
const MOST_BYTES: u64 = 10_000_000;

/// Make the packages for a registry, the library's with its kernels for every GPU, and check them from outside
#[derive(Args)]
pub struct Package {
    /// Leave the kernels out, and do not compile what was packed
    #[arg(long)]
    quick: bool,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Crate>,
}

/// A crate of the workspace.
#[derive(Deserialize)]
struct Crate {
    name: String,
    version: String,
    /// The registries that may have it; empty if none may, absent if all may.
    publish: Option<Vec<String>>,
}

impl Package {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<()> {
        let prebuilt = emptied()?;
        let ptx = if self.quick { None } else { Some(build(&prebuilt)?) };
        let metadata = output(workspace::cargo().args(["metadata", "--no-deps", "--format-version=1"]))?;
        let Metadata { mut packages } =
            serde_json::from_slice(&metadata).context("reading cargo's metadata")?;
        packages.retain(|package| package.publish.is_none());
        let mut cargo = workspace::cargo();
        // What is packed is compiled below.
        cargo.args(["package", "--no-verify", "--quiet"]).current_dir(workspace::root());
        if !self.quick {
            // For cargo, what git ignores is a change too.
            let changes =
                output(Command::new("git").current_dir(workspace::root()).args(["status", "--short"]))?;
            ensure!(changes.is_empty(), "commit first:\n{}", String::from_utf8_lossy(&changes));
            cargo.arg("--allow-dirty");
        }
        run(cargo.args(packages.iter().map(|package| format!("--package={}", package.name))))?;
        for package in &packages {
            let path = package.archive();
            let bytes = path.metadata().with_context(|| format!("reading {}", path.display()))?.len();
            println!("{:9} bytes: {}", bytes, workspace::shown(&path));
            ensure!(bytes <= MOST_BYTES, "{} has more than {MOST_BYTES} bytes", path.display());
        }
        ptx.map_or(Ok(()), |ptx| check(&packages, &ptx))
    }
}

impl Crate {
    fn archive(&self) -> PathBuf {
        workspace::target().join(format!("package/{}-{}.crate", self.name, self.version))
    }
}

/// Empties the folder for the library's kernels.
fn emptied() -> anyhow::Result<PathBuf> {
    let prebuilt = workspace::root().join("host/prebuilt");
    if prebuilt.exists() {
        std::fs::remove_dir_all(&prebuilt).with_context(|| format!("emptying {}", prebuilt.display()))?;
    }
    Ok(prebuilt)
}

/// Builds the library's kernels for every GPU, compressed, and returns their folder.
pub fn prebuilt() -> anyhow::Result<PathBuf> {
    let prebuilt = emptied()?;
    build(&prebuilt)?;
    Ok(prebuilt)
}

/// Builds the library's kernels and compresses them into the folder `prebuilt`. Returns the PTX by file name.
fn build(prebuilt: &Path) -> anyhow::Result<Texts> {
    let (command, ptx) = BuildPtx::for_library();
    command.run()?;
    std::fs::create_dir_all(prebuilt).with_context(|| format!("making {}", prebuilt.display()))?;
    let needed = needed(texts(&ptx)?);
    let mut zstd = Command::new("zstd");
    zstd.args(["-19", "--quiet", "--output-dir-flat"])
        .arg(prebuilt)
        .args(needed.keys().map(|name| ptx.join(name)));
    run(&mut zstd).context("compressing the kernels; install the program zstd")?;
    Ok(needed)
}

/// The files without those that differ from the same module's for the architecture before in their `.target` alone: a GPU takes
/// the newest that it can run.
fn needed(files: Texts) -> Texts {
    let body =
        |text: &str| text.lines().filter(|line| !line.starts_with(".target")).collect::<Vec<_>>().join("\n");
    let mut sorted: Vec<(String, u32, String, String)> = Vec::new();
    for (name, text) in files {
        let (module, arch) = name.split_once(".compute_").unwrap_or((&name, ""));
        let arch =
            arch.chars().map_while(|digit| digit.to_digit(10)).fold(0, |arch, digit| 10 * arch + digit);
        sorted.push((module.to_owned(), arch, name.clone(), text));
    }
    sorted.sort();
    let is_needed = |at: usize| {
        let (module, .., text) = &sorted[at];
        let before = at.checked_sub(1).map(|before| &sorted[before]).filter(|before| before.0 == *module);
        before.is_none_or(|(.., before)| body(before) != body(text))
    };
    let needed: Vec<bool> = (0..sorted.len()).map(is_needed).collect();
    let kept = sorted.into_iter().zip(needed).filter(|(_, is_needed)| *is_needed);
    kept.map(|((_, _, name, text), _)| (name, text)).collect()
}

/// Compiles a crate that depends on the packed library, and compares the kernels that it finds with `expected`.
fn check(packages: &[Crate], expected: &Texts) -> anyhow::Result<()> {
    let folder = tempfile::tempdir().context("making a temporary folder")?;
    let (outside, found) = (folder.path().join("outside"), folder.path().join("found"));
    std::fs::create_dir_all(outside.join("src")).context("making the folder of a crate")?;
    std::fs::create_dir(&found).context("making a folder for its kernels")?;
    let mut manifest = include_str!("package/outside.toml").to_owned();
    for package in packages {
        run(Command::new("tar").current_dir(folder.path()).arg("-xzf").arg(package.archive()))?;
        let unpacked = folder.path().join(format!("{}-{}", package.name, package.version));
        manifest += &format!("{} = {{ path = {unpacked:?} }}\n", package.name);
    }
    let write = |name: &str, text: &str| std::fs::write(outside.join(name), text).context("writing a crate");
    write("Cargo.toml", &manifest)?;
    write("src/main.rs", include_str!("package/outside.rs"))?;
    let lock = workspace::root().join("Cargo.lock");
    std::fs::copy(&lock, outside.join("Cargo.lock"))
        .with_context(|| format!("copying {}", lock.display()))?;
    let built = workspace::target().join("package-outside");
    let mut cargo = workspace::cargo();
    run(cargo.current_dir(&outside).args(["build", "--quiet", "--target-dir"]).arg(&built))?;
    // Where no other PTX is near.
    let program = folder.path().join("program");
    std::fs::copy(built.join("debug/outside"), &program).context("copying the program")?;
    let said = output(Command::new(program).current_dir(folder.path()).arg(&found).env_clear())?;
    print!("{}", String::from_utf8_lossy(&said));

    let found = texts(&found)?;
    for (name, text) in expected {
        ensure!(found.get(name) == Some(text), "the packed library has another {name}, or none");
    }
    ensure!(found.len() == expected.len(), "the packed library has modules of other builds");
    println!("a crate outside finds all {} modules", found.len());
    Ok(())
}

/// The PTX files of a folder.
fn texts(folder: &Path) -> anyhow::Result<Texts> {
    let files = workspace::files(folder, &|path| path.extension().is_some_and(|kind| kind == "ptx"))?;
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        Ok((path.file_name().unwrap_or_default().to_string_lossy().into_owned(), text))
    };
    files.into_iter().map(read).collect()
}

pub fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("starting {command:?}"))?;
    ensure!(status.success(), "{command:?} failed");
    Ok(())
}

fn output(command: &mut Command) -> anyhow::Result<Vec<u8>> {
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    ensure!(output.status.success(), "{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_an_older_gpu_has_too_is_left_out() {
        let file = |module: &str, arch: &str, body: &str| {
            (format!("{module}.compute_{arch}.ptx"), format!(".version 8.6\n.target sm_{arch}\n{body}\n"))
        };
        let files = [
            file("a", "75", "1"),
            file("a", "80", "2"),
            file("a", "90", "2"),
            file("a", "100", "1"),
            file("b", "90", "1"),
            file("b", "100", "1"),
            file("b.only_90a", "90a", "1"),
        ];
        let kept: Vec<String> = needed(files.into()).into_keys().collect();
        assert_eq!(
            kept,
            [
                "a.compute_100.ptx",
                "a.compute_75.ptx",
                "a.compute_80.ptx",
                "b.compute_90.ptx",
                "b.only_90a.compute_90a.ptx"
            ]
        );
    }
}
