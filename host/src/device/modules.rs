//! Finding the kernels' PTX and choosing the modules for a device.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use sha2::{Digest, Sha256};

use super::DeviceError;
use super::ptx_header::{Header, parse, parse_head};

pub use super::ptx_header::PtxTarget;

/// The environment variable that names a PTX file, or a folder of them.
const VARIABLE: &str = "FERROWARP_PTX";

/// The most bytes that a PTX file or its machine code may have.
const MOST_BYTES: u64 = 256 << 20;
/// The bytes at the head of a file in which its directives stand.
const HEAD_BYTES: u64 = 64 << 10;
/// What `cargo xtask build-ptx` writes after machine code, before the SHA-256 of the PTX that it was made from.
const TRAILER: &[u8; 16] = b"ferrowarp cubin\n";

/// The PTX files of a folder: each kernel crate, or each part of one, once per architecture.
///
/// `cargo xtask build-ptx` names them `<crate>.<part>.compute_<architecture>.ptx`. The architecture is read from the file
/// itself (`.target`, PTX ISA section "PTX Module Directives"), crate and part from the name. Kernels that are for one
/// architecture alone are a part of their own, such as `only_90a`, which a GPU of that architecture loads next to the others.
/// A file of the same name
/// that ends in `cubin` holds machine code made from it, which a GPU of the architecture starts without compiling.
///
/// ```
/// use ferrowarp::device::{DeviceError, PtxModules};
///
/// # let folder = std::env::temp_dir().join(format!("ferrowarp-doc-modules-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder).unwrap();
/// # let text = ".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n";
/// # std::fs::write(folder.join("kernels.compute_90.ptx"), text).unwrap();
/// let modules = PtxModules::read(&folder)?; // The folder that cuda_builder wrote.
/// assert_eq!(modules.modules()[0].target().to_string(), "compute_90");
/// # std::fs::remove_dir_all(&folder).unwrap();
/// # Ok::<(), DeviceError>(())
/// ```
#[derive(Clone, Debug)]
pub struct PtxModules {
    modules: Vec<PtxModule>,
}

/// One PTX file.
///
/// ```
/// use std::path::Path;
///
/// use ferrowarp::device::{DeviceError, PtxModule};
///
/// let text = ".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n";
/// let module = PtxModule::from_bytes(text.into(), Path::new("kernels.compute_90.ptx"))?;
/// assert_eq!((module.name(), module.version()), ("kernels", (8, 6)));
/// # Ok::<(), DeviceError>(())
/// ```
#[derive(Clone)]
pub struct PtxModule {
    path: PathBuf,
    name: String,
    header: Header,
    text: OnceLock<String>,
}

