//! ReLU in `f32` and in 16 bits.

use bytemuck::Pod;
use cuda_std::half::{bf16, f16};
use cuda_std::testing::Element;
use gpu_kernels::element::Number;
use gpu_kernels::gallery::relu::{Arguments, RUNGS, Width};

use super::prelude::*;

pub(super) fn trials(scale: Scale) -> Vec<Trial> {
    let lens: &[usize] = match scale {
        Scale::Tiny => &[11],
        Scale::Edges => &[1, 4, 7, 8, 9, 2047, 2048, 2053],
        Scale::Count => &[1 << 13],
        Scale::Laptop => &[1 << 20],
        Scale::Gpu => &[1 << 26],
    };
    each(RUNGS, lens, |rung, len| match rung.name {
        "f32" => trial::<f32>(rung, len),
        "f16" => trial::<f16>(rung, len),
        _ => trial::<bf16>(rung, len),
    })
}

fn trial<T: Number + Element + Pod + Send + Sync>(
    rung: &'static Rung<Arguments, Width>,
    len: usize,
) -> Trial {
    let Width(each) = rung.kernel.facts;
    let bytes = len * size_of::<T>();
    let work = Work::of_bytes(2 * bytes).with_flop(len).with_sectors(bytes.div_ceil(32), bytes.div_ceil(32));
    Trial::of_rung(rung, len, format!("{len} elements"), work, move || {
        let special = |i: usize| [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0].get(i % 97).copied();
        let x: Arc<Vec<T>> =
            Arc::new(elements(len, |i| T::from_f32(special(i).unwrap_or_else(|| 100.0 * number(i, 7)))));
        let mut arrays = Arrays::default();
        let (inp, out) = (arrays.input("inp", Arc::clone(&x)), arrays.output::<T>("out", len));
        let arguments =
            move |p: &Placed| Arguments { out: p.of(out).cast(), inp: p.of(inp).cast(), len: len as u32 };
        let oracle = move |_, i: usize| {
            let x = Element::to_f64(x[i]);
            Bound::exact(if x > 0.0 { x } else { 0.0 })
        };
        // SAFETY: both have `len` numbers of the rung's type, and there are threads for all of them.
        unsafe { arrays.launch(rung, LaunchConfig::cover(len.div_ceil(each), 256), arguments, oracle) }
    })
}
