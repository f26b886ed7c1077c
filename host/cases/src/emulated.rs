//! The kernels as PTX, on the emulator: built by `cuda_builder` as for a GPU, with either back end, and cached.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use anyhow::Context;
use cuda_builder::{Backend, CudaBuilder, NvvmArch};
use cuda_std::launch::{KernelCall, LaunchError, Launcher, Limits};
use cuda_std::testing::Counter;
use ferrowarp::device::Device;
use ptx_emulator::{Emulator, PtxModule, Turns};

use crate::case::Case;
use crate::check::assert_right;
use crate::scopes::{Scope, Setting};
use crate::share::Share;

/// The back ends with which tests compile all kernels: libNVVM, and LLVM if the [`Share`] compiles all.
pub fn back_ends() -> impl Iterator<Item = Backend> + Clone {
    [Backend::Nvvm, Backend::Llvm].into_iter().take(if Share::of_tests().compiles_all() { 2 } else { 1 })
}

/// The architectures for which tests compile all kernels: without the oldest in the smallest [`Share`].
pub fn architectures() -> &'static [NvvmArch] {
    let both = &[NvvmArch::Compute75, NvvmArch::Compute90];
    if Share::of_tests().has_oldest() { both } else { &both[1..] }
}

/// Checks every case as PTX with each back end: those of [`Scope::OldEmulator`] on the oldest architecture, those of
/// [`Scope::NewEmulator`] on a newer one. The smallest [`Share`] runs all on the latter.
///
/// # Panics
/// A case is wrong, or the kernels could not be compiled.
#[track_caller]
pub fn assert_right_as_ptx(cases: impl Fn(&Setting) -> Vec<Case>) {
    let [old, new] = [Scope::OldEmulator, Scope::NewEmulator].map(|scope| cases(&Setting::new(scope)));
    let check = |cases: &[Case], on: &[Device]| {
        on.iter().filter(|_| !cases.is_empty()).for_each(|on| assert_right(cases, on, Case::assess));
    };
    if Share::of_tests().has_oldest() {
        check(&old, &by_each());
        check(&new, &newer_by_each());
    } else {
        check(&old.into_iter().chain(new).collect::<Vec<_>>(), &newer_by_each());
    }
}

/// Compiles each family of `gpu-kernels` to PTX.
fn ptx(backend: Backend, arch: NvvmArch) -> anyhow::Result<Vec<String>> {
    // Without `..`: for another path of the same folder, cargo would compile everything again.
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).context("no workspace")?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), Into::into);
    let built = CudaBuilder::of_crates(workspace.join("gpu-kernels"))
        .tools_dir(CudaBuilder::tools_dir_in(&target))
        .target_dir(target.join("cuda-builder"))
        .out_dir(target.join("tmp").join(format!("gpu-kernels-{backend}")))
        .backend(backend)
        .split(true)
        .arch(arch)
        .build_all()
        .context("could not build the PTX of the kernels; run this where cargo and the sources of the workspace are")?;
    let read = |path: &Path| {
        std::fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))
    };
    built.modules.iter().map(|module| read(&module.path)).collect()
}

/// The PTX with the kernel of that name, compiled by libNVVM.
pub fn ptx_with(kernel: &str) -> String {
    let entry = format!(".entry {kernel}(");
    let texts = texts(Backend::Nvvm, architectures()[0]).unwrap();
    texts.iter().find(|text| text.ptx.contains(&entry)).unwrap().ptx.clone()
}

/// An emulator of a module, which must have no unsupported instruction.
pub fn emulator_of(ptx: &str) -> Emulator {
    Emulator::new(module(ptx))
}

fn module(ptx: &str) -> PtxModule {
    let module = PtxModule::parse(ptx).unwrap();
    assert_eq!(module.unsupported(), [], "the emulator knows every instruction of the kernels");
    module
}

/// A module's PTX, parsed when the first of its kernels is launched: parsing all takes longer than most tests.
struct Text {
    ptx: String,
    parsed: OnceLock<Arc<PtxModule>>,
}

impl Text {
    fn parsed(&self) -> &Arc<PtxModule> {
        self.parsed.get_or_init(|| Arc::new(module(&self.ptx)))
    }

    /// The names of its kernels.
    fn kernels(&self) -> impl Iterator<Item = &str> {
        self.ptx.split(".entry ").skip(1).filter_map(|rest| Some(rest.split_once('(')?.0))
    }
}

/// The output of a back end for an architecture.
type Built = ((Backend, NvvmArch), Arc<[Text]>);

