//! Finds a kernel crate among the dependencies of the build script's package, and its features there.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::arch::NvvmArch;
use crate::builder::CudaBuilder;
use crate::cargo::{cargo, mentions_offline};
use crate::error::CudaBuilderError;

/// A dependency's folder, and the arguments that select its features.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Dependency {
    pub path: PathBuf,
    pub build_args: Vec<String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    manifest_path: PathBuf,
    features: std::collections::BTreeMap<String, Vec<String>>,
}

impl CudaBuilder {
    /// Creates a builder for the kernel crate `name` among the direct and indirect dependencies of the build script's
    /// package: `gpu-kernels`, a dependency of `ferrowarp`, has the kernels of `ferrowarp`'s operations.
    ///
    /// The crate is built from the dependency's source with the dependency's features. It is built for the first GPU of this
    /// machine, with [machine code](Self::machine_code), or for `compute_90` without one; [`Self::archs`] changes that.
    pub fn of_dependency(name: &str) -> CudaBuilder {
        let native = NvvmArch::native();
        let builder = CudaBuilder { dependency: Some(name.to_owned()), ..CudaBuilder::new("") };
        builder.machine_code(native.is_ok()).arch(native.unwrap_or(NvvmArch::Compute90))
    }

    /// The same builder with the folder and features of its dependency.
    pub(crate) fn resolve(mut self) -> Result<CudaBuilder, CudaBuilderError> {
        if let Some(name) = self.dependency.take() {
            let found = find(&name)?;
            self.path = found.path;
            self.build_args.extend(found.build_args);
        }
        Ok(self)
    }
}

/// Finds the package `name` among the normal dependencies of the build script's package.
pub(crate) fn find(name: &str) -> Result<Dependency, CudaBuilderError> {
    let manifest =
        std::env::var_os("CARGO_MANIFEST_DIR").map(|folder| PathBuf::from(folder).join("Cargo.toml"));
    let Some(manifest) = manifest else {
        let reason = "of_dependency() is called outside of a build script: CARGO_MANIFEST_DIR is not set; use \
                      CudaBuilder::new(FOLDER)";
        return Err(CudaBuilderError::Options { reason: reason.to_owned() });
    };
    let has_feature = |feature: &str| {
        let variable = format!("CARGO_FEATURE_{}", feature.to_uppercase().replace('-', "_"));
        std::env::var_os(variable).is_some()
    };
    find_of(&manifest, name, has_feature, std::env::var("TARGET").ok().as_deref())
}

/// Same as [`find`], for the package of `manifest` with the features for which `has_feature` returns true.
fn find_of(
    manifest: &Path,
    name: &str,
    has_feature: impl Fn(&str) -> bool,
    target: Option<&str>,
) -> Result<Dependency, CudaBuilderError> {
    let fail = |reason: String| CudaBuilderError::Manifest {
        path: manifest.parent().unwrap_or(manifest).to_owned(),
        reason,
    };
    let packages = |options: &[&str]| {
        let answer = run(manifest, &[&["metadata", "--format-version=1"], options].concat())?;
        serde_json::from_str::<Metadata>(&answer).map_err(|error| format!("cargo's answer: {error}"))
    };
    let members = packages(&["--no-deps"]).map_err(&fail)?.packages;
    let own = members.iter().find(|package| package.manifest_path == manifest);
    let own = own.ok_or_else(|| fail("it is not a package".to_owned()))?;
    let features: Vec<&str> =
        own.features.keys().map(String::as_str).filter(|name| has_feature(name)).collect();
    let features = format!("--features={}", features.join(","));
    let of_build = ["--no-default-features", &features];
    let metadata = packages(&of_build).map_err(&fail)?;
    let target = target.map(|target| format!("--target={target}"));
    let mut tree = vec!["tree", "--edges=normal", "--prefix=none", "--format={p}\t{f}"];
    tree.extend(of_build.into_iter().chain(target.as_deref()));
    let tree = run(manifest, &tree).map_err(&fail)?;
    let line = tree.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" v"));
    let (version, features) = line.and_then(read_line).ok_or_else(|| missing(name, &own.name))?;
    let package = metadata.packages.iter().find(|package| package.name == name && package.version == version);
    let package = package.ok_or_else(|| missing(name, &own.name))?;
    let path = package.manifest_path.parent().unwrap_or(&package.manifest_path).to_owned();
    let build_args = vec!["--no-default-features".to_owned(), format!("--features={features}")];
    Ok(Dependency { path, build_args })
}

