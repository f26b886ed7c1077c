//! Debian's own compiler, for machines where rustup can fetch nothing.

use std::path::Path;
use std::process::{Command, Stdio};

/// Where the package rustc-web puts its compiler; rust-web-src puts the source of `core` in its sysroot.
pub(crate) const RUSTC: &str = "/usr/bin/rustc";

/// Where the package llvm-22 puts its tools.
pub(crate) const LLVM: &str = "/usr/lib/llvm-22/bin";

/// What installs all of it. Without the update, an old list of packages may name an older compiler.
pub(crate) const INSTALL: &str = "apt-get update && apt-get install -y rustc-web rust-web-src llvm-22";

/// Whether this is a Debian on which we may install packages.
pub(crate) fn is_ours() -> bool {
    Path::new("/etc/debian_version").is_file() && we_are_root()
}

#[cfg(target_os = "linux")]
fn we_are_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    // The folder of a process belongs to the user it runs as.
    Path::new("/proc/self").metadata().is_ok_and(|folder| folder.uid() == 0)
}

#[cfg(not(target_os = "linux"))]
fn we_are_root() -> bool {
    false
}

/// Runs [`INSTALL`]; gives what apt-get says if it fails.
pub(crate) fn install() -> Result<(), String> {
    let output = Command::new("sh")
        .args(["-c", INSTALL])
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("`{INSTALL}`: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    let error = log.lines().rfind(|line| line.starts_with("E:")).or_else(|| log.lines().last());
    Err(format!("`{INSTALL}`: {}", error.map_or_else(|| output.status.to_string(), str::to_owned)))
}
