//! One PTX file, or one module embedded in the program.

use std::borrow::Cow;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use ruzstd::decoding::StreamingDecoder;
use sha2::{Digest, Sha256};

use super::super::error::DeviceError;
use super::super::ptx_header::{Header, PtxTarget, parse, parse_head, parse_target};

/// The largest size of a PTX file or its machine code.
const MOST_BYTES: u64 = 256 << 20;
/// The bytes at the head of a file that contain its directives.
const HEAD_BYTES: u64 = 64 << 10;
/// `cargo xtask build-ptx` writes this after machine code, followed by the SHA-256 of the PTX that it was built from.
pub(super) const TRAILER: &[u8; 16] = b"ferrowarp cubin\n";

/// One PTX file.
///
/// ```
/// use std::path::Path;
///
/// use ferrowarp::device::{DeviceError, PtxModule};
///
/// let text = ".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n";
/// let module = PtxModule::from_bytes(text.into(), Path::new("kernels.compute_90.ptx"))?;
/// assert_eq!((module.name(), module.version()), ("kernels", (8, 6)));
/// # Ok::<(), DeviceError>(())
/// ```
#[derive(Clone)]
pub struct PtxModule {
    pub(super) path: PathBuf,
    pub(super) name: String,
    header: Header,
    /// Clones share it, so that it is read or decompressed once.
    text: Arc<OnceLock<Cow<'static, str>>>,
    /// The text, compressed by zstd.
    packed: Option<&'static [u8]>,
    /// The index of its set among those joined with [`PtxModules::and`].
    pub(super) set: usize,
    machine_code: MachineCode,
}

/// Where a module's machine code is.
#[derive(Clone)]
pub(super) enum MachineCode {
    /// In the file next to the PTX, if there is one.
    NextToFile,
    Embedded(Option<&'static [u8]>),
}

impl PtxModule {
    /// Moves the module into the set with this index.
    pub(super) fn in_set(self, set: usize) -> PtxModule {
        PtxModule { set, ..self }
    }

    /// Reads the head of a file; the rest is read when it is needed.
    pub(super) fn read(path: &Path) -> Result<PtxModule, DeviceError> {
        let (head, is_all) = read_at_most(path, HEAD_BYTES)?;
        if is_all {
            return Self::from_bytes(head, path);
        }
        // The last character may be incomplete.
        let text = String::from_utf8_lossy(&head);
        let header = parse_head(&text).map_err(|reason| damaged(path, reason))?;
        let (path, name) = (path.to_owned(), crate_name(path));
        let machine_code = MachineCode::NextToFile;
        Ok(PtxModule { path, name, header, text: Arc::default(), packed: None, set: 0, machine_code })
    }

    /// A module of `packed`, the contents of the file `path` compressed by zstd. The file's name says the architecture, so that
    /// it is decompressed when it is needed.
    pub(super) fn of_packed(packed: &'static [u8], path: &Path) -> Result<PtxModule, DeviceError> {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let arch = stem.rsplit_once(".compute_").map_or("", |(_, arch)| arch);
        let target = parse_target(&format!("sm_{arch}")).ok_or_else(|| {
            damaged(path, "its name does not end in `.compute_`, an architecture and `.ptx`".to_owned())
        })?;
        let header = Header { version: (0, 0), target };
        let (path, name, machine_code) = (path.to_owned(), crate_name(path), MachineCode::Embedded(None));
        Ok(PtxModule { path, name, header, text: Arc::default(), packed: Some(packed), set: 0, machine_code })
    }

    /// Makes a module from `bytes`, the contents of the file `path`.
    ///
    /// # Errors
    /// [`DeviceError::PtxDamaged`] if the text is not valid PTX.
    pub fn from_bytes(bytes: Vec<u8>, path: &Path) -> Result<PtxModule, DeviceError> {
        Self::of_text(Cow::Owned(text_of(bytes, path)?), path, MachineCode::NextToFile)
    }

    pub(super) fn of_text(
        text: Cow<'static, str>,
        path: &Path,
        machine_code: MachineCode,
    ) -> Result<PtxModule, DeviceError> {
        let header = parse(&text).map_err(|reason| damaged(path, reason))?;
        let (path, name, text) = (path.to_owned(), crate_name(path), Arc::new(OnceLock::from(text)));
        Ok(PtxModule { path, name, header, text, packed: None, set: 0, machine_code })
    }

    /// The file's path; for an embedded module, its name after `embedded/`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The kernel crate's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The PTX ISA version it is written in, major and minor.
    pub fn version(&self) -> (u32, u32) {
        let of_text = self.packed.and_then(|_| parse_head(self.text().ok()?).ok());
        of_text.unwrap_or(self.header).version
    }

    /// The target architecture.
    pub fn target(&self) -> PtxTarget {
        self.header.target
    }

