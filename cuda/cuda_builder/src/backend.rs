//! Compiles an edited module to PTX with one of two compilers.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::codegen::{Backend, CodegenOptions};
use crate::error::CudaBuilderError;
use crate::fetch::{NVVM, fetch};
use crate::fingerprint;
use crate::jobs::lock;
use crate::libnvvm;
use crate::llvm::Llvm;
use crate::nvvm::Nvvm;
use crate::progress::ProgressFn;

/// The sources of the passes, the flags and the last edits. When they change, cached output is invalid.
const SOURCES: [&str; 5] = [
    include_str!("backend.rs"),
    include_str!("codegen.rs"),
    include_str!("llvm.rs"),
    include_str!("unroll.rs"),
    include_str!("stack.rs"),
];

/// A back end, ready to compile.
pub(crate) struct Compiler {
    llvm: Llvm,
    target: Target,
    prepared: Prepared,
    /// What identifies the compiler, for caches.
    pub id: String,
}

/// Modules after LLVM's passes, by the hash of their text before. Most parts are the same for several architectures.
#[derive(Default)]
struct Prepared(Mutex<HashMap<String, Slot>>);

/// A module once it is computed; locked meanwhile.
type Slot = Arc<Mutex<Option<Arc<str>>>>;

impl Prepared {
    /// The output of `prepare` for the module `text`, computed once. Other threads wait while it is computed.
    fn of(
        &self,
        text: &str,
        prepare: impl FnOnce() -> Result<String, CudaBuilderError>,
    ) -> Result<Arc<str>, CudaBuilderError> {
        let slot = Arc::clone(lock(&self.0).entry(fingerprint::of_parts(&[text])).or_default());
        let mut slot = lock(&slot);
        if let Some(made) = &*slot {
            return Ok(Arc::clone(made));
        }
        let made: Arc<str> = prepare()?.into();
        *slot = Some(Arc::clone(&made));
        Ok(made)
    }
}

enum Target {
    Nvvm(Nvvm),
    /// The libdevice to link, if there is one.
    Llvm(Option<PathBuf>),
}

impl Compiler {
    /// Fetches the missing tools of `backend` into `tools`.
    pub fn fetch(backend: Backend, tools: &Path, progress: &ProgressFn<'_>) -> Result<(), CudaBuilderError> {
        match backend {
            Backend::Nvvm if libnvvm::needs_package(tools) => fetch(&NVVM, tools, progress),
            // Without it only kernels that call it fail, with an error of their own.
            Backend::Llvm if libnvvm::libdevice(tools).is_none() => fetch(&NVVM, tools, progress).or(Ok(())),
            _ => Ok(()),
        }
    }

    /// Opens the compiler of `backend`, with packages from `tools`.
    pub fn open(backend: Backend, llvm: Llvm, tools: &Path) -> Result<Compiler, CudaBuilderError> {
        let (target, path) = match backend {
            Backend::Nvvm => {
                let (nvvm, path) = libnvvm::find(tools)?;
                (Target::Nvvm(nvvm), Some(path))
            }
            Backend::Llvm => {
                let libdevice = libnvvm::libdevice(tools);
                (Target::Llvm(libdevice.clone()), libdevice)
            }
        };
        let path = path.as_deref().map(fingerprint::of_tool).unwrap_or_default();
        let name = backend.to_string();
        let parts: Vec<&str> = [&name, &path, &llvm.version].into_iter().map(String::as_str).collect();
        let id = fingerprint::of_parts(&[&parts[..], &SOURCES, &cuda_ir::LAST_EDITS].concat());
        Ok(Compiler { llvm, target, prepared: Prepared::default(), id })
    }

    /// Compiles the module `text` to PTX. The edits remove what ptxas compiles wrongly, and reads of registers that the
    /// thread has not written.
    pub fn compile(&self, text: &str, options: &CodegenOptions) -> Result<String, CudaBuilderError> {
        let ptx = self.compile_before_edits(text, options)?;
        let ptx = cuda_ir::negations::hide(&ptx);
        let ptx = cuda_ir::byte_parameters::extend(&ptx);
        let ptx = cuda_ir::absolutes::spell_out(&ptx);
        let ptx = cuda_ir::nan_bits::keep(&ptx);
        let ptx = cuda_ir::narrow_stores::copy_floats(&ptx);
        let ptx = cuda_ir::local_addresses::keep_generic(&ptx);
        let ptx = cuda_ir::reconverge::after_calls(&ptx);
        let ptx = cuda_ir::last_labels::trap_after(&ptx);
        Ok(cuda_ir::unwritten::initialise(&ptx).into_owned())
    }

    /// Compiles the module to the back end's PTX, before [`Self::compile`] edits it.
    fn compile_before_edits(&self, text: &str, options: &CodegenOptions) -> Result<String, CudaBuilderError> {
        match &self.target {
            Target::Nvvm(nvvm) if options.opt_level == 0 && !cuda_ir::needs_passes(text) => {
                let text = cuda_ir::for_no_optimisation(text)?;
                nvvm.compile(text.as_bytes(), options.arch, &options.for_nvvm())
            }
            Target::Nvvm(nvvm) => {
                let prepare = || {
                    let prepared = self.llvm.prepare(text.as_bytes().to_vec(), options.arch)?;
                    cuda_ir::tensor_maps::check(&prepared)?;
                    Ok(cuda_ir::for_optimisation(&prepared))
                };
                let mut text = self.prepared.of(text, prepare)?;
                if options.opt_level == 0 {
                    text = cuda_ir::for_no_optimisation(&text)?.into();
                }
                nvvm.compile(text.as_bytes(), options.arch, &options.for_nvvm())
            }
            Target::Llvm(libdevice) => {
                self.llvm.compile(text.as_bytes().to_vec(), libdevice.as_deref(), options)
            }
        }
    }
}

#[cfg(test)]
#[path = "backend_tests.rs"]
mod tests;
