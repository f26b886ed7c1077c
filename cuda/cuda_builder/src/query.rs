//! Asks cargo about packages.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde::Deserialize;

/// What `cargo metadata` prints.
#[derive(Deserialize)]
pub(crate) struct Metadata {
    pub packages: Vec<Package>,
    pub target_directory: PathBuf,
    pub workspace_root: PathBuf,
}

#[derive(Deserialize)]
pub(crate) struct Package {
    pub name: String,
    pub version: String,
    pub manifest_path: PathBuf,
    pub features: BTreeMap<String, Vec<String>>,
    pub targets: Vec<Target>,
    pub dependencies: Vec<Dependency>,
    #[serde(default)]
    pub metadata: serde_json::Value,
}

#[derive(Deserialize)]
pub(crate) struct Target {
    pub name: String,
    pub src_path: PathBuf,
    pub kind: Vec<String>,
}

#[derive(Deserialize)]
pub(crate) struct Dependency {
    pub path: Option<PathBuf>,
    pub kind: Option<String>,
}

impl Metadata {
    /// What cargo prints for the package in `folder`.
    pub fn query(folder: &Path, arguments: &[&str]) -> Result<Metadata, String> {
        let answer = text(folder, |cargo| {
            cargo.args(["metadata", "--format-version=1"]).args(arguments);
        })?;
        serde_json::from_str(&answer).map_err(|e| format!("cargo's answer: {e}"))
    }

    /// The package with this manifest.
    pub fn of_manifest(&self, manifest: &Path) -> Option<&Package> {
        self.packages.iter().find(|package| package.manifest_path == manifest)
    }
}

impl Package {
    /// Its library, which may be a procedural macro.
    pub fn library(&self) -> Option<&Target> {
        self.targets.iter().find(|target| target.is_library() || target.is_macro())
    }
}

impl Target {
    /// Whether programs can link it.
    pub fn is_library(&self) -> bool {
        self.kind.iter().any(|kind| kind.ends_with("lib"))
    }

    pub fn is_macro(&self) -> bool {
        self.kind.iter().any(|kind| kind == "proc-macro")
    }
}

/// The output of a command of cargo in `folder`. The error is cargo's message.
pub(crate) fn text(folder: &Path, arguments: impl Fn(&mut Command)) -> Result<String, String> {
    let run = |offline: Option<&str>| {
        let mut command = Command::new(cargo());
        command.current_dir(folder);
        arguments(&mut command);
        command.arg("--color=never").args(offline);
        command
    };
    let output = output(run).map_err(|e| format!("running cargo: {e}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

/// Runs cargo with its option `--offline`, and without it if something has to be fetched. Offline it is faster, and keeps
/// versions that a lock file leaves open.
pub(crate) fn output(command: impl Fn(Option<&str>) -> Command) -> io::Result<Output> {
    let output = command(Some("--offline")).output()?;
    let asks = || String::from_utf8_lossy(&output.stderr).contains("offline");
    if output.status.success() || !asks() { Ok(output) } else { command(None).output() }
}

/// The cargo that runs this program, or the one in the environment.
pub(crate) fn cargo() -> PathBuf {
    std::env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from)
}
