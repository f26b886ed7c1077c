//! The order in which `wgmma` blocks compute tiles, and the copies of their stages.

use cuda_std::barrier::Barrier;
use cuda_std::tensor;

use super::super::args::MatmulArgs;
use super::super::tile_order::grouped;

/// Rows of a tile.
pub const ROWS: usize = 128;
/// Returns the terms of a stage, for elements of `bytes` bytes: a panel's row.
pub const fn terms(bytes: usize) -> usize {
    PANEL_ROW / bytes
}

/// Bytes of a panel's row.
pub(super) const PANEL_ROW: usize = 128;

/// The tiles of all matrices and splits.
pub(super) struct Work {
    /// Rows and columns of a tile.
    sides: [u32; 2],
    tiles: [u32; 2],
    pub units: u32,
}

/// A tile of one matrix, and the terms of one split.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    /// Its first row.
    pub row: u32,
    /// Its first column.
    pub col: u32,
    /// The matrix.
    pub batch: u32,
    /// The split.
    pub split: u32,
    /// The first term, and the end.
    pub terms: [u32; 2],
}

impl Tile {
    /// Returns the number of stages with `depth` terms.
    #[inline(always)]
    pub fn stages(&self, depth: u32) -> u32 {
        (self.terms[1] - self.terms[0]).div_ceil(depth)
    }
}

impl Work {
    #[inline(always)]
    pub fn new<T>(args: &MatmulArgs<T>, sides @ [rows, cols]: [u32; 2]) -> Self {
        let tiles = [args.m.div_ceil(rows), args.n.div_ceil(cols)];
        Self { sides, tiles, units: tiles[0] * tiles[1] * args.splits * args.batch }
    }

    /// Returns tile `unit`: the tiles of a matrix come first, then those of the next split, then those of the next matrix. A
    /// stage has `depth` terms.
    #[inline(always)]
    pub fn tile<T>(&self, unit: u32, depth: u32, args: &MatmulArgs<T>) -> Tile {
        let each = self.tiles[0] * self.tiles[1];
        // SAFETY: there is a unit, so there are tiles and splits. It keeps a panic out of the kernel.
        unsafe { core::hint::assert_unchecked(each != 0 && args.splits != 0) };
        let [row, col] = grouped(unit % each, self.tiles);
        let (split, batch) = (unit / each % args.splits, unit / each / args.splits);
        let terms = args.k.div_ceil(depth).div_ceil(args.splits) * depth;
        let first = (split * terms).min(args.k);
        let terms = [first, args.k.min(first + terms)];
        Tile { row: row * self.sides[0], col: col * self.sides[1], batch, split, terms }
    }
}

/// Starts the copies of an operand: `side` rows of A or columns of B from `at[0]` on, and the terms from `at[1]` on.
///
/// # Safety
/// The stage is empty, lies in shared memory, and has room for the operand, whose bytes the barrier expects.
#[inline(always)]
pub(super) unsafe fn copy<T, const ALONG_K: usize>(
    to: *mut u8,
    map: &tensor::TensorMap,
    at: [u32; 2],
    batch: i32,
    side: u32,
    barrier: *mut Barrier,
) {
    let [first, k] = at.map(|at| at as i32);
    // SAFETY: the stage has room for each panel.
    unsafe {
        if ALONG_K == 1 {
            tensor::global_to_shared(to, map, [k, first, batch], barrier);
        } else {
            // One panel after another; each has the number of columns that a panel's row holds.
            let panel = const { terms(size_of::<T>()) as u32 };
            for i in 0..side / panel {
                let to = to.add((i * panel) as usize * PANEL_ROW);
                tensor::global_to_shared(to, map, [first + (panel * i) as i32, k, batch], barrier);
            }
        }
    }
}
