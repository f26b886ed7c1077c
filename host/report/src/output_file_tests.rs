use super::*;

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_file_replaces_what_was_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    write(&path, b"old").unwrap();
    write(&path, b"new").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(names(folder.path()), ["a"]);
}

#[test]
fn an_unfinished_file_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    drop(begin(folder.path()).unwrap());
    check_destination(&folder.path().join("a")).unwrap();
    assert!(names(folder.path()).is_empty());
}

#[test]
fn a_destination_that_cannot_be_written_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let is_a_folder = check_destination(folder.path()).unwrap_err();
    assert_eq!(is_a_folder.kind(), io::ErrorKind::IsADirectory);
    let no_folder = check_destination(&folder.path().join("missing").join("a")).unwrap_err();
    assert_eq!(no_folder.kind(), io::ErrorKind::NotFound);
    let temporary = begin(&folder.path().join("missing")).unwrap_err();
    assert_eq!(temporary.kind(), io::ErrorKind::NotFound);
    assert!(!temporary.to_string().contains(TEMPORARY), "{temporary}");
}

#[test]
fn what_killed_programs_left_is_removed_and_what_is_being_written_stays() {
    let folder = tempfile::tempdir().unwrap();
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let drop_name = |file: NamedTempFile| name(file.path());
    let old = std::time::SystemTime::now() - 2 * HUNG;
    let others = [".ferrowarp-backup", ".ferrowarp-incomplete-notes", ".ferrowarp-my-notes", "other-old"];
    let abandoned = drop_name(begin(folder.path()).unwrap());
    for left in others.into_iter().chain([&*abandoned]) {
        File::create(folder.path().join(left)).unwrap().set_modified(old).unwrap();
    }
    let new = drop_name(begin(folder.path()).unwrap());
    File::create(folder.path().join(&new)).unwrap();
    let begun = begin(folder.path()).unwrap();
    begun.as_file().set_modified(old).unwrap();
    check_destination(&folder.path().join("a")).unwrap();
    let mut expected = vec![name(begun.path()), new];
    expected.extend(others.map(str::to_owned));
    expected.sort();
    assert_eq!(names(folder.path()), expected);
}

#[test]
fn names_that_cannot_be_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let message = |name: &str| check_destination(&folder.path().join(name)).unwrap_err().to_string();
    for name in ["a/", "a/.", "a//./.", "a/.//"] {
        assert!(message(name).contains("ends like a folder"), "{name}: {}", message(name));
    }
    assert!(!message(&"a".repeat(256)).is_empty());
    assert!(names(folder.path()).is_empty());
}

#[test]
fn two_ways_to_write_a_file_are_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    assert!(is_same(&path, &folder.path().join(".").join("a")));
    assert!(!is_same(&path, &folder.path().join("b")));
}

#[cfg(unix)]
#[test]
fn what_is_no_regular_file_is_written_to() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    check_destination(&pipe).unwrap();
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::read(pipe).unwrap()
    });
    write(&pipe, b"through").unwrap();
    assert_eq!(reader.join().unwrap(), b"through");
    assert!(!fs::metadata(&pipe).unwrap().is_file());
    let full = write(Path::new("/dev/full"), b"lost").unwrap_err();
    assert_eq!(full.kind(), io::ErrorKind::StorageFull);
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_in_an_ordinary_folder_of_proc_is_replaced_and_an_open_one_is_written_to() {
    use std::os::fd::AsRawFd as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let absolute = path.strip_prefix("/").unwrap();
    for root in ["/proc/self/root", "/proc/self/cwd/../../../../../../../../.."] {
        write(&Path::new(root).join(absolute), b"longer").unwrap();
        write(&Path::new(root).join(absolute), b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new", "{root}");
    }
    let open = OpenOptions::new().append(true).open(&path).unwrap();
    let descriptor = open.as_raw_fd();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(format!("/dev/fd/{descriptor}"), &link).unwrap();
    let process = std::process::id();
    for shown in [
        format!("/dev/fd/{descriptor}"),
        format!("/proc/self/fd/{descriptor}"),
        format!("/proc/{process}/fd/../fd/{descriptor}"),
        link.display().to_string(),
    ] {
        let before = fs::read(&path).unwrap();
        write(Path::new(&shown), b"+").unwrap();
        assert_eq!(fs::read(&path).unwrap(), [&*before, b"+"].concat(), "{shown}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_in_shared_memory_is_a_file() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("a");
    write(&path, b"longer").unwrap();
    write(&path, b"new").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
}

#[cfg(unix)]
#[test]
fn a_link_stays_and_the_file_it_names_keeps_its_permissions() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = tempfile::tempdir().unwrap();
    let [file, link, dangling] = ["file", "link", "dangling"].map(|name| folder.path().join(name));
    fs::write(&file, "old").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    symlink("file", &link).unwrap();
    symlink("new", &dangling).unwrap();
    write(&link, b"1").unwrap();
    write(&dangling, b"2").unwrap();
    assert_eq!(fs::read(&file).unwrap(), b"1");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read(folder.path().join("new")).unwrap(), b"2");
    assert!([&link, &dangling].iter().all(|path| path.is_symlink()));
    assert!(is_same(&link, &file));
    let circle = folder.path().join("circle");
    symlink("circle", &circle).unwrap();
    assert!(check_destination(&circle).is_err());
}

#[cfg(unix)]
#[test]
fn permissions_are_those_of_an_ordinary_file() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let (ours, plain) = (folder.path().join("ours"), folder.path().join("plain"));
    write(&ours, b"").unwrap();
    fs::write(&plain, b"").unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&ours), mode(&plain));
}

#[cfg(unix)]
#[test]
fn the_temporary_file_of_a_private_file_is_private() {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::{AtomicBool, Ordering};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let is_over = AtomicBool::new(false);
    let readable = std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut readable = None;
            while !is_over.load(Ordering::Relaxed) {
                for entry in fs::read_dir(folder.path()).unwrap().flatten() {
                    let mode = entry.metadata().map_or(0, |metadata| metadata.permissions().mode());
                    readable = readable.or((mode & 0o077 != 0).then(|| entry.file_name()));
                }
            }
            readable
        });
        write(&path, &vec![0; 64 << 20]).unwrap();
        is_over.store(true, Ordering::Relaxed);
        watch.join().unwrap()
    });
    assert_eq!(readable, None);
}

/// The test runs itself with a file size limit, because the limit's signal would end this process.
#[cfg(unix)]
#[test]
fn a_write_beyond_the_file_size_limit_fails() {
    const FOLDER: &str = "FERROWARP_TEST_OUTPUT_FOLDER";
    if let Some(folder) = std::env::var_os(FOLDER) {
        let error = write(&Path::new(&folder).join("a"), &vec![0; 1 << 20]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let name = std::thread::current().name().unwrap().to_owned();
    let child = std::process::Command::new("sh")
        .args(["-c", "ulimit -f 20 && exec \"$0\" --exact \"$1\""])
        .arg(std::env::current_exe().unwrap())
        .arg(name)
        .env(FOLDER, folder.path())
        .output()
        .unwrap();
    assert!(child.status.success(), "{child:?}");
    assert!(names(folder.path()).is_empty());
}