/// Parses version and features of `1.2.3 (/a/folder)<TAB>one,two (*)`.
fn read_line(line: &str) -> Option<(&str, &str)> {
    let (package, features) = line.split_once('\t')?;
    Some((package.split(' ').next()?, features.trim_end_matches(" (*)").trim()))
}

fn missing(name: &str, own: &str) -> CudaBuilderError {
    let reason = format!(
        "{own} does not depend on {name} with its features of this build; of_dependency() takes the name of a package \
         among the normal dependencies, and ferrowarp brings gpu-kernels with its feature `softmax`"
    );
    CudaBuilderError::Options { reason }
}

/// Cargo's output for the package of `manifest`; offline unless something has to be fetched.
fn run(manifest: &Path, arguments: &[&str]) -> Result<String, String> {
    let run = |offline: bool| {
        let mut command = Command::new(cargo());
        command.args(arguments).arg("--color=never").arg("--manifest-path").arg(manifest);
        command.args(offline.then_some("--offline"));
        command.output().map_err(|error| format!("running cargo: {error}"))
    };
    let mut output = run(true)?;
    if !output.status.success() && mentions_offline(&output) {
        output = run(false)?;
    }
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(folder: &Path, name: &str, rest: &str) -> PathBuf {
        std::fs::create_dir_all(folder.join("src")).unwrap();
        std::fs::write(folder.join("src/lib.rs"), "").unwrap();
        let manifest = folder.join("Cargo.toml");
        let text = format!("[package]\nname = \"{name}\"\nversion = \"0.3.0\"\nedition = \"2024\"\n{rest}");
        std::fs::write(&manifest, text).unwrap();
        manifest.canonicalize().unwrap()
    }

    #[test]
    fn a_dependency_is_found_with_the_features_of_this_build() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("with a space");
        let kernels = "[features]\ndefault = [\"lessons\"]\nlessons = []\nsoftmax = []\nscan = []\n";
        package(&root.join("some-kernels"), "some-kernels", kernels);
        let middle = "[dependencies]\nsome-kernels = { path = \"../some-kernels\", default-features = false, optional = true }\n\
                      [features]\ndefault = [\"softmax\"]\nsoftmax = [\"dep:some-kernels\", \"some-kernels/softmax\"]\n\
                      scan-rows = [\"softmax\", \"some-kernels/scan\"]\n";
        package(&root.join("middle"), "middle", middle);
        let app = "[dependencies]\nmiddle = { path = \"../middle\", default-features = false }\n\
                   [features]\nsoft-max = [\"middle/softmax\"]\nscan = [\"middle/scan-rows\"]\n[workspace]\n";
        let app = package(&root.join("app"), "app", app);
        let find = |features: &[&str]| find_of(&app, "some-kernels", |name| features.contains(&name), None);

        let path = root.canonicalize().unwrap().join("some-kernels");
        let with =
            |features: &str| vec!["--no-default-features".to_owned(), format!("--features={features}")];
        assert_eq!(
            find(&["soft-max"]).unwrap(),
            Dependency { path: path.clone(), build_args: with("softmax") }
        );
        assert_eq!(find(&["scan"]).unwrap(), Dependency { path, build_args: with("scan,softmax") });
        let error = find(&[]).unwrap_err().to_string();
        assert!(error.contains("app does not depend on some-kernels"), "{error}");
        assert!(error.contains("`softmax`"), "{error}");
    }

    #[test]
    fn lines_of_cargos_tree_are_read() {
        assert_eq!(read_line("1.0.0 (/a folder)\tone,two (*)"), Some(("1.0.0", "one,two")));
        assert_eq!(read_line("1.0.0\t"), Some(("1.0.0", "")));
        assert_eq!(read_line("1.0.0"), None);
    }
}
