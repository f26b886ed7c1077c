use ferrowarp::embedded_ptx;
use ferrowarp::prelude::*;

fn main() -> Result<(), Error> {
    let device = Device::open()?.with_modules(embedded_ptx!("kernels")?)?;
    let numbers: Vec<f32> = (0..10).map(|i| i as f32).collect();
    let x = device.upload(&numbers)?;
    let mut y = device.alloc_zeroed::<f32>(10)?;
    let config = LaunchConfig::cover(10, 4);
    // SAFETY: `y` is as long as `x`, and there are at least ten threads.
    unsafe { kernels::twice::launch(&device, config, &x, &mut y)? };
    println!("{:?}", y.to_vec()?);
    Ok(())
}
