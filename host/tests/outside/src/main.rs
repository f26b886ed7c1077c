use std::error::Error;
use std::path::Path;

use cuda_std::launch::LaunchConfig;
use ferrowarp::device::{DeviceChoice, PtxModules, open_with};
use ferrowarp::softmax::{Options, softmax_of_slice};

fn main() -> Result<(), Box<dyn Error>> {
    // The first GPU, which gets the PTX that the build script made; without one the CPU.
    let (device, line) = open_with(DeviceChoice::Auto, || PtxModules::read(Path::new(env!("OUT_DIR"))))?;
    eprintln!("{line}");

    let x = device.upload(&[1.0f32, 2.0, 3.0])?;
    let mut y = device.alloc_zeroed::<f32>(3)?;
    // SAFETY: as many elements in both, and a thread for each.
    unsafe { kernels::twice::launch(&device, LaunchConfig::cover(3, 32), &x, &mut y)? };
    println!("{:?}", y.to_vec()?);

    let cpu = ferrowarp::device::Device::cpu();
    let probabilities: Vec<f32> = softmax_of_slice(&cpu, &[0.0f32, 0.0, 1.0, 1.0], [2, 2], &Options::new())?;
    println!("{probabilities:?}");
    Ok(())
}
