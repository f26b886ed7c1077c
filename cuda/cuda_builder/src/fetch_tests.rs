//! What is kept of a package that pip has installed.

use super::*;

const PACKAGE: Package = Package { name: "some", version: "1", wheels: &[], files: &["some/bin/tool"] };

/// Lays out what pip installs in `temporary`: the file and another one.
fn installed(temporary: &Path, contents: &[u8]) {
    for file in ["some/bin/tool", "some/bin/other"] {
        let path = temporary.join(INSTALLED).join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, contents).unwrap();
    }
}

/// A complete ELF file.
fn program() -> Vec<u8> {
    std::fs::read("/bin/sh").unwrap()
}

/// Keeps the files of such an installation among the tools.
fn kept(tools: &Path, contents: &[u8]) -> Result<(), CudaBuilderError> {
    let temporary = tempfile::tempdir_in(tools).unwrap();
    installed(temporary.path(), contents);
    keep_files(&PACKAGE, temporary.path(), &PACKAGE.folder(tools))
}

/// Everything under a folder, without following links.
fn all_under(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in folder.read_dir().unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            found.extend(all_under(&entry.path()));
        }
        found.push(entry.path());
    }
    found
}

/// A lock that cannot be opened stands in for tools that are read-only, which root could still write to.
#[test]
fn complete_tools_may_be_read_only() {
    let tools = tempfile::tempdir().unwrap();
    std::fs::create_dir(tools.path().join("some.lock")).unwrap();
    let error = fetch(&PACKAGE, tools.path(), &|_| ()).unwrap_err().to_string();
    assert!(error.contains("opening the lock") && error.contains("some.lock failed: "), "{error}");
    assert!(error.contains("it was needed because"), "{error}");
    kept(tools.path(), &program()).unwrap();
    fetch(&PACKAGE, tools.path(), &|_| ()).unwrap();
}

#[test]
fn whatever_a_killed_fetch_left_is_removed() {
    let tools = tempfile::tempdir().unwrap();
    std::fs::write(tools.path().join(".some-file"), "").unwrap();
    std::fs::create_dir_all(tools.path().join(".some-folder/inner")).unwrap();
    std::fs::write(tools.path().join("some-1"), "a file in the place of the package").unwrap();
    remove_leftovers(tools.path(), ".some-").unwrap();
    assert_eq!(all_under(tools.path()), [tools.path().join("some-1")]);
    kept(tools.path(), &program()).unwrap();
    PACKAGE.check(tools.path()).unwrap();
}

#[test]
fn pips_reason_is_found() {
    assert_eq!(reason_in("WARNING: x\nERROR: one\nERROR: two\n"), "ERROR: one; ERROR: two");
    let exception = "ERROR: Exception:\nTraceback (most recent call last):\n  File\nOSError: no space left\n";
    assert_eq!(reason_in(exception), "OSError: no space left");
    assert_eq!(reason_in("No module named pip\n\n"), "No module named pip");
    assert_eq!(reason_in(""), "");
}

#[test]
fn the_files_of_a_package_are_kept_and_runnable_and_replace_an_older_one() {
    let tools = tempfile::tempdir().unwrap();
    std::fs::create_dir(PACKAGE.folder(tools.path())).unwrap();
    kept(tools.path(), &program()).unwrap();
    let file = PACKAGE.file(tools.path(), 0).unwrap();
    assert!(std::process::Command::new(&file).args(["-c", "exit"]).status().unwrap().success());
    let others = all_under(&PACKAGE.folder(tools.path()));
    assert_eq!(others.iter().filter(|path| path.is_file()).collect::<Vec<_>>(), [&file]);
    // A file that was cut short, and one that the wheel lacks, replace nothing.
    let program = program();
    let error = kept(tools.path(), &program[..program.len() / 2]).unwrap_err().to_string();
    assert!(error.contains("some/bin/tool is not in the wheel"), "{error}");
    let empty = tempfile::tempdir_in(tools.path()).unwrap();
    assert!(keep_files(&PACKAGE, empty.path(), &PACKAGE.folder(tools.path())).is_err());
    PACKAGE.check(tools.path()).unwrap();
    std::fs::write(&file, &program[..program.len() / 2]).unwrap();
    let error = PACKAGE.check(tools.path()).unwrap_err().to_string();
    assert!(error.contains("some/bin/tool is damaged"), "{error}");
}

/// The package's own folder may be a link that somebody left: it is replaced, not followed.
#[cfg(unix)]
#[test]
fn a_link_in_the_place_of_the_package_is_replaced() {
    let root = tempfile::tempdir().unwrap();
    let (tools, elsewhere) = (root.path().join("tools"), root.path().join("elsewhere"));
    std::fs::create_dir(&tools).unwrap();
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::write(elsewhere.join("kept"), b"").unwrap();
    for target in [&elsewhere, &root.path().join("nowhere")] {
        let _ = std::fs::remove_dir_all(PACKAGE.folder(&tools));
        std::os::unix::fs::symlink(target, PACKAGE.folder(&tools)).unwrap();
        kept(&tools, &program()).unwrap();
        assert!(PACKAGE.folder(&tools).symlink_metadata().unwrap().is_dir());
        assert_eq!(all_under(&elsewhere), [elsewhere.join("kept")]);
        assert!(!root.path().join("nowhere").exists());
    }
}
