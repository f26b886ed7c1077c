//! Finds kernel crates among the dependencies of a package, and their features there.

use std::path::{Path, PathBuf};

use crate::arch::NvvmArch;
use crate::builder::{CudaBuilder, Packages};
use crate::error::CudaBuilderError;
use crate::query::{self, Metadata, Package};

/// A kernel crate: the name of its library, its folder, and the arguments that select its features.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Dependency {
    library: String,
    path: PathBuf,
    build_args: Vec<String>,
    /// Whether its manifest says that it is one.
    is_marked: bool,
}

type Found = (String, Vec<Dependency>);

impl CudaBuilder {
    /// Creates a builder for the kernels of the package `name` among the direct and indirect dependencies of the build
    /// script's package: `ferrowarp` brings those of its operations.
    ///
    /// A package's kernels are those of the crates among itself and its dependencies whose manifest has
    /// `metadata.kernels = true` in its table `[package]`, or if none has, its own. They are built from source with the
    /// features of this build. They are built for the first GPU of this machine, with [machine code](Self::machine_code),
    /// or for `compute_90` without one; [`Self::archs`] changes that.
    pub fn of_dependency(name: &str) -> CudaBuilder {
        let native = NvvmArch::native();
        let builder =
            CudaBuilder { packages: Some(Packages::Dependency(name.to_owned())), ..CudaBuilder::new("") };
        builder.machine_code(native.is_ok()).arch(native.unwrap_or(NvvmArch::Compute90))
    }

    /// Creates a builder for the kernels of the package in the folder `path`, as [`Self::of_dependency`] finds them. The
    /// modules of each crate hold the crate's own kernels.
    pub fn of_crates(path: impl AsRef<Path>) -> CudaBuilder {
        CudaBuilder { packages: Some(Packages::Folder(path.as_ref().to_owned())), ..CudaBuilder::new("") }
    }

    /// A builder for each crate, and the name of the library that depends on them.
    pub(crate) fn resolve(mut self) -> Result<(Option<String>, Vec<CudaBuilder>), CudaBuilderError> {
        let Some(packages) = self.packages.take() else { return Ok((None, vec![self])) };
        let (library, found) = find(&packages)?;
        let builder = |found: Dependency| {
            let library = found.is_marked.then_some(found.library);
            let mut builder = CudaBuilder { path: found.path, library, ..self.clone() };
            builder.build_args.extend(found.build_args);
            builder
        };
        Ok((Some(library), found.into_iter().map(builder).collect()))
    }
}

/// Finds the kernel crates. Returns the name of the package's library, too.
pub(crate) fn find(packages: &Packages) -> Result<Found, CudaBuilderError> {
    let name = match packages {
        Packages::Folder(folder) => {
            let missing = || CudaBuilderError::CratePathDoesntExist(folder.clone());
            let manifest = folder.join("Cargo.toml").canonicalize().map_err(|_| missing())?;
            return find_of(&manifest, None, |feature| feature == "default", None);
        }
        Packages::Dependency(name) => name,
    };
    let manifest =
        std::env::var_os("CARGO_MANIFEST_DIR").map(|folder| PathBuf::from(folder).join("Cargo.toml"));
    let Some(manifest) = manifest else {
        let reason = "of_dependency() is called outside of a build script: CARGO_MANIFEST_DIR is not set; use \
                      CudaBuilder::new(FOLDER)";
        return Err(CudaBuilderError::Options(reason.to_owned()));
    };
    let has_feature = |feature: &str| {
        let variable = format!("CARGO_FEATURE_{}", feature.to_uppercase().replace('-', "_"));
        std::env::var_os(variable).is_some()
    };
    find_of(&manifest, Some(name), has_feature, std::env::var("TARGET").ok().as_deref())
}

