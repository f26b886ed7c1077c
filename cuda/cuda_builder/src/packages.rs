//! Asks cargo for the packages of the kernel crate.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use memchr::memmem;

use crate::error::CudaBuilderError;
use crate::files;
use crate::query::{self, Metadata};

/// The kernel crate, from cargo's metadata.
#[derive(Clone, Debug)]
pub(crate) struct KernelCrate {
    /// The folder of its manifest.
    pub path: PathBuf,
    /// The package's name.
    pub package: String,
    /// The root of the library's source.
    pub root_file: PathBuf,
    /// The library's name, which is also the output's.
    pub library: String,
    /// Cargo's target directory for it.
    pub target_directory: PathBuf,
    /// The folder of its Cargo.lock.
    pub workspace_root: PathBuf,
    /// The folders of its path dependencies, the crate itself first.
    pub sources: Vec<PathBuf>,
}

/// A package that is compiled for the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DevicePackage {
    /// `name@1.2.3`, which distinguishes versions.
    pub spec: String,
    /// Whether its code may test for the architecture it is compiled for.
    pub asks_for_arch: bool,
}

impl KernelCrate {
    /// The folder of its source.
    pub fn source_folder(&self) -> PathBuf {
        self.root_file.parent().unwrap_or(&self.path).to_owned()
    }
}

/// Asks cargo about the crate in `path`.
pub(crate) fn describe(path: &Path) -> Result<KernelCrate, CudaBuilderError> {
    let missing = || CudaBuilderError::CratePathDoesntExist(path.to_owned());
    let path =
        path.canonicalize().ok().filter(|path| path.join("Cargo.toml").is_file()).ok_or_else(missing)?;
    let fail = |reason: String| CudaBuilderError::Manifest { path: path.clone(), reason };
    let metadata = Metadata::query(&path, &["--no-deps"]).map_err(&fail)?;
    let package = metadata.of_manifest(&path.join("Cargo.toml"));
    let package = package.ok_or_else(|| fail("the folder holds a workspace, not a crate".to_owned()))?;
    let library = package.library().filter(|library| !library.is_macro());
    let library = library.ok_or_else(|| fail("the crate has no library".to_owned()))?;
    let sources = local_sources(&path, &metadata).map_err(&fail)?;
    Ok(KernelCrate {
        package: package.name.clone(),
        root_file: library.src_path.clone(),
        library: library.name.replace('-', "_"),
        target_directory: metadata.target_directory.clone(),
        workspace_root: metadata.workspace_root.clone(),
        sources,
        path,
    })
}

/// The folders of the crate and of its path dependencies, in or out of its workspace, and the folders of library sources
/// outside of them.
fn local_sources(path: &Path, metadata: &Metadata) -> Result<Vec<PathBuf>, String> {
    let mut folders = vec![path.to_owned()];
    let mut roots = Vec::new();
    let mut next = 0;
    while let Some(folder) = folders.get(next).cloned() {
        next += 1;
        let manifest = folder.join("Cargo.toml");
        let outside;
        let package = match metadata.of_manifest(&manifest) {
            Some(package) => package,
            None => {
                outside = Metadata::query(&folder, &["--no-deps"])?;
                let found = outside.of_manifest(&manifest);
                found.ok_or_else(|| format!("no package in {}", folder.display()))?
            }
        };
        // `path = "../shared/lib.rs"` puts a library's source outside its package.
        let root = || package.library()?.src_path.canonicalize().ok()?.parent().map(Path::to_owned);
        roots.extend(root());
        let used = package.dependencies.iter().filter(|dependency| dependency.kind.as_deref() != Some("dev"));
        for dependency in used.filter_map(|dependency| dependency.path.as_ref()) {
            if !folders.contains(dependency) {
                folders.push(dependency.clone());
            }
        }
    }
    for root in roots {
        if !folders.iter().any(|folder| root.starts_with(folder)) {
            folders.push(root);
        }
    }
    Ok(folders)
}

/// The packages that cargo compiles for the device, for the crate in `path` with the features in `build_args`; the crate
/// itself is first.
pub(crate) fn of_device(
    path: &Path,
    rustc: &Path,
    build_args: &[String],
) -> Result<Vec<DevicePackage>, CudaBuilderError> {
    let output = tree(path, rustc, build_args, "normal,no-proc-macro")?;
    let registry = registry_sources();
    let mut packages: Vec<DevicePackage> = Vec::new();
    for line in output.lines() {
        let Some(package) = device_package(line, &registry) else { continue };
        if !packages.contains(&package) {
            packages.push(package);
        }
    }
    Ok(packages)
}

