//! Embeds PTX in the program: a Rust file that holds the bytes of all modules.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::builder::CudaBuilder;
use crate::built::Built;
use crate::error::CudaBuilderError;
use crate::files;

impl CudaBuilder {
    /// Builds, and writes `LIBRARY.embedded.rs` into the build script's `OUT_DIR`. `ferrowarp::embedded_ptx!("LIBRARY")`
    /// includes its PTX and machine code in the program, which then needs no file of the build.
    ///
    /// `LIBRARY` is the name of the kernel crate's library, or `ferrowarp` for the kernels of its operations. The file is an expression of type
    /// `&[(&str, &[u8])]`: the name and bytes of each file. The crate is [split](Self::split), and all files are in
    /// `OUT_DIR`.
    ///
    /// # Errors
    /// The program is not a build script; all errors of [`Self::build_all`].
    pub fn embed(self) -> Result<Built, CudaBuilderError> {
        let Some(out) = std::env::var_os("OUT_DIR").map(PathBuf::from) else {
            let reason = "embed() is called outside of a build script: OUT_DIR is not set; use build_all()";
            return Err(CudaBuilderError::Options(reason.to_owned()));
        };
        let built = self.split(true).out_dir(&out).build_all()?;
        let files =
            built.modules.iter().flat_map(|module| [Some(&module.path), module.machine_code.as_ref()]);
        let text = rust_file(files.flatten().map(PathBuf::as_path));
        files::write(&out.join(format!("{}.embedded.rs", built.library)), text.as_bytes())?;
        Ok(built)
    }

    /// Same as [`Self::embed`]; an error ends the build script with [`CudaBuilderError::exit`].
    pub fn embed_or_exit(self) -> Built {
        self.embed().unwrap_or_else(|error| error.exit())
    }

    /// Same as [`Self::build_all`]; an error ends the build script with [`CudaBuilderError::exit`].
    pub fn build_or_exit(self) -> Built {
        self.build_all().unwrap_or_else(|error| error.exit())
    }
}

/// The expression. It names each file relative to itself, so the program does not contain the build's folder.
fn rust_file<'a>(files: impl Iterator<Item = &'a Path>) -> String {
    let mut text = "&[\n".to_owned();
    for name in files.filter_map(Path::file_name) {
        let name = name.to_string_lossy();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "    ({name:?}, include_bytes!({name:?}) as &[u8]),");
    }
    text + "]\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_without_their_folder() {
        let files = [Path::new("/out/k.compute_90.ptx"), Path::new("/out/k.compute_90.cubin")];
        assert_eq!(
            rust_file(files.into_iter()),
            "&[\n    (\"k.compute_90.ptx\", include_bytes!(\"k.compute_90.ptx\") as &[u8]),\n    \
             (\"k.compute_90.cubin\", include_bytes!(\"k.compute_90.cubin\") as &[u8]),\n]\n"
        );
        assert_eq!(rust_file(std::iter::empty()), "&[\n]\n");
    }
}
