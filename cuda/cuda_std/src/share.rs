//! How the threads of a block share a loop over memory.

/// Returns the indices of `0..count` that thread `tid` of `threads` takes. Each index belongs to exactly one thread.
///
/// On the GPU neighbouring threads take neighbouring indices at the same time, `tid`, `tid + threads`, ..., so
/// that their accesses coalesce. On the CPU executor, where a block's threads run one after the other, each
/// takes a run of neighbouring indices, so that its accesses fill whole vector registers and cache lines.
///
/// With constant `count` and `threads` the number of iterations is constant, and the loop unrolls.
#[inline(always)]
pub fn share(count: usize, tid: usize, threads: usize) -> impl Iterator<Item = usize> {
    let turns = count.div_ceil(threads);
    let first_and_step = if cfg!(target_arch = "nvptx64") { (tid, threads) } else { (tid * turns, 1) };
    // If the threads share evenly, no index needs a test; with constants the compiler knows it.
    let is_even = count.is_multiple_of(threads);
    (0..turns)
        .map(move |turn| first_and_step.0 + turn * first_and_step.1)
        .filter(move |&index| is_even || index < count)
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn every_index_falls_to_one_thread() {
        for (count, threads) in [(0, 4), (1, 4), (7, 4), (64, 32), (33, 32), (5, 8)] {
            let mut taken = vec![0; count];
            (0..threads).flat_map(|tid| share(count, tid, threads)).for_each(|index| taken[index] += 1);
            assert_eq!(taken, vec![1; count], "{count} indices, {threads} threads");
        }
    }
}
