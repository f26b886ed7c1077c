//! Finds programs that expose planted errors.

use std::path::Path;

use cuda_builder::Backend;

use super::{CLASSES, Planted};
use crate::cases::Case;
use crate::compile::{self, Module, Settings};
use crate::difference::Difference;
use crate::emulate;
use crate::programs::folder::Folder;
use crate::programs::judge::{MOST_STEPS, natively};
use crate::programs::{ast::Program, generate};

/// Numbers of the store to remove or the subtraction to swap, tried until one is detected: not every store matters.
const PLACES: [usize; 10] = [40, 137, 261, 389, 502, 640, 777, 901, 1100, 1400];

/// Rounds with more programs for errors that no program has exposed.
const ROUNDS: u64 = 5;

/// A program that exposes an error.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The planted edit.
    pub planted: Planted,
    /// The back end that it was applied to.
    pub backend: Backend,
    /// The program's seed.
    pub seed: u64,
    /// What differs.
    pub difference: Difference,
}

/// The names of all kinds.
pub fn names() -> Vec<&'static str> {
    ["store", "sub"].into_iter().chain(CLASSES.iter().map(|class| class.name)).collect()
}

/// The edits of a kind, tried in order.
fn edits(name: &str) -> Vec<Planted> {
    match name {
        "store" => PLACES.map(Planted::Store).to_vec(),
        "sub" => PLACES.map(Planted::Sub).to_vec(),
        _ => CLASSES.iter().filter(|class| class.name == name).map(Planted::Class).collect(),
    }
}

/// Plants errors of these kinds in the programs of `at_once` seeds from `first`, and in more programs while some errors are
/// not exposed. Returns the first program that exposes each.
///
/// # Errors
/// The programs cannot be written, or do not run natively.
pub fn search(
    names: &[&str],
    (first, at_once): (u64, u64),
    settings: &Settings,
    folder: &Path,
) -> anyhow::Result<Vec<Shown>> {
    let mut shown: Vec<Shown> = Vec::new();
    let mut open: Vec<(Backend, &str)> = settings
        .backends
        .iter()
        .flat_map(|&backend| names.iter().map(move |&name| (backend, name)))
        .collect();
    for start in (0..ROUNDS).map(|round| first + round * at_once) {
        if open.is_empty() {
            break;
        }
        let programs: Vec<Program> = (start..start + at_once).map(generate).collect();
        let folder = Folder::write(folder, &programs)?;
        let cases = natively(&folder)?;
        let mut left = Vec::new();
        for (backend, name) in open {
            let found = edits(name).into_iter().find_map(|planted| {
                let settings = Settings { planted: Some(planted), ..settings.clone() };
                let difference =
                    first_difference(&folder, backend, &settings, &cases).unwrap_or_else(|error| {
                        eprintln!(
                            "{planted} by {backend} cannot be compiled, which shows nothing: {error:#}"
                        );
                        None
                    })?;
                let number: u64 = difference.kernel.trim_start_matches('k').parse().unwrap_or(0);
                Some(Shown { planted, backend, seed: start + number, difference })
            });
            match found {
                Some(found) => {
                    eprintln!("{} by {backend}: seed {}", found.planted, found.seed);
                    shown.push(found);
                }
                None => left.push((backend, name)),
            }
        }
        open = left;
    }
    shown.sort_by_key(|one| {
        (one.backend.to_string(), names.iter().position(|name| one.planted.kind() == *name))
    });
    Ok(shown)
}

/// The first case that differs.
fn first_difference(
    folder: &Folder,
    backend: Backend,
    settings: &Settings,
    cases: &[Case],
) -> anyhow::Result<Option<Difference>> {
    let modules = compile::modules(&folder.kernels(), backend, settings, &[])?;
    // An unsupported instruction in one program must not hide the others.
    let compare = |module: &Module| emulate::compare(module, cases, MOST_STEPS).unwrap_or_default();
    Ok(modules.iter().flat_map(compare).next())
}
