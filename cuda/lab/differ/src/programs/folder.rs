//! Writes programs as two crates in a folder: one with a kernel for each, and one that it depends on.

use std::path::{Path, PathBuf};

use anyhow::Context;

use super::ast::Program;
use super::print::{Source, source};
use super::random::Random;
use crate::compile::workspace;

/// Inputs per program.
pub const INPUTS: u32 = 8;

/// Bytes per output.
pub const OUTPUT: usize = 512;

const RUNTIME: &str =
    concat!(include_str!("rt/values.rs"), include_str!("rt/operations.rs"), include_str!("rt/atomics.rs"));
const RECORD: &str = include_str!("../../crates/src/record.rs");

/// The same on a GPU: the number of lanes in a warp.
pub const GPU_INPUTS: u32 = 32;

/// Input `number` of every program: zeros, ones, small numbers, the lowest signed numbers of all widths, and random bytes.
pub fn input(number: u32) -> [u8; 64] {
    let mut random = Random::new(u64::from(number) + 77);
    let mut any = [0; 64];
    any.iter_mut().for_each(|byte| *byte = random.word() as u8);
    match number {
        0 => [0; 64],
        1 => [0xff; 64],
        2 => core::array::from_fn(|i| if i % 4 == 0 { i as u8 / 4 } else { 0 }),
        3 => core::array::from_fn(|i| if i % 8 < 3 { any[i] } else { 0 }),
        // 0x80 at the end of each group of 1, 2, 4 and 8 bytes.
        4 => core::array::from_fn(|i| if (i + 1) % (1 << (i / 16)) == 0 { 0x80 } else { 0 }),
        // Small numbers of either sign, as bytes and as words.
        _ if number % 4 == 1 => {
            core::array::from_fn(|i| if i % 2 == 0 { any[i] % 8 } else { 0u8.wrapping_sub(any[i] & 1) })
        }
        _ => any,
    }
}

/// The paths in a folder.
#[derive(Clone, Debug)]
pub struct Folder {
    /// The folder.
    pub path: PathBuf,
}

impl Folder {
    /// Writes the programs and the files that they share.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(path: &Path, programs: &[Program]) -> anyhow::Result<Folder> {
        let sources: Vec<Source> =
            programs.iter().enumerate().map(|(i, program)| source(program, i)).collect();
        Self::write_sources(path, &sources, &(0..sources.len()).collect::<Vec<_>>())
    }

    /// Same as [`Self::write`], for some of several programs that are already text.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write_sources(path: &Path, sources: &[Source], some: &[usize]) -> anyhow::Result<Folder> {
        let folder = Folder { path: path.to_owned() };
        for part in ["kernels/src", "helper/src"] {
            let part = path.join(part);
            if part.exists() {
                std::fs::remove_dir_all(&part).with_context(|| format!("emptying {}", part.display()))?;
            }
            std::fs::create_dir_all(&part).with_context(|| format!("making {}", part.display()))?;
        }
        let cuda_std = workspace().join("../cuda_std");
        let path_of_std = cuda_std.display().to_string();
        let dependency =
            format!("cuda_std = {{ package = \"ferrowarp-cuda-std\", path = {path_of_std:?} }}\n");
        folder.put("helper/Cargo.toml", &manifest("helper", &dependency))?;
        let dependencies = format!("{dependency}helper = {{ path = \"../helper\" }}\n");
        folder.put("kernels/Cargo.toml", &manifest("kernels", &dependencies))?;
        folder.put("helper/src/rt.rs", RUNTIME)?;
        // Their dependencies have the workspace's versions.
        let lock = workspace().join("Cargo.lock");
        if !path.join("kernels/Cargo.lock").exists() && lock.exists() {
            std::fs::copy(&lock, path.join("kernels/Cargo.lock")).context("copying Cargo.lock")?;
        }
        for &i in some {
            let Source { program, helper } = &sources[i];
            folder.put(&format!("kernels/src/p{i}.rs"), program)?;
            folder.put(&format!("helper/src/h{i}.rs"), helper)?;
        }
        folder.put_inputs(INPUTS)?;
        folder.choose(some)?;
        Ok(folder)
    }

    /// Writes `count` inputs.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn put_inputs(&self, count: u32) -> anyhow::Result<()> {
        let inputs: Vec<u8> = (0..count).flat_map(input).collect();
        std::fs::write(self.path.join(Self::INPUTS), inputs).context("writing the inputs")
    }

    /// The file of the inputs.
    pub const INPUTS: &str = "inputs";

    /// The numbers of the programs in the folder.
    ///
    /// # Errors
    /// The folder cannot be read, or has no programs.
    pub fn programs(&self) -> anyhow::Result<Vec<usize>> {
        let sources = self.path.join("kernels/src");
        let entries = sources.read_dir().with_context(|| format!("reading {}", sources.display()))?;
        let number = |name: &str| name.strip_prefix('p')?.strip_suffix(".rs")?.parse().ok();
        let mut all: Vec<usize> =
            entries.flatten().filter_map(|entry| number(entry.file_name().to_str()?)).collect();
        all.sort_unstable();
        anyhow::ensure!(!all.is_empty(), "no programs in {}", self.path.display());
        Ok(all)
    }

    /// Writes the files that list the programs, for these programs only.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn choose(&self, programs: &[usize]) -> anyhow::Result<()> {
        let (mut helper, mut kernels, mut native) =
            (HELPER.to_owned(), KERNELS.to_owned(), NATIVE.to_owned());
        let mut runs = String::new();
        for i in programs {
            helper.push_str(&format!("pub mod h{i};\n"));
            // A Rust module for each kernel, which makes it a module of PTX.
            kernels.push_str(&format!("mod p{i};\npub mod m{i} {{ use super::*; kernel!(k{i}, p{i}); }}\n"));
            native.push_str(&format!("mod p{i};\n"));
            runs.push_str(&format!("    run(&mut all, \"k{i}\", p{i}::run);\n"));
        }
        native.push_str(&format!("fn main() {{\n    let mut all = Vec::new();\n{runs}    end(all);\n}}\n"));
        native.push_str(&format!("const OUTPUT: usize = {OUTPUT};\nmod record {{\n{RECORD}}}\n"));
        self.put("helper/src/lib.rs", &helper)?;
        self.put("kernels/src/lib.rs", &kernels)?;
        self.put("kernels/src/native.rs", &native)
    }

    fn put(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let path = self.path.join(name);
        // An unchanged file keeps its time, so nothing is rebuilt for it.
        if std::fs::read_to_string(&path).is_ok_and(|old| old == text) {
            return Ok(());
        }
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
    }

    /// The folder of the kernel crate.
    pub fn kernels(&self) -> PathBuf {
        self.path.join("kernels")
    }
}

