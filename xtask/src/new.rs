//! `cargo xtask new`: a crate outside this workspace with a kernel, a test, a bench, a program and a build script.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use clap::Args;

use crate::workspace;

/// The files, before the names are filled in. Manifests end in `.in`, so that cargo ignores them here.
const FILES: [(&str, &str); 7] = [
    ("Cargo.toml", include_str!("../template/Cargo.toml.in")),
    ("build.rs", include_str!("../template/build.rs")),
    ("src/main.rs", include_str!("../template/src/main.rs")),
    ("benches/row_sums.rs", include_str!("../template/benches/row_sums.rs")),
    ("kernels/Cargo.toml", include_str!("../template/kernels/Cargo.toml.in")),
    ("kernels/src/lib.rs", include_str!("../template/kernels/src/lib.rs")),
    ("kernels/tests/row_sums.rs", include_str!("../template/kernels/tests/row_sums.rs")),
];

/// Added to the manifest of a crate outside any workspace.
const WORKSPACE: &str = include_str!("../template/workspace.in");

/// The packages that the new crate depends on, and their folders here.
const PACKAGES: [(&str, &str); 3] =
    [("{cuda_std}", "cuda/cuda_std"), ("{cuda_builder}", "cuda/cuda_builder"), ("{ferrowarp}", "host")];

#[derive(Args)]
pub struct New {
    /// The folder to create; its name is the crate's
    path: PathBuf,
    /// Depend on a git repository instead of this folder [default of URL: this project's]
    #[arg(long, value_name = "URL", num_args = 0..=1, default_missing_value = env!("CARGO_PKG_REPOSITORY"))]
    git: Option<String>,
}

impl New {
    pub fn run(self) -> anyhow::Result<()> {
        let path = std::path::absolute(&self.path).context("finding the current folder")?;
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        check_name(name)?;
        ensure!(!path.exists(), "{} already exists: name a new folder", path.display());
        let outer = enclosing_workspace(&path);
        for (file, text) in files(name, self.git.as_deref(), workspace::root(), outer.is_none()) {
            let file = path.join(file);
            let folder = file.parent().unwrap_or(&path);
            std::fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
            std::fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
        }
        println!("created {}", path.display());
        match outer {
            Some(manifest) => println!(
                "add it and its folder `kernels` to `members` in {}, and for fast kernels in debug builds the profile of \
                 docs/your-crate.md",
                manifest.display()
            ),
            None => println!(
                "in it, `cargo run` runs the program, `cargo test --workspace` the test, `cargo bench` the bench"
            ),
        }
        Ok(())
    }
}

/// Each file's path in the crate, and its text.
fn files(name: &str, git: Option<&str>, root: &Path, is_workspace: bool) -> Vec<(&'static str, String)> {
    let source = |folder: &str| match git {
        Some(url) => format!("git = {url:?}"),
        None => format!("path = {:?}", root.join(folder).display().to_string()),
    };
    let fill = |text: &str| {
        let text = text.replace("{workspace}\n", if is_workspace { WORKSPACE } else { "" });
        let text = text.replace("{name}", name).replace("{crate}", &name.replace('-', "_"));
        PACKAGES.iter().fold(text, |text, (mark, folder)| text.replace(mark, &source(folder)))
    };
    let mut files: Vec<_> = FILES.iter().map(|(file, text)| (*file, fill(text))).collect();
    if is_workspace {
        files.push((".gitignore", "/target\n".to_owned()));
    }
    files
}

/// Words of Rust, crates that come with it or that the new crate depends on, and folders of Cargo: no package can have
/// these names, or its kernels' name would be a dependency's.
const TAKEN: &str = "abstract alloc as async await become box break build const continue core crate cuda-builder cuda-std \
    deps do dyn else enum examples extern false ferrowarp final fn for gen gpu gpu-kernels if impl in \
    incremental let loop macro match mod move mut override priv proc-macro pub ref return self static \
    std struct super test trait true try type typeof union unsafe unsized use virtual where while yield";

/// Checks that cargo accepts the name for a package, and rustc accepts the kernels' name for a crate.
fn check_name(name: &str) -> anyhow::Result<()> {
    let is_valid = name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_'));
    if !is_valid {
        bail!(
            "`{name}` cannot be a crate's name: end the path in lower-case letters, digits, `-` and `_`, a letter first"
        );
    }
    if TAKEN.split(' ').any(|taken| taken == name.replace('_', "-")) {
        bail!("`{name}` cannot be a crate's name: Rust, Cargo or a dependency has it; choose another");
    }
    Ok(())
}

/// The manifest of the workspace that would contain `path`.
fn enclosing_workspace(path: &Path) -> Option<PathBuf> {
    let manifests = path.ancestors().skip(1).map(|folder| folder.join("Cargo.toml"));
    let is_workspace = |manifest: &PathBuf| {
        let text = std::fs::read_to_string(manifest).unwrap_or_default();
        text.lines().any(|line| line.trim_start().starts_with("[workspace"))
    };
    manifests.filter(|manifest| manifest.is_file()).find(is_workspace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_dependencies_are_filled_in() {
        let root = Path::new("/a clone");
        let files_of = |git, is_workspace| files("row-sums", git, root, is_workspace);
        let all = [files_of(None, true), files_of(Some("https://example.org/x"), false)];
        for (file, text) in all.iter().flatten() {
            for mark in ["{name}", "{crate}", "{workspace}", "{cuda_std}", "{cuda_builder}", "{ferrowarp}"] {
                assert!(!text.contains(mark), "{mark} in {file}");
            }
        }
        let manifest = |files: &[(&str, String)]| files[0].1.clone();
        let (by_path, by_git) = (manifest(&all[0]), manifest(&all[1]));
        assert!(by_path.contains("ferrowarp = { path = \"/a clone/host\" "), "{by_path}");
        assert!(by_path.contains("[workspace]\nmembers = [\"kernels\"]"), "{by_path}");
        assert!(by_path.contains("[profile.dev.package.row-sums-kernels]"), "{by_path}");
        assert!(by_git.contains("ferrowarp = { git = \"https://example.org/x\" "), "{by_git}");
        assert!(!by_git.contains("[workspace]") && !by_git.contains("[profile"), "{by_git}");
        assert!(all[0].iter().any(|(_, text)| text.contains("row_sums_kernels::row_sums_256::launch")));
    }

    #[test]
    fn wrong_names_are_refused() {
        check_name("my-kernels2").unwrap();
        for name in ["", "Kernels", "2d", "a b", "é"] {
            assert!(check_name(name).unwrap_err().to_string().contains("lower-case"), "{name}");
        }
        for name in ["build", "self", "crate", "fn", "std", "core", "test", "gpu", "cuda_std", "proc_macro"] {
            assert!(check_name(name).unwrap_err().to_string().contains("choose another"), "{name}");
        }
    }
}
