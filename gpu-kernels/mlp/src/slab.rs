//! The slabs of a [tile](super::tile): the operands' terms in shared memory, and how threads multiply them.

use super::matrix::{OperandA, OperandB};

/// Returns the row pitch of a slab whose rows run along k: `bk + 4`, so that neighbouring rows start in different banks and
/// at multiples of 16 bytes.
pub const fn pitch(bk: usize) -> usize {
    bk + 4
}

/// Returns the floats of a slab of A, along k or along m.
pub const fn slab_a(bm: usize, bk: usize, pad: usize) -> usize {
    let (along_k, along_m) = (bm * pitch(bk), bk * (bm + pad));
    if along_k > along_m { along_k } else { along_m }
}

/// Returns a tile's vectors of shared memory: a slab of A and of B, or the sums of all groups. `pad` is [`Terms::PAD`].
pub const fn shared_vectors(bm: usize, bn: usize, bk: usize, groups: usize, pad: usize) -> usize {
    let (slabs, sums) = (slab_a(bm, bk, pad) + bk * (bn + pad), groups * bm * bn);
    (if slabs > sums { slabs } else { sums }) / 4
}

/// A slab of each operand in shared memory.
#[derive(Clone, Copy)]
pub struct Slabs {
    /// The operand A; the slab's rows run along k, or if it is transposed, along m.
    pub a: OperandA,
    /// The operand B; the slab's rows run along n.
    pub b: OperandB,
    /// The first element of A.
    pub at_a: *const f32,
    /// Floats of A from one row of the result to the next.
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
    /// The sums of no terms.
    const ZERO: Self::Sums;
    /// Floats between two rows of a slab along m or n, a multiple of four.
    const PAD: usize;

    /// Adds the terms of the thread's group among the first `4 * quads` of the slabs; the terms after them are zeros.
    ///
    /// # Safety
    /// All threads of the block call this, and the slabs are the block's.
    unsafe fn add(sums: &mut Self::Sums, slabs: &Slabs, tid: usize, quads: usize);

    /// Writes the sums to the array of the thread's group, by rows. This overwrites the slabs.
    ///
    /// # Safety
    /// `to` holds the tile's outputs, and is a multiple of 16 bytes.
    unsafe fn store(sums: &Self::Sums, to: *mut f32, slabs: &Slabs, tid: usize);
}
