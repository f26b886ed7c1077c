//! The choice of a compiler from LLVM IR to PTX, and its options.

use crate::arch::NvvmArch;
use crate::error::CudaBuilderError;
use crate::nvvm::NvvmOptions;

/// The compiler from LLVM IR to PTX.
///
/// Both get the same text after the same edits, so they can be compared with each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backend {
    /// NVIDIA's libNVVM, after a few passes of LLVM's `opt`. Its code is faster.
    #[default]
    Nvvm,
    /// LLVM's own NVPTX back end: `opt` and `llc` of the Rust toolchain. It needs no NVIDIA software, unless the kernels
    /// call libdevice.
    Llvm,
}

impl std::fmt::Display for Backend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Backend::Nvvm => "nvvm",
            Backend::Llvm => "llvm",
        })
    }
}

impl std::str::FromStr for Backend {
    type Err = CudaBuilderError;

    /// Accepts `nvvm` and `llvm`.
    fn from_str(name: &str) -> Result<Backend, CudaBuilderError> {
        match name {
            "nvvm" => Ok(Backend::Nvvm),
            "llvm" => Ok(Backend::Llvm),
            _ => Err(CudaBuilderError::Options(format!("`{name}` is no back end: expected nvvm or llvm"))),
        }
    }
}

/// How a module is compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CodegenOptions {
    pub arch: NvvmArch,
    pub opt_level: u8,
    pub ftz: bool,
    pub fast_sqrt: bool,
    pub fast_div: bool,
    pub fma_contraction: bool,
    pub line_tables: bool,
}

impl CodegenOptions {
    /// The options of libNVVM.
    pub fn for_nvvm(&self) -> NvvmOptions {
        let flag = |on: bool| i32::from(on);
        let mut options = vec![
            format!("-arch={}", self.arch),
            "-nvvm-latest".to_owned(),
            format!("-ptx-version-target={}", self.arch.ptx_version()),
            format!("-opt={}", self.opt_level),
            format!("-ftz={}", flag(self.ftz)),
            format!("-prec-sqrt={}", flag(!self.fast_sqrt)),
            format!("-prec-div={}", flag(!self.fast_div)),
            format!("-fma={}", flag(self.fma_contraction)),
        ];
        if self.line_tables {
            options.push("-generate-line-info".to_owned());
        }
        NvvmOptions(options)
    }
}
