//! Many steps in one launch, against the same steps in `f64`: sizes that end within tiles, and those of MNIST.

use std::sync::Arc;

use ferrowarp::device::Device;
use ferrowarp_cases::layer::resident::{Kernel, Training};
use ferrowarp_cases::{Case, assert_right};
use gpu_kernels::mlp::resident::{Extents, train};

/// Features, hidden units, classes, batch; and steps.
const HARD: [([usize; 5], usize); 8] = [
    ([20, 13, 7, 3, 5], 7),
    ([1, 1, 1, 1, 1], 3),
    ([15, 8, 3, 2, 2], 4),
    ([16, 9, 4, 16, 3], 4),
    ([31, 17, 127, 10, 64], 2),
    ([895, 3, 5, 2, 4], 2),
    ([33, 70, 33, 16, 17], 5),
    ([48, 24, 31, 5, 63], 3),
];

fn extents([features, hidden1, hidden2, classes, batch]: [usize; 5]) -> Extents {
    Extents { features, hidden1, hidden2, classes, batch }
}

fn kernel(name: &str) -> &'static Kernel {
    train::INSTANCES.iter().find(|kernel| kernel.meta.name == name).unwrap()
}

fn cases(sizes: [usize; 5], steps: usize, kernels: &[&'static Kernel]) -> Vec<Case> {
    let training = Arc::new(Training::new(extents(sizes), steps, 1));
    kernels.iter().map(|kernel| training.case(kernel)).collect()
}

#[test]
fn sizes_that_end_within_tiles() {
    let kernels: Vec<&Kernel> = train::INSTANCES.iter().collect();
    for (sizes, steps) in HARD {
        assert_right(&cases(sizes, steps, &kernels), &Device::cpu(), Case::assess_twice);
    }
}

#[test]
fn the_sizes_of_mnist() {
    let cases =
        cases([784, 300, 100, 10, 64], 2, &[kernel("resident_epoch"), kernel("resident_epoch_serial")]);
    assert_right(&cases, &Device::cpu(), Case::assess);
}

#[test]
fn debug_one() {
    for (sizes, steps) in [([20, 13, 7, 3, 5], 1), ([20, 13, 7, 3, 5], 2), ([784, 300, 100, 10, 64], 1)] {
        let t = Training::new(extents(sizes), steps, 1);
        let (layers, j) = t.reference::<f64>();
        let (plain, _) = t.reference::<f32>();
        for k in train::INSTANCES {
            let out = t.run(&Device::cpu(), k).unwrap();
            for (l, layer) in layers.iter().enumerate() {
                for (i, numbers) in [&layer.weights, &layer.biases].into_iter().enumerate() {
                    let got = &out[2 * l + i].1;
                    let pl = [&plain[l].weights, &plain[l].biases][i];
                    let before: Vec<f64> =
                        [&t.layers[l].weights, &t.layers[l].biases][i].iter().map(|&x| x.into()).collect();
                    let err = numbers.iter().zip(got).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                    let perr =
                        numbers.iter().zip(pl).map(|(a, b)| (a - f64::from(*b)).abs()).fold(0.0, f64::max);
                    let upd = numbers.iter().zip(&before).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                    println!(
                        "{} {sizes:?} {steps} {}: err {err:e} plain {perr:e} update {upd:e}",
                        k.meta.name,
                        out[2 * l + i].0
                    );
                }
            }
            let err = j
                .iter()
                .zip(&out[6].1)
                .map(|(j, l)| j.map_or(0.0, |j| (j.loss - l).abs()))
                .fold(0.0, f64::max);
            println!("loss err {err:e}");
        }
    }
}
