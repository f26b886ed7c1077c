//! What the tests share: a synthetic data set, the programs, and a listing of a folder.

#![allow(dead_code, reason = "each test file is a program of its own and uses a part of this")]

pub mod networks;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use tempfile::TempDir;

/// Side of the made-up images.
pub const SIDE: usize = 28;
const PIXELS: usize = SIDE * SIDE;

/// A small generator (SplitMix64): the same numbers everywhere and for ever.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Images that a network can learn in no time: a bright bar whose place is the class, on noise.
pub fn digits(count: usize, seed: u64) -> (Vec<u8>, Vec<u8>) {
    let mut random = Random(seed);
    let (mut images, mut labels) = (Vec::with_capacity(count * PIXELS), Vec::with_capacity(count));
    for _ in 0..count {
        let label = (random.next() % 10) as u8;
        labels.push(label);
        for pixel in 0..PIXELS {
            let in_bar = (pixel / SIDE).wrapping_sub(2 * usize::from(label) + 4) < 2;
            images.push((random.next() % 60) as u8 + if in_bar { 190 } else { 0 });
        }
    }
    (images, labels)
}

pub fn idx_images(count: u32, pixels: &[u8]) -> Vec<u8> {
    let header = [0x803, count, SIDE as u32, SIDE as u32];
    header.iter().flat_map(|number| number.to_be_bytes()).chain(pixels.iter().copied()).collect()
}

pub fn idx_labels(count: u32, labels: &[u8]) -> Vec<u8> {
    [0x801, count].iter().flat_map(|number| number.to_be_bytes()).chain(labels.iter().copied()).collect()
}

pub fn csv(images: &[u8], labels: &[u8]) -> String {
    let mut text = String::from("label");
    for pixel in 0..PIXELS {
        text += &format!(",pixel{pixel}");
    }
    text.push('\n');
    for (image, label) in images.chunks(PIXELS).zip(labels) {
        text += &label.to_string();
        for pixel in image {
            text += &format!(",{pixel}");
        }
        text.push('\n');
    }
    text
}

/// A folder with the data set in `data`, and room for results beside it.
pub struct Place {
    dir: TempDir,
}

impl Place {
    /// Without a data set.
    pub fn empty() -> Place {
        Place { dir: tempfile::tempdir().expect("the system has a folder for temporary files") }
    }

    /// With 633 training and 100 test images as IDX files; 633 is no multiple of any batch size used.
    pub fn with_idx() -> Place {
        let place = Place::empty();
        fs::create_dir(place.path("data")).unwrap();
        for (name, count, seed) in [("train", 633, 1), ("t10k", 100, 2)] {
            let (images, labels) = digits(count, seed);
            place.write(&format!("data/{name}-images-idx3-ubyte"), idx_images(count as u32, &images));
            place.write(&format!("data/{name}-labels-idx1-ubyte"), idx_labels(count as u32, &labels));
        }
        place
    }

    /// With the same images as CSV files.
    pub fn with_csv() -> Place {
        let place = Place::empty();
        fs::create_dir(place.path("data")).unwrap();
        for (name, count, seed) in [("train", 633, 1), ("test", 100, 2)] {
            let (images, labels) = digits(count, seed);
            place.write(&format!("data/mnist_{name}.csv"), csv(&images, &labels));
        }
        place
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(name), bytes).unwrap();
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Every file and folder with its contents.
    pub fn listing(&self) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        fn visit(folder: &Path, listing: &mut BTreeMap<PathBuf, Option<Vec<u8>>>) {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    visit(&path, listing);
                    listing.insert(path, None);
                } else {
                    let contents = fs::read(&path).unwrap();
                    listing.insert(path, Some(contents));
                }
            }
        }
        let mut listing = BTreeMap::new();
        visit(self.dir.path(), &mut listing);
        listing
    }

    /// With IDX files, the weights of a 784-16-10 network in `w`, and in `c` the checkpoints after steps 55, 60 and 64 of the
    /// run that trained it: two epochs of 32 steps.
    pub fn with_run() -> Place {
        let place = Place::with_idx();
        let run = "--hidden 16 --batch-size 20 --lr 0.1 --seed 7 --epochs 2 --checkpoint c --checkpoint-every 5 --save w";
        succeeds(place.train(&words(run)));
        place
    }

    /// `train-mnist` on the CPU, in this folder and with its data set.
    pub fn train(&self, flags: &[&str]) -> Command {
        self.program(env!("CARGO_BIN_EXE_train-mnist"), &["--device", "cpu", "--data", "data"], flags)
    }

    /// `predict` on the CPU, in this folder and with its data set.
    pub fn predict(&self, flags: &[&str]) -> Command {
        self.program(env!("CARGO_BIN_EXE_predict"), &["--device", "cpu", "--data", "data"], flags)
    }

    /// A program in this folder. Environment variables of the test run do not affect it.
    pub fn program(&self, path: impl AsRef<OsStr>, first: &[&str], flags: &[&str]) -> Command {
        let mut command = Command::new(path);
        command.args(first).args(flags).current_dir(self.dir.path());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        for variable in ["FERROWARP_PTX", "FERROWARP_LIBCUDA", "FERROWARP_MNIST_MIRROR"] {
            command.env_remove(variable);
        }
        command
    }

    /// Runs `command`, which must fail properly: exit code 1, or 2 if its arguments cannot be used, one message on the
    /// standard error with all of `needles` and no panic, and this folder as it was. Returns the message.
    #[track_caller]
    pub fn refuses(&self, mut command: Command, needles: &[&str]) -> String {
        let before = self.listing();
        let child = command.spawn().expect("the program can be started");
        let output = child.wait_with_output().expect("the program can be waited for");
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_usage = |line: &str| line.starts_with("error: --") && line.contains(" cannot be used");
        let is_usage =
            message.contains("For more information, try '--help'") || message.lines().any(is_usage);
        let code = if is_usage { 2 } else { 1 };
        assert_eq!(output.status.code(), Some(code), "{message}");
        assert!(!message.contains("panicked"), "{message}");
        assert_eq!(message.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{message}");
        for needle in needles {
            assert!(message.contains(needle), "`{needle}` is not in: {message}");
        }
        let after = self.listing();
        assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>(), "files came or went");
        assert!(before == after, "a file was changed");
        message
    }
}

/// Splits a command line at its spaces; `""` is an empty word.
pub fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().map(|word| word.trim_matches('"')).collect()
}

/// Runs `command`, which must succeed, and returns what it printed.
#[track_caller]
pub fn succeeds(mut command: Command) -> String {
    let Output { status, stdout, stderr } = command.output().expect("the program can be started");
    assert!(status.success(), "{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).expect("programs print UTF-8")
}

/// Sends a signal, such as `INT`, to a program.
pub fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status();
    assert!(status.expect("there is a program `kill`").success());
}

/// Starts a run and waits until it listens to signals. Its standard output stays open until the second value is dropped.
pub fn started(place: &Place, flags: &[&str]) -> (Child, BufReader<ChildStdout>) {
    started_with(&mut place.train(flags), " training and ")
}

/// Starts a program and waits for a line of its output that contains `needle`.
pub fn started_with(command: &mut Command, needle: &str) -> (Child, BufReader<ChildStdout>) {
    let mut child = command.spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains(needle) {
        line.clear();
        assert_ne!(output.read_line(&mut line).unwrap(), 0, "the program ends before `{needle}`");
    }
    (child, output)
}

/// Waits for a program that was sent a signal, and returns its exit code and its messages.
pub fn stopped(child: Child) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = child.wait_with_output().unwrap();
    (status.code(), String::from_utf8(stderr).unwrap())
}
