//! pip, which fetches NVIDIA's compilers. The build script includes this file.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What to do without pip.
pub(crate) const INSTALL: &str =
    "install Python with pip (on Debian `apt install python3-pip`), or activate a venv";

/// The first of the usual commands that runs pip.
pub(crate) fn command() -> Option<Command> {
    // Isolated (-I), because Python would otherwise run a `pip.py` in the current folder.
    let commands: [&[&str]; 4] =
        [&["python3", "-I", "-m", "pip"], &["pip3"], &["pip"], &["python", "-I", "-m", "pip"]];
    commands.into_iter().find_map(|words| {
        let command = || {
            let mut command = Command::new(words[0]);
            command.args(&words[1..]);
            command
        };
        let answer = command().arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        answer.is_ok_and(|status| status.success()).then(command)
    })
}

/// The folder of the fetched tools that the environment names, and the default one in the user's cache folder.
pub(crate) fn tools_folders() -> [Option<PathBuf>; 2] {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let caches = variable("XDG_CACHE_HOME").filter(|folder| folder.is_absolute());
    let caches = caches.or_else(|| Some(variable("HOME")?.join(".cache")));
    [variable("FERROWARP_TOOLS"), caches.map(|folder| folder.join("ferrowarp"))]
}

/// Whether the builder has libNVVM or can fetch it, as far as that is known before a build. `out` is a folder in Cargo's
/// target directory.
#[allow(dead_code, reason = "for the build script")]
pub(crate) fn can_fetch(out: &Path) -> bool {
    let has_nvvm = |tools: &Path| {
        let entries = tools.read_dir().into_iter().flatten().flatten();
        entries.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with("nvidia-nvvm-"))
    };
    std::env::var_os("LIBNVVM_PATH").is_some_and(|path| !path.is_empty())
        || tools_folders().iter().flatten().any(|tools| has_nvvm(tools))
        || out.ancestors().any(|folder| has_nvvm(&folder.join("ferrowarp-tools")))
        || command().is_some()
}
