//! libNVVM. It runs in a child process for each module, which can be stopped and may crash.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};

use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::arch::NvvmArch;
use crate::error::{CudaBuilderError, IoContext};
use crate::process::{self, NVVM, NVVM_CHILD, Stopped};
use crate::{files, whole};

/// The LLVM version of the IR that libNVVM must accept.
pub(crate) const LLVM_MAJOR: i32 = 22;

/// The child, a separate program: see `child/nvvm.rs`, which also documents its output.
const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/nvvm-child"));
/// The child's exit status if libNVVM rejects the module, and if the library cannot be used.
const REFUSED: i32 = 70;
const UNUSABLE: i32 = 71;

/// The options of libNVVM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NvvmOptions(pub Vec<String>);

/// A libNVVM with its libdevice.
pub(crate) struct Nvvm {
    library: PathBuf,
    libdevice: PathBuf,
    child: Child,
}

/// The child's file.
#[derive(Clone)]
struct Child {
    path: PathBuf,
    /// Its folder, if temporary.
    _folder: Option<Arc<TempDir>>,
}

/// Why a module has no PTX.
enum Refusal {
    /// libNVVM's name of the error and its log.
    Refused {
        reason: String,
        log: String,
    },
    Other(CudaBuilderError),
}

impl Nvvm {
    /// Loads the library at `path` with the libdevice at `libdevice`; the child's file goes to `tools`.
    ///
    /// # Errors
    /// The library cannot be loaded or is not libNVVM, or the libdevice is damaged.
    pub fn load(path: &Path, libdevice: &Path, tools: &Path) -> Result<Nvvm, CudaBuilderError> {
        if !whole::is_whole_elf(path) {
            let reason = "it is no shared library of this machine, or was cut short".to_owned();
            return Err(CudaBuilderError::NvvmLoad { path: path.to_owned(), reason });
        }
        if !whole::is_whole_bitcode(&files::read(libdevice).during("reading", libdevice)?) {
            return Err(CudaBuilderError::Libdevice(libdevice.to_owned()));
        }
        let child = Child::install(tools)?;
        let nvvm = Nvvm { library: path.to_owned(), libdevice: libdevice.to_owned(), child };
        match nvvm.run(&[], Vec::new(), NvvmArch::default()) {
            Ok(_) => Ok(nvvm),
            Err(Refusal::Other(error)) => Err(error),
            Err(Refusal::Refused { reason, log }) => {
                Err(CudaBuilderError::NvvmLoad { path: path.to_owned(), reason: reason + &log })
            }
        }
    }

    /// Checks that the library accepts the IR of LLVM 22 for `arch`, and its libdevice.
    ///
    /// # Errors
    /// The library is too old, or its libdevice is damaged.
    pub fn accepts(&self, arch: NvvmArch) -> Result<(), CudaBuilderError> {
        let probe = format!(
            "target datalayout = \"{}\"\n\
             target triple = \"nvptx64-nvidia-cuda\"\n\
             define ptx_kernel void @k(ptr %p) {{\n  store i32 1, ptr %p\n  ret void\n}}\n\
             !nvvmir.version = !{{!0}}\n!0 = !{}\n",
            cuda_ir::DATA_LAYOUT,
            cuda_ir::IR_VERSION
        );
        let options = NvvmOptions(vec![format!("-arch={arch}"), "-nvvm-latest".to_owned()]);
        let (reason, log) = match self.compile_with(probe.as_bytes(), Some(&self.libdevice), arch, &options) {
            Ok(_) => return Ok(()),
            Err(Refusal::Other(error)) => return Err(error),
            Err(Refusal::Refused { reason, log }) => (reason, log),
        };
        if self.compile_with(probe.as_bytes(), None, arch, &options).is_ok() {
            return Err(CudaBuilderError::Libdevice(self.libdevice.clone()));
        }
        let log = log.trim();
        let reason = format!(
            "it does not take the IR of LLVM {LLVM_MAJOR} for {arch} ({reason}{}{log})",
            if log.is_empty() { "" } else { ": " }
        );
        Err(CudaBuilderError::NvvmTooOld { path: self.library.clone(), reason })
    }

    /// Compiles a module, as LLVM text or bitcode, to PTX for `arch`.
    pub fn compile(
        &self,
        module: &[u8],
        arch: NvvmArch,
        options: &NvvmOptions,
    ) -> Result<String, CudaBuilderError> {
        self.compile_with(module, Some(&self.libdevice), arch, options).map_err(|refusal| match refusal {
            Refusal::Other(error) => error,
            Refusal::Refused { reason, log } => {
                CudaBuilderError::failed(NVVM.to_owned(), arch, &format!("{reason}\n{log}"))
            }
        })
    }

    fn compile_with(
        &self,
        module: &[u8],
        libdevice: Option<&Path>,
        arch: NvvmArch,
        NvvmOptions(options): &NvvmOptions,
    ) -> Result<String, Refusal> {
        let libdevice = libdevice.unwrap_or(Path::new("-")).as_os_str();
        let arguments: Vec<&OsStr> =
            std::iter::once(libdevice).chain(options.iter().map(OsStr::new)).collect();
        self.run(&arguments, module.to_vec(), arch)
    }

