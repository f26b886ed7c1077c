//! What kernels of one element at a time have in common: four elements a thread, 16 bytes an access.

use cuda_std::mem::{f32x4, load_global, store_global};
use cuda_std::thread;

/// `out[i] = f([inputs[0][i], ..])` for `i` below `len`, four elements a thread; what follows the last four is left to one
/// thread.
///
/// # Safety
/// The grid has a thread for every four elements, in blocks along x; `out` and the inputs hold `len` elements each and begin
/// at a multiple of 16 bytes; no other code uses those of `out`.
#[inline(always)]
pub(super) unsafe fn map<const N: usize>(
    out: *mut f32,
    inputs: [*const f32; N],
    len: u32,
    f: impl Fn([f32; N]) -> f32,
) {
    let (i, len) = (4 * thread::index_1d() as usize, len as usize);
    if i + 4 <= len {
        // SAFETY: four elements from `i`, which is a multiple of four, and this thread alone writes them.
        unsafe {
            let x = inputs.map(|input| load_global(input.add(i).cast::<f32x4>()).to_array());
            let [a, b, c, d] = core::array::from_fn(|j| f(core::array::from_fn(|n| x[n][j])));
            store_global(out.add(i).cast(), f32x4::new(a, b, c, d));
        }
    } else {
        for i in i..len {
            // SAFETY: `i` lies in all of them, and this thread alone writes the element.
            unsafe { *out.add(i) = f(inputs.map(|input| *input.add(i))) };
        }
    }
}
