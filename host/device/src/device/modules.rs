//! Finds the kernels' PTX and chooses the modules for a device.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::error::DeviceError;
use module::{MachineCode, not_text};

mod module;

pub use super::ptx_header::PtxTarget;
pub use module::PtxModule;

/// The environment variable that names a PTX file, or a folder of them.
const VARIABLE: &str = "FERROWARP_PTX";

/// One or more sets of PTX. A set is the files of a folder or the files embedded in the program, and has each kernel crate,
/// or each part of one, once per architecture. [`Self::and`] joins sets, so that a device has the kernels of all of them.
///
/// `cargo xtask build-ptx` names them `<crate>.<part>.compute_<architecture>.ptx`. The architecture is read from the file
/// (`.target`, PTX ISA section "PTX Module Directives"), crate and part from the name. Kernels for only one architecture
/// form a separate part, such as `only_90a`, which a GPU of that architecture loads in addition. A file of the same name
/// that ends in `cubin` holds machine code built from it, which a GPU of the architecture runs without compiling.
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

/// The PTX and the machine code that a build script embedded in the program with `CudaBuilder::embed`, as a
/// `Result<PtxModules, DeviceError>`. The argument is the name of the kernel crate's library.
///
/// ```ignore
/// // build.rs: CudaBuilder::new("kernels").embed_or_exit();
/// let (device, line) = open_with(DeviceChoice::Auto, || ferrowarp::embedded_ptx!("kernels"))?;
/// ```
#[macro_export]
macro_rules! embedded_ptx {
    ($library:literal) => {
        $crate::device::PtxModules::embedded(include!(concat!(
            env!("OUT_DIR"),
            "/",
            $library,
            ".embedded.rs"
        )))
    };
}

/// The PTX and machine code that crates with operations bring along: a set of files each, as [`PtxModules::embedded`] takes them,
/// empty if none was built.
#[doc(hidden)]
#[linkme::distributed_slice]
pub static BROUGHT: [&[(&str, &[u8])]];

