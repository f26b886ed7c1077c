//! Elementwise functions, fused and not fused.

use cuda_std::launch::LaunchError;
use gpu_kernels::gallery::Sequence;
use gpu_kernels::gallery::fusion::{Arguments, RUNGS, Step, WIDTH};

use super::prelude::*;
use super::problem::Handle;

pub(super) fn trials(scale: Scale) -> Vec<Trial> {
    let lens: &[usize] = match scale {
        Scale::Tiny => &[6],
        Scale::Edges => &[1, 5, 1024, 1027],
        Scale::Count => &[1 << 12],
        Scale::Laptop => &[1 << 18],
        Scale::Gpu => &[1 << 25],
    };
    // The rows of a batch whose launches count, and of one whose arithmetic counts.
    let batches = match scale {
        Scale::Tiny => [1, 1],
        Scale::Edges => [1, 3],
        Scale::Count => [16, 32],
        Scale::Laptop => [16, 256],
        Scale::Gpu => [16, 1 << 16],
    };
    let of_rung = |rung: &'static Sequence<Step>| match rung.name.strip_prefix("layer") {
        Some(name) => {
            let is_large = !name.starts_with("16_");
            vec![layer(rung, batches[usize::from(is_large)], is_large)]
        }
        None => lens.iter().map(|&len| trial(rung, len)).collect(),
    };
    RUNGS.iter().flat_map(of_rung).collect()
}

/// A linear layer and its ReLU on a batch of these rows.
fn layer(rung: &'static Sequence<Step>, rows: usize, is_large: bool) -> Trial {
    let len = rows * WIDTH;
    let kernels: Vec<&str> = rung.steps.iter().map(|(kernel, ..)| kernel[0].meta.name).collect();
    let work = Work::of_bytes(8 * len + 4 * WIDTH * WIDTH).with_flop(2 * WIDTH * len);
    // Each function has its own place.
    let at = 2 + usize::from(is_large);
    Trial::new((rung.name, rung.idea, kernels), at, format!("{rows} rows of {WIDTH}"), work, move || {
        let (x, y) = (Arc::new(numbers(len, 3)), Arc::new(numbers(WIDTH * WIDTH, 4)));
        let mut arrays = Arrays::default();
        let places = [
            arrays.input("x", Arc::clone(&x)),
            arrays.output("out", len),
            arrays.scratch("between", vec![0.0; len]),
            arrays.scratch("between, too", vec![0.0]),
            arrays.input("weights", Arc::clone(&y)),
        ];
        Problem::new(
            arrays,
            move |on: &dyn Launcher, p: &Placed| launch(rung, on, p, &places, len),
            move |_, i| {
                let term =
                    |k: usize| f64::from(x[i / WIDTH * WIDTH + k]) * f64::from(y[k * WIDTH + i % WIDTH]);
                let sum = (0..WIDTH).map(term).fold(Sum::default(), Sum::and);
                Sum { value: sum.value.max(0.0), ..sum }.within(8.0)
            },
        )
    })
}

/// Launches the steps of a rung.
fn launch(
    rung: &Sequence<Step>,
    on: &dyn Launcher,
    placed: &Placed,
    places: &[Handle<f32>],
    len: usize,
) -> Result<(), LaunchError> {
    rung.steps.iter().try_for_each(|&(kernel, arrays, factor)| {
        let [out, a, b] = arrays.map(|place| placed.of(places[place]));
        let arguments = Arguments { out, a, b, factor, len: len as u32 };
        // SAFETY: the arrays have the kernel's elements, and the grid is the kernel's for that many; a result replaces an
        // input only where the kernel allows it.
        unsafe { (kernel[0].launch)(on, (kernel[0].config)(len), arguments) }
    })
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
        let launch = move |on: &dyn Launcher, p: &Placed| launch(rung, on, p, &places, len);
        Problem::new(arrays, launch, move |_, i| match is_gelu {
            true => gelu(x[i].into()),
            false => Sum { value: 1.0, magnitude: 1.0 }.within(16.0),
        })
    })
}