    /// Runs the child with `arguments`, and returns its output.
    fn run(&self, arguments: &[&OsStr], module: Vec<u8>, arch: NvvmArch) -> Result<String, Refusal> {
        let mut command = Command::new(&self.child.path);
        command.arg(&self.library).args(arguments);
        let name = format!("{NVVM} ({})", self.library.display());
        let ended = process::run(command, module, process::limit()).map_err(|stopped| {
            Refusal::Other(match stopped {
                Stopped::TimedOut(limit) => {
                    CudaBuilderError::timed_out(name.clone(), arch, vec![(None, limit)])
                }
                Stopped::Failed(reason) => CudaBuilderError::died(name.clone(), arch, reason, String::new()),
            })
        })?;
        let output = String::from_utf8_lossy(&ended.stdout);
        match ended.status.code() {
            Some(0) => Ok(output.into_owned()),
            Some(REFUSED) => {
                let (reason, log) = output.split_once('\n').unwrap_or((&output, ""));
                Err(Refusal::Refused { reason: reason.to_owned(), log: log.to_owned() })
            }
            Some(UNUSABLE) => {
                let (path, reason) = (self.library.clone(), output.into_owned());
                Err(Refusal::Other(CudaBuilderError::NvvmLoad { path, reason }))
            }
            _ => {
                let how = ended.killed().unwrap_or_else(|| ended.status.to_string());
                Err(Refusal::Other(CudaBuilderError::died(name, arch, how, ended.stderr)))
            }
        }
    }
}

impl Child {
    /// Writes the child's file to `tools`, or to a folder for this build alone if `tools` is not writable or programs cannot
    /// run there.
    fn install(tools: &Path) -> Result<Child, CudaBuilderError> {
        if PROGRAM.is_empty() {
            return Err(CudaBuilderError::Options(
                "this program was built without a linker for its system, so it lacks the program that runs libNVVM; build it \
                 on this system"
                    .to_owned(),
            ));
        }
        static HASH: OnceLock<String> = OnceLock::new();
        let hash = HASH.get_or_init(|| files::hex(&Sha256::digest(PROGRAM)));
        let name = format!("{NVVM_CHILD}-{}{}", &hash[..16], std::env::consts::EXE_SUFFIX);
        let path = tools.join(&name);
        let is_there = files::read(&path).is_ok_and(|bytes| bytes == PROGRAM);
        if is_there && start(&path).is_ok()
            || files::replace_executable(&path, PROGRAM).is_ok() && start(&path).is_ok()
        {
            return Ok(Child { path, _folder: None });
        }
        let folder = tempfile::tempdir().during("creating a folder in", &std::env::temp_dir())?;
        let path = folder.path().join(&name);
        files::replace_executable(&path, PROGRAM)?;
        match start(&path) {
            Ok(()) => Ok(Child { path, _folder: Some(Arc::new(folder)) }),
            Err(error) => Err(CudaBuilderError::Options(format!(
                "no program can be started in {} or {} ({error}); set FERROWARP_TOOLS to a folder that is not mounted noexec",
                tools.display(),
                folder.path().display()
            ))),
        }
    }
}

/// Starts the child without work. A program that another thread starts may hold the file open from its fork to its exec, so a busy
/// file is tried again for a second.
fn start(child: &Path) -> std::io::Result<()> {
    let mut command = Command::new(child);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    for _ in 0..100 {
        match command.status() {
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            ended => return ended.map(drop),
        }
    }
    command.status().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that is not executable, a pipe, and a folder in its place are replaced.
    #[cfg(unix)]
    #[test]
    fn the_child_can_always_be_started() {
        use std::os::unix::fs::PermissionsExt as _;
        let tools = tempfile::tempdir().unwrap();
        let path = Child::install(tools.path()).unwrap().path;
        assert_eq!(path.parent(), Some(tools.path()));
        let remove = || std::fs::remove_file(&path).unwrap();
        let spoilers: [&dyn Fn(); 4] = [
            &|| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap(),
            &|| std::fs::write(&path, "other").unwrap(),
            &|| {
                remove();
                assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
            },
            &|| {
                remove();
                std::fs::create_dir(&path).unwrap();
            },
        ];
        for (n, spoil) in spoilers.iter().enumerate() {
            spoil();
            assert_eq!(Child::install(tools.path()).unwrap().path, path, "{n}");
            start(&path).unwrap();
        }
    }

    /// A folder that cannot be created stands in for one in which no program can be started.
    #[test]
    fn the_child_goes_elsewhere_if_the_tools_cannot_hold_it() {
        let tools = tempfile::NamedTempFile::new().unwrap();
        let child = Child::install(tools.path()).unwrap();
        start(&child.path).unwrap();
    }
}
