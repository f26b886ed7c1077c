use std::error::Error;

use cuda_std::launch::LaunchConfig;
use ferrowarp::device::{DeviceChoice, DeviceError, PtxModules, open_with};
use ferrowarp::{Softmax, Tensor, embedded_ptx};

/// The PTX that the build script embedded in the program.
fn ptx() -> Result<PtxModules, DeviceError> {
    Ok(embedded_ptx!("kernels")?.and(embedded_ptx!("softmax_kernels")?))
}

fn main() -> Result<(), Box<dyn Error>> {
    // The first GPU, or the CPU if there is none.
    let (device, line) = open_with(DeviceChoice::Auto, ptx)?;
    eprintln!("{line}");

    // A kernel of this crate,
    let x = device.upload(&[0.0f32, 0.0, 0.5, f32::NEG_INFINITY])?;
    let mut logits = Tensor::<f32>::zeros(&device, [2, 2])?;
    // SAFETY: as many elements in both, and a thread for each.
    unsafe { kernels::twice::launch(&device, LaunchConfig::cover(4, 32), &x, &mut logits)? };
    println!("{:?}", logits.to_vec()?);

    // and an operation of the library.
    let probabilities = Softmax::new().run(&device, &logits)?;
    println!("{:?}", probabilities.to_vec()?);

    // For the test of this example: what a GPU would get.
    if let Some(folder) = std::env::args_os().nth(1) {
        for module in ptx()?.modules() {
            std::fs::write(std::path::Path::new(&folder).join(module.path().file_name().unwrap()), module.text()?)?;
        }
    }
    Ok(())
}
