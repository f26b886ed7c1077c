use cuda_std::launch::LaunchConfig;
use ferrowarp::device::PtxModules;
use ferrowarp::embedded_ptx;
use ferrowarp::prelude::*;

fn main() -> Result<(), Error> {
    // The first GPU, or the CPU if there is none; and the kernels that the build script embedded in the program.
    let device = Device::open()?.with_modules(embedded_ptx!("kernels")?)?;

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
    if let Some(folder) = std::env::args_os().nth(1).map(std::path::PathBuf::from) {
        let own = embedded_ptx!("kernels")?;
        let all = if folder.ends_with("all") { PtxModules::find()?.and(own) } else { own };
        for module in all.modules() {
            std::fs::write(folder.join(module.path().file_name().unwrap()), module.text()?).unwrap();
        }
    }
    Ok(())
}
