//! Elementwise functions, with one kernel per operation and as one kernel.
//!
//! Each kernel reads what the one before has written, and such kernels wait only for memory. Fused, they read the input once
//! and write the result once.
//! `layer16_parts` and the others: a linear layer and a ReLU after it, as two kernels and as one. Nothing else is fused or tiled.
//@ ptx(fusion_linear, fusion_linear_relu): st.global == 1, .shared == 0, .local == 0
//@ ptx(fusion_add): ld.global.v4 == 2, st.global.v4 == 1, .local == 0
//@ ptx(fusion_gelu): ld.global.v4 == 1, st.global.v4 == 1, .local == 0
//@ ptx(fusion_sin_cos): ld.global.v4 == 1, st.global.v4 == 1

use super::elementwise::map;
use cuda_std::{GpuFloat as _, kernel, thread};

/// Inputs, and outputs, of the linear layer.
pub const WIDTH: usize = 256;

/// The factor of x^3 in the argument of GeLU's tanh (Hendrycks, Gimpel 2016, section 2).
pub const CUBIC: f32 = 0.044_715;

/// The factor of the whole argument: the square root of 2 / pi.
pub const OUTER: f32 = 0.797_884_6;

lesson! { buffers(out: f32, a: f32, b: f32) values(factor: f32, len: u32) }