/// The folders of the packages that `kernel_crate` is compiled from, and of those that run to compile it, except its
/// [`KernelCrate::sources`] and the package `known`. An entry is `None` if the package's folder is unknown.
pub(crate) fn fetched(
    kernel_crate: &KernelCrate,
    rustc: &Path,
    build_args: &[String],
    known: &str,
) -> Result<BTreeSet<Option<PathBuf>>, CudaBuilderError> {
    let registry = registry_sources();
    let output = tree(&kernel_crate.path, rustc, build_args, "normal,build")?;
    let folders = output.lines().filter_map(|line| folder_of(line, &registry, known));
    Ok(folders.filter(|folder| !folder.as_ref().is_some_and(|f| kernel_crate.sources.contains(f))).collect())
}

/// The folder of the package on a line of `cargo tree`: `Some(None)` if it is unknown, `None` if the package is `known`.
fn folder_of(line: &str, registry: &[PathBuf], known: &str) -> Option<Option<PathBuf>> {
    let mut words = line.split(' ');
    let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
    if name == known {
        return None;
    }
    let folder = match words.find(|word| !matches!(*word, "(*)" | "(proc-macro)")) {
        Some(_) => {
            line.split_once("(/").and_then(|(_, path)| Some(format!("/{}", path.split_once(')')?.0).into()))
        }
        None => registry.iter().map(|folder| folder.join(format!("{name}-{version}"))).find(|f| f.is_dir()),
    };
    Some(folder.filter(|folder| folder.is_dir()))
}

/// Runs `cargo tree` for the crate in `path`. The output has one line per package at the end of such edges.
fn tree(path: &Path, rustc: &Path, build_args: &[String], edges: &str) -> Result<String, CudaBuilderError> {
    let answer = query::text(path, |cargo| {
        cargo.env("RUSTC", rustc);
        cargo.args(["tree", "--target=nvptx64-nvidia-cuda", "--prefix=none", "--format={p}"]);
        cargo.arg(format!("--edges={edges}")).args(features(build_args));
    });
    answer.map_err(|reason| CudaBuilderError::Manifest { path: path.to_owned(), reason })
}

/// The arguments in `build_args` that select features.
fn features(build_args: &[String]) -> Vec<&str> {
    let mut chosen = Vec::new();
    let mut arguments = build_args.iter().map(String::as_str);
    while let Some(argument) = arguments.next() {
        match argument {
            "--features" | "-F" => chosen.extend([argument].into_iter().chain(arguments.next())),
            "--all-features" | "--no-default-features" => chosen.push(argument),
            _ if argument.starts_with("--features=") || argument.starts_with("-F") => chosen.push(argument),
            _ => {}
        }
    }
    chosen
}

/// Parses a line of `cargo tree`: `name v1.2.3`, then its folder or address in parentheses unless it is from a registry,
/// then optionally a star.
fn device_package(line: &str, registry: &[PathBuf]) -> Option<DevicePackage> {
    let mut words = line.split(' ');
    let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
    let is_of_registry = !words.next().is_some_and(|word| word.starts_with('(') && word != "(*)");
    let asks_for_arch = !is_of_registry || {
        let folders = registry.iter().map(|folder| folder.join(format!("{name}-{version}")));
        // If its source is not found, it may contain anything.
        folders
            .into_iter()
            .find(|folder| folder.is_dir())
            .is_none_or(|folder| !asking_files(&folder).is_empty())
    };
    Some(DevicePackage { spec: format!("{name}@{version}"), asks_for_arch })
}

/// The folders where cargo unpacks registry packages.
fn registry_sources() -> Vec<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo")));
    let sources = home.and_then(|home| home.join("registry/src").read_dir().ok());
    sources.into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// One of these is part of every test for the architecture: the beginning of a value that `cfg` compares `target_feature`
/// with, a literal in any case, or the word in `#[kernel]`. Many crates test for features of host processors, which need no
/// compilation per architecture.
const ARCH_WORDS: [&str; 3] = ["\"sm_", "\"compute_", "min_arch"];

