//! The softmax that users call: every kernel of it against the f64 oracle, on the executor and as PTX, and the choice.

mod api;
mod choices;
mod every_kernel;
mod random;

use cuda_std::simt::Executor;
use ferrowarp::device::Device;

/// One OS thread, so that tests side by side have not too many stacks.
fn executor() -> Device {
    Device::cpu_with(Executor::new().with_workers(1))
}
