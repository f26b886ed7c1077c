//! Elementwise functions, with one kernel per operation and as one kernel.
//!
//! Each kernel reads what the one before has written, and such kernels wait only for memory. Fused, they read the input once
//! and write the result once.
//@ ptx(fusion_add): ld.global.v4 == 2, st.global.v4 == 1, .local == 0
//@ ptx(fusion_gelu): ld.global.v4 == 1, st.global.v4 == 1, .local == 0
//@ ptx(fusion_sin_cos): ld.global.v4 == 1, st.global.v4 == 1

use super::elementwise::map;
#[cfg(not(target_arch = "nvptx64"))]
use super::{Grid, Sequence};
use cuda_std::{GpuFloat as _, kernel};

/// The factor of x^3 in the argument of GeLU's tanh (Hendrycks, Gimpel 2016, section 2).
pub const CUBIC: f32 = 0.044_715;

/// The factor of the whole argument: the square root of 2 / pi.
pub const OUTER: f32 = 0.797_884_6;

/// The rungs, each a sequence of launches on arrays: 0 is the input, 1 the result, the others are intermediate.
#[cfg(not(target_arch = "nvptx64"))]
pub const RUNGS: &[Sequence<Step>] = &[
    Sequence {
        name: "sin_cos_parts",
        idea: "sin^2 + cos^2 by five kernels",
        steps: &[
            step(&fusion_sin::INSTANCES[0], [2, 0, 0], 0.0),
            step(&fusion_cos::INSTANCES[0], [3, 0, 0], 0.0),
            step(&fusion_mul::INSTANCES[0], [2, 2, 2], 0.0),
            step(&fusion_mul::INSTANCES[0], [3, 3, 3], 0.0),
            step(&fusion_add::INSTANCES[0], [1, 2, 3], 0.0),
        ],
    },
    Sequence {
        name: "sin_cos_fused",
        idea: "sin^2 + cos^2 by one",
        steps: &[step(&fusion_sin_cos::INSTANCES[0], [1, 0, 0], 0.0)],
    },
    Sequence {
        name: "gelu_parts",
        idea: "GeLU by nine kernels",
        steps: &[
            step(&fusion_mul::INSTANCES[0], [2, 0, 0], 0.0),
            step(&fusion_mul::INSTANCES[0], [2, 2, 0], 0.0),
            step(&fusion_scale::INSTANCES[0], [2, 2, 0], CUBIC),
            step(&fusion_add::INSTANCES[0], [2, 0, 2], 0.0),
            step(&fusion_scale::INSTANCES[0], [2, 2, 0], OUTER),
            step(&fusion_tanh::INSTANCES[0], [2, 2, 0], 0.0),
            step(&fusion_offset::INSTANCES[0], [2, 2, 0], 1.0),
            step(&fusion_scale::INSTANCES[0], [3, 0, 0], 0.5),
            step(&fusion_mul::INSTANCES[0], [1, 3, 2], 0.0),
        ],
    },
    Sequence {
        name: "gelu_fused",
        idea: "GeLU by one",
        steps: &[step(&fusion_gelu::INSTANCES[0], [1, 0, 0], 0.0)],
    },
];

#[cfg(not(target_arch = "nvptx64"))]
const fn step(
    kernel: &'static cuda_std::launch::Instance<Arguments, Grid>,
    arrays: [usize; 3],
    factor: f32,
) -> Step {
    Step { kernel, arrays, factor }
}

/// A launch of a rung.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Debug)]
pub struct Step {
    /// Its kernel.
    pub kernel: &'static cuda_std::launch::Instance<Arguments, Grid>,
    /// The numbers of the array that it writes, and of those that it reads first and second.
    pub arrays: [usize; 3],
    /// Its factor, if it has one.
    pub factor: f32,
}

/// The arguments of the kernels. Kernels with one input ignore `b`, and those without a factor ignore `factor`.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug)]
pub struct Arguments {
    /// The results, `len` of them.
    pub out: cuda_std::launch::RawBuffer<f32>,
    /// The inputs, `len` of them; may be `out`.
    pub a: cuda_std::launch::RawBuffer<f32>,
    /// The second inputs, `len` of them; may be `out`.
    pub b: cuda_std::launch::RawBuffer<f32>,
    /// The factor of all inputs, or the summand.
    pub factor: f32,
    /// The number of elements.
    pub len: u32,
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
            // SAFETY: the kernel's contract.
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
