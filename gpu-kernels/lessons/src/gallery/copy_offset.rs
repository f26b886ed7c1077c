//! Copies whose first element is not aligned, and copies with a stride.
//!
//! Memory moves in sectors of 32 bytes. A warp whose 128 bytes start at a multiple of 32 touches four sectors, otherwise
//! five. A warp that takes every second element touches eight for the same 128 bytes. Accesses of 16 bytes need an address
//! that is a multiple of 16: the elements before the first such address and after the last go one by one, and the rest fast.
//@ ptx(copy_offset_scalar): ld.global.b32 == 1, st.global.b32 == 1, .local == 0
//@ ptx(copy_offset_vec4): ld.global.v4 == 1, st.global.v4 == 1, ld.global.b32 == 1, .local == 0
//@ ptx(copy_offset_vec4x4): ld.global.v4 == 4, st.global.v4 == 4, ld.global.b32 == 1, .local == 0
//@ ptx(copy_stride_scalar): ld.global.b32 == 1, st.global.b32 == 1, .local == 0
//@ ptx(copy_stride_wrapped): ld.global.b32 == 1, st.global.b32 == 1, .local == 0

use cuda_std::mem::{load_global, store_global, u32x4};
use cuda_std::{kernel, thread};

lesson! {
    buffers(out: u32, inp: u32)
    values(len: u32, distance: u32)
    facts(Grid)
    "offset" = copy_offset_scalar[0]: "the first element lies so far from a boundary";
    "vec4" = copy_offset_vectors[0]: "from the first whole sector on, 16 bytes an access";
    "vec4x4" = copy_offset_vectors[1]: "four of them a thread, all read before the first is written";
    "stride" = copy_stride_scalar[0]: "elements a distance apart are copied";
    "stride_far" = copy_stride_scalar[0]: "fewer elements, so that larger distances fit";
    "stride_near" = copy_stride_wrapped[0]: "the same, around and around in a small array";
}

/// Elements of a sector.
const SECTOR: usize = 8;

/// `out[i + distance] = inp[i + distance]` for `i` below `len`, one thread per element.
///
/// Launched with at least `len` threads along x, in blocks of 256.
///
/// # Safety
/// The launch is as described; both hold `len + distance` elements, and no other code uses the elements of `out`.
#[kernel(max_threads = 256, args = Arguments, facts: Grid = Grid::threads::<256, 1>())]
pub unsafe fn copy_offset_scalar(out: *mut u32, inp: *const u32, len: u32, distance: u32) {
    let i = thread::index_1d() as usize;
    if i < len as usize {
        let at = i + distance as usize;
        // SAFETY: `at` lies in both, and only this thread writes the element.
        unsafe { *out.add(at) = *inp.add(at) };
    }
}

/// `out[i + distance] = inp[i + distance]` for `i` below `len`, four times `VECTORS` per thread from the first sector on.
///
/// The first threads of the grid take the elements before (fewer than 8) and after (fewer than 4). Launched with at least
/// `len / (4 * VECTORS)`, rounded up, threads along x, in blocks of 256.
///
/// # Safety
/// Same as for [`copy_offset_scalar`](fn@copy_offset_scalar); both begin at a multiple of 16 bytes, better of 32.
#[kernel(
    max_threads = 256,
    args = Arguments,
    facts: Grid = grid,
    instances(
        copy_offset_vec4 = <1>, grid = Grid::threads::<256, 4>();
        copy_offset_vec4x4 = <4>, grid = Grid::threads::<256, 16>();
    ),
)]
pub unsafe fn copy_offset_vectors<const VECTORS: usize>(
    out: *mut u32,
    inp: *const u32,
    len: u32,
    distance: u32,
) {
    let (len, distance) = (len as usize, distance as usize);
    let head = (distance.next_multiple_of(SECTOR) - distance).min(len);
    let vectors = (len - head) / 4;
    let first = thread::block_idx_x() as usize * 256 * VECTORS + thread::thread_idx_x() as usize;
    // SAFETY: vector `i` lies in both for `i` below `vectors`, at a multiple of 16 bytes, and only one thread writes it. The
    // same holds for the elements before and after.
    unsafe {
        let (from, to) = (inp.add(distance + head).cast::<u32x4>(), out.add(distance + head).cast::<u32x4>());
        let x_reg: [u32x4; VECTORS] = core::array::from_fn(|v| {
            let i = first + v * 256;
            if i < vectors { load_global(from.add(i)) } else { u32x4::splat(0) }
        });
        for v in 0..VECTORS {
            let i = first + v * 256;
            if i < vectors {
                store_global(to.add(i), x_reg[v]);
            }
        }
        let (i, ends) = (thread::index_1d() as usize, len - 4 * vectors);
        if i < ends {
            let at = distance + if i < head { i } else { 4 * vectors + i };
            *out.add(at) = *inp.add(at);
        }
    }
}

/// `out[i * distance] = inp[i * distance]` for `i` below `len`, one thread per element.
///
/// Launched with at least `len` threads along x, in blocks of 256.
///
/// # Safety
/// The launch is as described; both hold `(len - 1) * distance + 1` elements, and no other code uses the elements of `out`.
#[kernel(max_threads = 256, args = Arguments, facts: Grid = Grid::threads::<256, 1>())]
pub unsafe fn copy_stride_scalar(out: *mut u32, inp: *const u32, len: u32, distance: u32) {
    let i = thread::index_1d() as usize;
    if i < len as usize {
        let at = i * distance as usize;
        // SAFETY: `at` lies in both, and only this thread writes the element.
        unsafe { *out.add(at) = *inp.add(at) };
    }
}

/// Copies element `i * distance` for `i` below `len`, in arrays of `8 * len` elements: past the end a thread goes on at the start,
/// one sector further each time. So every sector is touched once.
///
/// Launched with at least `len` threads along x, in blocks of 256.
///
/// # Safety
/// The launch is as described; `len` is a power of two, and `distance` one of at least 8; both hold `8 * len` elements, and no
/// other code uses the elements of `out`.
#[kernel(max_threads = 256, args = Arguments, facts: Grid = Grid::threads::<256, 1>())]
pub unsafe fn copy_stride_wrapped(out: *mut u32, inp: *const u32, len: u32, distance: u32) {
    let i = thread::index_1d() as usize;
    if i < len as usize {
        let (far, span) = (i * distance as usize, SECTOR * len as usize);
        let at = (far & (span - 1)) + SECTOR * (far >> span.trailing_zeros());
        // SAFETY: `at` lies in both, and only this thread writes the element.
        unsafe { *out.add(at) = *inp.add(at) };
    }
}
