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
    #[error("no Cargo.toml in {}: give the folder of the kernel crate", .path.display())]
    CratePathDoesntExist {
        /// The given path.
        path: PathBuf,
    },
    /// `cargo metadata` failed, or its output is invalid.
    #[error("reading the manifest of {} failed: {reason}", .path.display())]
    Manifest {
        /// The crate's folder.
        path: PathBuf,
        /// Cargo's message.
        reason: String,
    },
    /// The options contradict each other.
    #[error("the builder's options cannot be met: {reason}")]
    Options {
        /// The options, and the fix.
        reason: String,
    },
    /// The name of an architecture is unknown.
    #[error("unknown architecture `{name}`: expected compute_75 to compute_121, such as compute_90")]
    UnknownArch {
        /// The given name.
        name: String,
    },
    /// There is no GPU to query for its architecture, or it cannot be used.
    #[error(
        "this machine's GPU names no architecture: {reason}; name one instead of native, such as compute_90"
    )]
    Native {
        /// The driver's message.
        reason: String,
    },
    /// No usable compiler was found.
    #[error(
        "no usable rustc: {tried}; needed is one whose LLVM is 22 (rustc 1.95 to 1.98) with its rust-src and llvm-tools: `rustup toolchain install 1.95.0 --component rust-src,llvm-tools`, or on Debian `{install}`", install = crate::debian::INSTALL
    )]
    ToolchainMissing {
        /// Each compiler that was tried, and why it was rejected.
        tried: String,
    },
    /// No usable libNVVM was found.
    #[error(
        "no usable libNVVM: {tried}; let the builder fetch the pinned one with pip (download(true), which is the default), or set LIBNVVM_PATH to the libnvvm.so of CUDA 13.5 or later"
    )]
    NvvmMissing {
        /// Each place that was tried, and why it was rejected.
        tried: String,
    },
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
    #[error("libdevice at {} is damaged: it is not the LLVM bitcode that libNVVM comes with; install it anew, or remove it and let the builder fetch the pinned one", .path.display())]
    Libdevice {
        /// The file.
        path: PathBuf,
    },
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
    /// libNVVM rejected the module.
    #[error("libNVVM failed to compile {} for {arch}: {reason}\n{log}{}{}", named(.kernels), hint(.log), at(.places))]
    NvvmCompile {
        /// The architecture.
        arch: NvvmArch,
        /// libNVVM's name for the error.
        reason: String,
        /// libNVVM's log.
        log: String,
        /// The kernels that it fails on, if known.
        kernels: Vec<String>,
        /// The source lines that may cause it, and what they do.
        places: Vec<String>,
    },
    /// One of LLVM's tools failed or was stopped.
    #[error("{} failed to compile {} for {arch}: {log}{}{}", .path.display(), named(.kernels), hint(.log), at(.places))]
    LlvmFailed {
        /// The tool.
        path: PathBuf,
        /// The architecture.
        arch: NvvmArch,
        /// Its output, or why it was stopped.
        log: String,
        /// The kernels that it fails on, if known.
        kernels: Vec<String>,
        /// The source lines that may cause it, and what they do.
        places: Vec<String>,
    },
    /// A tool exceeded its time limit at every optimisation level that was tried.
    #[error(
        "{tool} did not end on {} for {arch}: {}; `FERROWARP_COMPILER_SECONDS=N` sets another limit; look for loops with \
         many iterations around loops that end early, and keep them from being unrolled (core::hint::black_box of their \
         bounds){}",
        named(.kernels), tried(.tries), at(.places)
    )]
    CompilerTimedOut {
        /// The tool.
        tool: String,
        /// The architecture.
        arch: NvvmArch,
        /// The optimisation levels that were tried, if the tool has any, and the time limit of each.
        tries: Vec<(Option<u8>, Duration)>,
        /// The kernels on which it exceeds the limit, if known.
        kernels: Vec<String>,
        /// The loops of their source, or the kernels.
        places: Vec<String>,
    },
    /// A tool could not be started, crashed or was killed.
    #[error("{tool} died on {} for {arch}: {how}{}{}", named(.kernels), hint(.how), at(.places))]
    CompilerDied {
        /// The tool.
        tool: String,
        /// The architecture.
        arch: NvvmArch,
        /// How, such as the signal, and the last lines of its output.
        how: String,
        /// The kernels that it died on, if known.
        kernels: Vec<String>,
        /// The source lines that may cause it, and what they do.
        places: Vec<String>,
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
    #[error("no ptxas ({reason}): let the builder fetch the pinned one with pip, or set PTXAS_PATH")]
    PtxasMissing {
        /// The places that were tried.
        reason: String,
    },
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
    /// A download does not have the pinned hash.
    #[error("{} is damaged or not the pinned file: sha256 is {found}, expected {expected}; run the command again to fetch it anew", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The pinned hash.
        expected: String,
        /// The actual hash.
        found: String,
    },
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
    pub(crate) fn about(mut self, about: &[String], at: &[String]) -> CudaBuilderError {
        if let CudaBuilderError::NvvmCompile { kernels, places, .. }
        | CudaBuilderError::LlvmFailed { kernels, places, .. }
        | CudaBuilderError::CompilerTimedOut { kernels, places, .. }
        | CudaBuilderError::CompilerDied { kernels, places, .. } = &mut self
        {
            *kernels = about.to_vec();
            *places = at.to_vec();
        }
        self
    }

    /// The error of `tool` stopped after `limit`.
    pub(crate) fn timed_out(tool: String, arch: NvvmArch, limit: Duration) -> CudaBuilderError {
        let (tries, kernels, places) = (vec![(None, limit)], Vec::new(), Vec::new());
        CudaBuilderError::CompilerTimedOut { tool, arch, tries, kernels, places }
    }

    /// The error of `tool` that ended without an answer.
    pub(crate) fn died(tool: String, arch: NvvmArch, how: String, log: String) -> CudaBuilderError {
        let how = how + &said(&log);
        CudaBuilderError::CompilerDied { tool, arch, how, kernels: Vec::new(), places: Vec::new() }
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

/// `the kernels a and b`, if there are few.
pub(crate) fn named(kernels: &[String]) -> String {
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
