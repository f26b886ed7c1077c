//! Launches of the kernels of `float-kernels` by name.

use std::ffi::c_void;

use anyhow::Context;
use bytemuck::Pod;
use cuda_std::launch::{
    Buffer as Lent, KernelCall, LaunchConfig, Launcher as _, PtrArg as _, PtrMutArg as _,
};
use ferrowarp_device::device::{Buffer, Device};

/// Threads per block.
pub const BLOCK: u32 = 256;

/// Runs a kernel with these parameters: pointers to inputs, words, and a pointer to the output, in this order or with the
/// words first.
///
/// # Safety
/// The kernel has these parameters, and `out` has the length that it writes with these words and this number of threads.
pub unsafe fn launch<I: Pod, O: Pod>(
    device: &Device,
    kernel: &str,
    threads: u32,
    inputs: &[&Buffer<I>],
    words: &[u32],
    mut out: &mut Buffer<O>,
) -> anyhow::Result<()> {
    let mut buffers: Vec<Lent> = Vec::new();
    let mut pointers: Vec<*const I> = Vec::new();
    for input in inputs {
        let pointer = input.as_raw_ptr();
        pointers.push(pointer);
        buffers.push(Lent {
            name: "input",
            residence: device.residence(),
            pointer: pointer.cast(),
            bytes: Some(input.len() * size_of::<I>()),
            is_writable: false,
        });
    }
    let mut words = words.to_vec();
    let bytes = out.len() * size_of::<O>();
    let mut pointer = out.as_raw_mut_ptr();
    buffers.push(Lent {
        name: "out",
        residence: device.residence(),
        pointer: pointer.cast_const().cast(),
        bytes: Some(bytes),
        is_writable: true,
    });
    let mut args: Vec<*mut c_void> = pointers.iter_mut().map(|pointer| (&raw mut *pointer).cast()).collect();
    args.extend(words.iter_mut().map(|word| (&raw mut *word).cast::<c_void>()));
    args.push((&raw mut pointer).cast());
    let config = LaunchConfig::cover(threads as usize, BLOCK.min(threads));
    let call = KernelCall { meta: differ::gpu::meta(kernel), config, args: &args, buffers: &buffers };
    // SAFETY: the caller's contract; the inputs are buffers of this device, which live until the device has been waited for.
    unsafe { device.submit(&call) }.with_context(|| format!("launching {kernel}"))?;
    Ok(device.synchronize()?)
}
