//! ReLU in `f32` and in 16 bits.

use std::sync::Arc;

use bytemuck::Pod;
use cuda_std::half::{bf16, f16};
use cuda_std::launch::LaunchConfig;
use cuda_std::testing::Element;
use gpu_kernels::element::Number;
use gpu_kernels::gallery::Rung;
use gpu_kernels::gallery::relu::{Arguments, RUNGS, Width};

use super::{Arrays, Axis, Lesson, Measure, Prediction, Problem, Scale, Trial, Work, elements, number};
use crate::compare::Bound;

pub(super) const LESSON: Lesson = Lesson {
    name: "relu",
    title: "ReLU in 16 bits",
    axis: Axis { label: "elements", is_log: true },
    measure: Measure::Bytes,
    rungs: || RUNGS.iter().map(|rung| (rung.name, rung.idea)).collect(),
    trials,
    predictions,
};

fn predictions() -> Vec<Prediction> {
    vec![
        Prediction::share_of_copy("f32", 1.0)
            .from("8 bytes per element")
            .why("One comparison per element costs nothing next to the bytes."),
        Prediction::time_over("f16", "f32", 0.5)
            .from("4 bytes for 8")
            .elsewhere("double the memory bandwidth, not measured", "CS336, lecture 5")
            .why("Half of the bytes take half of the time."),
        Prediction::time_over("bf16", "f32", 0.5)
            .from("4 bytes for 8")
            .why("Half of the bytes take half of the time, whatever the format."),
    ]
}

fn trials(scale: Scale) -> Vec<Trial> {
    let lens: &[usize] = match scale {
        Scale::Tiny => &[11],
        Scale::Edges => &[1, 4, 7, 8, 9, 2047, 2048, 2053],
        Scale::Count => &[1 << 13],
        Scale::Laptop => &[1 << 20],
        Scale::Gpu => &[1 << 26],
    };
    let [of_f32, of_f16, of_bf16] = [&RUNGS[0], &RUNGS[1], &RUNGS[2]];
    let f32s = lens.iter().map(|&len| trial::<f32>(of_f32, len));
    let f16s = lens.iter().map(|&len| trial::<f16>(of_f16, len));
    let bf16s = lens.iter().map(|&len| trial::<bf16>(of_bf16, len));
    f32s.chain(f16s).chain(bf16s).collect()
}

fn trial<T: Number + Element + Pod + Send + Sync>(
    rung: &'static Rung<Arguments, Width>,
    len: usize,
) -> Trial {
    let Width(each) = rung.kernel.facts;
    let bytes = len * size_of::<T>();
    let sectors = bytes.div_ceil(32) as f64;
    let work = Work::of_bytes(2.0 * bytes as f64).with_flop(len as f64).with_sectors(sectors, sectors);
    let name = (rung.name, vec![rung.kernel.meta.name]);
    Trial::new(name, len as f64, format!("{len} elements"), work, move || {
        let special = |i: usize| [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0].get(i % 97).copied();
        let x: Arc<Vec<T>> =
            Arc::new(elements(len, |i| T::from_f32(special(i).unwrap_or_else(|| 100.0 * number(i, 7)))));
        let mut arrays = Arrays::default();
        let inp = arrays.input("inp", Arc::clone(&x));
        let out = arrays.output::<T>("out", len);
        let config = LaunchConfig::cover(len.div_ceil(each), 256);
        Problem::new(
            arrays,
            move |on, placed| {
                let (out, inp) = (placed.of(out).cast(), placed.of(inp).cast());
                // SAFETY: both have `len` numbers of the rung's type, and there are threads for all of them.
                unsafe { (rung.kernel.launch)(on, config, Arguments { out, inp, len: len as u32 }) }
            },
            move |_, i| {
                let x = Element::to_f64(x[i]);
                Bound::exact(if x > 0.0 { x } else { 0.0 })
            },
        )
    })
}
