//! What elementwise kernels share: four elements per thread, 16 bytes per access.

use cuda_std::mem::{f32x4, load_global, store_global};
use cuda_std::thread;

/// Computes `out[i] = f([inputs[0][i], ..])` for `i` below `len`, four elements per thread. One thread takes the elements
/// after the last four.
///
/// # Safety
/// The grid has a thread for every four elements, in blocks along x; `out` and the inputs hold `len` elements each and begin
/// at a multiple of 16 bytes; no other code uses the elements of `out`.
#[inline(always)]
pub(super) unsafe fn map<const N: usize>(
    out: *mut f32,
    inputs: [*const f32; N],
    len: u32,
    f: impl Fn([f32; N]) -> f32,
) {
    let (i, len) = (4 * thread::index_1d() as usize, len as usize);
    if i + 4 <= len {
        // SAFETY: four elements from `i`, which is a multiple of four, and only this thread writes them.
        unsafe {
            let x = inputs.map(|input| load_global(input.add(i).cast::<f32x4>()).to_array());
            let [a, b, c, d] = core::array::from_fn(|j| f(core::array::from_fn(|n| x[n][j])));
            store_global(out.add(i).cast(), f32x4::new(a, b, c, d));
        }
    } else {
        for i in i..len {
            // SAFETY: `i` lies in all of them, and only this thread writes the element.
            unsafe { *out.add(i) = f(inputs.map(|input| *input.add(i))) };
        }
    }
}