/// Same as [`find`], for the package of `manifest` with the features for which `has_feature` returns true.
fn find_of(
    manifest: &Path,
    name: Option<&str>,
    has_feature: impl Fn(&str) -> bool,
    target: Option<&str>,
) -> Result<Found, CudaBuilderError> {
    let folder = manifest.parent().unwrap_or(manifest);
    let fail = |reason: String| CudaBuilderError::Manifest { path: folder.to_owned(), reason };
    let members = Metadata::query(folder, &["--no-deps"]).map_err(&fail)?;
    let own = members.of_manifest(manifest).ok_or_else(|| fail("it is not a package".to_owned()))?;
    let name = name.unwrap_or(&own.name);
    let features: Vec<&str> =
        own.features.keys().map(String::as_str).filter(|name| has_feature(name)).collect();
    let features = format!("--features={}", features.join(","));
    let of_build = ["--no-default-features", &features];
    let metadata = Metadata::query(folder, &of_build).map_err(&fail)?;
    let target = target.map(|target| format!("--target={target}"));
    let mut tree = vec!["tree", "--edges=normal", "--prefix=depth", "--no-dedupe", "--format= {p}\t{f}"];
    tree.extend(of_build.into_iter().chain(target.as_deref()));
    let tree = query::text(folder, |cargo| {
        cargo.args(&tree);
    })
    .map_err(&fail)?;
    let mut lines = tree.lines().filter_map(read_line).skip_while(|line| line.name != name);
    let first = lines.next().ok_or_else(|| missing(name, &own.name))?;
    let depth = first.depth;
    let mut found = Vec::new();
    for line in std::iter::once(first).chain(lines.take_while(|line| line.depth > depth)) {
        let is_it = |package: &&Package| package.name == line.name && package.version == line.version;
        let package = metadata.packages.iter().find(is_it).ok_or_else(|| missing(name, &own.name))?;
        let library = package.library().map_or(&package.name, |target| &target.name);
        found.push(Dependency {
            library: library.replace('-', "_"),
            path: package.manifest_path.parent().unwrap_or(&package.manifest_path).to_owned(),
            build_args: vec![of_build[0].to_owned(), format!("--features={}", line.features)],
            is_marked: package.metadata["kernels"] == true,
        });
    }
    let library = found[0].library.clone();
    match found.iter().any(|crate_| crate_.is_marked) {
        true => found.retain(|crate_| crate_.is_marked),
        false => found.truncate(1),
    }
    found.sort();
    found.dedup();
    Ok((library, found))
}

/// A line of cargo's tree.
#[derive(Debug, PartialEq)]
struct Line<'a> {
    depth: usize,
    name: &'a str,
    version: &'a str,
    features: &'a str,
}

/// Parses `3 name v1.2.3 (/a/folder)<TAB>one,two`.
fn read_line(line: &str) -> Option<Line<'_>> {
    let (package, features) = line.split_once('\t')?;
    let mut words = package.split(' ');
    let (depth, name, version) = (words.next()?.parse().ok()?, words.next()?, words.next()?);
    Some(Line { depth, name, version: version.strip_prefix('v')?, features: features.trim() })
}

fn missing(name: &str, own: &str) -> CudaBuilderError {
    let reason = format!(
        "{own} does not depend on {name} with its features of this build; of_dependency() takes the name of a package \
         among the normal dependencies, such as ferrowarp"
    );
    CudaBuilderError::Options(reason)
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
        let find =
            |features: &[&str]| find_of(&app, Some("some-kernels"), |name| features.contains(&name), None);

        let found = |features: &str| {
            let build_args = vec!["--no-default-features".to_owned(), format!("--features={features}")];
            let path = root.canonicalize().unwrap().join("some-kernels");
            let library = "some_kernels".to_owned();
            (library.clone(), vec![Dependency { library, path, build_args, is_marked: false }])
        };
        assert_eq!(find(&["soft-max"]).unwrap(), found("softmax"));
        assert_eq!(find(&["scan"]).unwrap(), found("scan,softmax"));
        let error = find(&[]).unwrap_err().to_string();
        assert!(error.contains("app does not depend on some-kernels"), "{error}");
    }

    #[test]
    fn the_marked_crates_below_a_package_are_found_once_each() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let depends = |on: &[&str]| {
            let lines = on.iter().map(|name| format!("{name} = {{ path = \"../{name}\" }}\n"));
            format!("[dependencies]\n{}", lines.collect::<String>())
        };
        let marked = "metadata.kernels = true\n";
        package(&root.join("parts"), "parts", "");
        package(&root.join("b-kernels"), "b-kernels", &format!("{marked}{}", depends(&["parts"])));
        package(
            &root.join("a-kernels"),
            "a-kernels",
            &format!("{marked}{}", depends(&["b-kernels", "parts"])),
        );
        package(&root.join("others"), "others", marked);
        package(&root.join("library"), "library", &depends(&["a-kernels", "b-kernels"]));
        let app =
            package(&root.join("app"), "app", &format!("{}[workspace]\n", depends(&["library", "others"])));
        let libraries = |name: Option<&str>| -> Vec<String> {
            let (library, found) = find_of(&app, name, |_| true, None).unwrap();
            assert_eq!(library, name.unwrap_or("app").replace('-', "_"));
            found.into_iter().map(|found| found.library).collect()
        };
        assert_eq!(libraries(Some("library")), ["a_kernels", "b_kernels"]);
        assert_eq!(libraries(Some("b-kernels")), ["b_kernels"]);
        assert_eq!(libraries(Some("parts")), ["parts"], "it alone, where nothing is marked");
        assert_eq!(libraries(None), ["a_kernels", "b_kernels", "others"]);
    }

    #[test]
    fn lines_of_cargos_tree_are_read() {
        let line = Line { depth: 2, name: "k", version: "1.0.0", features: "one,two" };
        assert_eq!(read_line("2 k v1.0.0 (/a folder)\tone,two"), Some(line));
        assert_eq!(read_line("0 k v1.0.0\t").map(|line| line.features), Some(""));
        assert_eq!(read_line("0 k v1.0.0"), None);
    }
}