    /// Returns the PTX, and reads the file or decompresses the text if necessary.
    ///
    /// # Errors
    /// The file cannot be read, or is not valid PTX.
    pub fn text(&self) -> Result<&str, DeviceError> {
        if let Some(text) = self.text.get() {
            return Ok(text);
        }
        let (bytes, is_all) = match self.packed {
            Some(packed) => (unpack(packed, &self.path)?, true),
            None => read_at_most(&self.path, MOST_BYTES)?,
        };
        if !is_all {
            return Err(damaged(&self.path, format!("it has more than {} MiB", MOST_BYTES >> 20)));
        }
        let text = text_of(bytes, &self.path)?;
        let Header { target, .. } = parse(&text).map_err(|reason| damaged(&self.path, reason))?;
        if target != self.target() {
            return Err(damaged(&self.path, format!("it is for {target}, not for {}", self.target())));
        }
        Ok(self.text.get_or_init(|| Cow::Owned(text)))
    }

    /// The machine code that was built from exactly this PTX, if it exists and runs on a device of this compute capability.
    pub(in crate::device) fn machine_code(&self, major: u32, minor: u32) -> Option<Vec<u8>> {
        let target = self.target();
        let (built_major, built_minor) = (target.architecture / 10, target.architecture % 10);
        // Machine code runs on later devices of the same major capability (CUDA programming guide, "binary
        // compatibility").
        let runs =
            built_major == major && built_minor <= minor && (target.suffix.is_none() || built_minor == minor);
        let (mut code, is_all) = match self.machine_code {
            _ if !runs => return None,
            MachineCode::Embedded(code) => (code?.to_vec(), true),
            MachineCode::NextToFile => read_at_most(&self.path.with_extension("cubin"), MOST_BYTES).ok()?,
        };
        let at = code.len().checked_sub(TRAILER.len() + 32).filter(|_| is_all)?;
        let is_of_this = {
            let (trailer, hash) = code[at..].split_at(TRAILER.len());
            trailer == TRAILER && hash == &Sha256::digest(self.text().ok()?)[..]
        };
        code.truncate(at);
        is_of_this.then_some(code)
    }

    /// The names of its kernels.
    ///
    /// # Errors
    /// Same as for [`Self::text`].
    pub(in crate::device) fn kernels(&self) -> Result<Vec<String>, DeviceError> {
        let after = self.text()?.split(".entry").skip(1);
        let name = |rest: &str| -> String {
            let is_part = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%');
            rest.trim_start().chars().take_while(is_part).collect()
        };
        Ok(after.map(name).filter(|name| !name.is_empty()).collect())
    }
}

fn damaged(path: &Path, reason: String) -> DeviceError {
    DeviceError::PtxDamaged { path: path.to_owned(), reason }
}

fn text_of(bytes: Vec<u8>, path: &Path) -> Result<String, DeviceError> {
    String::from_utf8(bytes).map_err(|error| not_text(path, error.utf8_error()))
}

pub(super) fn not_text(path: &Path, error: std::str::Utf8Error) -> DeviceError {
    damaged(path, format!("byte {} is not UTF-8 text", error.valid_up_to()))
}

/// Decompresses the file `path`.
fn unpack(packed: &[u8], path: &Path) -> Result<Vec<u8>, DeviceError> {
    let mut bytes = Vec::new();
    let unpacked = StreamingDecoder::new(packed)
        .map_err(|error| error.to_string())
        .and_then(|mut decoder| decoder.read_to_end(&mut bytes).map_err(|error| error.to_string()));
    unpacked.map_err(|reason| damaged(path, format!("it cannot be decompressed: {reason}")))?;
    Ok(bytes)
}

/// Reads the first `most` bytes of a regular file. Also returns whether they are all.
fn read_at_most(path: &Path, most: u64) -> Result<(Vec<u8>, bool), DeviceError> {
    let unreadable = |source| DeviceError::PtxUnreadable { path: path.to_owned(), source };
    // Opening a pipe, or reading it or a device, may never end.
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(damaged(path, "it is not a regular file".to_owned()));
    }
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    let len = file.take(most + 1).read_to_end(&mut bytes).map_err(unreadable)? as u64;
    bytes.truncate(most as usize);
    Ok((bytes, len <= most))
}

impl fmt::Debug for PtxModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PtxModule({} for {})", self.path.display(), self.target())
    }
}

/// The crate's name in a path: `gpu_kernels` for `gpu_kernels.compute_90.ptx`.
fn crate_name(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    match stem.rsplit_once('.') {
        Some((name, architecture))
            if architecture.starts_with("compute_") || architecture.starts_with("sm_") =>
        {
            name.to_owned()
        }
        _ => stem.into_owned(),
    }
}