fn manifest(name: &str, dependencies: &str) -> String {
    format!(
        "[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\n{dependencies}\n\
         [workspace]\n"
    )
}

const HELPER: &str = "#![cfg_attr(target_arch = \"nvptx64\", no_std)]\n#![allow(warnings)]\npub mod rt;\n";

const KERNELS: &str = "#![allow(warnings)]
use cuda_std::{kernel, thread};
use helper::rt::Sink;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Place { input_at: u32, input_len: u32, number: u32, output_at: u32, output_len: u32 }

macro_rules! kernel {
    ($name:ident, $program:ident) => {
        #[kernel]
        pub unsafe fn $name(places: *const Place, count: u32, inputs: *const u8, outputs: *mut u8) {
            let index = thread::index_1d();
            if index < count {
                unsafe {
                    let place = *places.add(index as usize);
                    let input = &*inputs.add(place.input_at as usize).cast::<[u8; 64]>();
                    let output = core::slice::from_raw_parts_mut(
                        outputs.add(place.output_at as usize), place.output_len as usize);
                    let mut sink = Sink::new(output);
                    $program::run(input, &mut sink);
                    sink.end();
                }
            }
        }
    };
}

";

const NATIVE: &str = "#![allow(warnings)]
use helper::rt::Sink;

fn run(all: &mut Vec<u8>, kernel: &str, program: fn(&[u8; 64], &mut Sink<'_>)) {
    for (number, input) in inputs().iter().enumerate() {
        let mut output = vec![0xab; OUTPUT];
        let mut sink = Sink::new(&mut output);
        program(input, &mut sink);
        sink.end();
        record::write(all, kernel, number as u32, input, &output);
    }
}

fn inputs() -> Vec<[u8; 64]> {
    let bytes = std::fs::read(std::env::args().nth(1).unwrap()).unwrap();
    bytes.chunks_exact(64).map(|chunk| chunk.try_into().unwrap()).collect()
}

fn end(all: Vec<u8>) {
    std::fs::write(std::env::args().nth(2).unwrap(), all).unwrap();
}

";