/// A launch of a rung: its kernel, the numbers of the array that it writes and of those that it reads first and second, and
/// its factor, if it has one.
#[cfg(not(target_arch = "nvptx64"))]
pub type Step = (&'static [cuda_std::launch::Instance<Arguments, Grid>], [usize; 3], f32);

/// The rungs, each a sequence of launches on arrays: 0 is the input, 1 the result, the others are intermediate.
#[cfg(not(target_arch = "nvptx64"))]
pub const RUNGS: &[super::Sequence<Step>] = &[
    super::Sequence {
        name: "sin_cos_parts",
        idea: "sin^2 + cos^2 by five kernels",
        steps: &[
            (fusion_sin::INSTANCES, [2, 0, 0], 0.0),
            (fusion_cos::INSTANCES, [3, 0, 0], 0.0),
            (fusion_mul::INSTANCES, [2, 2, 2], 0.0),
            (fusion_mul::INSTANCES, [3, 3, 3], 0.0),
            (fusion_add::INSTANCES, [1, 2, 3], 0.0),
        ],
    },
    super::Sequence {
        name: "sin_cos_fused",
        idea: "sin^2 + cos^2 by one",
        steps: &[(fusion_sin_cos::INSTANCES, [1, 0, 0], 0.0)],
    },
    super::Sequence {
        name: "gelu_parts",
        idea: "GeLU by nine kernels",
        steps: &[
            (fusion_mul::INSTANCES, [2, 0, 0], 0.0),
            (fusion_mul::INSTANCES, [2, 2, 0], 0.0),
            (fusion_scale::INSTANCES, [2, 2, 0], CUBIC),
            (fusion_add::INSTANCES, [2, 0, 2], 0.0),
            (fusion_scale::INSTANCES, [2, 2, 0], OUTER),
            (fusion_tanh::INSTANCES, [2, 2, 0], 0.0),
            (fusion_offset::INSTANCES, [2, 2, 0], 1.0),
            (fusion_scale::INSTANCES, [3, 0, 0], 0.5),
            (fusion_mul::INSTANCES, [1, 3, 2], 0.0),
        ],
    },
    super::Sequence {
        name: "gelu_fused",
        idea: "GeLU by one",
        steps: &[(fusion_gelu::INSTANCES, [1, 0, 0], 0.0)],
    },
    layer("layer16_parts", "a linear layer on 16 rows, then ReLU", LAYER_PARTS),
    layer("layer16_fused", "a linear layer with ReLU, on 16 rows", LAYER_FUSED),
    layer("layer65536_parts", "a linear layer on 65536 rows, then ReLU", LAYER_PARTS),
    layer("layer65536_fused", "a linear layer with ReLU, on 65536 rows", LAYER_FUSED),
];

#[cfg(not(target_arch = "nvptx64"))]
const LAYER_PARTS: &[Step] =
    &[(fusion_linear::INSTANCES, [2, 0, 4], 0.0), (fusion_relu::INSTANCES, [1, 2, 0], 0.0)];
#[cfg(not(target_arch = "nvptx64"))]
const LAYER_FUSED: &[Step] = &[(fusion_linear_relu::INSTANCES, [1, 0, 4], 0.0)];

#[cfg(not(target_arch = "nvptx64"))]
const fn layer(name: &'static str, idea: &'static str, steps: &'static [Step]) -> super::Sequence<Step> {
    super::Sequence { name, idea, steps }
}

macro_rules! kernels {
    ($($(#[$doc:meta])* $name:ident($($parameter:ident: $ty:ty),*) = [$($input:ident),+] $f:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// Launched with at least `len / 4`, rounded up, threads along x, in blocks of 256.
        ///
        /// # Safety
        /// The launch is as described; the arrays hold `len` elements and begin at a multiple of 16 bytes; no other code
        /// uses the elements of `out`, which may be an input.
        #[kernel(max_threads = 256, args = Arguments, facts: Grid = Grid::threads::<256, 4>())]
        pub unsafe fn $name(out: *mut f32, $($input: *const f32,)+ $($parameter: $ty,)* len: u32) {
            // SAFETY: the vectors have `len` elements.
            unsafe { map(out, [$($input),+], len, $f) }
        }
    )*};
}

kernels! {
    /// `out = sin(a)`, in radians.
    fusion_sin() = [a] |[x]| x.sin();
    /// `out = cos(a)`, in radians.
    fusion_cos() = [a] |[x]| x.cos();
    /// `out = tanh(a)`.
    fusion_tanh() = [a] |[x]| x.tanh();
    /// `out = a * factor`.
    fusion_scale(factor: f32) = [a] |[x]| x * factor;
    /// `out = a + factor`.
    fusion_offset(factor: f32) = [a] |[x]| x + factor;
    /// `out = a + b`.
    fusion_add() = [a, b] |[x, y]| x + y;
    /// `out` is `a`, or 0 if that is negative.
    fusion_relu() = [a] |[x]| x.max(0.0);
    /// `out = a * b`.
    fusion_mul() = [a, b] |[x, y]| x * y;
    /// `out = sin(a)^2 + cos(a)^2`, in radians.
    fusion_sin_cos() = [a] |[x]| {
        let (sin, cos) = x.sin_cos();
        sin * sin + cos * cos
    };
    /// `out` is the GeLU of `a`, in its tanh form (Hendrycks, Gimpel 2016, section 2).
    fusion_gelu() = [a] |[x]| 0.5 * x * (1.0 + (OUTER * (x + CUBIC * x * x * x)).tanh());
}

/// Computes `out = a * b`, where `a` and `out` have rows of `WIDTH` elements and `b` is `[WIDTH, WIDTH]`, one thread per element.
///
/// Launched with at least `len` threads along x, in blocks of 256.
///
/// # Safety
/// The launch is as described; `a` and `out` hold `len` elements, a multiple of `WIDTH`, and no other code uses those of `out`.
#[kernel(max_threads = 256, args = Arguments, facts: Grid = Grid::threads::<256, 1>())]
pub unsafe fn fusion_linear(out: *mut f32, a: *const f32, b: *const f32, len: u32) {
    // SAFETY: the matrices have their elements.
    unsafe { linear(out, a, b, len, |x| x) };
}

/// Like [`fusion_linear`](fn@fusion_linear), with 0 in place of negative results.
///
/// # Safety
/// Same as for [`fusion_linear`](fn@fusion_linear).
#[kernel(max_threads = 256, args = Arguments, facts: Grid = Grid::threads::<256, 1>())]
pub unsafe fn fusion_linear_relu(out: *mut f32, a: *const f32, b: *const f32, len: u32) {
    // SAFETY: the matrices have their elements.
    unsafe { linear(out, a, b, len, |x| x.max(0.0)) };
}

/// Computes the thread's element of `f(a * b)`.
///
/// # Safety
/// The contract of [`fusion_linear`](fn@fusion_linear).
#[inline(always)]
unsafe fn linear(out: *mut f32, a: *const f32, b: *const f32, len: u32, f: impl Fn(f32) -> f32) {
    let i = thread::index_1d() as usize;
    if i < len as usize {
        let (row, col) = (i / WIDTH, i % WIDTH);
        // SAFETY: row, column and terms lie in the matrices, and only this thread writes the element.
        unsafe {
            let term = |sum: f32, k| (*a.add(row * WIDTH + k)).mul_add(*b.add(k * WIDTH + col), sum);
            *out.add(i) = f((0..WIDTH).fold(0.0, term));
        }
    }
}
