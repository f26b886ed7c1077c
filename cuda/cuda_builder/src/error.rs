//! The errors, by stage.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fmt, io};

use crate::arch::NvvmArch;
use cuda_ir::IrError;

/// An error of the build. Every variant names the stage, the value and, if known, the fix.
///
/// Its debug form is the same text, because a build script prints that if it returns or unwraps the error.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum CudaBuilderError {
    /// The builder's path is not a crate.
    #[error("no Cargo.toml in {}: give the folder of the kernel crate", .0.display())]
    CratePathDoesntExist(PathBuf),
    /// `cargo metadata` failed, or its output is invalid.
    #[error("reading the manifest of {} failed: {reason}", .path.display())]
    Manifest {
        /// The crate's folder.
        path: PathBuf,
        /// Cargo's message.
        reason: String,
    },
    /// The options contradict each other.
    #[error("the builder's options cannot be met: {0}")]
    Options(String),
    /// The name of an architecture is unknown.
    #[error("unknown architecture `{0}`: expected compute_75 to compute_121, such as compute_90")]
    UnknownArch(String),
    /// There is no GPU to query for its architecture, or it cannot be used.
    #[error("this machine's GPU names no architecture: {0}; name one instead of native, such as compute_90")]
    Native(String),
    /// No usable compiler was found.
    #[error(
        "no usable rustc: {0}; needed is one whose LLVM is 22 (rustc 1.95 to 1.98) with its rust-src and llvm-tools: `rustup toolchain install 1.95.0 --component rust-src,llvm-tools`, or on Debian `{install}`", install = crate::debian::INSTALL
    )]
    ToolchainMissing(String),
    /// No usable libNVVM was found.
    #[error(
        "no usable libNVVM: {0}; let the builder fetch the pinned one with pip (download(true), which is the default), or set LIBNVVM_PATH to the libnvvm.so of CUDA 13.5 or later"
    )]
    NvvmMissing(String),
    /// The libNVVM in `LIBNVVM_PATH` is too old.
    #[error("libNVVM at {} is too old: {reason}; needed is the one of CUDA 13.5 or later, or unset LIBNVVM_PATH", .path.display())]
    NvvmTooOld {
        /// The library.
        path: PathBuf,
        /// The missing feature.
        reason: String,
    },
    /// The library could not be loaded or lacks a function.
    #[error("loading libNVVM from {} failed: {reason}", .path.display())]
    NvvmLoad {
        /// The library.
        path: PathBuf,
        /// The loader's message.
        reason: String,
    },
    /// The file is not a libdevice.
    #[error("libdevice at {} is damaged: it is not the LLVM bitcode that libNVVM comes with; install it anew, or remove it and let the builder fetch the pinned one", .0.display())]
    Libdevice(PathBuf),
    /// The kernel crate does not compile.
    #[error("cargo failed on {}:\n{log}", .path.display())]
    CargoFailed {
        /// The crate's folder.
        path: PathBuf,
        /// Cargo's output.
        log: String,
    },
    /// The module from rustc is not what the edits expect.
    #[error(transparent)]
    IrEdit(#[from] IrError),
    /// libNVVM or one of LLVM's tools rejected the module.
    #[error("{tool} failed to compile {} for {arch}: {log}{}{}", named(.blame), hint(.log), at(&.blame.places))]
    CompilerFailed {
        /// The tool.
        tool: String,
        /// The architecture.
        arch: NvvmArch,
        /// Its output.
        log: String,
        /// What it fails on.
        blame: Blame,
    },
    /// A tool exceeded its time limit at every optimisation level that was tried.
    #[error(
        "{tool} did not end on {} for {arch}: {}; `FERROWARP_COMPILER_SECONDS=N` sets another limit; look for loops with \
         many iterations around loops that end early, and keep them from being unrolled (core::hint::black_box of their \
         bounds){}",
        named(.blame), tried(.tries), at(&.blame.places)
    )]
    CompilerTimedOut {
        /// The tool.
        tool: String,
        /// The architecture.
        arch: NvvmArch,
        /// The optimisation levels that were tried, if the tool has any, and the time limit of each.
        tries: Vec<(Option<u8>, Duration)>,
        /// What it exceeds the limit on: loops, or the kernels' own lines.
        blame: Blame,
    },
    /// A tool could not be started, crashed or was killed.
    #[error("{tool} died on {} for {arch}: {how}{}{}", named(.blame), hint(.how), at(&.blame.places))]
    CompilerDied {
        /// The tool.
        tool: String,
        /// The architecture.
        arch: NvvmArch,
        /// How, such as the signal, and the last lines of its output.
        how: String,
        /// What it died on.
        blame: Blame,
    },
    /// The PTX does not match the source.
    #[error("the PTX for {arch} is wrong: {reason}")]
    Proof {
        /// The architecture.
        arch: NvvmArch,
        /// The symbol, what was expected and what was found.
        reason: String,
    },
    /// ptxas is neither at `PTXAS_PATH` nor fetched.
    #[error("no ptxas ({0}): let the builder fetch the pinned one with pip, or set PTXAS_PATH")]
    PtxasMissing(String),
    /// ptxas rejected the PTX.
    #[error("ptxas failed on {} for {arch}:\n{log}", .path.display())]
    PtxasFailed {
        /// The PTX file.
        path: PathBuf,
        /// The architecture.
        arch: NvvmArch,
        /// ptxas's output.
        log: String,
    },
    /// A package could not be downloaded.
    #[error(
        "downloading {package} with pip failed: {reason}; with no network, put the wheel into a folder and set PIP_NO_INDEX=1 PIP_FIND_LINKS=FOLDER"
    )]
    Download {
        /// Name and version.
        package: String,
        /// pip's message.
        reason: String,
    },
    /// A file of a fetched package is missing or was cut short.
    #[error("{} is damaged: it is missing or was cut short; run the command again to fetch it anew", .0.display())]
    Damaged(PathBuf),
    /// There is no package for this machine.
    #[error(
        "{package} is not published for {platform}: set LIBNVVM_PATH and PTXAS_PATH to those of a CUDA 13.5 toolkit"
    )]
    Platform {
        /// Name and version.
        package: String,
        /// The machine's operating system and processor.
        platform: String,
    },
    /// An error of a file or a process.
    #[error("{deed} {} failed", .path.display())]
    Io {
        /// The attempted operation.
        deed: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// What a compiler fails on, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Blame {
    /// The kernels.
    pub kernels: Vec<String>,
    /// The source lines that may cause it, and what they do.
    pub places: Vec<String>,
}

