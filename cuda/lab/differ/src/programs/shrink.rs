//! Shrinks a program that differs, as long as it still differs in the same way.

use super::ast::Program;
use super::edit::{Edits, edited, single_edits};
use super::print::source;

/// Programs compared at once.
const BATCH: usize = 28;

/// The initial number of groups of edits. It doubles each time that no group keeps the difference.
const FIRST_GROUPS: usize = 6;

/// Determines which of some programs still differ.
pub type StillDiffers<'a> = dyn FnMut(&[Program]) -> anyhow::Result<Vec<bool>> + 'a;

/// Returns the smallest program found.
///
/// # Errors
/// An error of `still_differs`.
pub fn shrink(program: &Program, still_differs: &mut StillDiffers<'_>) -> anyhow::Result<Program> {
    let mut best = program.clone();
    loop {
        let before = size(&best);
        for kind in 0..3 {
            best = by_kind(best, kind, still_differs)?;
        }
        if size(&best) >= before {
            return Ok(best);
        }
    }
}

/// Its approximate size: characters of its source.
pub fn size(program: &Program) -> usize {
    let source = source(program, 0);
    source.program.len() + source.helper.len()
}

/// Applies as many edits of one kind as keep the difference.
fn by_kind(mut best: Program, kind: usize, still_differs: &mut StillDiffers<'_>) -> anyhow::Result<Program> {
    let mut groups = FIRST_GROUPS;
    loop {
        let singles = single_edits(&best).into_iter().nth(kind).unwrap_or_default();
        if singles.is_empty() {
            return Ok(best);
        }
        let per_group = singles.len().div_ceil(groups);
        let joined = |all: &[Edits]| all.iter().fold(Edits::default(), Edits::and);
        let candidates: Vec<Edits> = singles.chunks(per_group).map(joined).collect();
        match first_good(&best, &candidates, still_differs)? {
            Some(smaller) => best = smaller,
            None if per_group == 1 => return Ok(best),
            None => groups *= 2,
        }
    }
}

/// Applies as many of the edits as possible at once, if any can be applied.
fn first_good(
    program: &Program,
    candidates: &[Edits],
    still_differs: &mut StillDiffers<'_>,
) -> anyhow::Result<Option<Program>> {
    let before = size(program);
    for batch in candidates.chunks(BATCH) {
        let programs: Vec<Program> = batch.iter().map(|edits| edited(program, edits)).collect();
        let differ = still_differs(&programs)?;
        let is_good = |i: &usize| differ[*i] && size(&programs[*i]) < before;
        let good: Vec<usize> = (0..batch.len()).filter(is_good).collect();
        if good.is_empty() {
            continue;
        }
        // All of them, half of them, or one.
        let join = |some: &[usize]| {
            edited(program, &some.iter().map(|&i| &batch[i]).fold(Edits::default(), Edits::and))
        };
        let half = good.len().div_ceil(2);
        let joined = [join(&good), join(&good[..half]), join(&good[half..])];
        if good.len() > 1 {
            let differ = still_differs(&joined)?;
            if let Some(i) = (0..joined.len()).find(|&i| differ[i] && size(&joined[i]) < before) {
                return Ok(joined.into_iter().nth(i));
            }
        }
        let smallest = good.into_iter().min_by_key(|&i| size(&programs[i]));
        return Ok(smallest.and_then(|i| programs.into_iter().nth(i)));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::generate;

    /// Programs shrink to the part that the test looks for.
    #[test]
    fn a_program_shrinks_to_what_matters() {
        for seed in 0..30 {
            let program = generate(seed);
            let text = |program: &Program| source(program, 0).program;
            let wanted = "copy_from_slice";
            if !text(&program).contains(wanted) {
                continue;
            }
            let mut rounds = 0;
            let mut judge = |programs: &[Program]| {
                rounds += 1;
                Ok(programs.iter().map(|program| text(program).contains(wanted)).collect())
            };
            let small = shrink(&program, &mut judge).unwrap();
            assert!(text(&small).contains(wanted));
            assert!(
                size(&small) * 2 < size(&program),
                "{} of {}: {}",
                size(&small),
                size(&program),
                text(&small)
            );
            assert!(rounds < 200, "{rounds}");
        }
    }

    #[test]
    fn without_edits_nothing_changes() {
        for seed in 0..20 {
            let program = generate(seed);
            assert_eq!(source(&edited(&program, &Edits::default()), 3), source(&program, 3));
        }
    }
}
