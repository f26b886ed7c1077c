//! LLVM's own tools: the passes before libNVVM, and LLVM's back end.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::arch::NvvmArch;
use crate::codegen::CodegenOptions;
use crate::error::{CudaBuilderError, IoContext};
use crate::process::{self, Ended, Stopped};
use crate::unroll;

/// The passes before libNVVM: inlining and simplification from the bottom of the call graph up. Without them, libNVVM keeps
/// arrays that Rust iterates over in local memory.
///
/// `sccp` is not among them: after it, libNVVM 13.5.37 used all memory for one random program of 10,000, and no kernel here
/// got faster.
const PASSES: &str = "cgscc(inline,function(\
    sroa,early-cse<memssa>,correlated-propagation,simplifycfg,instcombine<no-verify-fixpoint>,simplifycfg,reassociate,\
    loop-mssa(loop-instsimplify,loop-simplifycfg,licm,loop-rotate,licm),simplifycfg,instcombine<no-verify-fixpoint>,\
    loop(loop-idiom,indvars,loop-deletion,loop-unroll-full),\
    sroa,gvn<no-pre>,bdce,instcombine<no-verify-fixpoint>,correlated-propagation,adce,memcpyopt,dse,simplifycfg,\
    instcombine<no-verify-fixpoint>))";

/// LLVM's back end runs without the SLP vectorizer: in LLVM 22 it writes out of bounds, because it enters a distance of
/// addresses into a map that cannot hold it (llvm/llvm-project#193377).
const NO_SLP: &str = "-vectorize-slp=false";

/// The maximum size of an unrolled loop in a module with `wgmma` instructions. Their accumulators are arrays of up to 128
/// elements, which must be registers while an instruction is pending: each loop over them must be unrolled.
const UNROLL_WGMMA: &str = "-unroll-threshold=4000";

/// The required tools.
pub(crate) const TOOLS: [&str; 3] = ["opt", "llc", "llvm-link"];

/// A folder of LLVM's tools.
#[derive(Clone, Debug)]
pub(crate) struct Llvm {
    folder: PathBuf,
    /// The version from `opt --version`.
    pub version: String,
}

impl Llvm {
    /// Creates the tools in `folder`, of the version `version`.
    pub fn new(folder: PathBuf, version: &str) -> Llvm {
        Llvm { folder, version: version.to_owned() }
    }

    /// The module's text after the passes that prepare it for libNVVM, with the resulting use-list order. The passes do not
    /// know the processor, so the result is the same for all. `arch` is for the error.
    pub fn prepare(&self, module: Vec<u8>, arch: NvvmArch) -> Result<String, CudaBuilderError> {
        let passes = format!("-passes={PASSES},{}", unroll::PASSES);
        let arguments = [&passes, unroll::FLAG, "-S", "-preserve-ll-uselistorder"];
        let arguments: Vec<&str> = arguments.into_iter().chain(unroll_wgmma(&module)).collect();
        let ended = self.run_to_end("opt", &arguments, module, arch)?;
        let text = String::from_utf8(ended.stdout)
            .map_err(|e| self.failed("opt", arch, format!("what it wrote is no text: {e}")))?;
        Ok(unroll::without_long_chains(text, &ended.stderr))
    }

    /// The module as bitcode, without changes.
    pub fn bitcode(&self, module: Vec<u8>, arch: NvvmArch) -> Result<Vec<u8>, CudaBuilderError> {
        self.run("opt", &["-passes=verify"], module, arch)
    }

    /// Compiles the module to PTX with LLVM's back end.
    pub fn compile(
        &self,
        module: Vec<u8>,
        libdevice: Option<&Path>,
        options: &CodegenOptions,
    ) -> Result<String, CudaBuilderError> {
        let needs_passes = std::str::from_utf8(&module).is_ok_and(cuda_ir::needs_passes);
        let level = options.opt_level.max(u8::from(needs_passes));
        let mut module = if options.fma_contraction { with_contraction(module) } else { module };
        if calls_libdevice(&module) {
            module = self.link(module, libdevice, options)?;
        }
        let passes = format!("-passes=default<O{level}>");
        let [ftz, roots] = reflected(options);
        let mcpu = mcpu(options);
        let arguments = [&*passes, &mcpu, NO_SLP, &ftz, &roots, "-S"];
        let arguments: Vec<&str> = arguments.into_iter().chain(unroll_wgmma(&module)).collect();
        let optimised = self.text("opt", &arguments, module, options.arch)?;
        cuda_ir::tensor_maps::check(&optimised)?;
        let optimised = cuda_ir::sign_extensions::hide(&optimised);
        let optimised = cuda_ir::atomics::split_local(&optimised).into_bytes();
        let flags = llc_flags(options);
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        self.text("llc", &flags, optimised, options.arch)
    }

