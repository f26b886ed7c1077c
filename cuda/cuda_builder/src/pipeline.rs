//! The stages of a build: rustc, the edits, a back end, the proof, ptxas, the files; for several architectures and parts in
//! parallel.

mod compile;
mod parts;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::arch::NvvmArch;
use crate::backend::Compiler;
use crate::builder::{CudaBuilder, DebugInfo};
use crate::built::{Built, BuiltModule, Times};
use crate::cache::Cache;
use crate::cargo::CargoOptions;
use crate::error::{CudaBuilderError, IoContext as _};
use crate::files;
use crate::fingerprint;
use crate::jobs;
use crate::output::{self, Outputs};
use crate::packages::{self, DevicePackage, KernelCrate};
use crate::process;
use crate::progress::{Progress, ProgressFn};
use crate::ptxas;
use crate::toolchain::{self, Toolchain};
use crate::watch::{self, Watch};
use cuda_ir::locations::Locations;

/// What all architectures of a kernel crate share.
struct Session<'b> {
    builder: &'b CudaBuilder,
    kernel_crate: KernelCrate,
    packages: Vec<DevicePackage>,
    toolchain: Toolchain,
    compiler: Arc<Compiler>,
    ptxas: Option<PathBuf>,
    sources: String,
    work: PathBuf,
    cache: Cache,
    times: Arc<Mutex<Times>>,
    watch: &'b Watch,
}

/// A part of an architecture's module, and the key of its output in the cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Part {
    /// Whether its kernels are only for the architecture with the letter `a`, next to a part for the one without a letter.
    is_specific: bool,
    family: String,
    key: String,
    /// The lines and columns that are marks in what the cache has.
    locations: Vec<(u32, u32)>,
}

impl CudaBuilder {
    /// Builds for the single requested architecture. Returns the path of the PTX, or of the copy with [`Self::copy_to`].
    pub fn build(self) -> Result<PathBuf, CudaBuilderError> {
        let refuse = |reason: String| Err(CudaBuilderError::Options(reason));
        if self.archs.len() != 1 {
            let given = self.archs.len();
            return refuse(format!(
                "build() makes one module, {given} architectures are given: use build_all()"
            ));
        }
        if self.split {
            return refuse(
                "build() makes one module, and split() makes one for each family: use build_all()".to_owned(),
            );
        }
        let copy = self.ptx_file_copy_path.clone();
        let built = self.build_all()?;
        if let Some(specific) = built.modules.iter().find(|module| !module.family.is_empty()) {
            let (arch, path) = (specific.arch, specific.path.display());
            return refuse(format!(
                "build() makes one module, and {path} has the kernels that are for {arch} alone: use build_all(), or \
                 build for {arch}"
            ));
        }
        let path = built.modules.into_iter().map(|module| module.path).next_back().unwrap_or_default();
        Ok(copy.unwrap_or(path))
    }

    /// Builds for all requested architectures, in parallel. Long steps print a line: a download, an installation, and every
    /// 20 seconds the kernels and the tool that have been running longest. In a build script the lines are warnings, which
    /// cargo shows when the script ends, and they come at growing intervals; otherwise they go to stderr.
    pub fn build_all(self) -> Result<Built, CudaBuilderError> {
        let said = Mutex::new(Vec::new());
        self.build_all_with(&|event| output::say_once(&event, &said))
    }

    /// Same as [`Self::build_all`], but passes the messages to `progress`.
    pub fn build_all_with(self, progress: &ProgressFn<'_>) -> Result<Built, CudaBuilderError> {
        self.check_options()?;
        process::check_variable()?;
        let (library, builders) = self.resolve()?;
        let watch = Watch::default();
        let interval = (watch::QUIET, output::in_build_script());
        let mut built = watch.speaking(progress, interval, || make(&builders, progress, &watch))?;
        built.library = library.unwrap_or(built.library);
        for module in &built.modules {
            module.fell_back.iter().for_each(|it| progress(Progress::FellBack(it.clone())));
            module.unbounded_stacks.iter().for_each(|it| progress(Progress::UnboundedStack(it.clone())));
        }
        Ok(built)
    }
}

/// Builds the crates together.
fn make(
    builders: &[CudaBuilder],
    progress: &ProgressFn<'_>,
    watch: &Watch,
) -> Result<Built, CudaBuilderError> {
    let start = Instant::now();
    let mut sessions: Vec<Session<'_>> = Vec::new();
    for builder in builders {
        let session = Session::open(builder, sessions.first(), progress, watch)?;
        session.outputs().check()?;
        sessions.push(session);
    }
    let parts = Session::make_parts(&sessions)?;
    let mut modules = Vec::new();
    for (session, parts) in sessions.iter().zip(&parts) {
        let outputs = session.outputs();
        let mut of_crate = Vec::new();
        for (arch, parts) in session.builder.archs.iter().zip(parts) {
            for part in parts {
                let of_part = arch.architecture_variant().filter(|_| part.is_specific);
                of_part.map_or(Ok(()), |specific| session.check_one_file(specific))?;
                of_crate.push(session.publish(&outputs, of_part.unwrap_or(*arch), part)?);
            }
        }
        outputs.remove_stale(&of_crate)?;
        modules.append(&mut of_crate);
        // Only here: cargo runs a failed script again in any case, and shows these lines before its error.
        output::watch(&session.kernel_crate);
    }
    let mut times = Times::default();
    if let Some(session) = sessions.first() {
        session.cache.prune();
        times = *jobs::lock(&session.times);
    }
    let libraries: Vec<String> = sessions.iter().map(|it| it.kernel_crate.library.clone()).collect();
    Ok(Built {
        modules,
        library: libraries.first().cloned().unwrap_or_default(),
        libraries,
        source_folders: sessions.iter().map(|it| it.kernel_crate.source_folder()).collect(),
        times: Times { total: start.elapsed(), ..times },
    })
}

