//! Debian's own compiler, for machines where rustup cannot download.

/// The compiler of rustc-web; rust-web-src adds `core`'s source to its sysroot.
pub(crate) const RUSTC: &str = "/usr/bin/rustc";

/// The folder of llvm-22's tools.
pub(crate) const LLVM: &str = "/usr/lib/llvm-22/bin";

/// Installs all of it; the user runs it, since a build installs nothing in the system. The update avoids an older compiler.
pub(crate) const INSTALL: &str = "apt-get update && apt-get install -y rustc-web rust-web-src llvm-22";