impl CudaBuilderError {
    /// Prints this error to stderr and ends the build script: cargo shows it unchanged. If the kernel crate does not
    /// compile, that is rustc's own text, in colour on a terminal.
    pub fn exit(&self) -> ! {
        match self {
            CudaBuilderError::CargoFailed { log, .. } => eprintln!("{log}"),
            other => eprintln!("error: {other:?}"),
        }
        std::process::exit(1)
    }

    /// Adds the kernels and lines that cause the error.
    pub(crate) fn about(mut self, kernels: &[String], places: &[String]) -> CudaBuilderError {
        if let CudaBuilderError::CompilerFailed { blame, .. }
        | CudaBuilderError::CompilerTimedOut { blame, .. }
        | CudaBuilderError::CompilerDied { blame, .. } = &mut self
        {
            *blame = Blame { kernels: kernels.to_vec(), places: places.to_vec() };
        }
        self
    }

    /// The error of `tool` that rejects the module.
    pub(crate) fn failed(tool: String, arch: NvvmArch, log: &str) -> CudaBuilderError {
        let (log, blame) = (log.trim().to_owned(), Blame::default());
        CudaBuilderError::CompilerFailed { tool, arch, log, blame }
    }

    /// The error of `tool` stopped after these limits at these levels.
    pub(crate) fn timed_out(
        tool: String,
        arch: NvvmArch,
        tries: Vec<(Option<u8>, Duration)>,
    ) -> CudaBuilderError {
        CudaBuilderError::CompilerTimedOut { tool, arch, tries, blame: Blame::default() }
    }

    /// The error of `tool` that ended without an answer.
    pub(crate) fn died(tool: String, arch: NvvmArch, how: String, log: String) -> CudaBuilderError {
        let how = how + &said(&log);
        CudaBuilderError::CompilerDied { tool, arch, how, blame: Blame::default() }
    }
}

/// `120 s at level 3, 600 s at level 0`
fn tried(tries: &[(Option<u8>, Duration)]) -> String {
    let one = |(level, limit): &(Option<u8>, Duration)| {
        let level = level.map(|level| format!(" at level {level}")).unwrap_or_default();
        format!("it was stopped after {} seconds{level}", limit.as_secs())
    };
    tries.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The last lines of a tool's output.
fn said(log: &str) -> String {
    let lines: Vec<&str> = log.trim().lines().collect();
    lines[lines.len().saturating_sub(5)..].iter().map(|line| format!("\n{line}")).collect()
}

fn named(blame: &Blame) -> String {
    named_kernels(&blame.kernels)
}

/// `the kernels a and b`, if there are few.
pub(crate) fn named_kernels(kernels: &[String]) -> String {
    match kernels {
        [] => "a module".to_owned(),
        [one] => format!("the kernel {one}"),
        _ => format!("the kernels {}", kernels.join(", ")),
    }
}

/// The lines, each on its own line; at most eight.
pub(crate) fn at(places: &[String]) -> String {
    let mut text: String = places.iter().take(8).map(|place| format!("\n  --> {place}")).collect();
    if places.len() > 8 {
        text += &format!("\n  and {} more", places.len() - 8);
    }
    text
}

/// Explains a back end's message that it has no code for an operation, with the fix.
pub(crate) const LIBRARY_CALL: &str = "an operation that a GPU has no instruction for, and that on a CPU is a function of \
     the C library, such as arithmetic with `f128`: use `f64`, or a function of cuda_std";

/// Explains the compilers' shortest message.
fn hint(log: &str) -> String {
    let asks_for_a_library = ["unsupported library call", "no libcall available", "unsupported libcall"];
    let asks = asks_for_a_library.iter().any(|words| log.contains(words));
    if asks { format!("\n({LIBRARY_CALL})") } else { String::new() }
}

impl fmt::Debug for CudaBuilderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)?;
        // A build script prints this text and not the sources of the error.
        match std::error::Error::source(self) {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

/// Adds the operation and the file to an [`io::Error`].
pub(crate) trait IoContext<T> {
    fn during(self, deed: &'static str, path: &Path) -> Result<T, CudaBuilderError>;
}

impl<T> IoContext<T> for io::Result<T> {
    fn during(self, deed: &'static str, path: &Path) -> Result<T, CudaBuilderError> {
        self.map_err(|source| CudaBuilderError::Io { deed, path: path.to_owned(), source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_told_once() {
        let failed = io::Result::<()>::Err(io::Error::other("no room")).during("writing", Path::new("a"));
        let error = failed.unwrap_err();
        assert_eq!(error.to_string(), "writing a failed");
        assert_eq!(format!("{error:?}"), "writing a failed: no room");
        assert_eq!(std::error::Error::source(&error).map(ToString::to_string).as_deref(), Some("no room"));
    }
}
