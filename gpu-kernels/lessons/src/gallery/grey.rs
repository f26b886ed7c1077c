//! A picture from colour to grey: 3 bytes in, 1 byte out, and five operations per pixel.
//!
//! The first rung computes in f64, the type of constants without a suffix in other languages. The second computes in f32,
//! one byte per access. In the third each thread takes 16 pixels: 48 bytes in by three accesses, and 16 bytes out by one.
//@ ptx(grey_f64): fma.rn.f64 >= 1, .local == 0
//@ ptx(grey_bytes): .f64 == 0, .local == 0
//@ ptx(grey_vectors): ld.global.nc.v4 == 3, st.global.v4 == 1, .f64 == 0, .local == 0

use cuda_std::mem::{load_global_nc, store_global, u32x4};
use cuda_std::{kernel, thread};

/// The weights of red, green and blue.
pub const WEIGHTS: [f32; 3] = [0.21, 0.72, 0.07];

lesson! {
    buffers(out: u8, inp: u8)
    values(len: u32)
    facts(Grid)
    "f64" = grey_f64[0]: "a pixel a thread, computed in f64";
    "bytes" = grey_bytes[0]: "computed in f32";
    "vectors" = grey_vectors[0]: "16 pixels a thread, 16 bytes an access";
}

/// Returns the weighted sum of a pixel's colours, without its fraction.
#[inline(always)]
fn grey([red, green, blue]: [u8; 3]) -> u8 {
    let [r, g, b] = WEIGHTS;
    (r * f32::from(red) + g * f32::from(green) + b * f32::from(blue)) as u8
}

/// `out[i] = 0.21 red + 0.72 green + 0.07 blue` of pixel `i`, computed in f64; the fraction is dropped.
///
/// Launched with at least `len` threads along x, in blocks of 256.
///
/// # Safety
/// The launch is as described; `inp` holds `3 * len` bytes, which no code writes, and `out` holds `len`, which no
/// other code uses.
#[kernel(max_threads = 256, args = Arguments, facts: Grid = Grid::threads::<256, 1>())]
pub unsafe fn grey_f64(out: *mut u8, inp: *const u8, len: u32) {
    let i = thread::index_1d() as usize;
    if i < len as usize {
        // SAFETY: pixel `i` lies in both, and only this thread writes its byte.
        unsafe {
            let [red, green, blue] = [0, 1, 2].map(|colour| f64::from(*inp.add(3 * i + colour)));
            *out.add(i) = (0.21 * red + 0.72 * green + 0.07 * blue) as u8;
        }
    }
}

/// Like [`grey_f64`](fn@grey_f64), computed in f32.
///
/// # Safety
/// Same as for [`grey_f64`](fn@grey_f64).
#[kernel(max_threads = 256, args = Arguments, facts: Grid = Grid::threads::<256, 1>())]
pub unsafe fn grey_bytes(out: *mut u8, inp: *const u8, len: u32) {
    let i = thread::index_1d() as usize;
    if i < len as usize {
        // SAFETY: pixel `i` lies in both, and only this thread writes its byte.
        unsafe { *out.add(i) = grey([0, 1, 2].map(|colour| *inp.add(3 * i + colour))) };
    }
}

/// Like [`grey_bytes`](fn@grey_bytes), with 16 pixels per thread. One thread takes the pixels after the last 16.
///
/// Launched with at least `len / 16`, rounded up, threads along x, in blocks of 256.
///
/// # Safety
/// Same as for [`grey_f64`](fn@grey_f64); both begin at a multiple of 16 bytes.
#[kernel(max_threads = 256, args = Arguments, facts: Grid = Grid::threads::<256, 16>())]
pub unsafe fn grey_vectors(out: *mut u8, inp: *const u8, len: u32) {
    let (i, len) = (16 * thread::index_1d() as usize, len as usize);
    if i + 16 <= len {
        // SAFETY: 16 pixels from `i`, which is a multiple of 16, and only this thread writes their bytes.
        unsafe {
            let words: [[u32; 4]; 3] =
                core::array::from_fn(|n| load_global_nc(inp.add(3 * i).cast::<u32x4>().add(n)).to_array());
            let byte = |at: usize| (words[at / 16][at % 16 / 4] >> (at % 4 * 8)) as u8;
            let word = |n: usize| {
                let pixel =
                    |p: usize| u32::from(grey([0, 1, 2].map(|colour| byte(3 * (4 * n + p) + colour))));
                pixel(0) | pixel(1) << 8 | pixel(2) << 16 | pixel(3) << 24
            };
            store_global(out.add(i).cast(), u32x4::new(word(0), word(1), word(2), word(3)));
        }
    } else {
        for i in i..len {
            // SAFETY: pixel `i` lies in both, and only this thread writes its byte.
            unsafe { *out.add(i) = grey([0, 1, 2].map(|colour| *inp.add(3 * i + colour))) };
        }
    }
}
