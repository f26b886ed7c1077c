//! Kernels with one bug each. A tool that is to find such bugs runs them, and is wrong if it finds nothing.
//!
//! Every kernel is launched on memory of the right size; the bug is in the kernel.

#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "no fact makes these kernels sound: that is their point"
)]

use cuda_std::half::bf16;
use cuda_std::launch::{LaunchConfig, LaunchError};
use cuda_std::mem::f32x4;
use cuda_std::simt::Executor;
use cuda_std::tensor::{Swizzle, TensorMapSpec};
use cuda_std::thread;

mod basic;
mod bulk;
mod clusters;
mod exchange;
mod tensor;

pub use basic::{
    barrier_too_early, behind_a_shared_array, divergent_barrier, lost_update, misaligned_vector,
    missing_barrier, off_by_one_row, race_between_blocks, shuffle_as_a_barrier, shuffle_with_the_exited,
    sound, sound_count, uninitialised_global, uninitialised_shared, wrong_scope,
};
pub use bulk::{
    bulk_copy_not_expected, bulk_read_without_wait, bulk_store_not_fenced, bulk_store_not_waited_for,
    sound_bulk_copy, sound_bulk_store,
};
pub use clusters::{
    cluster_block_ends_too_early, cluster_store_not_expected, cluster_store_not_waited_for,
    sound_cluster_store,
};
pub use exchange::{flag_seen_without_acquire, flag_stored_without_release, sound_exchange};
pub use tensor::{
    operands_not_fenced, sound_multiplication, sound_written_operands, stage_released_early,
    tile_not_expected, wrong_swizzle,
};

/// Threads of a block: two warps.
pub const THREADS: usize = 64;

/// A kernel with a bug.
#[derive(Clone, Copy, Debug)]
pub struct Bug {
    /// What it is called on the command line.
    pub name: &'static str,
    /// What is wrong.
    pub what: &'static str,
    /// Launches the kernel.
    pub run: fn(&Executor) -> Result<(), LaunchError>,
}

/// A bug in a kernel that is launched by `$through`.
macro_rules! bug {
    ($name:literal, $through:ident($kernel:ident), $what:literal) => {
        Bug { name: $name, what: $what, run: |on| $through!(on, $kernel) }
    };
}

/// Launches the kernel on two blocks, each with a row of numbers to read and one to write, of which the first lies at a
/// multiple of 16 bytes.
macro_rules! on_rows {
    ($on:expr, $kernel:ident) => {{
        let vectors: Vec<f32x4> = (0..2 * THREADS / 4).map(|i| f32x4::splat(i as f32)).collect();
        // SAFETY: as many numbers as the vectors have.
        let inp = unsafe { core::slice::from_raw_parts(vectors.as_ptr().cast::<f32>(), 2 * THREADS) };
        let mut rows: Vec<f32x4> = vec![f32x4::splat(0.0); 2 * THREADS / 4];
        // SAFETY: as above.
        let out = unsafe { core::slice::from_raw_parts_mut(rows.as_mut_ptr().cast::<f32>(), 2 * THREADS) };
        // SAFETY: rows of the size that the kernel asks for; what it does beyond that is its bug.
        unsafe { $kernel::launch($on, LaunchConfig::new(2, THREADS as u32), out, inp) }
    }};
}

/// As `on_rows`, but for the row to write, in which nothing stands yet.
macro_rules! on_unwritten_rows {
    ($on:expr, $kernel:ident) => {{
        let mut out = Box::<[f32]>::new_uninit_slice(2 * THREADS);
        let out = unsafe { &mut *(&raw mut *out as *mut [f32]) };
        // SAFETY: rows of the size that the kernel asks for; what it does beyond that is its bug.
        unsafe { $kernel::launch($on, LaunchConfig::new(2, THREADS as u32), out, &[1.0; 2 * THREADS]) }
    }};
}

/// Launches the kernel on two blocks, with a number to count in.
macro_rules! on_a_counter {
    ($on:expr, $kernel:ident) => {
        // SAFETY: one number, as the kernel asks for; what it does beyond that is its bug.
        unsafe { $kernel::launch($on, LaunchConfig::new(2, THREADS as u32), &mut [0]) }
    };
}

