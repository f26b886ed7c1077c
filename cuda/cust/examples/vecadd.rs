//! Adds two vectors on the GPU, written as Rust-CUDA's users write it.

use std::error::Error;

use cust::prelude::*;

/// Elements of the vectors.
const LEN: usize = 100_000;

static PTX: &str = include_str!("vecadd.ptx");

/// The program; a test calls it too.
pub fn main() -> Result<(), Box<dyn Error>> {
    let _ctx = cust::quick_init()?;
    let module = Module::from_ptx(PTX, &[])?;
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;

    let lhs: Vec<f32> = (0..LEN).map(|i| i as f32).collect();
    let rhs: Vec<f32> = (0..LEN).map(|i| 0.5 * i as f32).collect();
    let lhs_gpu = lhs.as_slice().as_dbuf()?;
    let rhs_gpu = rhs.as_slice().as_dbuf()?;
    let mut out = vec![0.0f32; LEN];
    let out_gpu = out.as_slice().as_dbuf()?;

    let vecadd = module.get_function("vecadd")?;
    let (_, block_size) = vecadd.suggested_launch_configuration(0, 0.into())?;
    let grid_size = (LEN as u32).div_ceil(block_size);

    // SAFETY: the kernel takes two slices and a pointer, and writes as many elements as the slices have.
    unsafe {
        launch!(
            vecadd<<<grid_size, block_size, 0, stream>>>(
                lhs_gpu.as_device_ptr(),
                lhs_gpu.len(),
                rhs_gpu.as_device_ptr(),
                rhs_gpu.len(),
                out_gpu.as_device_ptr(),
            )
        )?;
    }
    stream.synchronize()?;
    out_gpu.copy_to(&mut out)?;

    for (i, sum) in out.iter().enumerate() {
        assert_eq!(*sum, lhs[i] + rhs[i], "element {i}");
    }
    println!("{LEN} sums are right, by {grid_size} blocks of {block_size} threads");
    Ok(())
}
