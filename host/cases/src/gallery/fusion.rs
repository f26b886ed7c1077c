//! Elementwise functions, fused and not fused.

use gpu_kernels::gallery::Sequence;
use gpu_kernels::gallery::fusion::{Arguments, RUNGS, Step};

use super::prelude::*;

pub(super) fn trials(scale: Scale) -> Vec<Trial> {
    let lens: &[usize] = match scale {
        Scale::Tiny => &[6],
        Scale::Edges => &[1, 5, 1024, 1027],
        Scale::Count => &[1 << 12],
        Scale::Laptop => &[1 << 18],
        Scale::Gpu => &[1 << 25],
    };
    each(RUNGS, lens, trial)
}

fn trial(rung: &'static Sequence<Step>, len: usize) -> Trial {
    let sectors = len.div_ceil(8);
    let mut kernels: Vec<&str> = rung.steps.iter().map(|(kernel, ..)| kernel[0].meta.name).collect();
    // A kernel with two inputs loads both, even if they are the same array.
    let loads = |name: &&str| 1 + usize::from(["_add", "_mul"].iter().any(|end| name.ends_with(end)));
    let loads: usize = kernels.iter().map(loads).sum();
    let work = Work::of_bytes(8 * len).with_sectors(loads * sectors, rung.steps.len() * sectors);
    kernels.dedup();
    // Each function has its own ladder.
    let is_gelu = rung.name.starts_with("gelu");
    let name = (rung.name, rung.idea, kernels);
    Trial::new(name, usize::from(is_gelu), format!("{len} elements"), work, move || {
        let x = Arc::new(numbers_as(len, 3, |x| 4.0 * x));
        let mut arrays = Arrays::default();
        let places = [
            arrays.input("x", Arc::clone(&x)),
            arrays.output("out", len),
            arrays.scratch("between", vec![0.0; len]),
            arrays.scratch("between, too", vec![0.0; len]),
        ];
        let launch = move |on: &dyn Launcher, p: &Placed| {
            rung.steps.iter().try_for_each(|&(kernel, arrays, factor)| {
                let [out, a, b] = arrays.map(|place| p.of(places[place]));
                let arguments = Arguments { out, a, b, factor, len: len as u32 };
                // SAFETY: the arrays have `len` elements, and the grid is the kernel's for that many; a result replaces an
                // input only where the kernel allows it.
                unsafe { (kernel[0].launch)(on, (kernel[0].config)(len), arguments) }
            })
        };
        Problem::new(arrays, launch, move |_, i| match is_gelu {
            true => gelu(x[i].into()),
            false => Sum { value: 1.0, magnitude: 1.0 }.within(16.0),
        })
    })
}