    /// Links the functions of libdevice that the module calls.
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
        // Only the first input can be a pipe, and the first input is always linked completely.
        let folder = tempfile::tempdir().during("creating a folder in", &std::env::temp_dir())?;
        let file = folder.path().join("module.ll");
        std::fs::write(&file, &module).during("writing", &file)?;
        let arguments =
            [file.as_os_str(), "--only-needed".as_ref(), "--internalize".as_ref(), libdevice.as_os_str()];
        self.run("llvm-link", &arguments, Vec::new(), options.arch)
    }

    /// Runs a tool and returns its output, which is text.
    fn text(
        &self,
        tool: &'static str,
        arguments: &[&str],
        input: Vec<u8>,
        arch: NvvmArch,
    ) -> Result<String, CudaBuilderError> {
        let text = self.run(tool, arguments, input, arch)?;
        String::from_utf8(text).map_err(|e| self.failed(tool, arch, format!("what it wrote is no text: {e}")))
    }

    fn run(
        &self,
        tool: &'static str,
        arguments: &[impl AsRef<OsStr>],
        input: Vec<u8>,
        arch: NvvmArch,
    ) -> Result<Vec<u8>, CudaBuilderError> {
        self.run_to_end(tool, arguments, input, arch).map(|ended| ended.stdout)
    }

    fn run_to_end(
        &self,
        tool: &'static str,
        arguments: &[impl AsRef<OsStr>],
        input: Vec<u8>,
        arch: NvvmArch,
    ) -> Result<Ended, CudaBuilderError> {
        let mut command = Command::new(self.folder.join(tool));
        command.args(arguments).args(["-o", "-"]);
        let name = self.folder.join(tool).display().to_string();
        match process::run(command, input, process::limit()) {
            Ok(ended) if ended.status.success() => Ok(ended),
            Ok(ended) => Err(match ended.killed() {
                Some(how) => CudaBuilderError::died(name, arch, how, without_stack(&ended.stderr)),
                None => self.failed(tool, arch, without_stack(&ended.stderr)),
            }),
            Err(Stopped::TimedOut(limit)) => {
                Err(CudaBuilderError::timed_out(name, arch, vec![(None, limit)]))
            }
            Err(Stopped::Failed(reason)) => Err(self.failed(tool, arch, reason)),
        }
    }

    fn failed(&self, tool: &'static str, arch: NvvmArch, log: String) -> CudaBuilderError {
        CudaBuilderError::failed(self.folder.join(tool).display().to_string(), arch, &log)
    }
}

fn mcpu(options: &CodegenOptions) -> String {
    format!("-mcpu={}", options.arch.processor())
}

/// The answers to libdevice's queries (`__nvvm_reflect`), as options of `opt`, which knows the architecture. Any other query
/// is answered with 0; with that, `__nv_sqrtf`, `__nv_hypotf`, `__nv_normf` and `__nv_jnf` use the approximate square root.
/// libNVVM answers from its own options.
fn reflected(options: &CodegenOptions) -> [String; 2] {
    let answer = |name: &str, is_on: bool| format!("-nvvm-reflect-add={name}={}", u8::from(is_on));
    [answer("__CUDA_FTZ", options.ftz), answer("__CUDA_PREC_SQRT", !options.fast_sqrt)]
}

/// The floating-point options of libNVVM, as LLVM's options (LLVM, "User Guide for NVPTX Back-end").
fn llc_flags(options: &CodegenOptions) -> Vec<String> {
    let mut flags = vec![
        format!("-O{}", options.opt_level),
        mcpu(options),
        format!("-mattr=+ptx{}", options.arch.ptx_version()),
        // Operations that may be contracted carry a flag.
        "-fp-contract=off".to_owned(),
        format!("-nvptx-prec-divf32={}", if options.fast_div { 0 } else { 2 }),
        format!("-nvptx-prec-sqrtf32={}", i32::from(!options.fast_sqrt)),
        // On by default. It turns `1.0 / x.sqrt()` into `rsqrt.approx`, which rounds differently from both.
        format!("-nvptx-rsqrt-approx-opt={}", i32::from(options.fast_sqrt && options.fast_div)),
    ];
    if options.ftz {
        flags.push("-denormal-fp-math-f32=preserve-sign".to_owned());
    }
    flags
}

/// Marks the module's float additions and multiplications, so that they may be fused.
///
/// This happens before libdevice is linked, whose operations must stay separate: `__nv_powf` computes the rounding error of
/// a product, and was off by 48 units in the last place with `-fp-contract=fast`. libNVVM keeps them separate, too.
fn with_contraction(module: Vec<u8>) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(&module) else { return module };
    let mut edited = String::with_capacity(text.len() + text.len() / 64);
    for line in text.split_inclusive('\n') {
        let operation = [" = fmul ", " = fadd ", " = fsub "]
            .into_iter()
            .find_map(|words| line.split_once(words).map(|it| (it, words)));
        match operation {
            Some(((result, operands), words)) if result.trim_start().starts_with('%') => {
                edited.push_str(result);
                edited.push_str(words);
                edited.push_str("contract ");
                edited.push_str(operands);
            }
            _ => edited.push_str(line),
        }
    }
    edited.into_bytes()
}

