//! Reports what a machine has for running kernels, and what is missing.

use std::collections::BTreeMap;
use std::env::consts::{ARCH, OS};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use cuda_std::launch::LaunchConfig;
use cuda_std::simt::Executor;
use cust::LoadError;

use super::arch::named_archs;
use super::cuda::{self, Found};
use super::error::DeviceError;
use super::handle::Device;
use super::modules::{PtxModule, PtxModules};
use super::open;
use super::ptx_header::is_too_new;

/// A report for people, of several lines: the CUDA driver, the GPUs, the PTX that is found, the modules that each GPU gets, the
/// caches, what is missing, and a line that begins with `wrong: ` for each environment variable with a value that is refused. It
/// opens each GPU and loads a module. `cargo run -p ferrowarp --example doctor` prints it, and fails if something is wrong.
///
/// ```
/// let report = ferrowarp::device::doctor();
/// assert!(report.contains("\ndriver: ") && report.contains("\nmissing: "));
/// println!("{report}");
/// ```
pub fn doctor() -> String {
    let mut report = Report {
        text: format!("ferrowarp {} on {OS}, {ARCH}\n", env!("CARGO_PKG_VERSION")),
        missing: Vec::new(),
    };
    report.variables();
    let wrong = wrong_variables();
    let gpus = report.driver_and_gpus();
    let modules = report.ptx(gpus.is_empty());
    if let Some(modules) = &modules {
        gpus.iter().for_each(|gpu| report.gpu(gpu, modules));
    }
    report.caches();
    let cpu = Device::cpu();
    report.line("cpu", &format!("{}, {} cores", cpu.name(), cpu.multiprocessors()));
    if report.missing.is_empty() {
        report.line("missing", "nothing");
    }
    for what in std::mem::take(&mut report.missing) {
        // A wrong variable has a line of its own.
        if !wrong.contains(&what) {
            report.line("missing", &what);
        }
    }
    wrong.iter().for_each(|what| report.line("wrong", what));
    report.text
}

/// Why values of variables are refused, as a device that is opened or a launch on the CPU does.
fn wrong_variables() -> Vec<String> {
    let refusals = [
        named_archs().err(),
        open::of_environment().err(),
        cuda::waits_for_each_launch().err(),
        cuda::stack_bytes().err(),
        // No driver at all is not the variable's fault.
        cust::load().err().filter(|error| !matches!(error, LoadError::Library { .. })).map(DeviceError::from),
    ];
    let refusals = refusals.into_iter().flatten().map(|error| error.to_string());
    let launched = Executor::new().run("doctor", LaunchConfig::new(1, 1), || {});
    refusals.chain(launched.err().map(|error| error.to_string())).collect()
}

struct Report {
    text: String,
    missing: Vec<String>,
}

impl Report {
    fn line(&mut self, what: &str, value: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{what}: {value}");
    }

    fn variables(&mut self) {
        let ours = |name: &str| name.starts_with("FERROWARP_") || name.starts_with("CUDA_");
        let set = std::env::vars_os().map(|(name, value)| (name.to_string_lossy().into_owned(), value));
        for (name, value) in set.filter(|(name, _)| ours(name)).collect::<BTreeMap<_, _>>() {
            self.line("variable", &format!("{name}={}", value.display()));
        }
    }

    /// The GPUs that can be used.
    fn driver_and_gpus(&mut self) -> Vec<Found> {
        let driver = match cust::load() {
            Ok(driver) => driver,
            Err(error) => {
                self.line("driver", "none");
                self.missing.push(error.to_string());
                return Vec::new();
            }
        };
        let version = match cuda::driver_version() {
            Some((major, minor)) => format!("for CUDA {major}.{minor}"),
            None => "of an unknown version".to_owned(),
        };
        let functions = driver.functions_found();
        self.line(
            "driver",
            &format!("{}, {version}, {functions} functions found", driver.library().display()),
        );
        let count = cuda::count_devices().unwrap_or_else(|error| {
            self.missing.push(error.to_string());
            0
        });
        if count == 0 {
            self.line("gpu", "none");
        }
        let mut gpus = Vec::new();
        for ordinal in 0..count {
            match cuda::find(ordinal) {
                Ok(found) => {
                    let (major, minor) = (found.major, found.minor);
                    self.line(
                        &format!("gpu {ordinal}"),
                        &format!("{}, compute capability {major}.{minor}", found.name),
                    );
                    gpus.push(found);
                }
                Err(error) => self.missing.push(error.to_string()),
            }
        }
        gpus
    }