/// Launches the cooperative kernel on two blocks, each with a row of numbers to read, one to write, one to send and a flag.
macro_rules! on_exchanged_rows {
    ($on:expr, $kernel:ident) => {{
        let (mut out, mut sent) = (vec![0.0; 2 * THREADS], vec![0.0; 2 * THREADS]);
        let config = LaunchConfig::new(2, THREADS as u32);
        // SAFETY: rows and flags of the size that the kernel asks for; what it does beyond that is its bug.
        unsafe { $kernel::launch($on, config, &mut out, &[1.0; 2 * THREADS], &mut sent, &mut [0; 2]) }
    }};
}

/// As `on_rows`, with the two blocks in a cluster.
macro_rules! on_a_cluster {
    ($on:expr, $kernel:ident) => {{
        let (mut out, config) = (vec![0.0; 2 * THREADS], LaunchConfig::new(2, THREADS as u32));
        // SAFETY: rows of the size that the kernel asks for; what it does beyond that is its bug.
        unsafe { $kernel::launch($on, config.with_cluster(2), &mut out, &[1.0; 2 * THREADS]) }
    }};
}

/// Launches the kernel on one block, with the maps of its matrices, the first of them with the swizzle.
macro_rules! on_matrices {
    ($on:expr, $kernel:ident, $swizzle:ident) => {{
        // A tensor begins at a multiple of 16 bytes.
        let matrix = |number_of: usize, rows: usize| -> Vec<[f32x4; 16]> {
            let element = |i| bf16::from_f32(tensor::number(number_of, i / tensor::K, i % tensor::K));
            let numbers: Vec<bf16> = (0..rows * tensor::K).map(element).collect();
            let mut aligned = vec![[f32x4::default(); 16]; rows];
            // SAFETY: a row is 256 bytes in both.
            unsafe {
                aligned.as_mut_ptr().cast::<bf16>().copy_from_nonoverlapping(numbers.as_ptr(), numbers.len())
            };
            aligned
        };
        let (a, b) = (matrix(0, 64), matrix(1, 8));
        let map = |matrix: &[[f32x4; 16]], rows: u32, swizzle| {
            // SAFETY: as above.
            let elements = unsafe {
                core::slice::from_raw_parts(matrix.as_ptr().cast::<bf16>(), matrix.len() * tensor::K)
            };
            let (sizes, tile) = ([tensor::K as u64, rows.into()], [tensor::COLUMNS as u32, rows]);
            let spec = TensorMapSpec::new::<bf16>(sizes, tile).with_swizzle(swizzle);
            spec.encode_for_cpu(elements).expect("the matrix has this size")
        };
        let (a, b) = (map(&a, 64, Swizzle::$swizzle), map(&b, 8, Swizzle::Bytes128));
        // SAFETY: the matrices are alive; what the kernel does beyond its contract is its bug.
        unsafe { $kernel::launch($on, LaunchConfig::new(1, tensor::THREADS as u32), a, b) }
    }};
    ($on:expr, $kernel:ident) => {
        on_matrices!($on, $kernel, Bytes128)
    };
}

/// Launches the kernel on one warpgroup.
macro_rules! on_a_warpgroup {
    ($on:expr, $kernel:ident) => {
        // SAFETY: a warpgroup; what the kernel does beyond its contract is its bug.
        unsafe { $kernel::launch($on, LaunchConfig::new(1, 128)) }
    };
}