/// The tool's output without the stack of addresses that it prints when it crashes.
fn without_stack(log: &str) -> String {
    let said = log.lines().take_while(|line| !line.starts_with("PLEASE submit a bug report"));
    said.collect::<Vec<_>>().join("\n")
}

/// The option for modules with `wgmma` instructions.
fn unroll_wgmma(module: &[u8]) -> Option<&'static str> {
    memchr::memmem::find(module, b"wgmma.mma_async").map(|_| UNROLL_WGMMA)
}

fn calls_libdevice(module: &[u8]) -> bool {
    memchr::memmem::find(module, b"@__nv_").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Compiler;
    use crate::builder::CudaBuilder;
    use crate::codegen::Backend;
    use crate::{libnvvm, toolchain};

    /// Two loads, one of them at an index that may be 2^63 - 1.
    const FAR_APART: &str = r#"target triple = "nvptx64-nvidia-cuda"

define ptx_kernel void @mixed(ptr %bytes, i64 %len, ptr %out) {
  %index = urem i64 9223372036854775807, %len
  %at = getelementptr i8, ptr %bytes, i64 %index
  %first = load i8, ptr %bytes, align 1
  %other = load i8, ptr %at, align 1
  %a = zext i8 %first to i64
  %b = zext i8 %other to i64
  %mixed = xor i64 %a, %b
  store i64 %mixed, ptr %out, align 8
  ret void
}
"#;

    /// A root, and a division by it.
    const ROOTS: &str = r#"target triple = "nvptx64-nvidia-cuda"

declare float @llvm.nvvm.sqrt.f(float)

define ptx_kernel void @roots(ptr %x, ptr %out) {
  %value = load float, ptr %x, align 4
  %root = call float @llvm.nvvm.sqrt.f(float %value)
  %inverse = fdiv float 1.0, %root
  store float %inverse, ptr %out, align 4
  ret void
}
"#;

    /// A power, and a product plus one.
    const POWER: &str = r#"target triple = "nvptx64-nvidia-cuda"

declare float @__nv_powf(float, float)

define ptx_kernel void @power(ptr %x, ptr %out) {
  %value = load float, ptr %x, align 4
  %power = call float @__nv_powf(float %value, float 3.5)
  %product = fmul float %power, %value
  %sum = fadd float %product, %value
  store float %sum, ptr %out, align 4
  ret void
}
"#;

    fn ptx(module: &str, builder: &CudaBuilder) -> String {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let llvm = toolchain::find(folder).unwrap().llvm;
        let options = builder.codegen(NvvmArch::Compute90);
        let tools = CudaBuilder::tools_dir_in(&folder.ancestors().nth(2).unwrap().join("target"));
        Compiler::fetch(Backend::Nvvm, &tools, &|_| {}).unwrap();
        let libdevice = libnvvm::libdevice(&tools);
        llvm.compile(module.as_bytes().to_vec(), libdevice.as_deref(), &options).unwrap()
    }

    #[test]
    fn products_and_sums_are_contracted_in_kernels_but_not_in_libdevice() {
        let fused = |contracts| {
            let ptx = ptx(POWER, &CudaBuilder::new(".").fma_contraction(contracts));
            ptx.matches("fma.rn.f32").count()
        };
        assert_eq!(fused(true), fused(false) + 1);
    }

    #[test]
    fn roots_and_divisions_are_exact_unless_both_may_be_fast() {
        let exact = CudaBuilder::new(".");
        for builder in [exact.clone(), exact.clone().fast_sqrt(true), exact.clone().fast_div(true)] {
            let ptx = ptx(ROOTS, &builder);
            assert!(!ptx.contains("rsqrt"), "{ptx}");
            assert_eq!(ptx.contains("sqrt.rn.f32"), !builder.fast_sqrt, "{ptx}");
            assert_eq!(ptx.contains("rcp.rn.f32"), !builder.fast_div, "{ptx}");
        }
        assert!(ptx(ROOTS, &exact.fast_sqrt(true).fast_div(true)).contains("rsqrt.approx.f32"));
    }

    #[test]
    fn loads_that_are_far_apart_are_compiled() {
        let ptx = ptx(FAR_APART, &CudaBuilder::new("."));
        assert!(ptx.contains(".entry mixed") && ptx.matches("ld.global.b8").count() == 2, "{ptx}");
    }
}
