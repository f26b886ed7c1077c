//! Finds a rustc with an LLVM that libNVVM understands, with the source of `core` and that LLVM's tools.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::debian;
use crate::error::CudaBuilderError;
use crate::llvm::{Llvm, TOOLS};
use crate::nvvm::LLVM_MAJOR;

/// A compiler that can build the kernel crate.
#[derive(Clone, Debug)]
pub(crate) struct Toolchain {
    /// The absolute path of the compiler, without a rustup proxy.
    pub rustc: PathBuf,
    /// The output of `rustc -vV`, which identifies it.
    pub version: String,
    /// LLVM's tools: the compiler's own, or others of the same major version.
    pub llvm: Llvm,
}

/// The components that rustup adds to a toolchain without them.
const COMPONENTS: [&str; 2] = ["rust-src", "llvm-tools"];
/// The environment variable that names another folder of LLVM's tools.
const LLVM_VARIABLE: &str = "FERROWARP_LLVM";

/// Takes the first usable compiler: the environment's, the crate folder's, Debian's.
pub(crate) fn find(crate_path: &Path) -> Result<Toolchain, CudaBuilderError> {
    let named = std::env::var_os("RUSTC").map_or_else(|| PathBuf::from("rustc"), PathBuf::from);
    let mut in_environment = Command::new(&named);
    in_environment.current_dir(crate_path);
    // An outer cargo sets RUSTUP_TOOLCHAIN to its own; without it, the crate's rust-toolchain.toml applies.
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
    Err(CudaBuilderError::ToolchainMissing(refused.join("; ")))
}

/// The toolchain of a compiler. The error is why it cannot be used.
fn examine(compiler: &Command) -> Result<Toolchain, String> {
    let name = compiler.get_program().to_string_lossy().into_owned();
    let version = answer_of(compiler, &["-vV"])?;
    check_llvm(&name, &version)?;
    let sysroot = answer_of(compiler, &["--print", "sysroot"])?;
    let sysroot = sysroot.lines().map(Path::new).rfind(|line| line.is_absolute() && line.is_dir());
    let sysroot = sysroot.ok_or_else(|| format!("`{name}` names no sysroot"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
    let own_tools = sysroot.join("lib/rustlib").join(host).join("bin");
    let source = sysroot.join("lib/rustlib/src/rust/library/core/src/lib.rs");
    let named = std::env::var_os(LLVM_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
    let lacks_tools = |folder: &Path| !TOOLS.iter().all(|tool| folder.join(tool).is_file());
    let mut refused = String::new();
    let others = named.clone().unwrap_or_else(|| PathBuf::from(debian::LLVM));
    if !source.is_file() || (lacks_tools(&own_tools) && lacks_tools(&others)) {
        refused = add_components(sysroot).err().unwrap_or_default();
    }
    if !source.is_file() {
        return Err(format!("`{name}` in {} has no rust-src{refused}", sysroot.display()));
    }
    let candidates = match named {
        Some(folder) => vec![folder],
        None => vec![own_tools, PathBuf::from(debian::LLVM)],
    };
    let found = candidates.iter().find(|folder| !lacks_tools(folder));
    let folder = found.ok_or_else(|| {
        let folders = candidates.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>();
        format!("`{name}` has no llvm-tools: no {} in {}{refused}", TOOLS.join(", "), folders.join(" or "))
    })?;
    let opt = Command::new(folder.join("opt"));
    let said = answer_of(&opt, &["--version"])?;
    check_tools(folder, &said)?;
    let real = sysroot.join("bin").join("rustc");
    let rustc = if real.is_file() { real } else { PathBuf::from(&name) };
    Ok(Toolchain { rustc, version, llvm: Llvm::new(folder.clone(), said.trim()) })
}

/// The output of the compiler with `args`, in the folder and environment of `compiler`.
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

/// Rejects compilers with an LLVM other than the one whose IR libNVVM accepts.
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

/// Rejects tools of another LLVM.
fn check_tools(folder: &Path, answer: &str) -> Result<(), String> {
    let version = answer.split("LLVM version ").nth(1).and_then(|rest| rest.split_whitespace().next());
    let major = version.and_then(|version| version.split('.').next()?.parse::<i32>().ok());
    if major == Some(LLVM_MAJOR) {
        return Ok(());
    }
    let version = version.unwrap_or("of unknown version");
    Err(format!("the tools in {} are of LLVM {version}, not {LLVM_MAJOR}", folder.display()))
}

/// Makes rustup add the missing components of one of its toolchains. The error is the reason, for the end of a message.
fn add_components(sysroot: &Path) -> Result<(), String> {
    let toolchains = sysroot.parent().and_then(Path::file_name).is_some_and(|folder| folder == "toolchains");
    let toolchain = sysroot.file_name().filter(|_| toolchains).ok_or_else(String::new)?.to_string_lossy();
    let mut rustup = Command::new("rustup");
    rustup.args(["component", "add"]).args(COMPONENTS).args(["--toolchain", &toolchain]);
    let reason = match rustup.output() {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().to_owned(),
        Err(e) => e.to_string(),
    };
    Err(format!(", and rustup did not add it to toolchain {toolchain} ({reason})"))
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
    fn only_the_tools_of_llvm_22_are_taken() {
        let said = "LLVM (http://llvm.org/):\n  LLVM version 22.1.2-rust-1.95.0-stable\n  Optimized build.\n";
        assert!(check_tools(Path::new("/tools"), said).is_ok());
        let refusal = check_tools(Path::new("/tools"), &said.replace("22.1.2", "14.0.6")).unwrap_err();
        assert_eq!(refusal, "the tools in /tools are of LLVM 14.0.6-rust-1.95.0-stable, not 22");
        assert!(check_tools(Path::new("/tools"), "opt").unwrap_err().contains("of unknown version"));
    }

    #[test]
    fn a_missing_compiler_is_named() {
        let refusal = examine(&Command::new("/nonexistent/rustc")).unwrap_err();
        assert!(refusal.contains("/nonexistent/rustc"), "{refusal}");
    }
}
