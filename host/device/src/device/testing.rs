//! Lets `cuda_std`'s kernel tests run on a device.

use std::error::Error;

use cuda_std::launch::{PtrMutArg as _, Residence};
use cuda_std::testing::{DeviceMemory, TestDevice};

use super::buffer::Buffer;
use super::handle::Device;

/// The bytes of a test in a device's memory.
struct TestMemory {
    bytes: Buffer<u8>,
    first: *mut u8,
}

/// Kernel tests run on it with `KernelTest::also_on(Some(&device))`.
impl TestDevice for Device {
    fn name(&self) -> String {
        self.name()
    }

    fn upload(&self, bytes: &[u8]) -> Result<Box<dyn DeviceMemory>, Box<dyn Error + Send + Sync>> {
        let mut bytes = self.upload(bytes)?;
        let first = (&mut bytes).as_raw_mut_ptr();
        Ok(Box::new(TestMemory { bytes, first }))
    }
}

// SAFETY: this value owns the buffer, which lives as long; on the CPU and on a GPU it is aligned to at least 256 bytes.
unsafe impl DeviceMemory for TestMemory {
    fn pointer(&self) -> *mut u8 {
        self.first
    }

    fn residence(&self) -> Residence {
        self.bytes.device().residence()
    }

    fn download(&self, bytes: &mut [u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(self.bytes.copy_to(bytes)?)
    }
}

#[cfg(test)]
mod tests {
    use cuda_std::testing::KernelTest;
    use mlp_kernels::activation::relu_forward;

    use super::*;

    #[test]
    fn a_kernel_is_tested_on_the_device() {
        let device = Device::cpu();
        let mut test = KernelTest::new();
        let inp = test.input("inp", &[-1.0f32, 2.0, f32::NAN]);
        let out = test.output("out", &[9.0f32; 3]);
        test.also_on(Some(&device)).seeds(0..3);
        let config = cuda_std::launch::LaunchConfig::new(1, 32);
        // SAFETY: one row of three elements in both.
        let results = test.run(|on, memory| unsafe {
            relu_forward::launch(on, config, memory.output(out), memory.input(inp), 1, 3)
        });
        assert_eq!(results.unwrap().of(out)[..2], [0.0, 2.0]);
    }
}
