//! The emulator as the launcher and device of typed launches and of tests.

use std::error::Error;

use cuda_std::launch::{Buffer, KernelCall, LaunchError, Launcher, Residence};
use cuda_std::simt::Executor;
use cuda_std::testing::{CountingDevice, DeviceMemory, LaunchCounts, TestDevice};

use crate::emulator::{Emulator, Launch};
use crate::error::EmulatorError;
use crate::exec::shadow::Memory;
use crate::exec::space::Region;
use crate::instr::Space;
use crate::tensor_map::TensorMap;

impl Emulator {
    /// # Safety
    /// The arguments meet the contract of [`Launcher::submit`].
    unsafe fn prepare_call(&self, call: &KernelCall<'_>) -> Result<Launch, EmulatorError> {
        let kernel = self.kernel(call.meta.name)?;
        let ranges = self.params(kernel, call.args.len(), &[])?;
        let mut params = Memory::new(self.module().functions[kernel].param_bytes as usize);
        let mut tensors = Vec::new();
        for (&arg, range) in call.args.iter().zip(ranges) {
            let mut bytes = vec![0; range.bytes as usize];
            // SAFETY: the argument is a valid value of the parameter's type, and the PTX declares its size.
            unsafe { core::ptr::copy_nonoverlapping(arg.cast::<u8>(), bytes.as_mut_ptr(), bytes.len()) };
            params.write(range.offset as usize, &bytes);
            // The tensors of maps passed by value are lent, too.
            tensors.extend(TensorMap::extents(&bytes));
        }
        let region = |buffer: &Buffer| {
            let start = buffer.pointer.expose_provenance() as u64;
            let end = start + buffer.bytes? as u64;
            Some(Region { start, end, space: Space::Global, is_writable: buffer.is_writable })
        };
        let tensors = tensors.into_iter().map(|(start, end)| Region {
            start,
            end,
            space: Space::Global,
            is_writable: true,
        });
        let args = call.buffers.iter().filter_map(region).chain(tensors).collect();
        Ok(Launch { kernel, config: call.config, is_cooperative: call.meta.cooperative, params, args })
    }

    /// Checks the call and passes the launch to `run`.
    ///
    /// # Safety
    /// Same as for [`Launcher::submit`].
    unsafe fn submit_to<T>(
        &self,
        call: &KernelCall<'_>,
        run: impl FnOnce(Launch) -> Result<T, EmulatorError>,
    ) -> Result<T, LaunchError> {
        call.check(Residence::Host, self.limits())?;
        // SAFETY: the caller's contract.
        let done = unsafe { self.prepare_call(call) }.and_then(run);
        done.map_err(|error| LaunchError::Driver {
            kernel: call.meta.name.to_owned(),
            message: error.to_string(),
        })
    }
}

impl Launcher for Emulator {
    unsafe fn submit(&self, call: &KernelCall<'_>) -> Result<(), LaunchError> {
        // SAFETY: the caller's contract.
        unsafe { self.submit_to(call, |launch| self.run(launch)) }
    }
}

impl TestDevice for Emulator {
    fn name(&self) -> String {
        "the PTX emulator".to_owned()
    }

    fn upload(&self, bytes: &[u8]) -> Result<Box<dyn DeviceMemory>, Box<dyn Error + Send + Sync>> {
        Executor::new().upload(bytes)
    }
}

impl CountingDevice for Emulator {
    unsafe fn submit_counted(&self, call: &KernelCall<'_>) -> Result<LaunchCounts, LaunchError> {
        // SAFETY: the caller's contract.
        unsafe { self.submit_to(call, |launch| self.count(launch)) }
    }
}