/// The output of a back end for an architecture, compiled once per process.
fn texts(backend: Backend, arch: NvvmArch) -> anyhow::Result<Arc<[Text]>> {
    static BUILT: Mutex<Vec<Built>> = Mutex::new(Vec::new());
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, texts)) = built.iter().find(|(key, _)| *key == (backend, arch)) {
        return Ok(texts.clone());
    }
    let text = |ptx| Text { ptx, parsed: OnceLock::new() };
    let texts: Arc<[Text]> = ptx(backend, arch)?.into_iter().map(text).collect();
    built.push(((backend, arch), texts.clone()));
    Ok(texts)
}

/// All kernels for an architecture, each on an emulator of its module.
pub struct Emulators {
    texts: Arc<[Text]>,
    /// By module, created when the first of its kernels is launched.
    emulators: Vec<OnceLock<Emulator>>,
    of_kernel: HashMap<String, usize>,
    limits: Limits,
    turns: Turns,
    counter: Option<Counter>,
}

impl Emulators {
    /// Adds what warps do in each launch to `counter`.
    pub fn with_counter(self, counter: &Counter) -> Emulators {
        Emulators { counter: Some(counter.clone()), ..self }
    }

    /// The kernels compiled by `backend` for `arch`; a block's threads run in the order `turns`.
    ///
    /// # Errors
    /// The sources, cargo or a compiler cannot be used.
    pub fn new(backend: Backend, arch: NvvmArch, turns: Turns) -> anyhow::Result<Emulators> {
        let texts = texts(backend, arch)?;
        let named = texts.iter().enumerate();
        let of_kernel =
            named.flat_map(|(i, text)| text.kernels().map(move |kernel| (kernel.to_owned(), i))).collect();
        // All modules have the architecture's limits.
        let shortest = texts.iter().min_by_key(|text| text.ptx.len()).context("the kernels have no PTX")?;
        let limits = Emulator::new(Arc::clone(shortest.parsed())).limits().clone();
        let emulators = texts.iter().map(|_| OnceLock::new()).collect();
        Ok(Emulators { texts, emulators, of_kernel, limits, turns, counter: None })
    }

    /// The limits of one launch.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The names of all kernels, sorted.
    ///
    /// # Panics
    /// The emulator does not support an instruction of a kernel.
    pub fn kernels(&self) -> Vec<&str> {
        let mut kernels: Vec<&str> = self.texts.iter().flat_map(|text| text.parsed().kernels()).collect();
        kernels.sort_unstable();
        kernels
    }

    /// The emulator of a module.
    fn emulator(&self, module: usize) -> &Emulator {
        self.emulators[module].get_or_init(|| {
            let emulator = Emulator::new(Arc::clone(self.texts[module].parsed())).with_turns(self.turns);
            self.counter.iter().fold(emulator, Emulator::with_counter)
        })
    }
}

impl Launcher for Emulators {
    unsafe fn submit(&self, call: &KernelCall<'_>) -> Result<(), LaunchError> {
        self.limits().check_kernel(call.meta)?;
        let module = self.of_kernel.get(call.meta.name);
        let emulator = self.emulator(*module.unwrap_or_else(|| panic!("no PTX has {}", call.meta.name)));
        // SAFETY: the caller's contract is the callee's.
        unsafe { emulator.submit(call) }
    }
}

/// A device that emulates the kernels compiled by `backend` for `arch`; a block's threads run in the order `turns`.
pub fn device(backend: Backend, arch: NvvmArch, turns: Turns) -> Device {
    let emulators = Emulators::new(backend, arch, turns).unwrap();
    let limits = emulators.limits().clone();
    Device::with_launcher(emulators, limits)
}

/// A device that emulates libNVVM's kernels for compute capability 9.0, and adds what warps do in each launch to `counter`.
///
/// # Errors
/// Same as for [`Emulators::new`].
pub fn counting(counter: &Counter) -> anyhow::Result<Device> {
    let emulators =
        Emulators::new(Backend::Nvvm, NvvmArch::Compute90, Turns::Ascending)?.with_counter(counter);
    let limits = emulators.limits().clone();
    Ok(Device::with_launcher(emulators, limits))
}

/// Devices with the kernels of each of the [`back_ends`] for the oldest of the [`architectures`]: [`Scope::OldEmulator`].
pub fn by_each() -> Vec<Device> {
    back_ends().map(|backend| device(backend, architectures()[0], Turns::Ascending)).collect()
}

/// Devices with the kernels of each of the [`back_ends`] for a newer architecture. Threads run in the other order, to expose
/// the other half of all races: [`Scope::NewEmulator`].
pub fn newer_by_each() -> Vec<Device> {
    back_ends().map(|backend| device(backend, NvvmArch::Compute90, Turns::Descending)).collect()
}
