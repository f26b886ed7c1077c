//! LLVM's own tools: the passes before libNVVM, and a back end of their own.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::arch::NvvmArch;
use crate::backend::CodegenOptions;
use crate::error::{CudaBuilderError, IoContext};
use crate::process;

/// The passes that a module goes through before libNVVM: inlining and simplification from the bottom of the call graph
/// up. Without them, libNVVM leaves arrays that Rust iterates over in local memory.
const PASSES: &str = "cgscc(inline,function(\
    sroa,early-cse<memssa>,correlated-propagation,simplifycfg,instcombine<no-verify-fixpoint>,simplifycfg,reassociate,\
    loop-mssa(loop-instsimplify,loop-simplifycfg,licm,loop-rotate,licm),simplifycfg,instcombine<no-verify-fixpoint>,\
    loop(loop-idiom,indvars,loop-deletion,loop-unroll-full),\
    sroa,gvn<no-pre>,sccp,bdce,instcombine<no-verify-fixpoint>,correlated-propagation,adce,memcpyopt,dse,simplifycfg,\
    instcombine<no-verify-fixpoint>))";

/// The tools that are needed.
pub(crate) const TOOLS: [&str; 3] = ["opt", "llc", "llvm-link"];

/// A folder of LLVM's tools.
#[derive(Clone, Debug)]
pub(crate) struct Llvm {
    folder: PathBuf,
    /// What `opt --version` says of itself, and the passes: what the outputs depend on.
    pub version: String,
}

impl Llvm {
    /// The tools in `folder`, of the version `version`.
    pub fn new(folder: PathBuf, version: &str) -> Llvm {
        Llvm { folder, version: format!("{version} {PASSES}") }
    }

    /// The module after the passes that prepare it for libNVVM, as bitcode.
    pub fn prepare(&self, module: Vec<u8>, options: &CodegenOptions) -> Result<Vec<u8>, CudaBuilderError> {
        self.run("opt", &[&format!("-passes={PASSES}"), &mcpu(options)], module, options.arch)
    }

    /// The module as bitcode, as it is.
    pub fn bitcode(&self, module: Vec<u8>, arch: NvvmArch) -> Result<Vec<u8>, CudaBuilderError> {
        self.run("opt", &["-passes=verify"], module, arch)
    }

    /// The module's PTX by LLVM's back end.
    pub fn compile(
        &self,
        module: Vec<u8>,
        libdevice: Option<&Path>,
        options: &CodegenOptions,
    ) -> Result<String, CudaBuilderError> {
        let level = options.opt_level;
        let mut module = module;
        if calls_libdevice(&module) {
            module = self.link(module, libdevice, options)?;
        }
        let passes = format!("-passes=default<O{level}>");
        let optimised = self.run("opt", &[&passes, &mcpu(options)], module, options.arch)?;
        let ptx = self.run(
            "llc",
            &llc_flags(options).iter().map(String::as_str).collect::<Vec<_>>(),
            optimised,
            options.arch,
        )?;
        String::from_utf8(ptx)
            .map_err(|e| self.failed("llc", options.arch, format!("its PTX is no text: {e}")))
    }

    /// The module with those functions of libdevice that it calls.
    fn link(
        &self,
        module: Vec<u8>,
        libdevice: Option<&Path>,
        options: &CodegenOptions,
    ) -> Result<Vec<u8>, CudaBuilderError> {
        let Some(libdevice) = libdevice else {
            let reason = "the kernels call libdevice, and there is none: let the builder download it, or set \
                          LIBNVVM_PATH to the libnvvm.so of a CUDA toolkit";
            return Err(self.failed("llvm-link", options.arch, reason.to_owned()));
        };
        // Only the first input may come by a pipe, and it is not the first that is linked in part.
        let folder = tempfile::tempdir().during("creating a folder in", &std::env::temp_dir())?;
        let file = folder.path().join("module.ll");
        std::fs::write(&file, &module).during("writing", &file)?;
        let (file, libdevice) = (file.display().to_string(), libdevice.display().to_string());
        self.run(
            "llvm-link",
            &[&file, "--only-needed", "--internalize", &libdevice],
            Vec::new(),
            options.arch,
        )
    }

    fn run(
        &self,
        tool: &'static str,
        arguments: &[&str],
        input: Vec<u8>,
        arch: NvvmArch,
    ) -> Result<Vec<u8>, CudaBuilderError> {
        let mut command = Command::new(self.folder.join(tool));
        command.args(arguments).args(["-o", "-"]);
        let ended = process::run(command, input, process::limit());
        match ended {
            Ok(ended) if ended.status.success() => Ok(ended.stdout),
            Ok(ended) => Err(self.failed(tool, arch, without_stack(&ended.stderr))),
            Err(reason) => Err(self.failed(tool, arch, reason)),
        }
    }

    fn failed(&self, tool: &'static str, arch: NvvmArch, log: String) -> CudaBuilderError {
        let path = self.folder.join(tool);
        CudaBuilderError::LlvmFailed {
            path,
            arch,
            log: log.trim().to_owned(),
            kernels: Vec::new(),
            places: Vec::new(),
        }
    }
}

fn mcpu(options: &CodegenOptions) -> String {
    format!("-mcpu={}", options.arch.processor())
}

/// The floating-point rules that libNVVM takes as options, in LLVM's words (LLVM, "User Guide for NVPTX Back-end").
fn llc_flags(options: &CodegenOptions) -> Vec<String> {
    let mut flags = vec![
        format!("-O{}", options.opt_level),
        mcpu(options),
        format!("-mattr=+ptx{}", options.arch.ptx_version()),
        format!("-fp-contract={}", if options.fma_contraction { "fast" } else { "off" }),
        format!("-nvptx-prec-divf32={}", if options.fast_div { 0 } else { 2 }),
        format!("-nvptx-prec-sqrtf32={}", i32::from(!options.fast_sqrt)),
    ];
    if options.ftz {
        flags.push("-denormal-fp-math-f32=preserve-sign".to_owned());
    }
    flags
}

/// What the tool said, without the stack of addresses that it shows where it gives up.
fn without_stack(log: &str) -> String {
    let said = log.lines().take_while(|line| !line.starts_with("PLEASE submit a bug report"));
    said.collect::<Vec<_>>().join("\n")
}

fn calls_libdevice(module: &[u8]) -> bool {
    memchr::memmem::find(module, b"@__nv_").is_some()
}
