//! The slabs of a [tile](super::tile): the operands' terms in shared memory, and who multiplies them.

use super::matrix::{OperandA, OperandB};

/// Row pitch of a slab whose rows run along k: four more than `bk`, so that neighbouring rows start in different banks
/// and still on 16 bytes.
pub const fn pitch(bk: usize) -> usize {
    bk + 4
}

/// Floats of a slab of A, along k or along m.
pub const fn slab_a(bm: usize, bk: usize, pad: usize) -> usize {
    let (along_k, along_m) = (bm * pitch(bk), bk * (bm + pad));
    if along_k > along_m { along_k } else { along_m }
}

/// Vectors of shared memory that a tile needs: a slab of A and of B, or the sums of all groups. `pad` is [`Terms::PAD`].
pub const fn shared_vectors(bm: usize, bn: usize, bk: usize, groups: usize, pad: usize) -> usize {
    let (slabs, sums) = (slab_a(bm, bk, pad) + bk * (bn + pad), groups * bm * bn);
    (if slabs > sums { slabs } else { sums }) / 4
}

/// A slab of each operand in shared memory.
#[derive(Clone, Copy)]
pub struct Slabs {
    /// What the slab of A is of: its rows run along k, or transposed along m.
    pub a: OperandA,
    /// What the slab of B is of; its rows run along n.
    pub b: OperandB,
    /// The first element of A.
    pub at_a: *const f32,
    /// Floats from one row of the product to the next.
    pub pitch_m: usize,
    /// Floats of A from one term to the next.
    pub pitch_k: usize,
    /// The first element of B.
    pub at_b: *const f32,
}

/// How the threads of a tile multiply a slab.
pub trait Terms {
    /// The sums of a thread.
    type Sums: Copy;
    /// Those of no term.
    const ZERO: Self::Sums;
    /// Floats between two rows of a slab along m or n, a multiple of four.
    const PAD: usize;

    /// Adds the terms of the thread's group among the first `4 * quads` of the slabs, after which there are zeros.
    ///
    /// # Safety
    /// Called by all threads of the block, whose slabs these are.
    unsafe fn add(sums: &mut Self::Sums, slabs: &Slabs, tid: usize, quads: usize);

    /// Writes the sums into those of the thread's group, by rows. The slabs' elements are no longer there.
    ///
    /// # Safety
    /// `to` holds as many as the tile has outputs, and lies on 16 bytes.
    unsafe fn store(sums: &Self::Sums, to: *mut f32, slabs: &Slabs, tid: usize);
}
