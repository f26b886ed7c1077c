//! The order of the result's tiles. Tiles that run at the same time should read the same rows and columns, for L2 to hold.

/// Rows of tiles that are computed together.
const GROUP: u32 = 8;

/// Returns row and column of tile `tile` of `down` x `across`. Tiles go down through `GROUP` rows, then to the next column.
#[inline(always)]
pub fn grouped(tile: u32, [down, across]: [u32; 2]) -> [u32; 2] {
    // SAFETY: there is a tile, so there are rows and columns of tiles. It keeps a panic out of the kernel.
    unsafe { core::hint::assert_unchecked(across != 0) };
    // The product fits: the grid of a launch has at most 2^31 tiles.
    let per_group = GROUP * across;
    // SAFETY: neither factor is 0, and the product does not wrap.
    unsafe { core::hint::assert_unchecked(per_group != 0) };
    let first = tile / per_group * GROUP;
    let rows = if down - first < GROUP { down - first } else { GROUP };
    // SAFETY: the tile lies at the latest in the last group, which has a row.
    unsafe { core::hint::assert_unchecked(rows != 0) };
    let within = tile % per_group;
    [first + within % rows, within / rows]
}
