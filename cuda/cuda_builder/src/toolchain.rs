//! Finds a rustc whose LLVM libNVVM understands, with the source of `core`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::debian;
use crate::error::CudaBuilderError;
use crate::fetch::{Progress, ProgressFn};
use crate::nvvm::LLVM_MAJOR;

/// A compiler that can build the kernel crate.
#[derive(Clone, Debug)]
pub(crate) struct Toolchain {
    /// The compiler, by absolute path: no rustup proxy stands in between.
    pub rustc: PathBuf,
    /// What `rustc -vV` says, which identifies it.
    pub version: String,
}

/// Takes the first usable compiler: the one of the environment, the one of the crate's folder, Debian's. The last is
/// installed if there is no other, `install` allows it, and we may.
pub(crate) fn find(
    crate_path: &Path,
    install: bool,
    progress: &ProgressFn<'_>,
) -> Result<Toolchain, CudaBuilderError> {
    let named = std::env::var_os("RUSTC").map_or_else(|| PathBuf::from("rustc"), PathBuf::from);
    let mut in_environment = Command::new(&named);
    in_environment.current_dir(crate_path);
    // An outer cargo sets RUSTUP_TOOLCHAIN to its own; without it, the crate's rust-toolchain.toml counts.
    let mut of_folder = Command::new("rustc");
    of_folder.current_dir(crate_path).env_remove("RUSTUP_TOOLCHAIN");
    let candidates = [in_environment, of_folder, Command::new(debian::RUSTC)];

    let mut refused: Vec<String> = Vec::new();
    for command in &candidates {
        match examine(command) {
            Ok(toolchain) => return Ok(toolchain),
            Err(reason) if refused.contains(&reason) => {}
            Err(reason) => refused.push(reason),
        }
    }
    if install && debian::is_ours() {
        progress(Progress::Installing { command: debian::INSTALL.to_owned(), reason: refused.join("; ") });
        match debian::install().and_then(|()| examine(&Command::new(debian::RUSTC))) {
            Ok(toolchain) => return Ok(toolchain),
            Err(reason) => refused.push(reason),
        }
    }
    Err(CudaBuilderError::ToolchainMissing { tried: refused.join("; ") })
}

/// The toolchain of a compiler, or why it cannot be used.
fn examine(compiler: &Command) -> Result<Toolchain, String> {
    let name = compiler.get_program().to_string_lossy().into_owned();
    let version = answer_of(compiler, &["-vV"])?;
    check_llvm(&name, &version)?;
    let sysroot = answer_of(compiler, &["--print", "sysroot"])?;
    let sysroot = sysroot.lines().map(Path::new).rfind(|line| line.is_absolute() && line.is_dir());
    let sysroot = sysroot.ok_or_else(|| format!("`{name}` names no sysroot"))?;
    ensure_source(&name, sysroot)?;
    let real = sysroot.join("bin").join("rustc");
    let rustc = if real.is_file() { real } else { PathBuf::from(&name) };
    Ok(Toolchain { rustc, version })
}

/// What the compiler prints when it is run with `args`, in the folder and environment of `compiler`.
fn answer_of(compiler: &Command, args: &[&str]) -> Result<String, String> {
    let name = compiler.get_program().to_string_lossy();
    let mut command = Command::new(compiler.get_program());
    command.args(args);
    if let Some(folder) = compiler.get_current_dir() {
        command.current_dir(folder);
    }
    for (key, value) in compiler.get_envs() {
        match value {
            Some(value) => command.env(key, value),
            None => command.env_remove(key),
        };
    }
    let output = command.output().map_err(|e| format!("`{name}`: {e}"))?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr);
        return Err(format!("`{name}`: {}", reason.lines().next().unwrap_or("it failed").trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Refuses compilers with another LLVM than the one whose IR libNVVM takes.
fn check_llvm(name: &str, answer: &str) -> Result<(), String> {
    let field = |key: &str| answer.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    let release = field("release:").unwrap_or("of unknown version");
    let llvm =
        field("LLVM version:").ok_or_else(|| format!("`{name}` {release} does not say which LLVM it has"))?;
    let major = llvm.split('.').next().and_then(|major| major.parse::<i32>().ok());
    if major == Some(LLVM_MAJOR) {
        return Ok(());
    }
    Err(format!("`{name}` {release} has LLVM {llvm}, not {LLVM_MAJOR}"))
}

/// Sees that the source of `core` is there, and has rustup add it if not.
fn ensure_source(name: &str, sysroot: &Path) -> Result<(), String> {
    let source = sysroot.join("lib/rustlib/src/rust/library/core/src/lib.rs");
    if source.is_file() {
        return Ok(());
    }
    let toolchains = sysroot.parent().and_then(Path::file_name).is_some_and(|folder| folder == "toolchains");
    let toolchain = sysroot.file_name().filter(|_| toolchains);
    let toolchain = toolchain
        .ok_or_else(|| format!("`{name}` in {} has no rust-src", sysroot.display()))?
        .to_string_lossy();
    let rustup =
        Command::new("rustup").args(["component", "add", "rust-src", "--toolchain", &toolchain]).output();
    if source.is_file() {
        return Ok(());
    }
    let reason = match rustup {
        Ok(output) => String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().to_owned(),
        Err(e) => e.to_string(),
    };
    Err(format!("toolchain {toolchain} has no rust-src and rustup did not add it ({reason})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_llvm_22_is_taken() {
        let answer = |llvm: &str| format!("rustc 1.99.1\nrelease: 1.99.1\nLLVM version: {llvm}\n");
        assert!(check_llvm("rustc", &answer("22.1.2")).is_ok());
        let refusal = check_llvm("rustc", &answer("23.1.1")).unwrap_err();
        assert_eq!(refusal, "`rustc` 1.99.1 has LLVM 23.1.1, not 22");
        assert!(check_llvm("rustc", "release: 1.40.0\n").is_err());
    }

    #[test]
    fn a_missing_compiler_is_named() {
        let refusal = examine(&Command::new("/nonexistent/rustc")).unwrap_err();
        assert!(refusal.contains("/nonexistent/rustc"), "{refusal}");
    }
}