impl PtxModules {
    /// Finds the PTX: what `FERROWARP_PTX` names, else the files next to the running program, else those in `ptx/` of
    /// the Cargo target directory that the program or the current directory lies in.
    ///
    /// # Errors
    /// [`DeviceError::PtxMissing`] with the places looked at; a file that cannot be read or is not valid PTX.
    pub fn find() -> Result<PtxModules, DeviceError> {
        if let Some(path) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
            return Self::read(Path::new(&path));
        }
        let candidates =
            candidates(std::env::current_exe().ok().as_deref(), std::env::current_dir().ok().as_deref());
        for folder in candidates.iter().filter(|folder| folder.is_dir()) {
            let files = ptx_files(folder)?;
            if !files.is_empty() {
                return Self::of_files(&files);
            }
        }
        Err(missing(&candidates))
    }

    /// The PTX file `path`, or all `.ptx` files of the folder `path`.
    ///
    /// # Errors
    /// [`DeviceError::PtxMissing`] for a folder without PTX; a file that does not exist, cannot be read or is not valid PTX.
    pub fn read(path: &Path) -> Result<PtxModules, DeviceError> {
        if !path.is_dir() {
            return Self::of_files(&[path.to_owned()]);
        }
        let files = ptx_files(path)?;
        if files.is_empty() { Err(missing(&[path.to_owned()])) } else { Self::of_files(&files) }
    }

    fn of_files(files: &[PathBuf]) -> Result<PtxModules, DeviceError> {
        let modules = files.iter().map(|path| PtxModule::read(path)).collect::<Result<_, _>>()?;
        Ok(PtxModules { modules })
    }

    /// All of them, in the order of their file names.
    pub fn modules(&self) -> &[PtxModule] {
        &self.modules
    }

    /// For every kernel crate the module of the newest architecture that runs on a device of this compute
    /// capability.
    ///
    /// # Errors
    /// [`DeviceError::NoModuleFor`] if there is none at all.
    pub(super) fn best_for(
        &self,
        device: &str,
        major: u32,
        minor: u32,
    ) -> Result<Vec<&PtxModule>, DeviceError> {
        let mut best: Vec<&PtxModule> = Vec::new();
        for module in self.modules.iter().filter(|module| module.target().runs_on(major, minor)) {
            match best.iter_mut().find(|chosen| chosen.name == module.name) {
                Some(chosen) if module.target().rank() > chosen.target().rank() => *chosen = module,
                Some(_) => {}
                None => best.push(module),
            }
        }
        if best.is_empty() {
            let mut targets: Vec<_> = self.modules.iter().map(PtxModule::target).collect();
            targets.sort_by_key(PtxTarget::rank);
            targets.dedup();
            let available = targets.iter().map(PtxTarget::to_string).collect::<Vec<_>>().join(", ");
            return Err(DeviceError::NoModuleFor { device: device.to_owned(), major, minor, available });
        }
        Ok(best)
    }
}

impl PtxModule {
    /// Reads the head of a file; the rest is read when it is needed.
    fn read(path: &Path) -> Result<PtxModule, DeviceError> {
        let (head, is_all) = read_at_most(path, HEAD_BYTES)?;
        if is_all {
            return Self::from_bytes(head, path);
        }
        // A character may be cut in two at the end.
        let text = String::from_utf8_lossy(&head);
        let header = parse_head(&text).map_err(|reason| damaged(path, reason))?;
        Ok(PtxModule { path: path.to_owned(), name: crate_name(path), header, text: OnceLock::new() })
    }