/// All of them.
pub const BUGS: &[Bug] = &[
    bug!(
        "missing-barrier",
        on_rows(missing_barrier),
        "a thread reads what another one wrote, with no barrier between"
    ),
    bug!(
        "barrier-too-early",
        on_rows(barrier_too_early),
        "shared memory is written again before all have read it"
    ),
    bug!("race-between-blocks", on_rows(race_between_blocks), "a block reads what another one writes"),
    bug!("uninitialised-shared", on_rows(uninitialised_shared), "shared memory is read that nobody wrote"),
    bug!(
        "uninitialised-global",
        on_unwritten_rows(uninitialised_global),
        "a sum begins with what its output held"
    ),
    bug!("off-by-one-row", on_rows(off_by_one_row), "the last block reads a row behind the matrix"),
    bug!(
        "behind-a-shared-array",
        on_rows(behind_a_shared_array),
        "the last thread writes behind the shared array"
    ),
    bug!("misaligned-vector", on_rows(misaligned_vector), "a 16-byte load from a multiple of 4 bytes alone"),
    bug!("divergent-barrier", on_rows(divergent_barrier), "a barrier in a branch that not all threads take"),
    bug!(
        "shuffle-with-the-exited",
        on_rows(shuffle_with_the_exited),
        "a shuffle's mask names a lane that has returned"
    ),
    bug!("shuffle-as-a-barrier", on_rows(shuffle_as_a_barrier), "a shuffle is taken to order shared memory"),
    bug!("lost-update", on_rows(lost_update), "threads add to one number without an atomic"),
    bug!(
        "flag-without-release",
        on_exchanged_rows(flag_stored_without_release),
        "a block stores a flag that does not order the row before it"
    ),
    bug!(
        "flag-without-acquire",
        on_exchanged_rows(flag_seen_without_acquire),
        "a block waits for a flag that does not order the row after it"
    ),
    bug!(
        "bulk-read-without-wait",
        on_rows(bulk_read_without_wait),
        "a thread reads what a bulk copy brings, and another one has waited for it"
    ),
    bug!(
        "bulk-copy-not-expected",
        on_rows(bulk_copy_not_expected),
        "a barrier does not expect the bytes of a bulk copy, and its phase ends without them"
    ),
    bug!(
        "bulk-store-not-fenced",
        on_rows(bulk_store_not_fenced),
        "a bulk copy reads what threads have written and not fenced"
    ),
    bug!(
        "bulk-store-not-waited-for",
        on_rows(bulk_store_not_waited_for),
        "a block ends while a bulk copy may read its shared memory"
    ),
    bug!(
        "cluster-store-not-expected",
        on_a_cluster(cluster_store_not_expected),
        "a barrier does not expect the bytes of stores of another block, and its phase ends without them"
    ),
    bug!(
        "cluster-store-not-waited-for",
        on_a_cluster(cluster_store_not_waited_for),
        "a block reads what another one stores, and does not wait for it"
    ),
    bug!(
        "cluster-block-ends-too-early",
        on_a_cluster(cluster_block_ends_too_early),
        "a block ends while another one stores to its shared memory"
    ),
    bug!(
        "stage-released-early",
        on_matrices(stage_released_early),
        "a stage is filled again while a multiplication of a warpgroup reads it"
    ),
    bug!(
        "tile-not-expected",
        on_matrices(tile_not_expected),
        "a barrier expects the bytes of one tile, and two are copied"
    ),
    bug!(
        "operands-not-fenced",
        on_a_warpgroup(operands_not_fenced),
        "a multiplication of a warpgroup reads what threads have written and not fenced"
    ),
    Bug {
        name: "wrong-swizzle",
        what: "a tile is copied with another swizzle than the multiplication reads",
        run: |on| on_matrices!(on, wrong_swizzle, None),
    },
    bug!("wrong-scope", on_a_counter(wrong_scope), "blocks count together in the scope of a block"),
];

/// What is right: the same kernel as in `missing-barrier` with its barrier, a count with the scope of the device, an
/// exchange between blocks with its order, copies and stores that are waited for, and multiplications of a warpgroup.
pub const SOUND: Bug = Bug {
    name: "none",
    what: "nothing is wrong",
    run: |on| {
        on_rows!(on, sound)?;
        on_a_counter!(on, sound_count)?;
        on_exchanged_rows!(on, sound_exchange)?;
        on_rows!(on, sound_bulk_copy)?;
        on_rows!(on, sound_bulk_store)?;
        on_a_cluster!(on, sound_cluster_store)?;
        on_matrices!(on, sound_multiplication)?;
        on_a_warpgroup!(on, sound_written_operands)
    },
};

fn tid() -> usize {
    thread::thread_idx_x() as usize
}

fn block() -> usize {
    thread::block_idx_x() as usize
}
