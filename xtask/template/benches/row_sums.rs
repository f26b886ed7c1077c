//! `cargo bench`: the bandwidth of the kernel on this machine.

use std::time::Instant;

use ferrowarp::embedded_ptx;
use ferrowarp::prelude::*;

const LAUNCHES: u32 = 20;

fn main() -> Result<(), Error> {
    let device = Device::open()?.with_modules(embedded_ptx!("{crate}_kernels")?)?;
    println!("running on {}", device.name());
    let (rows, cols) = if device.is_cuda() { (16384, 4096) } else { (256, 4096) };
    let inp = device.upload(&vec![1.0f32; rows * cols])?;
    let mut sums = device.alloc_zeroed::<f32>(rows)?;
    let mut launch = || {
        let config = LaunchConfig::new(rows as u32, 256);
        // SAFETY: there is a block of 256 threads and a sum for each row.
        unsafe { {crate}_kernels::row_sums_256::launch(&device, config, &mut sums, &inp, cols as u32) }
    };
    launch()?;
    device.synchronize()?;
    let start = Instant::now();
    for _ in 0..LAUNCHES {
        launch()?;
    }
    device.synchronize()?;
    let seconds = start.elapsed().as_secs_f64() / f64::from(LAUNCHES);
    let bytes = (rows * cols + rows) * size_of::<f32>();
    println!("row_sums of {rows} x {cols}: {:.1} us, {:.1} GB/s", 1e6 * seconds, bytes as f64 / seconds / 1e9);
    assert!(sums.to_vec()?.iter().all(|&sum| sum == cols as f32), "the sums are right");
    Ok(())
}