    fn ptx(&mut self, is_optional: bool) -> Option<PtxModules> {
        match PtxModules::find() {
            Ok(modules) => {
                let folders = modules.modules().iter().filter_map(|module| module.path().parent());
                let mut folders: Vec<String> = folders.map(|path| path.display().to_string()).collect();
                folders.dedup();
                let all: Vec<&PtxModule> = modules.modules().iter().collect();
                self.line("ptx", &format!("{} in {}", summary(&all), folders.join(", ")));
                Some(modules)
            }
            Err(error) if is_optional => {
                self.line("ptx", &format!("none, which only a GPU needs ({error})"));
                None
            }
            Err(error) => {
                self.line("ptx", "none");
                self.missing.push(error.to_string());
                None
            }
        }
    }

    fn gpu(&mut self, gpu: &Found, modules: &PtxModules) {
        let ordinal = gpu.ordinal;
        let chosen = modules.best_for(&gpu.name, gpu.code.0, gpu.code.1).unwrap_or_default();
        if !chosen.is_empty() {
            let has_code = |module: &&&PtxModule| module.machine_code(gpu.major, gpu.minor).is_some();
            let with_code = chosen.iter().filter(has_code).count();
            let what = format!("{}; {with_code} of them with machine code", summary(&chosen));
            self.line(&format!("gpu {ordinal} gets"), &what);
        }
        // A module that is not read is an error at the first launch of one of its kernels.
        let driver = cuda::driver_version();
        let is_too_new =
            |module: &&&PtxModule| driver.is_some_and(|driver| is_too_new(module.version(), driver));
        if let Some(newest) = chosen.iter().filter(is_too_new).max_by_key(|module| module.version()) {
            self.missing.push(cuda::too_new(newest, driver).to_string());
        }
        match Device::cuda_with(ordinal, modules) {
            Ok(_) => self.line(&format!("gpu {ordinal} opens"), "yes"),
            Err(error) => {
                self.line(&format!("gpu {ordinal} opens"), "no");
                self.missing.push(error.to_string());
            }
        }
        self.missing.dedup();
    }

    fn caches(&mut self) {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = || set("HOME").or_else(|| set("USERPROFILE"));
        let drivers = set("CUDA_CACHE_PATH")
            .or_else(|| set("APPDATA").map(|folder| folder.join("NVIDIA/ComputeCache")))
            .or_else(|| home().map(|folder| folder.join(".nv/ComputeCache")));
        let ours = set("XDG_CACHE_HOME").or_else(|| set("LOCALAPPDATA"));
        let ours = ours
            .or_else(|| home().map(|folder| folder.join(".cache")))
            .map(|folder| folder.join("ferrowarp"));
        let uses = [
            (
                "cache of the driver's compiler",
                drivers,
                "so PTX without machine code is compiled at each start",
            ),
            ("cache of build scripts", ours, "so each project builds its own kernels"),
        ];
        for (what, folder, otherwise) in uses {
            let state = match folder {
                None => format!("none, {otherwise}"),
                Some(folder) if is_writable(&folder) => folder.display().to_string(),
                Some(folder) => format!("{} cannot be written, {otherwise}", folder.display()),
            };
            self.line(what, &state);
        }
    }
}

/// How many modules there are for each architecture, and in which version of PTX.
fn summary(modules: &[&PtxModule]) -> String {
    let mut kinds: BTreeMap<_, (u32, (u32, u32))> = BTreeMap::new();
    for module in modules {
        let kind = kinds.entry(module.target().rank()).or_insert((0, (0, 0)));
        *kind = (kind.0 + 1, kind.1.max(module.version()));
    }
    let target = |rank| modules.iter().map(|module| module.target()).find(|target| target.rank() == rank);
    let text = |(rank, (count, (major, minor)))| {
        let target = target(rank).map(|target| target.to_string()).unwrap_or_default();
        format!("{count} for {target} up to PTX {major}.{minor}")
    };
    format!("{} modules, {}", modules.len(), kinds.into_iter().map(text).collect::<Vec<_>>().join(", "))
}

/// Whether files can be made in the folder or, if it does not exist, in its nearest parent.
fn is_writable(folder: &Path) -> bool {
    let Some(folder) = folder.ancestors().find(|folder| folder.exists()) else { return false };
    let file = folder.join(format!(".ferrowarp-doctor-{}", std::process::id()));
    let is_made = std::fs::File::create(&file).is_ok();
    // If it was not made, there is nothing to remove.
    let _ = std::fs::remove_file(file);
    is_made
}
