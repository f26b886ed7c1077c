//! Debian's own compiler, for machines where rustup can fetch nothing.

/// Where the package rustc-web puts its compiler; rust-web-src puts the source of `core` in its sysroot.
pub(crate) const RUSTC: &str = "/usr/bin/rustc";

/// Where the package llvm-22 puts its tools.
pub(crate) const LLVM: &str = "/usr/lib/llvm-22/bin";

/// What installs all of it: the user's command, since a build installs nothing in the system. Without the update, an old list of packages may name an older compiler.
pub(crate) const INSTALL: &str = "apt-get update && apt-get install -y rustc-web rust-web-src llvm-22";