/// The Rust files in `folder` that contain a test for the architecture by `cfg` or `#[kernel]`.
pub(crate) fn asking_files(folder: &Path) -> Vec<Vec<u8>> {
    let entries = folder.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
    let mut asking = Vec::new();
    for path in entries {
        if path.is_dir() {
            asking.extend(asking_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = files::read(&path).unwrap_or_default();
            let has_word = ARCH_WORDS.iter().any(|word| memmem::find(&text, word.as_bytes()).is_some());
            let asks = has_word || specific_archs(&String::from_utf8_lossy(&text)).next().is_some();
            asking.extend(asks.then_some(text));
        }
    }
    asking
}

/// The compute capabilities that `text` names as in `#[kernel(arch = "90a")]`.
pub(crate) fn specific_archs(text: &str) -> impl Iterator<Item = u32> {
    let before = |at: usize| text[..at].chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_');
    text.match_indices("arch").filter(move |(at, _)| !before(*at)).filter_map(|(at, word)| {
        let value = text[at + word.len()..].trim_start().strip_prefix('=')?.trim_start().strip_prefix('"')?;
        value.split_once("a\"")?.0.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_picked_out_of_the_arguments() {
        let arguments = [
            "--features",
            "a,b",
            "-Zbuild-std=core",
            "--features=c",
            "-Fd",
            "-F",
            "e",
            "--no-default-features",
        ];
        let arguments = arguments.map(str::to_owned);
        assert_eq!(
            features(&arguments),
            ["--features", "a,b", "--features=c", "-Fd", "-F", "e", "--no-default-features"]
        );
        assert_eq!(features(&["--features".to_owned()]), ["--features"]);
    }

    #[test]
    fn folders_are_read_from_cargos_tree() {
        let folder = tempfile::tempdir().unwrap();
        let (one, mine) = (folder.path().join("one-1.0.0"), folder.path().join("a folder"));
        [&one, &mine].into_iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
        let registry = [folder.path().to_owned()];
        let read = |line: &str| folder_of(line, &registry, "known");
        assert_eq!(read("one v1.0.0 (proc-macro) (*)"), Some(Some(one)));
        let of_path = format!("mine v0.1.0 (proc-macro) ({}) (*)", mine.display());
        assert_eq!(read(&of_path), Some(Some(mine)));
        for unknown in
            ["gone v1.0.0", "git v1.0.0 (https://example.org/git#0123)", "mine v0.1.0 (/no/such/folder)"]
        {
            assert_eq!(read(unknown), Some(None), "{unknown}");
        }
        assert_eq!((read("known v1.0.0"), read("")), (None, None));
    }

    #[test]
    fn packages_are_read_from_cargos_tree() {
        let folder = tempfile::tempdir().unwrap();
        for (name, source) in [
            ("plain-1.0.0", "fn f() {}"),
            ("host-1.0.0", "#[cfg(target_feature = \"sse2\")]"),
            ("asks-2.0.0", "#[cfg(target_feature = \"sm_80\")]"),
            ("asks-3.0.0", "#[cfg(target_feature = r\"compute_80\")]"),
            ("asks-4.0.0", "#[kernel(arch = \"90a\")]"),
            ("other-1.0.0", "#[cfg(target_arch = \"90a\")]"),
        ] {
            let src = folder.path().join(name).join("src");
            std::fs::create_dir_all(&src).unwrap();
            std::fs::write(src.join("lib.rs"), source).unwrap();
        }
        let registry = [folder.path().to_owned()];
        let read =
            |line| device_package(line, &registry).map(|package| (package.spec, package.asks_for_arch));
        assert_eq!(read("mine v0.1.0 (/a folder/mine)"), Some(("mine@0.1.0".to_owned(), true)));
        assert_eq!(read("plain v1.0.0 (*)"), Some(("plain@1.0.0".to_owned(), false)));
        assert_eq!(read("asks v2.0.0"), Some(("asks@2.0.0".to_owned(), true)));
        assert_eq!(read("asks v3.0.0"), Some(("asks@3.0.0".to_owned(), true)));
        assert_eq!(read("asks v4.0.0"), Some(("asks@4.0.0".to_owned(), true)));
        assert_eq!(read("other v1.0.0"), Some(("other@1.0.0".to_owned(), false)));
        assert_eq!(read("host v1.0.0"), Some(("host@1.0.0".to_owned(), false)));
        assert_eq!(read("gone v1.0.0"), Some(("gone@1.0.0".to_owned(), true)));
        assert!(read("git v1.0.0 (https://example.org/git#01234567) (*)").unwrap().1);
        assert_eq!(read(""), None);
    }
}
