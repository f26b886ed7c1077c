//! Batches: the samples of each step of an epoch, and their pixels as f32.
//!
//! The order of an epoch is a keyed permutation that any thread can compute. So nothing is stored or sent, both devices see
//! the same order, and a run can resume from two numbers: seed and epoch.
//@ ptx: ld.global.nc.v4 >= 1, st.global.v4 >= 4, bar == 0, .local == 0

use cuda_std::mem::{self, f32x4, u32x4};
use cuda_std::{kernel, thread};

/// Rounds of the Feistel network. Four already mix; six leave a margin.
const ROUNDS: u32 = 6;

/// Threads that share the pixels of one sample.
pub const THREADS_PER_SAMPLE: u32 = 16;

/// Pixels a thread converts at a time: one 16-byte load.
const CHUNK: usize = 16;

/// The factor that scales a pixel from 0 to 255 to 0 to 1.
pub const PIXEL_SCALE: f32 = 1.0 / 255.0;

/// Returns the position in the data set of sample `index` of `0..len`, in the order that `seed` and `epoch` determine.
///
/// A balanced Feistel network permutes the next power of four. Results outside `0..len` are permuted again until they fall
/// inside (Black and Rogaway 2002, "cycle walking").
pub fn permuted(index: u32, len: u32, seed: u64, epoch: u32) -> u32 {
    let half_bits = (u32::BITS - (len - 1).leading_zeros()).div_ceil(2).max(1);
    let mask = (1u32 << half_bits) - 1;
    let mut value = index;
    loop {
        let (mut left, mut right) = (value >> half_bits, value & mask);
        for round in 0..ROUNDS {
            let key = (seed as u32) ^ epoch.wrapping_mul(0x9e37_79b9) ^ round.wrapping_mul(0x85eb_ca6b);
            let mixed = mix(right ^ mix(key ^ mix((seed >> 32) as u32)));
            (left, right) = (right, left ^ (mixed & mask));
        }
        value = (left << half_bits) | right;
        if value < len {
            return value;
        }
    }
}

/// Permutes u32; every output bit depends on every input bit (the finaliser of MurmurHash3).
fn mix(mut x: u32) -> u32 {
    x ^= x >> 16;
    x = x.wrapping_mul(0x85eb_ca6b);
    x ^= x >> 13;
    x = x.wrapping_mul(0xc2b2_ae35);
    x ^ (x >> 16)
}

/// Computes `out = images / 255` and the labels for `rows` samples of an epoch, from sample `first` on, in the order of
/// [`permuted`].
///
/// `images` is `[samples, features]` u8, `labels` `[samples]` u8; `out` is `[rows, features]`, `labels_out` `[rows]`.
/// Launched with blocks of ([`THREADS_PER_SAMPLE`], any) threads whose y axis covers `rows`.
///
/// # Safety
/// `first + rows` is at most `samples`, which is at least 1; `out` holds `rows * features` elements and `labels_out` `rows`,
/// which no other code uses; `images` and `labels` hold the elements of their shapes.
#[kernel]
pub unsafe fn shuffled_batch(
    out: *mut f32,
    labels_out: *mut u32,
    images: &[u8],
    labels: &[u8],
    samples: u32,
    features: u32,
    first: u32,
    rows: u32,
    seed: u64,
    epoch: u32,
) {
    let row = thread::index_2d().y;
    if row < rows {
        let sample = permuted(first + row, samples, seed, epoch);
        // SAFETY: the kernel's contract: the row lies in `out`, the sample in the data set.
        unsafe { copy_to_row((out, labels_out), (images, labels), features, [row, sample]) };
    }
}

/// Like [`shuffled_batch`](fn@shuffled_batch), in the order of the data set.
///
/// # Safety
/// Same as for [`shuffled_batch`](fn@shuffled_batch).
#[kernel]
pub unsafe fn ordered_batch(
    out: *mut f32,
    labels_out: *mut u32,
    images: &[u8],
    labels: &[u8],
    features: u32,
    first: u32,
    rows: u32,
) {
    let row = thread::index_2d().y;
    if row < rows {
        let sample = first + row;
        // SAFETY: the kernel's contract: the row lies in `out`, the sample in the data set.
        unsafe { copy_to_row((out, labels_out), (images, labels), features, [row, sample]) };
    }
}

/// Copies the calling thread's share of one sample.
///
/// # Safety
/// Same as for [`copy_sample`].
#[inline(always)]
unsafe fn copy_to_row(
    out: (*mut f32, *mut u32),
    (images, labels): (&[u8], &[u8]),
    features: u32,
    place: [u32; 2],
) {
    let threads = [thread::thread_idx_x(), THREADS_PER_SAMPLE];
    let from = (images.as_ptr(), labels.as_ptr());
    // SAFETY: the caller's contract.
    unsafe {
        copy_sample(out, from, features as usize, place.map(|n| n as usize), threads.map(|n| n as usize))
    };
}

/// Copies a thread's share of one sample; `threads` threads share it.
///
/// # Safety
/// `row` lies in `out`, `[rows, features]`, and `labels_out`; `sample` in `images`, `[samples, features]`, and `labels`.
#[inline(always)]
pub(super) unsafe fn copy_sample(
    (out, labels_out): (*mut f32, *mut u32),
    (images, labels): (*const u8, *const u8),
    features: usize,
    [row, sample]: [usize; 2],
    [tid, threads]: [usize; 2],
) {
    // SAFETY: every index below stays inside one row of `features` elements. The 16-byte accesses are
    // only used if the rows start at multiples of 16 bytes.
    unsafe {
        if tid == 0 {
            *labels_out.add(row) = u32::from(*labels.add(sample));
        }
        let source = images.add(sample * features);
        let target = out.add(row * features);
        let aligned =
            features.is_multiple_of(CHUNK) && (source as usize | target as usize).is_multiple_of(16);
        if aligned {
            for chunk in (tid * CHUNK..features).step_by(threads * CHUNK) {
                convert_chunk(target.add(chunk), source.add(chunk));
            }
        } else {
            for col in (tid..features).step_by(threads) {
                *target.add(col) = f32::from(*source.add(col)) * PIXEL_SCALE;
            }
        }
    }
}

/// Converts sixteen pixels with one load and four stores.
///
/// # Safety
/// Both pointers are valid for 16 elements and aligned to 16 bytes.
#[inline(always)]
unsafe fn convert_chunk(target: *mut f32, source: *const u8) {
    // SAFETY: the caller's contract.
    unsafe {
        let words = mem::load_global_nc(source.cast::<u32x4>()).to_array();
        for (i, word) in words.into_iter().enumerate() {
            let pixels = word.to_le_bytes().map(|pixel| f32::from(pixel) * PIXEL_SCALE);
            mem::store_global(target.add(4 * i).cast(), f32x4::from(pixels));
        }
    }
}