impl PtxModules {
    /// Finds the PTX: what `FERROWARP_PTX` names, otherwise what the program's crates bring, and for crates that bring none, the files
    /// next to the running program, otherwise the files in `ptx/` of the Cargo target directory that contains the program or the
    /// current directory.
    ///
    /// # Errors
    /// [`DeviceError::PtxMissing`] with the places searched; a file cannot be read or is not valid PTX.
    pub fn find() -> Result<PtxModules, DeviceError> {
        if let Some(path) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
            return Self::read(Path::new(&path));
        }
        let brought = Self::brought()?;
        let candidates =
            candidates(std::env::current_exe().ok().as_deref(), std::env::current_dir().ok().as_deref());
        for folder in candidates.iter().filter(|folder| folder.is_dir()) {
            let files = ptx_files(folder)?;
            if !files.is_empty() {
                let found = Self::of_files(&files)?;
                return Ok(match brought {
                    Some(brought) => brought.and_others_of(found),
                    None => found,
                });
            }
        }
        brought.ok_or_else(|| missing(&candidates))
    }

    /// What the program's crates bring. It is read once in a process, so that each module is decompressed at most once.
    fn brought() -> Result<Option<PtxModules>, DeviceError> {
        static READ: OnceLock<PtxModules> = OnceLock::new();
        if let Some(read) = READ.get() {
            return Ok(Some(read.clone()));
        }
        let sets = BROUGHT.iter().filter(|files| !files.is_empty()).map(|files| Self::embedded(files));
        let brought = sets.reduce(|all, set| Ok(all?.and(set?))).transpose()?;
        Ok(brought.map(|read| READ.get_or_init(|| read).clone()))
    }

    /// Adds the modules of crates that have none here.
    fn and_others_of(self, mut found: PtxModules) -> PtxModules {
        let of = |module: &PtxModule| module.name().split('.').next().unwrap_or_default().to_owned();
        let known: Vec<String> = self.modules.iter().map(of).collect();
        found.modules.retain(|module| !known.contains(&of(module)));
        if found.modules.is_empty() { self } else { self.and(found) }
    }

    /// Reads the PTX file `path`, or all `.ptx` files of the folder `path`.
    ///
    /// # Errors
    /// [`DeviceError::PtxMissing`] for a folder without PTX; a file does not exist, cannot be read or is not valid PTX.
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

    /// Makes a set of the modules in `files`, pairs of the name and the bytes of a `.ptx`, `.ptx.zst` or `.cubin` file.
    /// [`embedded_ptx!`](crate::embedded_ptx) passes what the build script wrote. Other kinds of files are ignored. What zstd has
    /// compressed is decompressed when a device of its architecture is opened.
    ///
    /// ```
    /// use ferrowarp::device::{DeviceError, PtxModules};
    ///
    /// let text = b".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n";
    /// let modules = PtxModules::embedded(&[("kernels.compute_90.ptx", text)])?;
    /// assert_eq!(modules.modules()[0].name(), "kernels");
    /// # Ok::<(), DeviceError>(())
    /// ```
    ///
    /// # Errors
    /// [`DeviceError::PtxMissing`] without PTX; [`DeviceError::PtxDamaged`] for a file that is not valid PTX.
    pub fn embedded(files: &[(&str, &'static [u8])]) -> Result<PtxModules, DeviceError> {
        let is_ptx = |name: &str| name.ends_with(".ptx") || name.ends_with(".ptx.zst");
        let code = |ptx: &str| {
            let stem = ptx.strip_suffix(".ptx")?;
            files.iter().find(|(name, _)| name.strip_suffix(".cubin") == Some(stem)).map(|(_, code)| *code)
        };
        let read = |(name, bytes): &(&str, &'static [u8])| {
            if let Some(name) = name.strip_suffix(".zst") {
                return PtxModule::of_packed(bytes, &Path::new("embedded").join(name));
            }
            let path = Path::new("embedded").join(name);
            let text = std::str::from_utf8(bytes).map_err(|error| not_text(&path, error))?;
            PtxModule::of_text(Cow::Borrowed(text), &path, MachineCode::Embedded(code(name)))
        };
        let modules: Vec<PtxModule> =
            files.iter().filter(|(name, _)| is_ptx(name)).map(read).collect::<Result<_, _>>()?;
        if modules.is_empty() { Err(missing(&[PathBuf::from("the program")])) } else { Ok(modules.into()) }
    }

    /// Joins two sets. A device that is opened with the result has the kernels of each set.
    ///
    /// Parts of different sets may have equal names. A kernel's name must be in one set only: opening a GPU reports
    /// [`DeviceError::KernelInTwoSets`] otherwise.
    ///
    /// ```
    /// use ferrowarp::device::{DeviceError, PtxModules};
    ///
    /// let of = |name: &str| format!(".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry {name}() {{ ret; }}\n");
    /// let set = |name: &str| {
    ///     let text: &'static str = of(name).leak();
    ///     PtxModules::embedded(&[("kernels.compute_90.ptx", text.as_bytes())])
    /// };
    /// let modules = set("mine")?.and(set("yours")?);
    /// assert_eq!(modules.modules().len(), 2);
    /// # Ok::<(), DeviceError>(())
    /// ```
    pub fn and(mut self, other: PtxModules) -> PtxModules {
        let sets = self.modules.iter().map(|module| module.set + 1).max().unwrap_or(0);
        let moved = other.modules.into_iter().map(|module| {
            let set = module.set + sets;
            module.in_set(set)
        });
        self.modules.extend(moved);
        self
    }

    /// All modules, sorted by file name within a set, with the sets in the order in which they were joined.
    pub fn modules(&self) -> &[PtxModule] {
        &self.modules
    }

    /// Chooses, for each kernel crate of each set, the module of the newest architecture that runs on a device of this
    /// compute capability.
    ///
    /// # Errors
    /// [`DeviceError::NoModuleFor`] if a set has no module for the device.
    pub(super) fn best_for(
        &self,
        device: &str,
        major: u32,
        minor: u32,
    ) -> Result<Vec<&PtxModule>, DeviceError> {
        let mut best: Vec<&PtxModule> = Vec::new();
        for module in self.modules.iter().filter(|module| module.target().runs_on(major, minor)) {
            match best.iter_mut().find(|chosen| (chosen.set, &chosen.name) == (module.set, &module.name)) {
                Some(chosen) if module.target().rank() > chosen.target().rank() => *chosen = module,
                Some(_) => {}
                None => best.push(module),
            }
        }
        let is_served = |set: usize| best.iter().any(|module| module.set == set);
        let left_out = self.modules.iter().map(|module| module.set).find(|set| !is_served(*set));
        if best.is_empty() || left_out.is_some() {
            let set = self.modules.iter().filter(|module| left_out.is_none_or(|set| module.set == set));
            let mut targets: Vec<_> = set.map(PtxModule::target).collect();
            targets.sort_by_key(PtxTarget::rank);
            targets.dedup();
            let mut available = targets.iter().map(PtxTarget::to_string).collect::<Vec<_>>().join(", ");
            let named = self.modules.iter().find(|module| left_out == Some(module.set) && module.set > 0);
            available.extend(named.map(|module| format!(" in the set of {}", module.path.display())));
            return Err(DeviceError::NoModuleFor { device: device.to_owned(), major, minor, available });
        }
        Ok(best)
    }
}

impl From<Vec<PtxModule>> for PtxModules {
    /// Makes one set of these modules.
    fn from(modules: Vec<PtxModule>) -> PtxModules {
        PtxModules { modules: modules.into_iter().map(|module| module.in_set(0)).collect() }
    }
}

/// Maps each kernel to the index of its module among the chosen ones.
///
/// # Errors
/// [`DeviceError::KernelInTwoSets`]; a file cannot be read or is not valid PTX.
pub(super) fn index(modules: &[&PtxModule]) -> Result<HashMap<String, usize>, DeviceError> {
    let mut index: HashMap<String, usize> = HashMap::new();
    for (at, module) in modules.iter().enumerate() {
        for kernel in module.kernels()? {
            match index.get(&kernel).map(|first| modules[*first]) {
                Some(first) if first.set != module.set => {
                    let (first, second) = (first.path.clone(), module.path.clone());
                    return Err(DeviceError::KernelInTwoSets { kernel, first, second });
                }
                Some(_) => {}
                None => drop(index.insert(kernel, at)),
            }
        }
    }
    Ok(index)
}

/// The folders to search, in order, without duplicates.
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

/// Whether this folder is a Cargo target directory: it has Cargo's default name, or Cargo's tag file.
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

#[cfg(test)]
mod tests;