impl<'b> Session<'b> {
    /// Finds everything that the build needs, and fetches missing packages; tools are those of the session `first`.
    fn open(
        builder: &'b CudaBuilder,
        first: Option<&Session<'b>>,
        progress: &(dyn Fn(Progress) + Sync),
        watch: &'b Watch,
    ) -> Result<Session<'b>, CudaBuilderError> {
        let kernel_crate = packages::describe(&builder.path)?;
        let (toolchain, compiler, ptxas) = match first {
            Some(it) => (it.toolchain.clone(), Arc::clone(&it.compiler), it.ptxas.clone()),
            None => {
                let tools = builder.tools_dir.clone();
                let tools =
                    tools.unwrap_or_else(|| CudaBuilder::tools_dir_in(&kernel_crate.target_directory));
                if builder.download {
                    Compiler::fetch(builder.backend, &tools, progress)?;
                }
                let toolchain = toolchain::find(&kernel_crate.path)?;
                let compiler = Compiler::open(builder.backend, toolchain.llvm.clone(), &tools)?;
                let ptxas = if builder.machine_code { Some(ptxas::find(&tools, progress)?) } else { None };
                (toolchain, Arc::new(compiler), ptxas)
            }
        };
        let packages = packages::of_device(&kernel_crate.path, &toolchain.rustc, &builder.build_args)?;
        let sources = fingerprint::of_sources(&kernel_crate)?;
        let work = builder.target_dir.clone().or_else(output::work_of_build_script);
        let work = work.unwrap_or_else(|| kernel_crate.target_directory.join("cuda-builder"));
        // Cargo runs in the crate's folder, where a relative path is another one.
        files::create_dir(&work)?;
        let work = work.canonicalize().during("finding the folder", &work)?;
        let cache = Cache::in_folder(&work);
        let times = first.map(|it| Arc::clone(&it.times)).unwrap_or_default();
        Ok(Session {
            builder,
            kernel_crate,
            packages,
            toolchain,
            compiler,
            ptxas,
            sources,
            work,
            cache,
            times,
            watch,
        })
    }

    fn outputs(&self) -> Outputs<'_> {
        let folder = self.builder.out_dir.clone().unwrap_or_else(|| self.work.join("ptx"));
        Outputs { builder: self.builder, library: &self.kernel_crate.library, folder }
    }

    /// Writes the files of a part, from the cache.
    fn publish(
        &self,
        outputs: &Outputs<'_>,
        arch: NvvmArch,
        part: &Part,
    ) -> Result<BuiltModule, CudaBuilderError> {
        let path = outputs.ptx(arch, &part.family);
        let Some(mut made) = self.cache.get(&part.key) else {
            let reason =
                "what was just made is no longer in the builder's cache: is another program removing it?";
            return Err(CudaBuilderError::Proof { arch, reason: reason.to_owned() });
        };
        if !part.locations.is_empty() {
            let locations = Locations(part.locations.clone());
            if let Some((code, _)) = &mut made.assembled {
                *code = locations.fill_code(code);
            }
            made.ptx = locations.fill(&made.ptx);
        }
        outputs.write(&path, made).map(|written| BuiltModule { arch, family: part.family.clone(), ..written })
    }

    fn count(&self, add: impl FnOnce(&mut Times)) {
        add(&mut jobs::lock(&self.times));
    }

    fn stamp(&self, arch: NvvmArch) -> PathBuf {
        let options = self.options(arch);
        let ptxas = if self.ptxas.is_some() { "ptxas" } else { "" };
        let name = fingerprint::of_parts(&[&self.kernel_crate.path.display().to_string(), &options, ptxas]);
        self.work.join("stamps").join(&name[..32])
    }

    fn options(&self, arch: NvvmArch) -> String {
        let (cargo, code) = (self.cargo_options(), self.builder.codegen(arch));
        let CudaBuilder { backend, compile_once, fall_back, .. } = self.builder;
        let specific = self.specific(arch);
        format!(
            "{cargo:?} {code:?} {:?} {backend} {compile_once} {fall_back} {specific:?}",
            self.builder.edits(None)
        )
    }

    /// A hash of everything that the parts depend on.
    fn fingerprint(&self, arch: NvvmArch) -> String {
        // Not the program: the tests, benches and tools of a workspace share the outputs of one another.
        let ours = format!("{} {}", env!("SOURCES"), cuda_ir::SOURCES);
        let ptxas = self.ptxas.as_deref().map(fingerprint::of_tool).unwrap_or_default();
        let rustc = format!("{} {}", self.toolchain.rustc.display(), self.toolchain.version);
        let parts = [&self.sources, &self.options(arch), &self.compiler.id, &ours, &ptxas, &rustc];
        fingerprint::of_parts(&parts.map(String::as_str))
    }

    fn cargo_options(&self) -> CargoOptions {
        CargoOptions {
            only_specific: false,
            release: self.builder.release,
            line_tables: self.builder.debug == DebugInfo::LineTables,
            build_args: self.builder.build_args.clone(),
        }
    }
}