    /// The module that `bytes` hold, the contents of the file `path`.
    ///
    /// # Errors
    /// [`DeviceError::PtxDamaged`] if the text is not valid PTX.
    pub fn from_bytes(bytes: Vec<u8>, path: &Path) -> Result<PtxModule, DeviceError> {
        let text = text_of(bytes, path)?;
        let header = parse(&text).map_err(|reason| damaged(path, reason))?;
        Ok(PtxModule { path: path.to_owned(), name: crate_name(path), header, text: OnceLock::from(text) })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The kernel crate's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The PTX ISA version it is written in, major and minor.
    pub fn version(&self) -> (u32, u32) {
        self.header.version
    }

    /// The architecture it is built for.
    pub fn target(&self) -> PtxTarget {
        self.header.target
    }

    /// The PTX.
    ///
    /// # Errors
    /// The file cannot be read, or is not valid PTX.
    pub fn text(&self) -> Result<&str, DeviceError> {
        if let Some(text) = self.text.get() {
            return Ok(text);
        }
        let (bytes, is_all) = read_at_most(&self.path, MOST_BYTES)?;
        if !is_all {
            return Err(damaged(&self.path, format!("it has more than {} MiB", MOST_BYTES >> 20)));
        }
        let text = text_of(bytes, &self.path)?;
        parse(&text).map_err(|reason| damaged(&self.path, reason))?;
        Ok(self.text.get_or_init(|| text))
    }

    /// The machine code that was made from this very PTX, if it is there and is for a device of this compute capability.
    pub(super) fn machine_code(&self, major: u32, minor: u32) -> Option<Vec<u8>> {
        let target = self.target();
        let (built_major, built_minor) = (target.architecture / 10, target.architecture % 10);
        // Machine code runs on later devices of the same major capability (CUDA programming guide, "binary
        // compatibility").
        let runs =
            built_major == major && built_minor <= minor && (target.suffix.is_none() || built_minor == minor);
        let path = self.path.with_extension("cubin");
        let (mut code, is_all) = read_at_most(&path, MOST_BYTES).ok().filter(|_| runs)?;
        let at = code.len().checked_sub(TRAILER.len() + 32).filter(|_| is_all)?;
        let is_of_this = {
            let (trailer, hash) = code[at..].split_at(TRAILER.len());
            trailer == TRAILER && hash == &Sha256::digest(self.text().ok()?)[..]
        };
        code.truncate(at);
        is_of_this.then_some(code)
    }

    /// The names of its kernels.
    ///
    /// # Errors
    /// As [`Self::text`].
    pub(super) fn kernels(&self) -> Result<Vec<String>, DeviceError> {
        let after = self.text()?.split(".entry").skip(1);
        let name = |rest: &str| -> String {
            let is_part = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%');
            rest.trim_start().chars().take_while(is_part).collect()
        };
        Ok(after.map(name).filter(|name| !name.is_empty()).collect())
    }
}

fn damaged(path: &Path, reason: String) -> DeviceError {
    DeviceError::PtxDamaged { path: path.to_owned(), reason }
}

fn text_of(bytes: Vec<u8>, path: &Path) -> Result<String, DeviceError> {
    String::from_utf8(bytes).map_err(|error| {
        damaged(path, format!("byte {} is not UTF-8 text", error.utf8_error().valid_up_to()))
    })
}

/// The first `most` bytes of an ordinary file, and whether these are all.
fn read_at_most(path: &Path, most: u64) -> Result<(Vec<u8>, bool), DeviceError> {
    let unreadable = |source| DeviceError::PtxUnreadable { path: path.to_owned(), source };
    let file = std::fs::File::open(path).map_err(unreadable)?;
    // A device or a pipe may never end.
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err(damaged(path, "it is not a regular file".to_owned()));
    }
    let mut bytes = Vec::new();
    let len = file.take(most + 1).read_to_end(&mut bytes).map_err(unreadable)? as u64;
    bytes.truncate(most as usize);
    Ok((bytes, len <= most))
}

impl fmt::Debug for PtxModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PtxModule({} for {})", self.path.display(), self.target())
    }
}

/// The folders to look in, in order, each once.
fn candidates(executable: Option<&Path>, current: Option<&Path>) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    let mut push = |folder: PathBuf| {
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    };
    if let Some(folder) = executable.and_then(Path::parent) {
        push(folder.to_owned());
        for ancestor in folder.ancestors().filter(|folder| is_target_directory(folder)) {
            push(ancestor.join("ptx"));
        }
    }
    for ancestor in current.into_iter().flat_map(Path::ancestors) {
        let target = ancestor.join("target");
        if ancestor.join("Cargo.toml").is_file() || target.is_dir() {
            push(target.join("ptx"));
        }
    }
    folders
}

/// Whether Cargo builds into this folder: it has Cargo's name for it, or Cargo's mark where it is named otherwise.
fn is_target_directory(folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| name == "target") || folder.join("CACHEDIR.TAG").is_file()
}

/// The folder's `.ptx` files, sorted by name.
fn ptx_files(folder: &Path) -> Result<Vec<PathBuf>, DeviceError> {
    let unreadable = |source| DeviceError::PtxUnreadable { path: folder.to_owned(), source };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|extension| extension == "ptx") && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn missing(looked: &[PathBuf]) -> DeviceError {
    let looked = match looked {
        [] => "any known place".to_owned(),
        folders => folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(", "),
    };
    DeviceError::PtxMissing { looked }
}

/// `gpu_kernels` for `gpu_kernels.compute_90.ptx`.
fn crate_name(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    match stem.rsplit_once('.') {
        Some((name, architecture))
            if architecture.starts_with("compute_") || architecture.starts_with("sm_") =>
        {
            name.to_owned()
        }
        _ => stem.into_owned(),
    }
}

#[cfg(test)]
mod tests;
