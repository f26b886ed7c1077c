use ferrowarp::embedded_ptx;
use ferrowarp::prelude::*;

fn main() -> Result<(), Error> {
    // The first GPU, or the CPU if there is none; and the kernels that the build script embedded in the program.
    let device = Device::open()?.with_modules(embedded_ptx!("{crate}_kernels")?)?;
    println!("running on {}", device.name());

    let (rows, cols) = (4, 1000);
    let logits: Vec<f32> = (0..rows * cols).map(|i| (i % 10) as f32).collect();
    let logits = device.tensor(&logits, [rows, cols])?;

    // An operation of the library,
    let probabilities = Softmax::new().run(&device, &logits)?;

    // and a kernel of this crate.
    let mut sums = device.alloc_zeroed::<f32>(rows)?;
    let config = LaunchConfig::new(rows as u32, 256);
    // SAFETY: there is a block of 256 threads and a sum for each row.
    unsafe { {crate}_kernels::row_sums_256::launch(&device, config, &mut sums, &probabilities, cols as u32)? };
    println!("each row of probabilities sums to 1: {:?}", sums.to_vec()?);
    Ok(())
}
