//! Steps in three launches against the same steps in `f64`: of the network that trains, and of odd sizes.

use std::sync::Arc;

use cuda_builder::Backend;
use ferrowarp::device::Device;
use ferrowarp_cases::layer::resident::Training;
use ferrowarp_cases::layer::short::case;
use ferrowarp_cases::{Case, assert_right, emulated};
use gpu_kernels::mlp::resident::Extents;
use ptx_emulator::Turns;

/// Features, both hidden layers, classes, batch and steps. Tiles, quads and groups end in their midst, or fit; there are
/// lanes and threads with nothing to do, and batches of one sample.
const SIZES: [([usize; 5], usize); 6] = [
    ([5, 3, 4, 3, 2], 3),
    ([33, 17, 12, 10, 7], 2),
    ([64, 32, 8, 16, 1], 2),
    ([70, 36, 12, 2, 5], 2),
    ([130, 20, 100, 10, 3], 2),
    ([65, 41, 128, 10, 4], 1),
];

fn cases(sizes: &[([usize; 5], usize)]) -> Vec<Case> {
    let of = |(&([features, hidden1, hidden2, classes, batch], steps), seed): (&([usize; 5], usize), u64)| {
        let extents = Extents { features, hidden1, hidden2, classes, batch };
        case(Arc::new(Training::new(extents, steps, seed)))
    };
    sizes.iter().zip(0..).map(of).collect()
}

#[test]
fn on_the_executor() {
    assert_right(&cases(&SIZES), &Device::cpu(), Case::assess);
}

#[test]
fn of_the_network_that_trains() {
    assert_right(&cases(&[([784, 300, 100, 10, 64], 3)]), &Device::cpu(), Case::assess_twice);
}

#[test]
fn as_ptx() {
    for (&arch, turns) in emulated::architectures().iter().rev().zip([Turns::Descending, Turns::Ascending]) {
        let device = emulated::device(Backend::Nvvm, arch, turns);
        assert_right(&cases(&SIZES), &device, Case::assess);
    }
}
